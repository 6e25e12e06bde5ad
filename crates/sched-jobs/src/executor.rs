//! Whatever can carry out a job.
//!
//! Closures run on the workers of the scheduler. Everything else stands behind [`Executor`]: processes of this machine, or
//! machines of a cluster. Nothing above this trait knows which.

use core::any::Any;
use core::fmt;
use std::sync::{Arc, Weak};

use policy_jobs::{Cause, Gpu, JobId, TraceId};

/// One attempt at one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The job.
    pub job: JobId,
    /// Which attempt: the first is 1.
    pub attempt: u32,
}

/// An attempt to be carried out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Order {
    /// Which attempt at which job. Requests about it carry the same ticket.
    pub ticket: Ticket,
    /// The job's name.
    pub name: String,
    /// The id of the part that the job belongs to: to be passed on.
    pub trace_id: Option<TraceId>,
    /// The graphics cards it was given. No other job gets more of them than they have.
    pub gpus: Vec<Gpu>,
    /// What is to be done, as it was submitted.
    pub work: Arc<dyn Any + Send + Sync>,
    /// Where to say what became of it.
    pub report: Reporter,
}

/// Carries out jobs. No method may block for long: each asks, and the answer is a call of the [`Reporter`], from any thread, also from within
/// the call.
///
/// An attempt that was started ends with exactly one [`Reporter::ended`], whatever is asked of it meanwhile.
///
/// A method that panics fails the attempt it is about, with [`Cause::Panic`], and [`cancel`](Self::cancel) is called for it, in case it began nevertheless; a panicking `cancel` counts as
/// the end, and a job that does not stand still after a panicking `pause` is cancelled when its time is up. No worker is lost.
pub trait Executor: Send + Sync {
    /// Begins an attempt.
    fn start(&self, order: Order);

    /// An attempt that an earlier life of this program began, and may still be going on: finds it by the token which that life was
    /// told, and goes on reporting. If it is gone, reports how it ended, or begins it again.
    fn find_again(&self, order: Order, token: &str) {
        let _ = token;
        self.start(order);
    }

    /// Make it stand still, then call [`Reporter::paused`].
    fn pause(&self, ticket: Ticket);

    /// Let it go on.
    fn resume(&self, ticket: Ticket);

    /// End it, and everything it started, then call [`Reporter::ended`]. Also one that stands still.
    fn cancel(&self, ticket: Ticket);
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It did what it should.
    Succeeded,
    /// It did not. With [`Cause::Permanent`] it is not retried.
    Failed(Cause),
    /// It was ended on request.
    Stopped,
}

impl Outcome {
    /// It failed so.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(Cause::Error(message.into()))
    }

    /// It failed so, and no further attempt would mend it: it is not retried, however many retries it has left.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::Failed(Cause::Permanent(message.into()))
    }
}

/// What an executor knows of an end, beside how it was.
pub(crate) type Measured = Box<dyn Any + Send + Sync>;

/// A scheduler, as its executors see it.
pub(crate) trait Hears: Send + Sync {
    fn paused(&self, ticket: Ticket);
    fn progress(&self, ticket: Ticket, done: f32);
    fn ended(&self, ticket: Ticket, outcome: Outcome, measured: Option<Measured>);
    /// Calls code of a user; a panic there is counted, and goes no further.
    #[cfg(feature = "process")]
    fn guard(&self, call: &mut dyn FnMut());
}

/// Tells the scheduler what became of an attempt.
#[derive(Clone)]
pub struct Reporter {
    pub(crate) hears: Weak<dyn Hears>,
    pub(crate) ticket: Ticket,
}

impl Reporter {
    /// It stands still.
    pub fn paused(&self) {
        if let Some(hears) = self.hears.upgrade() {
            hears.paused(self.ticket);
        }
    }

    /// It is so far, from 0 to 1.
    pub fn progress(&self, done: f32) {
        if let Some(hears) = self.hears.upgrade() {
            hears.progress(self.ticket, done);
        }
    }

    /// It ended. Said twice, the second time has no effect.
    pub fn ended(&self, outcome: Outcome) {
        self.end(outcome, None);
    }

    /// It ended, and this was measured of it, or is known of it besides: whoever [observes](crate::Builder::observe) the end is told, by [`Facts::measured`](crate::Facts::measured).
    pub fn ended_with(&self, outcome: Outcome, measured: impl Any + Send + Sync) {
        self.end(outcome, Some(Box::new(measured)));
    }

    fn end(&self, outcome: Outcome, measured: Option<Measured>) {
        if let Some(hears) = self.hears.upgrade() {
            hears.ended(self.ticket, outcome, measured);
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
