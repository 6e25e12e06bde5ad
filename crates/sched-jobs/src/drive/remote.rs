//! Reports of executors.
//!
//! Room: driver.

use policy_jobs::{Ended, State};

use super::Shared;
#[cfg(feature = "process")]
use super::panics::PanicSource;
use super::panics::Thrown;
use crate::executor::{AttemptId, Measured, Outcome, ReportSink};
use crate::job::number;

impl Shared {
    /// Whether this is still the current attempt.
    fn is_current(inner: &super::Inner, attempt_id: AttemptId) -> bool {
        let id = number(attempt_id.job);
        let state = inner.core.state(id);
        inner.core.attempt(id) == attempt_id.attempt
            && (state == State::Running || inner.core.is_paused_from_running(id))
    }
}

impl ReportSink for Shared {
    #[cfg(feature = "process")]
    fn guard(&self, call: &mut dyn FnMut()) {
        let _ = self.caught.catch(PanicSource::Executor, call);
    }

    fn paused(&self, attempt_id: AttemptId) {
        self.section(|inner, now| {
            if Self::is_current(inner, attempt_id) {
                inner.core.paused(now, number(attempt_id.job));
            }
        });
    }

    fn progress(&self, attempt_id: AttemptId, done: f32) {
        let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
        self.section(|inner, now| {
            if Self::is_current(inner, attempt_id) {
                inner.progress.insert(number(attempt_id.job), done);
                inner.core.progress(now, number(attempt_id.job), done);
            }
        });
    }

    fn ended(&self, attempt_id: AttemptId, outcome: Outcome, measured: Option<Measured>) {
        self.section(|inner, now| {
            if !Self::is_current(inner, attempt_id) {
                inner.retired.extend(measured.map(|measured| measured as Thrown));
                return;
            }
            inner.measured = measured.map(|measured| (attempt_id.job, measured)); // its end is published before the lock is released
            let how = match outcome {
                Outcome::Succeeded => Ended::Succeeded,
                Outcome::Failed(cause) => Ended::Failed(cause),
                Outcome::Stopped => Ended::Stopped,
            };
            inner.progress.remove(&number(attempt_id.job));
            inner.core.ended(now, number(attempt_id.job), how);
        });
    }
}
