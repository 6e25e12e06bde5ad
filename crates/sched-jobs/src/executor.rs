//! Executors: what runs jobs that are not closures.
//!
//! Room: interface.
//!
//! Closures run on the workers of the scheduler. Everything else is behind [`Executor`]: processes of this machine, or
//! machines of a cluster. Nothing above this trait knows which.

use core::any::Any;
use core::fmt;
use std::sync::{Arc, Weak};

use policy_jobs::{Cause, Gpu, JobId, TraceId};

/// The id of one attempt at one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// Which attempt: the first is 1.
    pub attempt: u32,
}

/// An attempt that an executor is to run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Order {
    /// Which attempt at which job. Requests about it have the same id.
    pub attempt_id: AttemptId,
    /// The job's name.
    pub name: String,
    /// The trace id of the part that the job belongs to: to be propagated.
    pub trace_id: Option<TraceId>,
    /// Its graphics cards. The scheduler does not overcommit them.
    pub gpus: Vec<Gpu>,
    /// The work, as it was submitted.
    pub work: Arc<dyn Any + Send + Sync>,
    /// Where to report what happens to it.
    pub report: Reporter,
}

/// Runs jobs. No method may block for long: each is a request, and the answer is a call of the [`Reporter`], from any thread, also from within
/// the method.
///
/// An attempt that was started ends with exactly one [`Reporter::ended`], whatever requests come meanwhile.
///
/// If a method panics, its attempt fails with [`Cause::Panic`], and [`cancel`](Self::cancel) is called for it, in case it began nevertheless. A panicking `cancel` counts as
/// the end. A job that does not pause after a panicking `pause` is cancelled by the pause timeout. No worker is lost.
pub trait Executor: Send + Sync {
    /// Begins an attempt.
    fn start(&self, order: Order);

    /// Finds an attempt that an earlier process of this program began, by its token, and reports on it from now on. The attempt may still be running. If it is
    /// gone, reports how it ended, or begins it again.
    fn find_again(&self, order: Order, token: &str) {
        let _ = token;
        self.start(order);
    }

    /// Pause it, then call [`Reporter::paused`].
    fn pause(&self, attempt_id: AttemptId);

    /// Resume it.
    fn resume(&self, attempt_id: AttemptId);

    /// End it, and everything it started, then call [`Reporter::ended`]. It may be paused.
    fn cancel(&self, attempt_id: AttemptId);
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It succeeded.
    Succeeded,
    /// It failed. With [`Cause::Permanent`] it is not retried.
    Failed(Cause),
    /// It was ended on request.
    Stopped,
}

impl Outcome {
    /// It failed with this message.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(Cause::Error(message.into()))
    }

    /// It failed with this message, and no further attempt would fix it: it is not retried, however many retries it has left.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::Failed(Cause::Permanent(message.into()))
    }
}

/// What an executor reports with an end, besides the outcome.
pub(crate) type Measured = Box<dyn Any + Send + Sync>;

/// Where the reports of executors go: the scheduler.
pub(crate) trait ReportSink: Send + Sync {
    fn paused(&self, attempt_id: AttemptId);
    fn progress(&self, attempt_id: AttemptId, done: f32);
    fn ended(&self, attempt_id: AttemptId, outcome: Outcome, measured: Option<Measured>);
    /// Calls user code; a panic is caught and counted.
    #[cfg(feature = "process")]
    fn guard(&self, call: &mut dyn FnMut());
}

/// Reports to the scheduler what happens to an attempt.
#[derive(Clone)]
pub struct Reporter {
    pub(crate) sink: Weak<dyn ReportSink>,
    pub(crate) attempt_id: AttemptId,
}

impl Reporter {
    /// It is paused.
    pub fn paused(&self) {
        if let Some(sink) = self.sink.upgrade() {
            sink.paused(self.attempt_id);
        }
    }

    /// Its progress, from 0 to 1.
    pub fn progress(&self, done: f32) {
        if let Some(sink) = self.sink.upgrade() {
            sink.progress(self.attempt_id, done);
        }
    }

    /// It ended. A second call has no effect.
    pub fn ended(&self, outcome: Outcome) {
        self.end(outcome, None);
    }

    /// It ended, with measurements: the [observer](crate::Builder::observe) gets them with the end, by [`Facts::measured`](crate::Facts::measured).
    pub fn ended_with(&self, outcome: Outcome, measured: impl Any + Send + Sync) {
        self.end(outcome, Some(Box::new(measured)));
    }

    fn end(&self, outcome: Outcome, measured: Option<Measured>) {
        if let Some(sink) = self.sink.upgrade() {
            sink.ended(self.attempt_id, outcome, measured);
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("attempt_id", &self.attempt_id).finish_non_exhaustive()
    }
}
