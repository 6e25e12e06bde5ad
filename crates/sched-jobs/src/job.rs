//! A job, as a user describes it.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use policy_jobs::{Demand, JobId, Needed, NewJob, On, Rare, Retry};
use sched_tasks::{Budget, Capability, Confinement, NurseryOptions};

use crate::ctx::Ctx;
use crate::error::{Failure, JobError};
use crate::executor::Executor;

/// The number of a job, as the decisions count.
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
    /// What few jobs have; apart, because builders move their job at every step.
    rare: Option<Box<Rare>>,
}

/// What a job does.
pub(crate) enum Work {
    /// Nothing: it succeeds at once, which is useful to bundle dependencies. Or it is being done, or was.
    Nothing,
    Closure(Box<dyn FnMut(&Ctx<'_>) -> Done + Send>),
    Once(Box<dyn FnOnce(&Ctx<'_>) -> Done + Send>),
    /// A closure that ran once, and cannot again.
    Gone,
    Remote(Box<Remote>),
    /// A closure that runs as a fiber.
    Light(Box<Work>),
    /// A closure that may not do or spend everything.
    Limited(Box<(NurseryOptions, Work)>),
}

/// What an executor does.
pub(crate) struct Remote {
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) work: Arc<dyn Any + Send + Sync>,
    /// What an earlier life of this program was told about it.
    pub(crate) token: Option<String>,
}

/// How a closure ended: with a value for dependents, if it made one.
pub(crate) type Done = Result<Option<Arc<dyn Any + Send + Sync>>, Failure>;

impl Job {
    /// A job of that name, which needs nothing and does nothing yet.
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
            rare: None,
        }
    }

    /// A job without a name: it is called by its number, as `#17`, and needed by what `submit` returned. For graphs of very many small jobs.
    pub fn unnamed() -> Self {
        let mut job = Self::new("");
        job.is_unnamed = true;
        job
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
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

    /// Greater runs first. 0 unless said otherwise.
    #[inline]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// CPU slots it takes while it runs: 1 unless said otherwise.
    #[inline]
    pub fn cpu_slots(mut self, slots: u32) -> Self {
        self.cpu_slots = slots;
        self
    }

    /// Memory it takes, in MB: 256 unless said otherwise.
    #[inline]
    pub fn ram_mb(mut self, mb: u64) -> Self {
        self.ram_mb = mb;
        self
    }

    /// Video memory it takes, in MB, on each of its cards: on one, unless [`gpus`](Self::gpus) says otherwise.
    #[inline]
    pub fn vram_mb(mut self, mb: u64) -> Self {
        self.vram_mb = mb;
        self
    }

    /// Graphics cards it takes. Without [`vram_mb`](Self::vram_mb) no other job is on them.
    pub fn gpus(mut self, count: u32) -> Self {
        self.rare().gpus = count;
        self
    }

    /// So much of a named resource.
    pub fn takes(mut self, resource: impl Into<String>, amount: u64) -> Self {
        self.rare().named.push((resource.into(), amount));
        self
    }

    /// Everything it takes at once.
    pub fn demand(mut self, demand: Demand) -> Self {
        let Demand { cpu_slots, ram_mb, vram_mb, gpus, named } = demand;
        (self.cpu_slots, self.ram_mb, self.vram_mb) = (cpu_slots, ram_mb, vram_mb);
        if !named.is_empty() || gpus > 0 || self.rare.is_some() {
            (self.rare().named, self.rare().gpus) = (named, gpus);
        }
        self
    }

    /// If it fails it is tried again so often, after one second, two, four…
    pub fn retries(mut self, times: u32) -> Self {
        self.rare().retry.times = times;
        self
    }

    /// How often it is tried again, and how soon.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.rare().retry = retry;
        self
    }

    /// What it is known by, so that it can be submitted again without running twice: if there is a job of that key, submitting another returns the id of the first, and the other is dropped.
    ///
    /// So a program that does not know whether its submit was heard (it was interrupted, or its own caller asked twice) submits again.
    /// Only the key is compared: if the other has a different name, different needs or does something else, the first is still the one. It is also if it has ended, well
    /// or badly; [`Jobs::retry`](crate::Jobs::retry) tries it again. It stays in the part it was submitted through. Keys are known as long as the scheduler lives.
    ///
    /// In a batch whose jobs need each other by number ([`JobId::from_index`]), only jobs that are taken have numbers; by name there is nothing to mind.
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
        self.rare().key = Some(key.into());
        self
    }

    /// How long it probably runs: `why` then knows when others may start.
    pub fn expected(mut self, time: Duration) -> Self {
        self.rare().expected = Some(time);
        self
    }

    /// It succeeded in an earlier life of this run: it counts as done, and does not run.
    pub fn already_done(mut self) -> Self {
        self.rare().done = true;
        self
    }

    /// Attempts that an earlier life of this run made.
    pub fn attempts_made(mut self, attempts: u32) -> Self {
        self.rare().attempts = attempts;
        self
    }

    /// What it does. Called again if it is retried. What the closure may return: see [`Returns`].
    ///
    /// A closure that uses `?` is easier to write with [`try_run`](Self::try_run), which knows the type of its error.
    #[inline]
    pub fn run<R: Returns>(mut self, mut work: impl FnMut(&Ctx<'_>) -> R + Send + 'static) -> Self {
        // Who may not do everything may not have it done either.
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

    /// What it does, once: for closures that give away what they hold. Cannot be retried.
    #[inline]
    pub fn run_once<R: Returns>(mut self, work: impl FnOnce(&Ctx<'_>) -> R + Send + 'static) -> Self {
        self.work = Work::Once(match Confinement::here() {
            None => Box::new(move |ctx| work(ctx).done()),
            Some(limits) => Box::new(move |ctx| limits.enter(|| work(ctx)).done()),
        });
        self
    }

    /// Its closure runs as a fiber, not on a thread of its own: for one that mostly waits, in operations of tasks. Thousands of them may wait at a time; CPU slots and all other
    /// limits count them like others, so give it [`cpu_slots(0)`](Self::cpu_slots) if it takes none. It must not block its thread, which other fibers use.
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

    /// What it does, as the scheduler keeps it.
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

    /// What its closure may spend, with all tasks it starts; an attempt that spends more fails. Each attempt has the whole. Of a command it says nothing.
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

    /// Gives its closure a capability: what it may do is what that allows, and no more than its submitter may. The closure counts as one of the tasks that the capability allows.
    pub fn capability(mut self, capability: &impl Capability) -> Self {
        self.limit(|limits| limits.capability(capability));
        self
    }

    fn limit(&mut self, limit: impl FnOnce(NurseryOptions) -> NurseryOptions) {
        let limits = self.limits.take().map_or_else(|| NurseryOptions::new().name("job"), |limits| *limits);
        self.limits = Some(Box::new(limit(limits)));
    }

    /// Has it carried out by an executor, which is told `work`.
    pub fn execute(mut self, executor: Arc<dyn Executor>, work: Arc<dyn Any + Send + Sync>) -> Self {
        self.work = Work::Remote(Box::new(Remote { executor, work, token: None }));
        self
    }

    /// An earlier life of this run began it by an executor and was told this token: its next attempt is to find it again.
    ///
    /// Has an effect only after [`execute`](Self::execute).
    pub fn found(mut self, token: impl Into<String>) -> Self {
        if let Work::Remote(remote) = &mut self.work {
            remote.token = Some(token.into());
        }
        self
    }

    /// With [`found`](Self::found): the cards that its processes see, by their ids. It gets them again if they are free.
    pub fn was_on<I: Into<String>>(mut self, gpus: impl IntoIterator<Item = I>) -> Self {
        self.rare().was_on = gpus.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn retries_asked(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.retry.times)
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
            on: match self.work {
                Work::Remote(_) => On::Executor,
                Work::Closure(_) | Work::Once(_) if self.is_light => On::Fiber,
                _ => On::Worker,
            },
            rare: self.rare.as_deref(),
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
            // Most jobs return `()`, which nobody wants to read.
            Ok(_) if core::any::TypeId::of::<T>() == core::any::TypeId::of::<()>() => Ok(None),
            Ok(value) => Ok(Some(Arc::new(value))),
            Err(error) => Err(error.into().failure()),
        }
    }
}
