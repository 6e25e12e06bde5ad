//! What was set for a running command, what is still to be set, and what is removed at its end.
//!
//! Room: mechanism. Knows one command's first process; knows nothing of its states.
//!
//! # Invariant
//! What is reported was read from the system after the last change. At the end of a command no control group of it is left, if the kernel releases it within 100 ms.

use std::time::{Duration, Instant};

use super::schedule;
use super::spawn::{Spawned, needs_again};
use crate::in_force::InForce;
use crate::limits::Limits;
use crate::{autogroup, procfs};

/// The system changes autogroups for a user ten times a second.
const AUTOGROUP_INTERVAL: Duration = Duration::from_millis(110);

/// What was set for a command.
#[derive(Debug)]
pub(super) struct Applied {
    leader: i32,
    may_have_group: bool,
    /// What is in force for the leader, if it asked for anything.
    in_force: Option<Box<InForce>>,
    /// The niceness that its autogroup is still to get, and when to try.
    autogroup: Option<(i32, Instant)>,
}

impl Applied {
    pub(super) fn new(spawned: Spawned, limits: &Limits, now: Instant) -> Applied {
        Applied {
            leader: spawned.pid,
            may_have_group: schedule::may_have_group(limits),
            in_force: spawned.in_force,
            autogroup: spawned.autogroup.map(|nice| (nice, now + AUTOGROUP_INTERVAL)),
        }
    }

    pub(super) fn in_force(&self) -> Option<Box<InForce>> {
        self.in_force.clone()
    }

    /// When [`Applied::retry`] has something to do.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.autogroup.map(|(_, at)| at)
    }

    /// Sets the niceness of the autogroup, if the system said to try again. `true`: what is in force has changed.
    pub(super) fn retry(&mut self, now: Instant, leader_lives: bool) -> bool {
        let Some((nice, _)) = self.autogroup.filter(|(_, at)| now >= *at) else { return false };
        if leader_lives && needs_again(autogroup::set_nice(self.leader, nice)) {
            self.autogroup = Some((nice, now + AUTOGROUP_INTERVAL));
            return false;
        }
        self.autogroup = None;
        // The leader may have ended; then what was measured before stays.
        let alive = procfs::one(self.leader).filter(|one| !one.is_dead()).and_then(|_| InForce::of(self.leader));
        let (Some(is), Some(was)) = (alive, &mut self.in_force) else { return false };
        **was = InForce { refused: std::mem::take(&mut was.refused), ..is };
        true
    }

    /// The tree is empty: removes its groups, and returns what was in force.
    pub(super) fn end(&mut self, keeper: &str) -> Option<Box<InForce>> {
        if self.may_have_group {
            schedule::remove_groups(keeper);
        }
        self.in_force.take()
    }
}
