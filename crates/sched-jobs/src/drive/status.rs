//! The status of jobs, and the summary of a run or of a part.
//!
//! Room: driver.

use core::fmt;
use core::time::Duration;

use policy_jobs::{Cause, JobId, State, TraceId};

use super::Inner;
use crate::ctx::Inside;
use crate::job::number;

/// The status of a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JobStatus {
    /// The job.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Attempts made, including the current one.
    pub attempts: u32,
    /// Its progress, from 0 to 1, while it runs.
    pub progress: Option<f32>,
    /// Why it ended without success; or the error of its last attempt.
    pub cause: Option<Cause>,
    /// If it is paused: the state it was paused from, and returns to.
    pub paused_from: Option<State>,
    /// When it last became ready, on the scheduler's clock: [`Jobs::now`](super::Jobs::now), which events use, too. [`Jobs::time_of_day`](super::Jobs::time_of_day) converts it to a time of day.
    pub ready: Option<Duration>,
    /// When its last attempt began. One worker may run several jobs that take microseconds in a row; these are reported together and have the same times.
    pub started: Option<Duration>,
    /// When it ended. `None` also for a job that [succeeded in an earlier process](crate::Job::already_done) of this run.
    pub ended: Option<Duration>,
    /// The name of the [part](crate::Part) it belongs to.
    pub part: Option<String>,
    /// The trace id of the part it belongs to.
    pub trace_id: Option<TraceId>,
}

/// How a run, or a part of it, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Jobs that succeeded.
    pub succeeded: usize,
    /// Jobs that failed.
    pub failed: usize,
    /// Jobs that were cancelled.
    pub cancelled: usize,
}

/// Some jobs of a run, or of a part of it, did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFailed {
    /// How many.
    pub summary: Summary,
    /// The first jobs that failed by themselves, with their causes: at most ten.
    pub first: Vec<(String, Cause)>,
}

impl fmt::Display for RunFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { succeeded, failed, cancelled } = self.summary;
        write!(f, "{failed} failed, {cancelled} cancelled, {succeeded} succeeded")?;
        self.first.iter().try_for_each(|(name, cause)| write!(f, "; {name}: {cause}"))
    }
}

impl core::error::Error for RunFailed {}

impl Inner {
    pub(super) fn progress_of(&self, id: u32) -> Option<f32> {
        if !self.core.is_local(id) {
            return self.progress.get(&id).copied();
        }
        let runs = self.core.state(id) == State::Running || self.core.is_paused_from_running(id);
        if runs { self.slots.get(self.core.slot(id) as usize)?.signals.progress() } else { None }
    }

    /// The explanation of a running closure.
    pub(super) fn inside(&self, id: u32) -> Option<Inside> {
        let runs = self.core.is_local(id) && self.core.state(id) == State::Running;
        if runs { self.slots.get(self.core.slot(id) as usize)?.signals.inside() } else { None }
    }

    pub(super) fn status(&self, id: u32) -> JobStatus {
        let [ready, started, ended] = self.core.times(id).map(|at| at.map(Duration::from_nanos));
        let part = self.core.part_of(id);
        JobStatus {
            id: JobId::from_index(id),
            name: self.core.name(id).into_owned(),
            state: self.core.state(id),
            attempts: self.core.attempt(id),
            progress: self.progress_of(id),
            cause: self.core.cause(id).cloned(),
            paused_from: self.core.paused_from(id),
            ready,
            started,
            ended,
            part: part.map(|part| self.core.part_name(part).to_owned()),
            trace_id: part.map(|part| self.core.part_trace(part)),
        }
    }

    /// The number of jobs of a part, or of all jobs, that have not ended.
    pub(super) fn open(&self, part: Option<u32>) -> usize {
        part.map_or_else(|| self.core.open(), |part| self.core.part_open(part))
    }

    /// How many jobs of a part, or of all, are in each state.
    pub(super) fn counts(&self, part: Option<u32>) -> [usize; 7] {
        let Some(part) = part else { return self.core.counts() };
        let mut counts = [0; 7];
        self.core.part_jobs(part).for_each(|id| counts[self.core.state(id) as usize] += 1);
        counts
    }

    pub(super) fn summary(&self, part: Option<u32>) -> Result<Summary, RunFailed> {
        let counts = self.counts(part);
        let count = |state: State| counts[state as usize];
        let summary = Summary {
            succeeded: count(State::Succeeded),
            failed: count(State::Failed),
            cancelled: count(State::Cancelled),
        };
        if summary.failed + summary.cancelled == 0 {
            return Ok(summary);
        }
        let bad = |id: u32| match self.core.cause(id)? {
            // The ancestor is listed itself, if it is in the part.
            Cause::Ancestor { id, .. } if part.is_none() || self.core.part_of(number(*id)) == part => None,
            cause => Some((self.core.name(id).into_owned(), cause.clone())),
        };
        let first = match part {
            None => (0..self.core.len() as u32).filter_map(bad).take(10).collect(),
            Some(part) => self.core.part_jobs(part).filter_map(bad).take(10).collect(),
        };
        Err(RunFailed { summary, first })
    }
}
