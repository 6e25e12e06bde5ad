//! The handle of a part of the graph.
//!
//! Room: interface.

use core::fmt;
use core::hash::BuildHasher;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::hash::RandomState;
use std::sync::Arc;

use policy_jobs::{ControlError, JobId, Scope, State, SubmitError, TraceId};

use super::{JobStatus, Jobs, RunFailed, Summary};
use crate::job::Job;

/// A group of jobs of one scheduler that is waited for, controlled and traced separately: the jobs that were submitted through it.
///
/// They share workers and limits with all other jobs, and jobs of different parts may depend on each other. [`wait`](Self::wait) returns when the jobs of the part
/// have ended, with their summary; [`pause`](Self::pause), [`resume`](Self::resume) and [`cancel`](Self::cancel) apply to these jobs.
///
/// ```
/// use sched_jobs::{Job, JobError, Jobs};
///
/// let jobs = Jobs::builder().cpu_slots(2).build();
/// let fonts = jobs.submit(Job::new("fonts").run(|_| ()))?;
///
/// let film = jobs.part("film-7");
/// let trace = film.trace_id();
/// film.submit_all([
///     Job::new("render").needs(&fonts).run(move |ctx| assert_eq!(ctx.trace_id(), Some(trace))),
///     Job::new("cut").needs("render").run(|_| Err::<(), _>(JobError::permanent("no scenes"))),
/// ])?;
///
/// let failed = film.wait().unwrap_err();
/// assert_eq!((failed.summary.succeeded, failed.summary.failed), (1, 1)); // `fonts` is not of the film
/// assert_eq!(failed.first[0].0, "cut");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each part has a [`TraceId`], given or random, which is in every [`Event`](crate::Event) and [`JobStatus`] of its jobs, in [`Ctx::trace_id`](crate::Ctx::trace_id) and in the
/// [`Order`](crate::Order) for an executor.
///
/// A clone is another handle of the same part. A handle of a part is also a handle of the scheduler, which is dropped with the last of all. Dropping a part has no other
/// effect on its jobs.
#[derive(Clone)]
pub struct Part {
    jobs: Jobs,
    index: u32,
    name: Arc<str>,
    trace: TraceId,
}

impl Jobs {
    /// The part with that name; a new one if there is none. A new one has a random trace id.
    pub fn part(&self, name: impl Into<String>) -> Part {
        self.part_traced(name, draw())
    }

    /// As [`part`](Self::part), but a new part has this trace id: that of the request which the jobs serve. An existing part keeps its own.
    pub fn part_traced(&self, name: impl Into<String>, trace: TraceId) -> Part {
        let name: Arc<str> = name.into().into();
        let mut inner = self.shared().lock();
        let index = inner.core.part(&name, trace);
        let trace = inner.core.part_trace(index);
        drop(inner);
        Part { jobs: self.clone(), index, name, trace }
    }
}

/// A random id. Not from the seed: two runs of a program are two traces.
fn draw() -> TraceId {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let (random, count) = (RandomState::new(), DRAWN.fetch_add(1, Ordering::Relaxed));
    let half = |which: u8| u128::from(random.hash_one((std::process::id(), count, which)));
    TraceId::from_u128((half(0) << 64 | half(1)).max(1)).expect("it is not 0")
}

impl Part {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The trace id of its jobs.
    pub fn trace_id(&self) -> TraceId {
        self.trace
    }

    /// The scheduler.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// As [`Jobs::submit`]; the job belongs to this part. A job whose [key](Job::key) is known stays in its part.
    ///
    /// # Errors
    /// If it is refused. Then it leaves nothing behind.
    pub fn submit(&self, job: Job) -> Result<JobId, SubmitError> {
        self.jobs.submit_to(Some(self.index), job)
    }

    /// As [`Jobs::submit_all`]; the jobs belong to this part.
    ///
    /// # Errors
    /// If one is refused, or the dependencies have a cycle. Then none leaves anything behind.
    pub fn submit_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<JobId>, SubmitError> {
        self.jobs.submit_all_to(Some(self.index), jobs)
    }

    /// Waits until every job of this part has ended, whatever others do.
    ///
    /// # Errors
    /// If some did not succeed. Causes are those of this part; a job that was cancelled because of a job outside the part names that job.
    pub fn wait(&self) -> Result<Summary, RunFailed> {
        self.jobs.wait_for(Some(self.index))
    }

    /// Waits until every job of this part has ended, but at most that long. `None` after a timeout.
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<Summary, RunFailed>> {
        self.jobs.wait_for_timeout(Some(self.index), time)
    }

    /// Pauses, and returns when the running jobs have paused. Jobs that are submitted to the part later are not paused.
    ///
    /// # Errors
    /// 3003 if a job was cancelled because it did not pause in time.
    pub fn pause(&self) -> Result<(), ControlError> {
        self.jobs.pause_scope(|_| Ok(Scope::Part(self.index)))
    }

    /// Resumes the paused jobs of this part.
    pub fn resume(&self) {
        let resumed = self.jobs.shared().section(|inner, now| inner.core.resume(now, Scope::Part(self.index)));
        debug_assert!(resumed.is_ok(), "only a single job is refused");
    }

    /// Cancels the jobs of this part, and all jobs that depend on them. Jobs that do not run have ended when this returns; running jobs are asked to end.
    pub fn cancel(&self) {
        self.jobs.shared().section(|inner, now| inner.core.cancel(now, Scope::Part(self.index)));
    }

    /// Cancels, and returns when every job that was in the part at the call has ended.
    pub fn cancel_and_wait(&self) {
        self.cancel();
        self.jobs.wait_for_members(Scope::Part(self.index));
    }

    /// The status of every job of this part, in the order of submission.
    pub fn statuses(&self) -> Vec<JobStatus> {
        self.jobs.shared().section(|inner, _| inner.core.part_jobs(self.index).map(|id| inner.status(id)).collect())
    }

    /// How many jobs of this part there are in each state.
    pub fn counts(&self) -> Vec<(State, usize)> {
        let counts = self.jobs.shared().section(|inner, _| inner.counts(Some(self.index)));
        State::ALL.into_iter().zip(counts).collect()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("name", &self.name).field("trace", &self.trace).finish_non_exhaustive()
    }
}
