//! A job, as a user describes it.
//!
//! Room: interface.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use policy_jobs::{Demand, JobId, JobOptions, Needed, NewJob, Retry, RunsOn};
use sched_tasks::{Budget, Capability, Confinement, NurseryOptions};

use crate::ctx::Ctx;
use crate::error::{Failure, JobError};
use crate::executor::Executor;

/// The number of a job in the core.
#[inline]
pub(crate) const fn number(job: JobId) -> u32 {
    job.index() as u32
}

/// A job that can be submitted.
///
/// ```
/// use sched_jobs::Job;
///
/// let job = Job::new("render").needs("storyboard").priority(10).ram_mb(2_000).vram_mb(6_000).retries(2)
///     .run(|ctx| { ctx.progress(0.5)?; ctx.progress(1.0) });
/// ```
#[must_use = "a job does nothing until it is submitted"]
pub struct Job {
    pub(crate) name: String,
    pub(crate) needs: Vec<Needed>,
    pub(crate) work: Work,
    ram_mb: u64,
    vram_mb: u64,
    cpu_slots: u32,
    priority: i32,
    is_unnamed: bool,
    is_light: bool,
    limits: Option<Box<NurseryOptions>>,
    /// Options that few jobs have; boxed, because builders move their job at every step.
    options: Option<Box<JobOptions>>,
}

/// What a job does.
pub(crate) enum Work {
    /// Nothing: it succeeds at once, which is useful to group dependencies. Also the placeholder while the work is with a worker, and after it.
    Nothing,
    Closure(Box<dyn FnMut(&Ctx<'_>) -> Done + Send>),
    Once(Box<dyn FnOnce(&Ctx<'_>) -> Done + Send>),
    /// A closure that ran once, and cannot again.
    Gone,
    Remote(Box<Remote>),
    /// A closure that runs as a fiber.
    Light(Box<Work>),
    /// A closure with limited rights or a limited budget.
    Limited(Box<(NurseryOptions, Work)>),
}

/// The work of an executor.
pub(crate) struct Remote {
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) work: Arc<dyn Any + Send + Sync>,
    /// The token of an attempt that an earlier process of this program began.
    pub(crate) token: Option<String>,
}

/// How a closure ended: with a value for dependents, if it returned one.
pub(crate) type Done = Result<Option<Arc<dyn Any + Send + Sync>>, Failure>;

impl Job {
    /// A job with that name, without dependencies and without work yet.
    #[inline]
    pub fn new(name: impl Into<String>) -> Self {
        let Demand { cpu_slots, ram_mb, vram_mb, .. } = Demand::default();
        let (name, needs, work) = (name.into(), Vec::new(), Work::Nothing);
        Self {
            name,
            needs,
            work,
            ram_mb,
            vram_mb,
            cpu_slots,
            priority: 0,
            is_unnamed: false,
            is_light: false,
            limits: None,
            options: None,
        }
    }

    /// A job without a name: it is shown by its number, as `#17`, and dependents refer to it by the id that `submit` returned. For graphs of very many small jobs.
    pub fn unnamed() -> Self {
        let mut job = Self::new("");
        job.is_unnamed = true;
        job
    }

    fn options(&mut self) -> &mut JobOptions {
        self.options.get_or_insert_default()
    }

    /// It starts when that job has succeeded, and may read its output.
    #[inline]
    pub fn needs(mut self, job: impl Into<Needed>) -> Self {
        if self.needs.is_empty() {
            self.needs.reserve_exact(3); // most need a few
        }
        self.needs.push(job.into());
        self
    }

    /// It starts when all these have succeeded.
    #[inline]
    pub fn needs_all<N: Into<Needed>>(mut self, jobs: impl IntoIterator<Item = N>) -> Self {
        self.needs.extend(jobs.into_iter().map(Into::into));
        self
    }

    /// Its priority: greater runs first. The default is 0.
    #[inline]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// CPU slots it takes while it runs. The default is 1.
    #[inline]
    pub fn cpu_slots(mut self, slots: u32) -> Self {
        self.cpu_slots = slots;
        self
    }

    /// Memory it takes, in MB. The default is 256.
    #[inline]
    pub fn ram_mb(mut self, mb: u64) -> Self {
        self.ram_mb = mb;
        self
    }

    /// Video memory it takes, in MB, on each of its cards. Without [`gpus`](Self::gpus) it takes one card.
    #[inline]
    pub fn vram_mb(mut self, mb: u64) -> Self {
        self.vram_mb = mb;
        self
    }

    /// Graphics cards it takes. Without [`vram_mb`](Self::vram_mb) it has them for itself.
    pub fn gpus(mut self, count: u32) -> Self {
        self.options().gpus = count;
        self
    }

    /// The amount it takes of a named resource.
    pub fn takes(mut self, resource: impl Into<String>, amount: u64) -> Self {
        self.options().named.push((resource.into(), amount));
        self
    }

    /// Everything it takes at once.
    pub fn demand(mut self, demand: Demand) -> Self {
        let Demand { cpu_slots, ram_mb, vram_mb, gpus, named } = demand;
        (self.cpu_slots, self.ram_mb, self.vram_mb) = (cpu_slots, ram_mb, vram_mb);
        if !named.is_empty() || gpus > 0 || self.options.is_some() {
            (self.options().named, self.options().gpus) = (named, gpus);
        }
        self
    }

    /// How often it is retried after a failure: after one second, two, four…
    pub fn retries(mut self, times: u32) -> Self {
        self.options().retry.times = times;
        self
    }

    /// How often it is retried, and how soon.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options().retry = retry;
        self
    }

    /// An idempotency key: if there is already a job with that key, submitting another one returns the id of the first, and the other is dropped.
    ///
    /// So a program that does not know whether its submit succeeded (it was interrupted, or its own caller asked twice) can submit again.
    /// Only the key is compared: a different name, different dependencies or different work do not matter. The first job is also returned after it has ended, with or without
    /// success; [`Jobs::retry`](crate::Jobs::retry) retries it. It stays in the part it was submitted through. Keys are known as long as the scheduler lives.
    ///
    /// In a batch whose jobs refer to each other by number ([`JobId::from_index`]), only new jobs have numbers. References by name always work.
    ///
    /// ```
    /// use sched_jobs::{Job, Jobs};
    ///
    /// let jobs = Jobs::builder().build();
    /// let bill = || Job::new("bill").key("order-4711").run(|_| println!("sent once"));
    /// let first = jobs.submit(bill())?;
    /// jobs.wait()?;
    /// assert_eq!(jobs.submit(bill())?, first);
    /// assert_eq!(jobs.find_key("order-4711"), Some(first));
    /// assert_eq!(jobs.wait()?.succeeded, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.options().key = Some(key.into());
        self
    }

    /// How long it is expected to run. `why` uses it to say when other jobs may start.
    pub fn expected(mut self, time: Duration) -> Self {
        self.options().expected = Some(time);
        self
    }

    /// It succeeded in an earlier process of this run: it counts as succeeded, and does not run.
    pub fn already_done(mut self) -> Self {
        self.options().done = true;
        self
    }

    /// Attempts that were made in an earlier process of this run.
    pub fn attempts_made(mut self, attempts: u32) -> Self {
        self.options().attempts = attempts;
        self
    }

    /// Its closure. It is called again if the job is retried. What the closure may return: see [`Returns`].
    ///
    /// A closure that uses `?` is easier to write with [`try_run`](Self::try_run), which knows the type of its error.
    #[inline]
    pub fn run<R: Returns>(mut self, mut work: impl FnMut(&Ctx<'_>) -> R + Send + 'static) -> Self {
        // A closure has no more rights than its submitter.
        self.work = Work::Closure(match Confinement::here() {
            None => Box::new(move |ctx| work(ctx).done()),
            Some(limits) => Box::new(move |ctx| limits.enter(|| work(ctx)).done()),
        });
        self
    }

    /// As [`run`](Self::run), for a closure that may fail with any error, or returns a value of a type of its own.
    ///
    /// ```
    /// use sched_jobs::{Job, Jobs};
    ///
    /// struct Scene(u16);
    ///
    /// let jobs = Jobs::builder().build();
    /// jobs.submit_all([
    ///     Job::new("number").run(|_| "12"),
    ///     Job::new("scene").needs("number").try_run(|ctx| Ok(Scene(ctx.input::<&str>("number")?.parse()?))),
    ///     Job::new("render").needs("scene").try_run(|ctx| {
    ///         let Scene(number) = *ctx.input("scene")?;
    ///         ctx.progress(0.5)?;
    ///         Ok(assert_eq!(number, 12))
    ///     }),
    /// ])?;
    /// assert_eq!(jobs.wait()?.succeeded, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_run<T: Send + Sync + 'static>(
        self,
        work: impl FnMut(&Ctx<'_>) -> Result<T, JobError> + Send + 'static,
    ) -> Self {
        self.run(work)
    }

    /// As [`run_once`](Self::run_once), for a closure that may fail with any error, or returns a value of a type of its own.
    #[inline]
    pub fn try_run_once<T: Send + Sync + 'static>(
        self,
        work: impl FnOnce(&Ctx<'_>) -> Result<T, JobError> + Send + 'static,
    ) -> Self {
        self.run_once(work)
    }

    /// Its closure, which runs only once: for closures that move their captures. The job cannot be retried.
    #[inline]
    pub fn run_once<R: Returns>(mut self, work: impl FnOnce(&Ctx<'_>) -> R + Send + 'static) -> Self {
        self.work = Work::Once(match Confinement::here() {
            None => Box::new(move |ctx| work(ctx).done()),
            Some(limits) => Box::new(move |ctx| limits.enter(|| work(ctx)).done()),
        });
        self
    }

    /// Its closure runs as a fiber, not on a thread of its own: for a closure that mostly waits, in operations of tasks. Thousands of them may wait at a time. CPU slots and all other
    /// limits apply to it, so give it [`cpu_slots(0)`](Self::cpu_slots) if it takes none. It must not block its thread, which other fibers use.
    ///
    /// ```
    /// use sched_jobs::{Job, Jobs};
    /// use std::time::Duration;
    ///
    /// let jobs = Jobs::builder().cpu_slots(2).build();
    /// let naps = (0..1000).map(|_| Job::unnamed().light().cpu_slots(0).ram_mb(0).run(|_| sched_tasks::sleep(Duration::from_millis(20))));
    /// jobs.submit_all(naps)?;
    /// jobs.wait()?; // after some 20 ms
    /// assert!(jobs.now() < Duration::from_secs(15));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn light(mut self) -> Self {
        self.is_light = true;
        self
    }

    /// Its work, as the scheduler stores it.
    pub(crate) fn take_work(&mut self) -> Work {
        let mut work = core::mem::replace(&mut self.work, Work::Nothing);
        if !matches!(work, Work::Closure(_) | Work::Once(_)) {
            return work;
        }
        if let Some(limits) = self.limits.take() {
            work = Work::Limited(Box::new((*limits, work)));
        }
        if self.is_light { Work::Light(Box::new(work)) } else { work }
    }

    /// The budget of its closure and all tasks that it starts; an attempt that spends more fails. Each attempt has the whole budget. Has no effect for a command.
    ///
    /// ```
    /// use sched_jobs::{Job, Jobs};
    /// use sched_tasks::{Budget, checkpoint};
    ///
    /// let jobs = Jobs::builder().build();
    /// jobs.submit(Job::new("plugin").budget(Budget::ops(10_000)).run(|_| -> () { loop { checkpoint() } }))?;
    /// let failed = jobs.wait().unwrap_err();
    /// assert!(failed.to_string().contains("BudgetExhausted"), "{failed}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn budget(mut self, budget: Budget) -> Self {
        let with_itself = budget.spawns(budget.spawns.saturating_add(1)); // the closure is a task, too
        self.limit(|limits| limits.budget(with_itself).task_budget(budget));
        self
    }

    /// Gives its closure a capability: the closure may do what the capability allows, and no more than its submitter may. The closure counts as one of the tasks that the capability allows.
    pub fn capability(mut self, capability: &impl Capability) -> Self {
        self.limit(|limits| limits.capability(capability));
        self
    }

    fn limit(&mut self, limit: impl FnOnce(NurseryOptions) -> NurseryOptions) {
        let limits = self.limits.take().map_or_else(|| NurseryOptions::new().name("job"), |limits| *limits);
        self.limits = Some(Box::new(limit(limits)));
    }

    /// The job is run by an executor, which gets `work`.
    pub fn execute(mut self, executor: Arc<dyn Executor>, work: Arc<dyn Any + Send + Sync>) -> Self {
        self.work = Work::Remote(Box::new(Remote { executor, work, token: None }));
        self
    }

    /// An earlier process of this run began an attempt with an executor, under this token: the next attempt looks for it.
    ///
    /// Has an effect only after [`execute`](Self::execute).
    pub fn found(mut self, token: impl Into<String>) -> Self {
        if let Work::Remote(remote) = &mut self.work {
            remote.token = Some(token.into());
        }
        self
    }

    /// With [`found`](Self::found): the ids of the cards that its processes use. It gets them again if they are free.
    pub fn was_on<I: Into<String>>(mut self, gpus: impl IntoIterator<Item = I>) -> Self {
        self.options().was_on = gpus.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn retries_asked(&self) -> u32 {
        self.options.as_ref().map_or(0, |options| options.retry.times)
    }

    #[inline]
    pub(crate) fn as_new(&self) -> NewJob<'_> {
        NewJob {
            name: &self.name,
            is_unnamed: self.is_unnamed,
            needs: &self.needs,
            cpu_slots: self.cpu_slots,
            ram_mb: self.ram_mb,
            vram_mb: self.vram_mb,
            priority: self.priority,
            runs_on: match self.work {
                Work::Remote(_) => RunsOn::Executor,
                Work::Closure(_) | Work::Once(_) if self.is_light => RunsOn::Fiber,
                _ => RunsOn::Worker,
            },
            options: self.options.as_deref(),
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("needs", &self.needs).finish_non_exhaustive()
    }
}

/// What the closure of a job may return: nothing, a value of a type of the standard library, or a [`Result`] with any value and any error. It may also never return.
///
/// A value becomes the job's output, which dependents read with [`Ctx::input`]. A value of another type is returned as `Ok(value)`, by [`Job::try_run`].
pub trait Returns {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn done(self) -> Done;
}

impl Returns for () {
    #[allow(private_interfaces)]
    fn done(self) -> Done {
        Ok(None)
    }
}

/// The type of what never returns, as `panic!()`: stable Rust has no name for it.
type Never = <fn() -> ! as Output>::Type;

trait Output {
    type Type;
}

impl<R> Output for fn() -> R {
    type Type = R;
}

impl Returns for Never {
    #[allow(private_interfaces)]
    fn done(self) -> Done {
        self
    }
}

/// For types whose values are outputs. One impl for all types would overlap with that for [`Result`].
macro_rules! values {
    ($([$($generics:tt)*] $type:ty;)+) => {$(
        impl<$($generics)*> Returns for $type
        where
            Self: Send + Sync + 'static,
        {
            #[allow(private_interfaces)]
            fn done(self) -> Done {
                Ok(Some(Arc::new(self)))
            }
        }
    )+};
}

values! {
    [] bool; [] char; [] f32; [] f64;
    [] u8; [] u16; [] u32; [] u64; [] u128; [] usize;
    [] i8; [] i16; [] i32; [] i64; [] i128; [] isize;
    [] String; [] &'static str; [] std::ffi::OsString; [] std::path::PathBuf; [] Duration; [] std::time::SystemTime;
    [T] Vec<T>; [T] std::collections::VecDeque<T>; [T] Box<T>; [T] Arc<T>; [T] Option<T>; [T, const N: usize] [T; N];
    [K, V] std::collections::BTreeMap<K, V>; [K, V, S] std::collections::HashMap<K, V, S>;
    [T] std::collections::BTreeSet<T>; [T, S] std::collections::HashSet<T, S>;
    [A, B] (A, B); [A, B, C] (A, B, C); [A, B, C, D] (A, B, C, D);
}

impl<T: Send + Sync + 'static, E: Into<JobError>> Returns for Result<T, E> {
    #[allow(private_interfaces)]
    fn done(self) -> Done {
        match self {
            // Most jobs return `()`, which is not stored as an output.
            Ok(_) if core::any::TypeId::of::<T>() == core::any::TypeId::of::<()>() => Ok(None),
            Ok(value) => Ok(Some(Arc::new(value))),
            Err(error) => Err(error.into().failure()),
        }
    }
}
