//! What users hold: a scheduler of jobs.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use sched_tasks::{MutexGuard, NurseryOptions, OnFailure, OwnedNursery, shield};

use policy_jobs::{Cause, ControlError, JobId, Needed, Rules, Scope, State, SubmitError, Usage, Waits, Why};

use super::panics::Whose;
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
/// A clone is another handle on the same scheduler. When the last is dropped, whatever has not ended is cancelled, and
/// the drop returns when nothing runs any more.
#[derive(Clone)]
pub struct Jobs {
    pub(super) owner: Arc<Owner>,
}

pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
    /// Workers and clock; none if the common runtime could not be started. Dropped last.
    tasks: Option<OwnedNursery>,
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
    pub fn observe(mut self, observer: impl FnMut(&crate::Event, super::Facts<'_>) + Send + 'static) -> Self {
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

    /// The scheduler. It belongs to the runtime of the caller's task, or to the common one; in a [seeded](sched_tasks::Builder::seeded) run the seed decides it. Threads start with the first job.
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
        // Closures are confined to what their submitter may; the workers themselves are the scheduler's.
        let options = NurseryOptions::new().name("jobs").on_failure(OnFailure::WaitAll);
        let tasks = OwnedNursery::of_scheduler(options);
        let spawner = tasks.as_ref().map(OwnedNursery::spawner).map_err(Clone::clone);
        let shared = Shared::new(rules, self.observer, self.neighbours, spawner);
        Jobs { owner: Arc::new(Owner { shared, tasks: tasks.ok() }) }
    }
}

/// Whom a request is about: a job by name or number, everything below one, a part, or the whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// One job.
    Job(Needed),
    /// A job and everything that needs it, directly or not.
    Subtree(Needed),
    /// The jobs that were submitted through the [part](crate::Part) of that name.
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

    /// Takes a job. What it needs must have been submitted.
    ///
    /// # Errors
    /// If it cannot be taken. Then it left no trace.
    pub fn submit(&self, job: Job) -> Result<JobId, SubmitError> {
        self.submit_to(None, job)
    }

    #[inline]
    pub(super) fn submit_to(&self, part: Option<u32>, job: Job) -> Result<JobId, SubmitError> {
        self.shared().submit(part, core::iter::once(job)).map(|taken| taken.id())
    }

    /// Takes a workflow: all jobs, or none. They may need each other in any order, by name. Nothing starts before the last is there.
    ///
    /// # Errors
    /// If one cannot be taken, or they need each other in a circle. Then none left a trace.
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

    /// The job that was submitted with that [key](Job::key).
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

    /// Pauses, and returns when what ran stands still. A running job that reaches no checkpoint in time is cancelled.
    ///
    /// # Errors
    /// If a single job has ended or is unknown; 3003 if a job was cancelled for not standing still.
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
        let mut inner = self.shared().wait_for_news(true);
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

    /// Cancels. What does not run has ended when this returns; what runs was asked to. What has ended stays as it is; a closure that returns after it was asked to end counts as cancelled,
    /// whatever it returns.
    ///
    /// # Errors
    /// If the job is unknown.
    pub fn cancel(&self, target: impl Into<Target>) -> Result<(), ControlError> {
        self.cancel_for(&target.into(), &Cause::Asked)
    }

    /// Cancels as [`cancel`](Self::cancel) does; of the jobs that end for it, `why` is said ([`Cause::Stopped`]).
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

    /// Cancels, and returns when everything it is about has ended. Waits as long as a closure takes to reach a checkpoint.
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

    /// Waits until whatever is meant now has ended.
    pub(super) fn wait_for_members(&self, scope: Scope) {
        let mut inner = self.shared().wait_for_news(true);
        let members = inner.core.members(scope);
        for id in members {
            while !inner.core.state(id).is_terminal() {
                inner.wait();
            }
        }
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
        let (mut why, says) = self.shared().section(|inner, now| {
            let id = Self::find(inner, &job)?;
            Ok((inner.core.why(now, id, inner.progress_of(id)), inner.inside(id)))
        })?;
        if let (Waits::Nothing { inside, .. }, Some(says)) = (&mut why.waits, says) {
            *inside = self.shared().caught.catch(Whose::Executor, || says()).ok().flatten();
        }
        Ok(why)
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

    /// The time of day of a moment on the scheduler's clock, such as those of events and statuses.
    ///
    /// The time of day was looked at once, when the scheduler was built: if the system's clock was set since, this does not follow.
    pub fn time_of_day(&self, at: Duration) -> SystemTime {
        self.shared().built.checked_add(at).unwrap_or(self.shared().built)
    }

    /// All events from now on.
    pub fn events(&self) -> Events {
        let mut inner = self.shared().lock();
        inner.core.watch(true);
        inner.feed.listen()
    }

    /// Waits until every job has ended. A job that calls this waits for itself, unless somebody cancels it: use a [`Part`](crate::Part), or another scheduler.
    ///
    /// # Errors
    /// If some did not succeed.
    pub fn wait(&self) -> Result<Summary, RunFailed> {
        self.wait_for(None)
    }

    /// Waits for a part, or for all.
    pub(super) fn wait_for(&self, part: Option<u32>) -> Result<Summary, RunFailed> {
        let mut inner = self.shared().wait_for_news(false);
        while inner.open(part) > 0 {
            inner.wait();
        }
        inner.summary(part)
    }

    /// Waits until every job has ended, but not longer than that. `None` if time ran out.
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<Summary, RunFailed>> {
        self.wait_for_timeout(None, time)
    }

    pub(super) fn wait_for_timeout(&self, part: Option<u32>, time: Duration) -> Option<Result<Summary, RunFailed>> {
        let mut inner = self.shared().wait_for_news(false);
        inner.wait_while_timeout(time, |inner| inner.open(part) > 0);
        (inner.open(part) == 0).then(|| inner.summary(part))
    }
}

impl Shared {
    /// The lock, for one who waits for something to happen: for the end of all jobs or of a part, or, if it is curious, for any change.
    pub(super) fn wait_for_news(&self, is_curious: bool) -> News<'_> {
        let mut inner = self.lock();
        inner.waiting += 1;
        inner.is_curious |= is_curious;
        News { shared: self, inner }
    }
}

/// The lock, and that its holder waits for news: also if a cancellation ends that.
pub(super) struct News<'a> {
    shared: &'a Shared,
    inner: MutexGuard<'a, super::Inner>,
}

impl News<'_> {
    pub(super) fn wait(&mut self) {
        self.shared.news.wait(&mut self.inner);
    }

    fn wait_while_timeout(&mut self, time: Duration, condition: impl FnMut(&mut super::Inner) -> bool) {
        self.shared.news.wait_while_timeout(&mut self.inner, time, condition);
    }
}

impl core::ops::Deref for News<'_> {
    type Target = super::Inner;

    fn deref(&self) -> &super::Inner {
        &self.inner
    }
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        self.inner.waiting -= 1;
        self.inner.is_curious &= self.inner.waiting > 0;
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
            return; // a closure held the last handle: it cannot wait for itself
        }
        let mut news = self.shared.wait_for_news(true);
        while news.core.open() > 0 || news.threads > 0 {
            self.shared.work.notify_all();
            shield(|| news.wait());
        }
        drop(news);
        let mut inner = self.shared.lock();
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
