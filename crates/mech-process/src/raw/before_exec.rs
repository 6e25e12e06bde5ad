//! What the child does between fork and exec.
//!
//! Room: mechanism.
//!
//! # Invariant
//! Between fork and exec nothing is allocated, no lock is taken, and no memory is read that another thread could be changing.
//!
//! # Why it holds
//! The closure makes up to three system calls, on values that it owns: a descriptor, a number and a struct of numbers. The number is an atomic that the
//! parent sets before it forks.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::sched::{self, Attributes};

/// What is done in the child, each step if it is asked for.
#[derive(Debug, Default)]
pub(crate) struct BeforeExec {
    /// It becomes the leader of a session, and so of an autogroup.
    pub(crate) leads_session: bool,
    /// `cgroup.procs` of the group that it joins. If it may not, it runs where it was.
    pub(crate) group: Option<File>,
    /// Attributes to set, of which `chosen` picks one. If they are refused, the command does not start.
    pub(crate) attributes: [Option<Attributes>; 2],
    /// Which of `attributes`; another number for none.
    pub(crate) chosen: Arc<AtomicUsize>,
}

impl BeforeExec {
    /// Whether there is anything to do.
    pub(crate) fn is_needed(&self) -> bool {
        self.leads_session || self.group.is_some() || self.attributes.iter().any(Option::is_some)
    }

    /// Has every start of this command do it.
    pub(crate) fn hook(self, command: &mut Command) {
        let child = move || -> io::Result<()> {
            if self.leads_session {
                let _ = rustix::process::setsid(); // fails only for a group leader, which a fresh child is not
            }
            if let Some(group) = &self.group {
                let _ = rustix::io::write(group.as_fd(), b"0"); // the caller looks where it is
            }
            match self.attributes.get(self.chosen.load(Ordering::Relaxed)) {
                Some(Some(attributes)) => sched::set(attributes),
                _ => Ok(()),
            }
        };
        // SAFETY: The closure only makes system calls on values that it owns, as the head of this file says; that is all that may be done between
        // fork and exec in a process that has other threads.
        unsafe { command.pre_exec(child) };
    }
}
