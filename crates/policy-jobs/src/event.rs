//! What happened to which job, and when.
//!
//! Room: values.

use core::time::Duration;

use crate::JobId;
use crate::aging::Time;
use crate::state::State;
use crate::trace::TraceId;

/// Something that happened to a job.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
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

/// What can happen to a job. Each life cycle of a job has exactly one of `Succeeded`, `Failed`, `Cancelled`, and nothing after it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// It was submitted.
    Submitted,
    /// It waits only for room.
    Ready,
    /// An attempt began; the first is 1.
    Started {
        /// Which attempt.
        attempt: u32,
    },
    /// Its progress, from 0 to 1.
    Progress(f32),
    /// It was paused.
    Paused,
    /// It runs again, or waits again.
    Resumed,
    /// An attempt failed; the next is made after a back-off.
    Retrying {
        /// Which attempt failed.
        attempt: u32,
        /// How long until the next, in milliseconds.
        after_ms: u32,
    },
    /// It succeeded.
    Succeeded,
    /// Its last attempt failed.
    Failed,
    /// It was cancelled, or an ancestor failed or was cancelled.
    Cancelled,
    /// It begins a new life cycle: a user retried it, or the ancestor it was cancelled for.
    Revived,
}

/// The state of a job, computed from its events: for code that follows a scheduler from outside.
///
/// ```
/// use policy_jobs::{Followed, State, What};
///
/// let mut job = Followed::default();
/// job.take(What::Ready);
/// job.take(What::Started { attempt: 1 });
/// job.take(What::Paused);
/// assert!(job.state == State::Paused && job.has_begun());
/// assert_eq!(job.take(What::Resumed), Some((State::Paused, State::Running)));
/// assert_eq!(job.take(What::Succeeded), Some((State::Running, State::Succeeded)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Its state.
    pub state: State,
    /// Its latest attempt; 0 before the first.
    pub attempt: u32,
    before_pause: State,
}

impl Default for Followed {
    fn default() -> Self {
        Self { state: State::Queued, attempt: 0, before_pause: State::Queued }
    }
}

impl Followed {
    /// A job that has had so many attempts, and waits for the next.
    pub fn after(attempts: u32) -> Self {
        Self { attempt: attempts, ..Self::default() }
    }

    /// Applies an event. Returns the state before and after; `None` if the event changes no state.
    pub fn take(&mut self, what: What) -> Option<(State, State)> {
        let from = self.state;
        self.state = match what {
            What::Ready => State::Ready,
            What::Started { attempt } => {
                self.attempt = attempt;
                State::Running
            }
            What::Paused => State::Paused,
            What::Resumed if from == State::Paused => self.before_pause,
            What::Retrying { .. } | What::Revived => State::Queued,
            What::Succeeded => State::Succeeded,
            What::Failed => State::Failed,
            What::Cancelled => State::Cancelled,
            What::Submitted | What::Progress(_) | What::Resumed => return None,
        };
        if self.state == State::Paused && from != State::Paused {
            self.before_pause = from;
        }
        Some((from, self.state))
    }

    /// Whether its latest attempt has begun and not ended: it runs, or was paused while it ran.
    pub fn has_begun(&self) -> bool {
        self.state == State::Running || (self.state == State::Paused && self.before_pause == State::Running)
    }
}
