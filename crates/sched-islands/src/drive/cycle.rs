//! What a task sees of the cycle that it runs in.
//!
//! Room: interface.

use std::fmt;
use std::time::{Duration, Instant};

use crate::decide::Run;
use crate::ended::Ended;
use crate::handle::Shared;

/// What a task does in every cycle.
pub(crate) type Body<'a> = Box<dyn FnMut(&Cycle<'_>) + Send + 'a>;

/// One cycle of a periodic task.
pub struct Cycle<'a> {
    pub(super) run: Run,
    pub(super) origin: Instant,
    pub(super) began: Duration,
    pub(super) shared: &'a Shared,
}

impl Cycle<'_> {
    /// Its number, from 0. Numbers of cycles that did not run are left out.
    pub fn number(&self) -> u64 {
        self.run.number
    }

    /// When it could have begun.
    pub fn released_at(&self) -> Instant {
        self.origin + Duration::from_nanos(self.run.release)
    }

    /// How long after that it began.
    pub fn late(&self) -> Duration {
        self.began.saturating_sub(Duration::from_nanos(self.run.release))
    }

    /// By when it has to be done.
    pub fn deadline(&self) -> Instant {
        self.origin + Duration::from_nanos(self.run.deadline)
    }

    /// How long that is from now; zero if it is past.
    pub fn time_left(&self) -> Duration {
        self.deadline().saturating_duration_since(sched_tasks::now())
    }

    /// How many cycles did not run since the last one that did.
    pub fn left_out(&self) -> u64 {
        self.run.left_out
    }

    /// Whether it runs as an ordinary thread, since the task has used up its time.
    pub fn is_demoted(&self) -> bool {
        self.run.is_demoted
    }

    /// Ends the island after the cycles that run now.
    pub fn stop(&self) {
        self.shared.end(Ended::Stopped);
    }
}

impl fmt::Debug for Cycle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cycle").field("number", &self.run.number).field("late", &self.late()).finish_non_exhaustive()
    }
}
