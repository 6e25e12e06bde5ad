//! The error that a closure of a job ends with.
//!
//! Room: values. Knows errors of tasks and nodes, which convert into it; knows nothing of the scheduler.

use core::fmt;

use sched_tasks::internals::{AnyError, IntoError, kind, with_mark};
use sched_tasks::{RunError, TaskError};

use crate::ctx::Stopped;

/// How an attempt at a closure failed, as the scheduler keeps it.
pub(crate) enum Failure {
    Stopped,
    Error(String),
    Permanent(String),
    Panic { message: String, at: Option<String> },
}

/// An error that a closure may end with: anything that is an error, or [`Stopped`].
///
/// An error that another attempt would not fix says so, and its job is not retried:
///
/// ```
/// use sched_jobs::{Cause, Job, JobError, Jobs};
///
/// let jobs = Jobs::builder().build();
/// jobs.submit(Job::new("upload").retries(5).try_run(|_| {
///     let port: u16 = "eighty".parse().map_err(|error| JobError::from(error).no_retry())?;
///     std::net::TcpStream::connect(("localhost", port))?; // may succeed the next time
///     Ok(())
/// }))?;
/// let failed = jobs.wait().unwrap_err();
/// assert_eq!(failed.first[0].1, Cause::Permanent("invalid digit found in string".to_owned()));
/// assert_eq!(jobs.status("upload")?.attempts, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The errors of tasks and nodes convert as well, and so do strings; [`downcast_ref`](Self::downcast_ref) finds the original after any number of conversions. An error that is permanent stays so on its
/// way through a nursery.
///
/// It does not implement [`Error`](core::error::Error) itself, as [`TaskError`] does not: a type that did would convert to itself twice. [`into_boxed`](Self::into_boxed) makes a standard error of it.
pub struct JobError {
    error: AnyError,
    is_permanent: bool,
}

/// Marks the error of a task: it comes from a job, and another attempt would not fix it.
struct Permanent;

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_stopped() {
            true => f.write_str("JobError(stopped)"),
            false => write!(f, "JobError({self})"),
        }
    }
}

/// What it says, and what caused it.
impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut source = self.error.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl JobError {
    /// An error with this message.
    pub fn msg(message: impl Into<String>) -> Self {
        Self::from(message.into())
    }

    /// An error with this message, and that another attempt would not fix: the job fails at once, however many retries it has left.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::msg(message).no_retry()
    }

    /// The same error, as one that another attempt would not fix. [`Stopped`] stays what it is.
    pub fn no_retry(mut self) -> Self {
        self.is_permanent = !self.is_stopped();
        self
    }

    /// Whether no further attempt is made after it.
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    /// Whether it is [`Stopped`]: the job was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.downcast_ref::<Stopped>().is_some()
    }

    /// The original error, if it was of this type.
    pub fn downcast_ref<E: core::error::Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// The error of the task that it comes from, if it does.
    pub fn task_error(&self) -> Option<&TaskError> {
        self.error.task_error()
    }

    /// This error as a standard one.
    pub fn into_boxed(self) -> Box<dyn core::error::Error + Send + Sync> {
        self.error.into_boxed()
    }

    pub(crate) fn failure(self) -> Failure {
        match (self.is_stopped(), self.is_permanent) {
            (true, _) => Failure::Stopped,
            (false, true) => Failure::Permanent(self.to_string()),
            (false, false) => Failure::Error(self.to_string()),
        }
    }
}

impl<E: IntoError<kind::Job>> From<E> for JobError {
    fn from(error: E) -> Self {
        let error = error.into_error();
        let is_permanent = error.mark::<Permanent>().is_some();
        Self { error, is_permanent }
    }
}

impl IntoError<kind::Node> for JobError {
    fn into_error(self) -> AnyError {
        match self.is_permanent {
            true => AnyError::Task(with_mark(self.error.into_task_error(), Permanent)),
            false => self.error,
        }
    }
}

impl From<JobError> for TaskError {
    fn from(error: JobError) -> Self {
        error.into_error().into_task_error()
    }
}

impl From<JobError> for RunError {
    fn from(error: JobError) -> Self {
        RunError::Task(error.into())
    }
}
