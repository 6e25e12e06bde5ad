//! Killing a process tree, even one that forks all the time.
//!
//! Room: mechanism. Knows processes and signals; knows nothing of commands.
//!
//! # Invariant
//! A pass of [`kill`] leaves fewer processes that can fork than it found, whatever they do.
//!
//! # Why it holds
//! The children of a killed process go to the keeper, and they would fork on. So every process is *stopped* first; SIGSTOP cannot be
//! ignored. Scans repeat until one finds nothing new; then no process is left that could fork, and all are killed. If the
//! rounds run out first, the next pass continues.
//!
//! A process that starts its successor and exits is gone before its pid can be signalled. But it has a process group, and the kernel delivers
//! a signal for a group to all members and to the children they are forking at that moment.
//! So whole groups are signalled. They have no other members: the keeper leads a session, and a group never crosses sessions.
//!
//! # Rejected
//! Signalling processes one by one: thirty chains of such successors lived on for seconds, in `a_fork_bomb_is_ended`.

use std::collections::HashSet;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, getsid, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::procfs::{self, Process};

/// Scans in one pass, before the keeper polls its socket again.
const ROUNDS: usize = 64;

/// Sends a signal to the process that was found. `false`: not permitted. For a process that is gone the answer is `true`. Another process that has
/// the same pid by now is not signalled.
pub(crate) fn signal(process: &Process, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(process.pid).filter(|pid| pid.as_raw_pid() > 1) else { return true };
    let Ok(open) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    // Compared after the open: a pidfd never refers to another process.
    if procfs::one(process.pid).is_none_or(|now| now.start != process.start) {
        return true;
    }
    pidfd_send_signal(&open, signal) != Err(rustix::io::Errno::PERM)
}

/// Sends a signal to the groups of processes below us, and to each that is in none of them.
pub(super) fn signal_groups(processes: &[Process], to_send: Signal) {
    let me = getpid();
    let leads_session = getsid(None).is_ok_and(|session| session == me);
    // A process may have joined the keeper's own group; it is signalled alone.
    let may = |group: i32| leads_session && group > 1 && group != me.as_raw_pid();
    let groups: HashSet<i32> = processes.iter().map(|process| process.group).filter(|&group| may(group)).collect();
    for group in groups.iter().copied().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, to_send); // on an error (gone, not permitted) the next scan finds the members again
    }
    for process in processes.iter().filter(|process| !groups.contains(&process.group)) {
        signal(process, to_send);
    }
}

/// Sends TERM to everything below `root`.
pub(super) fn terminate(root: i32) {
    for process in procfs::scan(root) {
        signal(&process, Signal::TERM);
    }
}

/// One pass: stop all, kill all. Returns a process that we may not signal, if there is one.
pub(super) fn kill(root: i32) -> Option<i32> {
    kill_these(|| procfs::scan(root), signal_groups)
}

/// As [`kill`], with the functions that find the processes and signal many of them.
pub(crate) fn kill_these(find: impl Fn() -> Vec<Process>, signal_all: impl Fn(&[Process], Signal)) -> Option<i32> {
    let mut stopped: Vec<Process> = Vec::new();
    let mut known = HashSet::new();
    for _ in 0..ROUNDS {
        let new: Vec<_> =
            find().into_iter().filter(|process| !process.is_dead() && known.insert(process.pid)).collect();
        if new.is_empty() {
            break;
        }
        signal_all(&new, Signal::STOP);
        stopped.extend(new);
    }
    // Stopped processes reap no children, so these pids still mean the same processes.
    signal_all(&stopped, Signal::KILL);
    stopped.iter().find(|process| !signal(process, Signal::KILL)).map(|process| process.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_that_has_the_same_pid_by_now_is_not_signalled() {
        use std::io::{Read as _, Write as _};
        use std::process::{Command, Stdio};
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let found = procfs::one(child.id() as i32).unwrap();
        let before = Process { start: found.start - 1, ..found };
        assert!(signal(&before, Signal::KILL), "a process that is gone is no error");
        // It still answers; a killed process would not.
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let _ = to.write_all(b"x");
        assert_eq!(from.read(&mut [0]).unwrap(), 1, "the pid belongs to another process");
        assert!(signal(&found, Signal::KILL));
        assert!(!child.wait().unwrap().success());
    }
}
