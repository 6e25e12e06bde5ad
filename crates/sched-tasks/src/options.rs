//! What a nursery is to be like.
//!
//! Room: values.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use policy_admission::{Profile, service::CpuProfile};
use policy_cpu::Weight;
use vocab::Budget;

use crate::{
    authority::{Authority, Capability},
    budget::{Answer, Exhausted, Handler, Recharge},
    context::Context,
};

/// The largest weight.
pub(crate) const WEIGHT_MAX: u32 = 1_000;

/// What a nursery does when a child fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// Cancels the other children.
    #[default]
    CancelSiblings,
    /// Lets them finish.
    WaitAll,
}

/// What was said about the CPU time of a nursery.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuOptions {
    /// In 1024ths of that of a normal task.
    pub(crate) weight: Option<u32>,
    /// As a CPU's scheduler has it, in nanoseconds.
    pub(crate) slice: Option<u64>,
    pub(crate) context: Option<Context>,
}

/// What a nursery is to be like. The default is what [`nursery`](crate::nursery) opens.
#[derive(Clone)]
pub struct NurseryOptions {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) on_failure: OnFailure,
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) grace: Option<Duration>,
    pub(crate) spawn_limit: Option<u64>,
    pub(crate) budget: Option<Budget>,
    pub(crate) task_budget: Option<Budget>,
    pub(crate) period: Option<Duration>,
    pub(crate) recharge: Option<Recharge>,
    pub(crate) on_exhausted: Option<Handler>,
    pub(crate) authority: Authority,
    /// What was said about CPU time. Boxed: options are passed by value, on stacks that may be almost used up.
    pub(crate) cpu: Option<Box<CpuOptions>>,
    /// Its owner is a supervisor, which acts for the nursery it was started in.
    pub(crate) supervises: bool,
}

impl Default for NurseryOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl NurseryOptions {
    pub(crate) const DEFAULT: Self = Self {
        name: None,
        on_failure: OnFailure::CancelSiblings,
        timeout: None,
        deadline: None,
        grace: None,
        spawn_limit: None,
        budget: None,
        task_budget: None,
        period: None,
        recharge: None,
        on_exhausted: None,
        authority: Authority::NONE,
        cpu: None,
        supervises: false,
    };

    /// Cancels its children when one fails; no deadline, no limit.
    pub fn new() -> Self {
        Self::DEFAULT
    }

    /// A name for messages.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What to do when a child fails.
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }

    /// Cancels everything in it after this time, counted from its beginning. Said twice, the shorter time counts; see [`Nursery::timeout`](crate::Nursery::timeout).
    pub fn timeout(mut self, after: Duration) -> Self {
        self.timeout = Some(self.timeout.map_or(after, |before| before.min(after)));
        self
    }

    /// Cancels everything in it at this time, of [`now`](crate::now). Said twice, the earlier time counts; see [`Nursery::deadline`](crate::Nursery::deadline).
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::{NurseryOptions, Reason, now, nursery_with, sleep};
    ///
    /// let at = now() + Duration::from_millis(20); // one for both
    /// for _ in 0..2 {
    ///     let outcome = nursery_with(NurseryOptions::new().deadline(at), |n| n.spawn(|| sleep(Duration::from_secs(60))).join());
    ///     assert!(matches!(outcome.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
    /// }
    /// ```
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(self.deadline.map_or(at, |before| before.min(at)));
        self
    }

    /// How long children may go on after a cancellation before it interrupts them. Meanwhile [`is_cancelled`](crate::is_cancelled) is true for them.
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = Some(time);
        self
    }

    /// How many tasks may be spawned into it in all.
    pub fn spawn_limit(mut self, tasks: u64) -> Self {
        self.spawn_limit = Some(tasks);
        self
    }

    /// What its tasks may spend in all. If the caller has a budget itself, this comes out of it, and is no more than it has; what is not spent goes back when
    /// the nursery ends.
    ///
    /// Each task gets a share, by default up to 10,000 operations, 1 MiB, no spawns, 100 channel operations and 10 calls of the system, but not more than leaves
    /// half of it all when as many as may be spawned wait at the same time, and another when that is spent; see [`task_budget`](Self::task_budget) and [`recharge`](Self::recharge).
    ///
    /// ```
    /// use bursar::{Budget, NurseryOptions, budget::charge, nursery_with};
    ///
    /// let options = NurseryOptions::new().name("plugin-7").budget(Budget::ops(1_000_000).spawns(10));
    /// let outcome = nursery_with(options, |n| n.spawn(|| loop { charge(1) }).join());
    /// let error: Result<(), _> = outcome;
    /// assert!(error.unwrap_err().to_string().contains("ops"));
    /// ```
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// What each of its tasks may spend; what a task does not spend goes back into the pool. Unless [`recharge`](Self::recharge) says otherwise, this is the
    /// limit: there is no second share.
    pub fn task_budget(mut self, budget: Budget) -> Self {
        self.task_budget = Some(budget);
        self
    }

    /// The [`budget`](Self::budget) is there again after every `period`: what was not spent is not saved, and memory comes back only when it is freed. Tasks
    /// that have spent theirs wait for the next period. If the caller has a budget itself, every period comes out of it.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = Some(period);
        self
    }

    /// Whether tasks that have spent their share get another from the pool. Default: yes, unless there is a [`task_budget`](Self::task_budget).
    pub fn recharge(mut self, policy: Recharge) -> Self {
        self.recharge = Some(policy);
        self
    }

    /// Asks `handler` about every task that has spent its budget and gets no more from the pool. It is called on the exhausted task, and should be quick; for answers
    /// that take time see [`Nursery::budget_supervisor`](crate::Nursery::budget_supervisor). What it spends it spends
    /// as that task, which has little: no handler is asked about that.
    pub fn on_exhausted(mut self, handler: impl Fn(&Exhausted) -> Answer + Send + Sync + 'static) -> Self {
        self.on_exhausted = Some(Arc::new(handler));
        self
    }

    /// Makes its tasks a group with a share of CPU time of its own: `weight` times that of the tasks which are in no group, 1 to 1,000. Groups share the workers by their weights,
    /// however many tasks each of them has; a group that has nothing to run leaves its share to the others.
    ///
    /// Inside a nursery that has a weight this divides what that one has: no task gets more by opening nurseries. Groups are seven levels deep at most; deeper ones are part of the
    /// one around them. Only workers are shared so: threads of [`unblock`](crate::unblock) and of thread tasks are scheduled by the system.
    ///
    /// ```
    /// use bursar::{NurseryOptions, Runtime, nursery, nursery_with, yield_now};
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.run(|| {
    ///     nursery(|n| {
    ///         n.spawn(|| nursery_with(NurseryOptions::new().name("small").weight(1), |n| n.spawn(|| yield_now()).join()));
    ///         n.spawn(|| nursery_with(NurseryOptions::new().name("large").weight(4), |n| n.spawn(|| yield_now()).join()));
    ///         Ok(())
    ///     })
    /// })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn weight(mut self, weight: u32) -> Self {
        self.cpu_mut().weight = Some(weight.clamp(1, WEIGHT_MAX) * Weight::NORMAL.get());
        self
    }

    /// Gives its tasks the weight, the slice and the reserved time of a profile, as an operator's policy says for a name or a hint; see `bursar::policy`. What the policy says later
    /// counts for nurseries that are opened later.
    ///
    /// ```
    /// # #[cfg(feature = "policy")] {
    /// use bursar::{NurseryOptions, nursery_with, policy::{CpuProfile, Hint, PolicyHandle, PolicySet}};
    ///
    /// let mut background = CpuProfile::new("background");
    /// background.weight = 256; // a quarter of what a normal task has
    /// let mut set = PolicySet::new(CpuProfile::new("normal"));
    /// set.profiles.push(background);
    /// set.hints.push((Hint::Batch, "background".into()));
    /// let policy = PolicyHandle::fixed(set)?; // or that of a `PolicyClient`
    ///
    /// let options = NurseryOptions::new().name("index").cpu_profile(&policy.hint(Hint::Batch));
    /// nursery_with(options, |n| n.spawn(|| ()).join())?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu_profile(mut self, profile: &CpuProfile) -> Self {
        let cpu = self.cpu_mut();
        cpu.weight = Some(profile.weight.clamp(Weight::MIN, Weight::MAX));
        cpu.slice = Some(profile.slice);
        if let Some(reserve) = &profile.reserve {
            cpu.context = Some(Context::of(reserve));
        }
        self
    }

    /// Gives its tasks so much CPU time in each period, all of them together, and no more. They are a group, as with a [`weight`](Self::weight).
    ///
    /// Outside of groups the time is reserved: while some is left, its tasks go before all that have no context, the earliest deadline first. So it has to be admitted: the nursery does not open if the
    /// workers cannot promise that much. Inside a group it is a limit only, and nothing is promised: no tenant reserves time by itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::{NurseryOptions, cpu::Context, nursery_with};
    ///
    /// let control = Context::budget(Duration::from_micros(500)).period(Duration::from_millis(10));
    /// nursery_with(NurseryOptions::new().name("control").context(control), |n| n.spawn(|| ()).join())?;
    ///
    /// let too_much = Context::budget(Duration::from_secs(1)).period(Duration::from_secs(1));
    /// let refused = nursery_with(NurseryOptions::new().name("greedy").context(too_much), |_| Ok(())).unwrap_err();
    /// assert!(refused.to_string().contains("greedy: the context needs 1 s in every 1 s"), "{refused}");
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn context(mut self, context: Context) -> Self {
        self.cpu_mut().context = Some(context);
        self
    }

    fn cpu_mut(&mut self) -> &mut CpuOptions {
        self.cpu.get_or_insert_with(Box::default)
    }

    /// Gives its tasks a capability: to spawn (`Cap<CapSpawn>`: so many at a time, each with so much to spend), to recharge themselves (`Cap<CapBudget>`), to open
    /// channels (`Cap<CapChannel>`). What is not given they have from the nursery around it. All nurseries with the same capability to spawn share its
    /// [`weight`](policy_admission::CapSpawn::weight), if it has one; a [`weight`](Self::weight) of the nursery divides that.
    ///
    /// ```
    /// use bursar::{Budget, NurseryOptions, Reason, budget::charge, capability::{CapSpawn, Ledger}, nursery_with};
    ///
    /// let root = Ledger::new().grant(CapSpawn::new());
    /// let tenant = root.attenuate(CapSpawn::new().max_tasks(2).task_budget(Budget::ops(1_000)))?;
    /// let options = NurseryOptions::new().name("plugin-7").capability(&tenant);
    /// let verdict = nursery_with(options, |n| n.spawn(|| loop { charge(1) }).join());
    /// let error: Result<(), _> = verdict;
    /// assert!(matches!(error.unwrap_err().reason(), Reason::BudgetExhausted { granted: 1_000, .. }));
    ///
    /// tenant.revoke();
    /// let verdict = nursery_with(NurseryOptions::new().capability(&tenant), |n| n.spawn(|| ()).join());
    /// assert!(matches!(verdict.unwrap_err().reason(), Reason::NotAllowed(_)));
    /// # Ok::<(), bursar::capability::CapError>(())
    /// ```
    pub fn capability(mut self, capability: &impl Capability) -> Self {
        capability.lend(&mut self.authority);
        self
    }

    /// Those of the nursery of a root: it is the program, and gets all that the profile grants; its children get their shares of that.
    pub(crate) fn of_root(profile: Option<Profile>) -> Self {
        let Some(pool) = profile.map(|profile| profile.pool()) else { return Self::new() };
        let with_root = pool.spawns(pool.spawns.saturating_add(1));
        Self::new().task_budget(pool).budget(with_root).spawn_limit(1)
    }
}

impl fmt::Debug for NurseryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NurseryOptions")
            .field("name", &self.name)
            .field("on_failure", &self.on_failure)
            .field("timeout", &self.timeout)
            .field("deadline", &self.deadline)
            .field("grace", &self.grace)
            .field("spawn_limit", &self.spawn_limit)
            .field("budget", &self.budget)
            .field("task_budget", &self.task_budget)
            .field("period", &self.period)
            .field("recharge", &self.recharge)
            .field("cpu", &self.cpu)
            .finish_non_exhaustive()
    }
}
