//! What users hold: a scheduler of jobs.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, PoisonError};

use super::{Events, Neighbours, Observer, Panics, Shared};
use crate::config::{Config, Scheduler};
use crate::decide::{Rules, Scope, Usage};
use crate::error::{Cause, ControlError, SubmitError};
use crate::job::{Job, JobId, Needed};
use crate::state::State;
use crate::why::Why;

/// A scheduler for a graph of jobs.
///
/// ```
/// use sched_jobs::{Job, Jobs};
///
/// let jobs = Jobs::builder().cpu_slots(2).build();
/// let board = jobs.submit(Job::new("storyboard").run(|_| Ok::<_, std::io::Error>(vec![1, 2, 3])))?;
/// jobs.submit(Job::new("compose").needs(&board).run(|ctx| {
///     let scenes = ctx.input::<Vec<i32>>("storyboard")?;
///     assert_eq!(scenes.len(), 3);
///     ctx.progress(1.0)?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// }))?;
/// let summary = jobs.wait()?;
/// assert_eq!(summary.succeeded, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A clone is another handle on the same scheduler. When the last is dropped, whatever has not ended is cancelled, and
/// the drop returns when nothing runs any more.
#[derive(Clone)]
pub struct Jobs {
    pub(super) owner: Arc<Owner>,
}

pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
}

/// Settings of a scheduler that is not there yet.
#[must_use]
pub struct Builder {
    config: Config,
    observer: Option<Observer>,
    neighbours: Option<Box<dyn Neighbours>>,
    seed: u64,
}

impl Builder {
    /// All settings at once.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Which driver runs the jobs.
    pub fn scheduler(mut self, scheduler: Scheduler) -> Self {
        self.config.scheduler = scheduler;
        self
    }

    /// Threads that run closures.
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = workers.max(1);
        self
    }

    /// CPU slots: a hard limit. As many workers run closures.
    pub fn cpu_slots(mut self, slots: u32) -> Self {
        self.config.limits.cpu_slots = slots.max(1);
        self.config.workers = slots.clamp(1, 1024) as usize;
        self
    }

    /// Memory, in MB: a soft limit; 0 means unlimited.
    pub fn ram_mb(mut self, mb: u64) -> Self {
        self.config.limits.ram_mb = mb;
        self
    }

    /// Video memory, in MB, where no card is known: a soft limit; 0 means unlimited.
    pub fn vram_mb(mut self, mb: u64) -> Self {
        self.config.limits.vram_mb = mb;
        self
    }

    /// Graphics cards, each with its own memory: hard limits. At most [`GPUS_MAX`](crate::GPUS_MAX) are used.
    pub fn gpus(mut self, gpus: impl IntoIterator<Item = crate::Gpu>) -> Self {
        self.config.limits.gpus = gpus.into_iter().take(crate::GPUS_MAX).collect();
        self
    }

    /// A named resource, and how much of it there is: a hard limit.
    pub fn resource(mut self, name: impl Into<String>, amount: u64) -> Self {
        let name = name.into();
        self.config.limits.named.retain(|(known, _)| *known != name);
        self.config.limits.named.push((name, amount));
        self
    }

    /// What waiting gains: `boost` for every `interval`.
    pub fn aging(mut self, interval: Duration, boost: u32) -> Self {
        self.config.aging = crate::Aging { interval, boost };
        self
    }

    /// How long a running job may take to reach a checkpoint when it is asked to pause.
    pub fn pause_timeout(mut self, time: Duration) -> Self {
        self.config.pause_timeout = time;
        self
    }

    /// Is told every event, in order and without loss. Runs under the scheduler's lock: must be quick, and must not call back.
    ///
    /// If it panics it is dropped, and told nothing more: what it holds may be half changed. The jobs go on; [`Jobs::panics`] counts it.
    pub fn observe(mut self, observer: impl FnMut(&crate::Event, crate::JobFacts<'_>) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Shares what there is with others on this machine.
    pub fn neighbours(mut self, neighbours: impl Neighbours + 'static) -> Self {
        self.neighbours = Some(Box::new(neighbours));
        self
    }

    /// What the jitter of back-offs is drawn from.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The scheduler. Threads start with the first job.
    pub fn build(self) -> Jobs {
        let Config { scheduler, workers, limits, aging, pause_timeout } = self.config;
        let simple = scheduler == Scheduler::Simple;
        let rules = Rules {
            limits,
            workers: if simple { 1 } else { workers },
            most_running: if simple { 1 } else { usize::MAX },
            aging,
            pause_timeout,
            by_formula: simple,
            seed: self.seed,
        };
        Jobs { owner: Arc::new(Owner { shared: Shared::new(rules, self.observer, self.neighbours) }) }
    }
}

/// Whom a request is about: a job by name or number, everything below one, or the whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One job.
    Job(Needed),
    /// A job and everything that needs it, directly or not.
    Subtree(Needed),
    /// All jobs.
    Run,
}

impl<N: Into<Needed>> From<N> for Target {
    fn from(job: N) -> Self {
        Target::Job(job.into())
    }
}

/// What is known about a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JobStatus {
    /// The job.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Attempts made, the present one included.
    pub attempts: u32,
    /// How far it says it is, from 0 to 1, while it runs.
    pub progress: Option<f32>,
    /// Why it ended, if not well; or what its last attempt died of.
    pub cause: Option<Cause>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Jobs that did what they should.
    pub succeeded: usize,
    /// Jobs that failed.
    pub failed: usize,
    /// Jobs that were cancelled.
    pub canceled: usize,
}

/// Some jobs of a run did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFailed {
    /// How many.
    pub summary: Summary,
    /// The first of those that failed by themselves, with their causes: at most ten.
    pub first: Vec<(String, Cause)>,
}

impl fmt::Display for RunFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { succeeded, failed, canceled } = self.summary;
        write!(f, "{failed} failed, {canceled} canceled, {succeeded} succeeded")?;
        self.first.iter().try_for_each(|(name, cause)| write!(f, "; {name}: {cause}"))
    }
}

impl core::error::Error for RunFailed {}

impl Jobs {
    /// Settings for a scheduler, starting from the built-in ones. [`Config::from_env`] reads the environment.
    pub fn builder() -> Builder {
        Builder { config: Config::default(), observer: None, neighbours: None, seed: 0x00B5_5A12 }
    }

    fn shared(&self) -> &Shared {
        &self.owner.shared
    }

    /// Takes a job. What it needs must have been submitted.
    ///
    /// # Errors
    /// If it cannot be taken. Then it left no trace.
    pub fn submit(&self, job: Job) -> Result<JobId, SubmitError> {
        self.shared().submit(core::iter::once(job)).map(|range| JobId(range.start))
    }

    /// Takes a workflow: all jobs, or none. They may need each other in any order, by name. Nothing starts before the last is there.
    ///
    /// # Errors
    /// If one cannot be taken, or they need each other in a circle. Then none left a trace.
    pub fn submit_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<JobId>, SubmitError> {
        self.shared().submit(jobs.into_iter()).map(|range| range.map(JobId).collect())
    }

    fn find(inner: &super::Inner, job: &Needed) -> Result<u32, ControlError> {
        let found = match job {
            Needed::Id(id) => Some(id.0).filter(|id| (*id as usize) < inner.core.len()),
            Needed::Name(name) => inner.core.find(name),
        };
        found.ok_or_else(|| ControlError::UnknownJob { name: job.to_string() })
    }

    fn scope(inner: &super::Inner, target: &Target) -> Result<Scope, ControlError> {
        Ok(match target {
            Target::Job(job) => Scope::Job(Self::find(inner, job)?),
            Target::Subtree(job) => Scope::Subtree(Self::find(inner, job)?),
            Target::Run => Scope::Run,
        })
    }

    /// Pauses, and returns when what ran stands still. A running job that reaches no checkpoint in time is cancelled.
    ///
    /// # Errors
    /// If a single job has ended or is unknown; 3003 if a job was cancelled for not standing still.
    pub fn pause(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        let target = target.into();
        let asked = self.shared().section(|inner, now| {
            let scope = Self::scope(inner, &target)?;
            inner.core.pause(now, scope)
        })?;
        if asked.is_empty() {
            return Ok(());
        }
        let shared = self.shared();
        let mut inner = shared.lock();
        inner.wait_curiously();
        while asked.iter().any(|&id| {
            inner.core.state(id) == State::Running && inner.core.is_pausing(id) && !inner.core.is_canceling(id)
        }) {
            inner = shared.news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.stop_waiting();
        for &id in &asked {
            if let Some(Cause::PauseTimeout { waited }) = inner.core.cause(id) {
                return Err(ControlError::PauseTimeout { job: inner.core.name(id).into_owned(), waited: *waited });
            }
            let is_over = inner.core.state(id).is_terminal() || inner.core.is_canceling(id);
            if is_over && matches!(target, Target::Job(_)) {
                return Err(inner.core.not_now(id, "pause"));
            }
        }
        Ok(())
    }

    /// Lets paused jobs go on where they were. One that ran goes on as soon as its CPU slots are free.
    ///
    /// # Errors
    /// If a single job is not paused, or is unknown.
    pub fn resume(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        let target = target.into();
        self.shared().section(|inner, now| {
            let scope = Self::scope(inner, &target)?;
            inner.core.resume(now, scope)
        })
    }

    /// Cancels. What does not run has ended when this returns; what runs was asked to. What has ended stays as it is.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn cancel(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        let target = target.into();
        self.shared().section(|inner, now| {
            let scope = Self::scope(inner, &target)?;
            inner.core.cancel(now, scope);
            Ok(())
        })
    }

    /// Cancels, and returns when everything it is about has ended. Waits as long as a closure takes to reach a checkpoint.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn cancel_and_wait(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        let target = target.into();
        self.cancel(target.clone())?;
        let shared = self.shared();
        let mut inner = shared.lock();
        let members = match Self::scope(&inner, &target)? {
            Scope::Job(id) => vec![id],
            // Descendants of a job that has not succeeded do not run.
            Scope::Subtree(id) => inner.core.subtree(id),
            Scope::Run => (0..inner.core.len() as u32).collect(),
        };
        inner.wait_curiously();
        while !members.iter().all(|id| inner.core.state(*id).is_terminal()) {
            inner = shared.news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.stop_waiting();
        Ok(())
    }

    /// Tries a job again that failed or was cancelled; with it whatever was cancelled because of it, and first what it needs.
    ///
    /// # Errors
    /// If the job has not ended, or succeeded, or is unknown.
    pub fn retry(&self, job: impl Into<Needed>) -> Result<(), ControlError> {
        let job = job.into();
        self.shared().section(|inner, now| {
            let id = Self::find(inner, &job)?;
            inner.core.retry(now, id)
        })
    }

    /// Why a job waits: the true answer, in one line.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn why(&self, job: impl Into<Needed>) -> Result<Why, ControlError> {
        let job = job.into();
        self.shared().section(|inner, now| {
            let id = Self::find(inner, &job)?;
            Ok(inner.core.why(now, id, inner.progress_of(id)))
        })
    }

    /// What is known about a job.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn status(&self, job: impl Into<Needed>) -> Result<JobStatus, ControlError> {
        let job = job.into();
        self.shared().section(|inner, _| Ok(inner.status(Self::find(inner, &job)?)))
    }

    /// What is known about every job, in the order of submission.
    pub fn statuses(&self) -> Vec<JobStatus> {
        self.shared().section(|inner, _| (0..inner.core.len() as u32).map(|id| inner.status(id)).collect())
    }

    /// How many jobs there are in each state.
    pub fn counts(&self) -> Vec<(State, usize)> {
        State::ALL.into_iter().zip(self.shared().section(|inner, _| inner.core.counts())).collect()
    }

    /// What running and paused jobs use now.
    pub fn usage(&self) -> Usage {
        self.shared().section(|inner, _| inner.core.usage())
    }

    /// How often code of a user panicked outside a job: in observers, executors, neighbours and destructors. No job failed for it.
    pub fn panics(&self) -> Panics {
        self.shared().caught.panics()
    }

    /// Looks again who may start: others have given something back.
    pub fn poke(&self) {
        self.shared().section(|_, _| ());
    }

    /// The time since the scheduler was built: that of events.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.shared().now())
    }

    /// All events from now on.
    pub fn events(&self) -> Events {
        let mut inner = self.shared().lock();
        inner.core.watch(true);
        inner.feed.listen()
    }

    /// Waits until every job has ended.
    ///
    /// # Errors
    /// If some did not succeed.
    pub fn wait(&self) -> Result<Summary, RunFailed> {
        let shared = self.shared();
        let mut inner = shared.lock();
        inner.waiting += 1;
        while inner.core.open() > 0 {
            inner = shared.news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.stop_waiting();
        inner.summary()
    }

    /// Waits until every job has ended, but not longer than that. `None` if time ran out.
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<Summary, RunFailed>> {
        let shared = self.shared();
        let mut inner = shared.lock();
        inner.waiting += 1;
        let open = |inner: &mut super::Inner| inner.core.open() > 0;
        inner = shared.news.wait_timeout_while(inner, time, open).unwrap_or_else(PoisonError::into_inner).0;
        inner.stop_waiting();
        (inner.core.open() == 0).then(|| inner.summary())
    }
}

impl super::Inner {
    /// Somebody waits for more than the end of all jobs: every change is announced until nobody waits any more.
    pub(super) fn wait_curiously(&mut self) {
        self.waiting += 1;
        self.is_curious = true;
    }

    pub(super) fn stop_waiting(&mut self) {
        self.waiting -= 1;
        self.is_curious &= self.waiting > 0;
    }

    fn progress_of(&self, id: u32) -> Option<f32> {
        if !self.core.is_local(id) {
            return self.progress.get(&id).copied();
        }
        let runs = self.core.state(id) == State::Running || self.core.is_paused_from_running(id);
        if runs { self.posts.get(self.core.place(id) as usize)?.progress() } else { None }
    }

    fn status(&self, id: u32) -> JobStatus {
        JobStatus {
            id: JobId(id),
            name: self.core.name(id).into_owned(),
            state: self.core.state(id),
            attempts: self.core.attempt(id),
            progress: self.progress_of(id),
            cause: self.core.cause(id).cloned(),
        }
    }

    fn summary(&self) -> Result<Summary, RunFailed> {
        let counts = self.core.counts();
        let count = |state: State| counts[state as usize];
        let summary = Summary {
            succeeded: count(State::Succeeded),
            failed: count(State::Failed),
            canceled: count(State::Canceled),
        };
        if summary.failed + summary.canceled == 0 {
            return Ok(summary);
        }
        let bad = (0..self.core.len() as u32).filter_map(|id| match self.core.cause(id) {
            Some(Cause::Ancestor { .. }) | None => None,
            Some(cause) => Some((self.core.name(id).into_owned(), cause.clone())),
        });
        Err(RunFailed { summary, first: bad.take(10).collect() })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.section(|inner, now| {
            inner.is_closing = true;
            inner.core.cancel(now, Scope::Run);
        });
        self.shared.work.notify_all();
        self.shared.alarm.notify_all();
        if self.shared.is_my_worker() {
            return; // a closure held the last handle: its thread cannot wait for itself
        }
        let mut inner = self.shared.lock();
        inner.wait_curiously();
        while inner.core.open() > 0 || inner.threads > 0 {
            self.shared.work.notify_all();
            inner = self.shared.news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.feed.close();
        let works = core::mem::take(&mut inner.works);
        let outputs = core::mem::take(&mut inner.outputs);
        drop(inner);
        // What users captured, not under the lock.
        self.shared.caught.discard_all(works);
        self.shared.caught.discard_all(outputs);
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}
