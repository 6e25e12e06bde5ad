//! What ends a program when this process is killed, with no time to do it itself.
//!
//! Room: surface. Starts a process.
//!
//! # Invariant
//! When this process is gone, by whatever signal, the group of each of its programs is ended; also of one that neither reads nor prints, and so would never notice.
//!
//! # Why it holds
//! A watcher, a small shell of a group of its own, reads from a pipe whose other end this process alone holds. The kernel closes that end with the process. Then the watcher ends the
//! group. A program that has ended is told to the watcher by a line, before its number can be another's.
//!
//! # What is not covered
//! A kill in the instant between the start of a program and that of its watcher. A machine without `sh`: there is no watcher then.
//!
//! # Rejected
//! `PR_SET_PDEATHSIG`: it is sent when the *thread* ends that started the program, which any worker may do, and it reaches the program alone, not its group.

use std::io::{PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use bursar::unblock;
use rustix::process::Pid;

/// A line says that all is well; the end of the input without one, that nobody is left to say it.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r _ || kill -s KILL -- \"-$1\"";

/// Ends a group of processes when this process is gone.
pub(crate) struct Watcher {
    shell: Child,
    line: PipeWriter,
}

impl Watcher {
    /// None where there is no shell.
    pub(crate) fn of(group: Pid) -> Option<Self> {
        let (reads, line) = std::io::pipe().ok()?;
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "sh"]).arg(group.as_raw_nonzero().to_string()).process_group(0);
        let shell = shell.stdin(reads).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        Some(Self { shell, line })
    }
}

impl Drop for Watcher {
    /// The program has ended: there is nothing to watch.
    fn drop(&mut self) {
        let _ = self.line.write_all(b"\n"); // if it is gone, it is gone
        unblock(|| _ = self.shell.wait());
    }
}
