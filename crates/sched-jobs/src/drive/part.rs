//! A handle on a part of the graph.

use core::fmt;
use core::hash::BuildHasher;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::hash::RandomState;
use std::sync::Arc;

use policy_jobs::{ControlError, JobId, Scope, State, SubmitError, TraceId};

use super::{JobStatus, Jobs, RunFailed, Summary};
use crate::job::Job;

/// Some jobs of a scheduler, to be waited for, steered and traced apart from all others: those that were submitted through it.
///
/// They share workers and limits with all other jobs, and jobs of different parts may need each other. What is different is who is meant: [`wait`](Self::wait) returns when these
/// have ended, and tells how these ended; [`pause`](Self::pause), [`resume`](Self::resume) and [`cancel`](Self::cancel) are about these.
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
/// Each part has a [`TraceId`], given or made up, which is on every [`Event`](crate::Event) and [`JobStatus`] of its jobs, in [`Ctx::trace_id`](crate::Ctx::trace_id) and in what an
/// [`Executor`](crate::Executor) is told.
///
/// A clone is another handle on the same part. Handles on parts are also handles on the scheduler: it goes when the last of all is dropped. Dropping a part does nothing else
/// to its jobs.
#[derive(Clone)]
pub struct Part {
    jobs: Jobs,
    index: u32,
    name: Arc<str>,
    trace: TraceId,
}

impl Jobs {
    /// The part of that name; a new one if there is none. A new one has a trace id of its own, drawn at random.
    pub fn part(&self, name: impl Into<String>) -> Part {
        self.part_traced(name, draw())
    }

    /// As [`part`](Self::part), but a new one has this trace id: that of the request which the jobs serve. A part that is there keeps its own.
    pub fn part_traced(&self, name: impl Into<String>, trace: TraceId) -> Part {
        let name: Arc<str> = name.into().into();
        let mut inner = self.shared().lock();
        let index = inner.core.part(&name, trace);
        let trace = inner.core.part_trace(index);
        drop(inner);
        Part { jobs: self.clone(), index, name, trace }
    }
}

/// An id that no other part has, most probably. Not from the seed: two runs of a program are two traces.
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

    /// What its jobs are traced by.
    pub fn trace_id(&self) -> TraceId {
        self.trace
    }

    /// The scheduler.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// As [`Jobs::submit`]; the job belongs to this part. One whose [key](Job::key) is known stays where it is.
    ///
    /// # Errors
    /// If it cannot be taken. Then it left no trace.
    pub fn submit(&self, job: Job) -> Result<JobId, SubmitError> {
        self.jobs.submit_to(Some(self.index), job)
    }

    /// As [`Jobs::submit_all`]; the jobs belong to this part.
    ///
    /// # Errors
    /// If one cannot be taken, or they need each other in a circle. Then none left a trace.
    pub fn submit_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<JobId>, SubmitError> {
        self.jobs.submit_all_to(Some(self.index), jobs)
    }

    /// Waits until every job of this part has ended, whatever others do.
    ///
    /// # Errors
    /// If some did not succeed. Causes are those of this part; a job that was cancelled because of one outside names that one.
    pub fn wait(&self) -> Result<Summary, RunFailed> {
        self.jobs.wait_for(Some(self.index))
    }

    /// Waits until every job of this part has ended, but not longer than that. `None` if time ran out.
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<Summary, RunFailed>> {
        self.jobs.wait_for_timeout(Some(self.index), time)
    }

    /// Pauses, and returns when what ran stands still. Jobs that are submitted to the part later are not paused.
    ///
    /// # Errors
    /// 3003 if a job was cancelled for not standing still.
    pub fn pause(&self) -> Result<(), ControlError> {
        self.jobs.pause_scope(|_| Ok(Scope::Part(self.index)))
    }

    /// Lets paused jobs of this part go on where they were.
    pub fn resume(&self) {
        let resumed = self.jobs.shared().section(|inner, now| inner.core.resume(now, Scope::Part(self.index)));
        debug_assert!(resumed.is_ok(), "only a single job is refused");
    }

    /// Cancels the jobs of this part, and whatever needs one of them. What does not run has ended when this returns; what runs was asked to.
    pub fn cancel(&self) {
        self.jobs.shared().section(|inner, now| inner.core.cancel(now, Scope::Part(self.index)));
    }

    /// Cancels, and returns when every job that the part had then has ended.
    pub fn cancel_and_wait(&self) {
        self.cancel();
        self.jobs.wait_for_members(Scope::Part(self.index));
    }

    /// What is known about every job of this part, in the order of submission.
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
