//! What ends a program when this process is killed, with no time to do it itself.
//!
//! Room: surface. Starts a process.
//!
//! # Invariant
//! When this process is gone, by whatever signal, the group of each of its programs is ended; also of one that neither reads nor prints, and so would never notice.
//!
//! # Why it holds
//! A watcher, a small shell, is started first and leads the group; the program is put into that group before it runs its own first instruction. The watcher reads from a pipe whose other end this
//! process alone holds, and whatever it has forked until that runs its program, and is in the group by then. The kernel closes that end with the last of them. Then the watcher ends the group, and itself. That the
//! program has ended is told to the watcher by a line. As long as it is not reaped, the number of the group can be nobody else's.
//!
//! # What is not covered
//! A machine without `sh`: there is no watcher then.
//!
//! # Rejected
//! `PR_SET_PDEATHSIG`: it is sent when the *thread* ends that started the program, which any worker may do, and it reaches the program alone, not its group.

use std::io::{PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use bursar::unblock;
use rustix::process::Pid;

/// A line says that all is well; the end of the input without one, that nobody is left to say it.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r _ || kill -s KILL 0";

/// Ends a group of processes when this process is gone.
pub(crate) struct Watcher {
    shell: Child,
    line: PipeWriter,
}

impl Watcher {
    /// Leads a new group. None where there is no shell.
    pub(crate) fn start() -> Option<Self> {
        let (reads, line) = std::io::pipe().ok()?;
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).process_group(0);
        let shell = shell.stdin(reads).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        Some(Self { shell, line })
    }

    /// The group that it leads.
    pub(crate) fn group(&self) -> Option<Pid> {
        i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for Watcher {
    /// The program has ended: there is nothing to watch.
    fn drop(&mut self) {
        let _ = self.line.write_all(b"\n"); // if it is gone, it is gone
        unblock(|| _ = self.shell.wait());
    }
}
