//! Ending a tree, also one that does not want to.
//!
//! Room: mechanism. Signals to what a scan finds.
//!
//! # Invariant
//! A pass of [`kill`] leaves fewer processes that can fork than it found, whatever they do.
//!
//! # Why it holds
//! A process that is killed leaves its children to the keeper, and they would fork on. So everything is *stopped* first: a process with
//! a pending SIGSTOP does not finish a fork (the kernel backs out of it), and cannot refuse. Scans repeat until one finds nothing that
//! runs; then nobody is left who could make another, and all are killed. If the rounds run out first, the next pass goes on.
//!
//! # Rejected
//! Killing in one sweep: loses against a fork bomb of two processes that restart each other.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process};

use crate::procfs::{self, Process};

/// Scans in one pass, before the keeper looks at its socket again.
const ROUNDS: usize = 64;

/// Sends a signal, and says whether it may. A process that is gone has nothing against it.
pub(crate) fn signal(pid: i32, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(pid).filter(|pid| pid.as_raw_pid() > 1) else { return true };
    kill_process(pid, signal) != Err(rustix::io::Errno::PERM)
}

/// Asks everything below `root` to end.
pub(super) fn ask(root: i32) {
    for process in procfs::scan(root) {
        signal(process.pid, Signal::TERM);
    }
}

/// One pass: stop all, kill all. Returns a process that we may not signal, if there is one.
pub(super) fn kill(root: i32) -> Option<i32> {
    kill_these(|| procfs::scan(root))
}

/// The same for any way to find them.
pub(crate) fn kill_these(find: impl Fn() -> Vec<Process>) -> Option<i32> {
    let mut stopped = HashSet::new();
    let mut refused = None;
    for _ in 0..ROUNDS {
        let mut found_new = false;
        for process in find().iter().filter(|process| !process.is_dead()) {
            if stopped.insert(process.pid) {
                found_new = true;
                if !signal(process.pid, Signal::STOP) {
                    refused = Some(process.pid);
                }
            }
        }
        if !found_new {
            break;
        }
    }
    // The stopped reap nobody, so these numbers still mean the same processes.
    for pid in stopped {
        signal(pid, Signal::KILL);
    }
    refused
}
