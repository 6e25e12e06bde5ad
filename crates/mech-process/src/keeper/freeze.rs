//! Freezing a process tree, and thawing it.
//!
//! Room: mechanism. Knows control groups and signals; knows nothing of commands.
//!
//! # Invariant
//! When [`Freezer::step`] returns `true`, no process of the tree runs, and none will until [`Freezer::thaw`].
//!
//! # Why it holds
//! With a control group: all processes were moved in until a scan found none outside, later children are born inside, and the kernel says
//! `frozen`. With signals: a scan found every process stopped, so no process was left that could fork one the scan missed. A process that waits
//! inside the kernel, for a disk or for a child it made with `vfork`, cannot stop there; it counts as stopped if the SIGSTOP is pending. A
//! process outside the tree that sends SIGCONT breaks this; a control group has no such gap.

use rustix::process::Signal;

use super::kill::{signal, signal_groups};
use crate::cgroup::Group;
use crate::procfs::{self, Process};

/// How the tree of one command is frozen.
#[derive(Debug, Default)]
pub(super) struct Freezer {
    group: Option<Group>,
    /// Groups were tried and did not work for this command.
    by_signals: bool,
}

impl Freezer {
    /// Freezes what still runs. `true`: the whole tree is frozen.
    pub(super) fn step(&mut self, root: i32, id: &str) -> bool {
        if !self.by_signals && self.group.is_none() {
            self.group = Group::make(id);
            self.by_signals = self.group.is_none();
        }
        if !self.by_signals && self.gather(root).is_err() {
            self.give_up_group();
        }
        match &self.group {
            Some(group) => group.is_frozen() && self.is_gathered(root),
            None => stop_all(root),
        }
    }

    fn gather(&self, root: i32) -> std::io::Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        let mut inside = group.pids();
        // Each round leaves only what was forked outside meanwhile. Bounded, because the keeper has a socket to serve.
        for _ in 0..64 {
            let outside: Vec<_> =
                procfs::scan(root).into_iter().filter(|one| !one.is_dead() && !inside.contains(&one.pid)).collect();
            if outside.is_empty() {
                break;
            }
            for process in outside {
                group.add(process.pid)?;
                inside.push(process.pid);
            }
            inside.extend(group.pids());
        }
        group.freeze(true)
    }

    fn is_gathered(&self, root: i32) -> bool {
        let inside = self.group.as_ref().map(Group::pids).unwrap_or_default();
        procfs::scan(root).iter().all(|process| process.is_dead() || inside.contains(&process.pid))
    }

    fn give_up_group(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = group.freeze(false);
            let _ = group.remove(); // fails while processes are in it; `clean` of a later command finds it empty
        }
        self.by_signals = true;
    }

    /// Thaws the tree.
    pub(super) fn thaw(&self, root: i32) {
        if let Some(group) = &self.group {
            let _ = group.freeze(false);
        }
        // Processes that signals have stopped must not stay stopped.
        if self.by_signals {
            for process in procfs::scan(root) {
                signal(&process, Signal::CONT);
            }
        }
    }

    /// The tree is empty: removes the control group.
    pub(super) fn clean(&mut self, id: &str) {
        let left = if self.by_signals { Group::of(id) } else { None };
        for group in self.group.take().into_iter().chain(left) {
            for _ in 0..100 {
                if group.remove().is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}

/// Stops what runs; `true` if nothing did.
fn stop_all(root: i32) -> bool {
    let is_still = |one: &Process| one.is_still() || (one.state == b'D' && procfs::stop_is_pending(one.pid));
    let running: Vec<_> = procfs::scan(root).into_iter().filter(|process| !is_still(process)).collect();
    signal_groups(&running, Signal::STOP);
    running.is_empty()
}
