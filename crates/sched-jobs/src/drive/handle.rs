//! The handle of a scheduler of jobs, and its builder.
//!
//! Room: interface.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use sched_tasks::{MutexGuard, NurseryOptions, OnFailure, OwnedNursery, shield};

use policy_jobs::{Cause, ControlError, JobId, Needed, Rules, Scope, State, SubmitError, Usage, Waits, Why};

use super::panics::PanicSource;
use super::{Events, JobStatus, Neighbours, Observer, Panics, RunFailed, Shared, Summary};
use crate::config::{Config, Scheduler};
use crate::job::{Job, number};

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
/// A clone is another handle of the same scheduler. When the last one is dropped, all open jobs are cancelled, and
/// the drop returns when nothing runs any more.
#[derive(Clone)]
pub struct Jobs {
    pub(super) owner: Arc<Owner>,
}

pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
    /// The nursery of workers and clock; none if the common runtime could not be started. Dropped last.
    tasks: Option<OwnedNursery>,
}

/// Settings for a new scheduler.
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

    /// CPU slots: a hard limit. Also sets the number of workers that run closures.
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

    /// Raises the priority of a waiting job by `boost` for every `interval`.
    pub fn aging(mut self, interval: Duration, boost: u32) -> Self {
        self.config.aging = crate::Aging { interval, boost };
        self
    }

    /// How long a running job may take to reach a checkpoint when it is asked to pause.
    pub fn pause_timeout(mut self, time: Duration) -> Self {
        self.config.pause_timeout = time;
        self
    }

    /// A callback that gets every event, in order and without loss. It runs under the scheduler's lock: it must be quick, and must not call the scheduler.
    ///
    /// If it panics it is dropped, because its state may be inconsistent. The jobs run on; [`Jobs::panics`] counts the panic.
    pub fn observe(mut self, observer: impl FnMut(&crate::Event, super::Facts<'_>) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Shares one budget with other runs on this machine.
    pub fn neighbours(mut self, neighbours: impl Neighbours + 'static) -> Self {
        self.neighbours = Some(Box::new(neighbours));
        self
    }

    /// The seed of the jitter of back-offs.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Builds the scheduler. It belongs to the runtime of the caller's task, or to the common one; in a [seeded](sched_tasks::Builder::seeded) run the seed decides its order. Threads start with the first job.
    pub fn build(self) -> Jobs {
        let Config { scheduler, workers, limits, aging, pause_timeout } = self.config;
        let simple = scheduler == Scheduler::Simple;
        let rules = Rules {
            limits,
            workers: if simple { 1 } else { workers },
            running_max: if simple { 1 } else { usize::MAX },
            aging,
            pause_timeout,
            by_formula: simple,
            seed: self.seed,
        };
        // Closures are confined to the rights of their submitter; the workers themselves belong to the scheduler.
        let options = NurseryOptions::new().name("jobs").on_failure(OnFailure::WaitAll);
        let tasks = OwnedNursery::of_scheduler(options);
        let spawner = tasks.as_ref().map(OwnedNursery::spawner).map_err(Clone::clone);
        let shared = Shared::new(rules, self.observer, self.neighbours, spawner);
        Jobs { owner: Arc::new(Owner { shared, tasks: tasks.ok() }) }
    }
}

/// The jobs that a request applies to: a job by name or number, its subtree, a part, or the whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// One job.
    Job(Needed),
    /// A job and everything that needs it, directly or not.
    Subtree(Needed),
    /// The jobs that were submitted through the [part](crate::Part) with that name.
    Part(String),
    /// All jobs.
    Run,
}

impl<N: Into<Needed>> From<N> for Target {
    fn from(job: N) -> Self {
        Target::Job(job.into())
    }
}

impl Jobs {
    /// Settings for a scheduler, starting from the built-in ones. [`Config::from_env`] reads the environment.
    pub fn builder() -> Builder {
        Builder { config: Config::default(), observer: None, neighbours: None, seed: 0x00B5_5A12 }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.owner.shared
    }

    /// Submits a job. Its dependencies must have been submitted.
    ///
    /// # Errors
    /// If it is refused. Then it leaves nothing behind.
    pub fn submit(&self, job: Job) -> Result<JobId, SubmitError> {
        self.submit_to(None, job)
    }

    #[inline]
    pub(super) fn submit_to(&self, part: Option<u32>, job: Job) -> Result<JobId, SubmitError> {
        self.shared().submit(part, core::iter::once(job)).map(|taken| taken.id())
    }

    /// Submits a workflow: all jobs, or none. They may depend on each other in any order, by name. No job starts before the last is submitted.
    ///
    /// # Errors
    /// If one is refused, or the dependencies have a cycle. Then none leaves anything behind.
    pub fn submit_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<JobId>, SubmitError> {
        self.submit_all_to(None, jobs)
    }

    pub(super) fn submit_all_to(
        &self,
        part: Option<u32>,
        jobs: impl IntoIterator<Item = Job>,
    ) -> Result<Vec<JobId>, SubmitError> {
        self.shared().submit(part, jobs.into_iter()).map(super::submit::Taken::ids)
    }

    /// The job with that [key](Job::key).
    pub fn find_key(&self, key: &str) -> Option<JobId> {
        self.shared().lock().core.find_key(key).map(JobId::from_index)
    }

    fn find(inner: &super::Inner, job: &Needed) -> Result<u32, ControlError> {
        let found = match job {
            Needed::Id(id) => Some(number(*id)).filter(|id| (*id as usize) < inner.core.len()),
            Needed::Name(name) => inner.core.find(name),
        };
        found.ok_or_else(|| ControlError::UnknownJob { name: job.to_string() })
    }

    fn scope(inner: &super::Inner, target: &Target) -> Result<Scope, ControlError> {
        Ok(match target {
            Target::Job(job) => Scope::Job(Self::find(inner, job)?),
            Target::Subtree(job) => Scope::Subtree(Self::find(inner, job)?),
            Target::Part(name) => {
                Scope::Part(inner.core.find_part(name).ok_or_else(|| ControlError::UnknownPart { name: name.clone() })?)
            }
            Target::Run => Scope::Run,
        })
    }

    /// Pauses, and returns when the running jobs have paused. A running job that reaches no checkpoint in time is cancelled.
    ///
    /// # Errors
    /// If a single job has ended or is unknown; 3003 if a job was cancelled because it did not pause in time.
    pub fn pause(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        let target = target.into();
        self.pause_scope(|inner| Self::scope(inner, &target))
    }

    pub(super) fn pause_scope(
        &self,
        find: impl FnOnce(&super::Inner) -> Result<Scope, ControlError>,
    ) -> Result<(), ControlError> {
        let (scope, asked) = self.shared().section(|inner, now| {
            let scope = find(inner)?;
            Ok((scope, inner.core.pause(now, scope)?))
        })?;
        if asked.is_empty() {
            return Ok(());
        }
        let mut inner = self.shared().wait_for_change(true);
        while asked.iter().any(|&id| {
            inner.core.state(id) == State::Running && inner.core.is_pausing(id) && !inner.core.is_cancelling(id)
        }) {
            inner.wait();
        }
        for &id in &asked {
            if let Some(Cause::PauseTimeout { waited }) = inner.core.cause(id) {
                return Err(ControlError::PauseTimeout { job: inner.core.name(id).into_owned(), waited: *waited });
            }
            let is_over = inner.core.state(id).is_terminal() || inner.core.is_cancelling(id);
            if is_over && matches!(scope, Scope::Job(_)) {
                return Err(inner.core.not_now(id, "pause"));
            }
        }
        Ok(())
    }

    /// Resumes paused jobs. A job that was paused while it ran continues as soon as its CPU slots are free.
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

    /// Cancels. Jobs that do not run have ended when this returns; running jobs are asked to end. Jobs that have ended stay as they are. A closure that returns after it was asked to end counts as cancelled,
    /// whatever it returns.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn cancel(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        self.cancel_for(&target.into(), &Cause::Asked)
    }

    /// As [`cancel`](Self::cancel); the cause of the cancelled jobs is `why` ([`Cause::Stopped`]).
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn cancel_because(&self, target: impl Into<Target>, why: impl Into<String>) -> Result<(), ControlError> {
        self.cancel_for(&target.into(), &Cause::Stopped(why.into()))
    }

    fn cancel_for(&self, target: &Target, cause: &Cause) -> Result<(), ControlError> {
        self.shared().section(|inner, now| {
            let scope = Self::scope(inner, target)?;
            inner.core.cancel_for(now, scope, cause);
            Ok(())
        })
    }

    /// Cancels, and returns when all these jobs have ended. Waits as long as a closure takes to reach a checkpoint.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn cancel_and_wait(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        let target = target.into();
        self.cancel(target.clone())?;
        let scope = Self::scope(&self.shared().lock(), &target)?;
        self.wait_for_members(scope);
        Ok(())
    }

    /// Waits until the jobs that are in the scope now have ended.
    pub(super) fn wait_for_members(&self, scope: Scope) {
        let mut inner = self.shared().wait_for_change(true);
        let members = inner.core.members(scope);
        for id in members {
            while !inner.core.state(id).is_terminal() {
                inner.wait();
            }
        }
    }

    /// Retries a job that failed or was cancelled, together with its failed or cancelled dependencies and the jobs that were cancelled because of it.
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

    /// Why a job waits.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn why(&self, job: impl Into<Needed>) -> Result<Why, ControlError> {
        let job = job.into();
        let (mut why, says) = self.shared().section(|inner, now| {
            let id = Self::find(inner, &job)?;
            Ok((inner.core.why(now, id, inner.progress_of(id)), inner.inside(id)))
        })?;
        if let (Waits::Nothing { inside, .. }, Some(says)) = (&mut why.waits, says) {
            *inside = self.shared().caught.catch(PanicSource::Executor, || says()).ok().flatten();
        }
        Ok(why)
    }

    /// The status of a job.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn status(&self, job: impl Into<Needed>) -> Result<JobStatus, ControlError> {
        let job = job.into();
        self.shared().section(|inner, _| Ok(inner.status(Self::find(inner, &job)?)))
    }

    /// The status of every job, in the order of submission.
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

    /// How often user code panicked outside a job: in observers, executors, neighbours and destructors. No job failed because of it.
    pub fn panics(&self) -> Panics {
        self.shared().caught.panics()
    }

    /// Checks again which jobs can start: to be called when other runs have released something.
    pub fn poke(&self) {
        self.shared().section(|_, _| ());
    }

    /// The time since the scheduler was built. Events use this clock.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.shared().now())
    }

    /// The time of day of a moment on the scheduler's clock, such as those of events and statuses.
    ///
    /// The time of day was read once, when the scheduler was built: this ignores later changes of the system clock.
    pub fn time_of_day(&self, at: Duration) -> SystemTime {
        self.shared().built.checked_add(at).unwrap_or(self.shared().built)
    }

    /// All events from now on.
    pub fn events(&self) -> Events {
        let mut inner = self.shared().lock();
        inner.core.record_events(true);
        inner.feed.listen()
    }

    /// Waits until every job has ended. A job that calls this waits for itself until it is cancelled: use a [`Part`](crate::Part), or another scheduler.
    ///
    /// # Errors
    /// If some did not succeed.
    pub fn wait(&self) -> Result<Summary, RunFailed> {
        self.wait_for(None)
    }

    /// Waits for a part, or for all jobs.
    pub(super) fn wait_for(&self, part: Option<u32>) -> Result<Summary, RunFailed> {
        let mut inner = self.shared().wait_for_change(false);
        while inner.open(part) > 0 {
            inner.wait();
        }
        inner.summary(part)
    }

    /// Waits until every job has ended, but at most that long. `None` after a timeout.
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<Summary, RunFailed>> {
        self.wait_for_timeout(None, time)
    }

    pub(super) fn wait_for_timeout(&self, part: Option<u32>, time: Duration) -> Option<Result<Summary, RunFailed>> {
        let mut inner = self.shared().wait_for_change(false);
        inner.wait_while_timeout(time, |inner| inner.open(part) > 0);
        (inner.open(part) == 0).then(|| inner.summary(part))
    }
}

impl Shared {
    /// Takes the lock for a thread that waits: for the end of all jobs or of a part, or for any change.
    pub(super) fn wait_for_change(&self, wants_any_change: bool) -> ChangeWaiter<'_> {
        let mut inner = self.lock();
        inner.waiting += 1;
        inner.wants_any_change |= wants_any_change;
        ChangeWaiter { shared: self, inner }
    }
}

/// The lock, with its holder counted as waiting until it is dropped, also by a cancellation.
pub(super) struct ChangeWaiter<'a> {
    shared: &'a Shared,
    inner: MutexGuard<'a, super::Inner>,
}

impl ChangeWaiter<'_> {
    pub(super) fn wait(&mut self) {
        self.shared.changed.wait(&mut self.inner);
    }

    fn wait_while_timeout(&mut self, time: Duration, condition: impl FnMut(&mut super::Inner) -> bool) {
        self.shared.changed.wait_while_timeout(&mut self.inner, time, condition);
    }
}

impl core::ops::Deref for ChangeWaiter<'_> {
    type Target = super::Inner;

    fn deref(&self) -> &super::Inner {
        &self.inner
    }
}

impl Drop for ChangeWaiter<'_> {
    fn drop(&mut self) {
        self.inner.waiting -= 1;
        self.inner.wants_any_change &= self.inner.waiting > 0;
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
        if self.tasks.as_ref().is_some_and(OwnedNursery::is_inside) {
            return; // a closure had the last handle: it cannot wait for itself
        }
        let mut waiter = self.shared.wait_for_change(true);
        while waiter.core.open() > 0 || waiter.threads > 0 {
            self.shared.work.notify_all();
            shield(|| waiter.wait());
        }
        drop(waiter);
        let mut inner = self.shared.lock();
        inner.feed.close();
        let works = core::mem::take(&mut inner.works);
        let outputs = core::mem::take(&mut inner.outputs);
        drop(inner);
        // User captures are not dropped under the lock.
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
