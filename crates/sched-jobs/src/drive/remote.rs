//! What executors report.

use policy_jobs::{Ended, State};

use super::Shared;
use super::panics::Thrown;
#[cfg(feature = "process")]
use super::panics::Whose;
use crate::executor::{Hears, Measured, Outcome, Ticket};
use crate::job::number;

impl Shared {
    /// Whether this is still the attempt that is going on.
    fn is_current(inner: &super::Inner, ticket: Ticket) -> bool {
        let id = number(ticket.job);
        let state = inner.core.state(id);
        inner.core.attempt(id) == ticket.attempt && (state == State::Running || inner.core.is_paused_from_running(id))
    }
}

impl Hears for Shared {
    #[cfg(feature = "process")]
    fn guard(&self, call: &mut dyn FnMut()) {
        let _ = self.caught.catch(Whose::Executor, call);
    }

    fn paused(&self, ticket: Ticket) {
        self.section(|inner, now| {
            if Self::is_current(inner, ticket) {
                inner.core.paused(now, number(ticket.job));
            }
        });
    }

    fn progress(&self, ticket: Ticket, done: f32) {
        let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
        self.section(|inner, now| {
            if Self::is_current(inner, ticket) {
                inner.progress.insert(number(ticket.job), done);
                inner.core.progress(now, number(ticket.job), done);
            }
        });
    }

    fn ended(&self, ticket: Ticket, outcome: Outcome, measured: Option<Measured>) {
        self.section(|inner, now| {
            if !Self::is_current(inner, ticket) {
                inner.retired.extend(measured.map(|measured| measured as Thrown));
                return;
            }
            inner.measured = measured.map(|measured| (ticket.job, measured)); // its end is told before the lock is free
            let how = match outcome {
                Outcome::Succeeded => Ended::Well,
                Outcome::Failed(cause) => Ended::Badly(cause),
                Outcome::Stopped => Ended::Stopped,
            };
            inner.progress.remove(&number(ticket.job));
            inner.core.ended(now, number(ticket.job), how);
        });
    }
}
