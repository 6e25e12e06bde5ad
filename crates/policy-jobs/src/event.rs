//! What happened to which job, and when.

use core::time::Duration;

use crate::JobId;
use crate::aging::Time;
use crate::trace::TraceId;

/// Something that happened to a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    pub(crate) at: Time,
    /// The job.
    pub job: JobId,
    /// What happened.
    pub what: What,
    pub(crate) trace: TraceId,
}

impl Event {
    /// When, since the scheduler started.
    pub fn at(&self) -> Duration {
        Duration::from_nanos(self.at)
    }

    /// The id of the part that the job belongs to.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.trace.given()
    }
}

/// What can happen to a job. Every life of a job has exactly one of `Succeeded`, `Failed`, `Canceled`, and nothing after it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// It was submitted.
    Submitted,
    /// Nothing but room is missing.
    Ready,
    /// An attempt began; the first is 1.
    Started {
        /// Which attempt.
        attempt: u32,
    },
    /// It says how far it is, from 0 to 1.
    Progress(f32),
    /// It was paused.
    Paused,
    /// It goes on, or waits again.
    Resumed,
    /// An attempt failed; the next is made after a while.
    Retrying {
        /// Which attempt failed.
        attempt: u32,
        /// How long until the next, in milliseconds.
        after_ms: u32,
    },
    /// It did what it should.
    Succeeded,
    /// Its last attempt failed.
    Failed,
    /// It was cancelled, or an ancestor ended badly.
    Canceled,
    /// It begins a new life: somebody asked to try it, or what it was cancelled for, again.
    Revived,
}
