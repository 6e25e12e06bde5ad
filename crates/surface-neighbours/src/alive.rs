//! Whether a process is still alive.
//!
//! Room: driver.
//!
//! # Invariant
//! A process is the one that was meant: its number *and* the time it started agree.
//!
//! # Why it holds
//! The descriptor is opened first and the start time compared after. Had the number been given to another process in between, that one
//! would have started later. From then on the descriptor means this process, whatever happens to its number.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use mech_process::procfs::{self, Process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::record::Record;

/// The process that has this number now.
pub(crate) fn process(pid: u32) -> Option<Process> {
    procfs::one(i32::try_from(pid).ok()?)
}

fn lives(pid: u32, start: u64) -> bool {
    process(pid).is_some_and(|process| process.start == start && !process.is_dead())
}

/// Whether the process is stopped by a signal (Ctrl-Z).
pub(crate) fn is_stopped(pid: u32) -> bool {
    process(pid).is_some_and(|process| process.is_stopped())
}

/// Descriptors of the processes of other runs.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// By the id of the run. `None` where the system has no such descriptors.
    known: HashMap<u64, Option<Arc<OwnedFd>>>,
}

impl Watches {
    /// Drops the descriptors of runs that are not in the list, and returns the slots of the dead ones.
    pub(crate) fn dead(&mut self, runs: &[(usize, Record)]) -> Vec<usize> {
        if runs.is_empty() {
            self.known.clear();
            return Vec::new();
        }
        self.known.retain(|id, _| runs.iter().any(|(_, run)| run.id == *id));
        let mut dead = Vec::new();
        for (slot, run) in runs {
            let watched = match self.known.get(&run.id) {
                Some(watched) => watched.is_some(),
                None => match watch(run) {
                    Some(watched) => self.known.entry(run.id).or_insert(watched).is_some(),
                    None => {
                        dead.push(*slot);
                        continue;
                    }
                },
            };
            if !watched && !lives(run.pid, run.start) {
                dead.push(*slot);
            }
        }
        let watched: Vec<(usize, Arc<OwnedFd>)> =
            runs.iter().filter_map(|(slot, run)| Some((*slot, self.known.get(&run.id)?.clone()?))).collect();
        let mut polled: Vec<_> =
            watched.iter().map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        if poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ended| ended > 0) {
            let ended = watched.iter().zip(&polled).filter(|(_, fd)| !fd.revents().is_empty());
            dead.extend(ended.map(|((slot, _), _)| *slot));
        }
        dead
    }

    /// The descriptors: each becomes readable when its process ends.
    pub(crate) fn descriptors(&self) -> Vec<(u64, Arc<OwnedFd>)> {
        self.known.iter().filter_map(|(id, fd)| Some((*id, fd.clone()?))).collect()
    }
}

/// A descriptor for this run's process; `None` if it is dead, `Some(None)` if the system has none.
fn watch(run: &Record) -> Option<Option<Arc<OwnedFd>>> {
    let pid = i32::try_from(run.pid).ok().and_then(Pid::from_raw)?;
    let opened = pidfd_open(pid, PidfdFlags::empty());
    if !lives(run.pid, run.start) {
        return None;
    }
    Some(opened.ok().map(Arc::new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::sample;

    fn me() -> Record {
        let pid = std::process::id();
        let start = process(pid).expect("Linux").start;
        Record { pid, start, ..sample() }
    }

    #[test]
    fn a_process_that_lives_is_not_dead() {
        let mut watches = Watches::default();
        assert!(watches.dead(&[(0, me())]).is_empty());
        assert!(watches.dead(&[(0, me())]).is_empty(), "also when it is known");
    }

    #[test]
    fn a_number_that_another_process_got_means_a_dead_run() {
        let reused = Record { start: me().start - 1, ..me() };
        assert_eq!(Watches::default().dead(&[(3, reused)]), [3]);
    }

    #[test]
    fn a_stopped_process_lives_and_stands_still() {
        use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        assert!(!is_stopped(child.id()));
        let pid = Pid::from_raw(child.id() as i32);
        kill_process(pid.expect("a process"), Signal::STOP).expect("it is ours");
        waitpid(pid, WaitOptions::UNTRACED).expect("it stops");
        let start = process(child.id()).expect("Linux").start;
        assert!(is_stopped(child.id()) && lives(child.id(), start));
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
    }

    #[test]
    fn a_process_that_ended_but_was_not_waited_for_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let start = process(child.id()).expect("Linux").start;
        let run = Record { pid: child.id(), start, ..sample() };
        let mut watches = Watches::default();
        assert!(watches.dead(&[(1, run.clone())]).is_empty());
        let descriptor = watches.descriptors().remove(0).1;
        child.kill().expect("it runs");
        poll(&mut [PollFd::new(&*descriptor, PollFlags::IN)], None).expect("it ends");
        assert_eq!(watches.dead(&[(1, run.clone())]), [1]);
        assert!(!lives(run.pid, run.start), "a zombie");
        child.wait().expect("it ended");
        assert_eq!(Watches::default().dead(&[(1, run)]), [1]);
    }
}
