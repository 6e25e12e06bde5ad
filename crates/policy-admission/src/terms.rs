//! What a capability allows, as plain values.
//!
//! Room: values.
//!
//! # Invariant
//! Terms grant nothing: any code may write any. Only a [`Ledger`](crate::Ledger) turns the first into a capability, and
//! every later one is a [`meet`](Terms::meet), which is within both of what it was made from.

use std::fmt;

use vocab::{Budget, Component, UNLIMITED};

use crate::sync::AtomicU64;

/// The four kinds of capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// See [`CapSpawn`].
    Spawn,
    /// See [`CapBudget`].
    Budget,
    /// See [`CapChannel`].
    Channel,
    /// See [`CapExecutor`].
    Executor,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Spawn => "CapSpawn",
            Kind::Budget => "CapBudget",
            Kind::Channel => "CapChannel",
            Kind::Executor => "CapExecutor",
        })
    }
}

/// What the four kinds of terms have in common. Sealed: the runtime asks for these four and no others.
pub trait Terms: sealed::Counted + Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// Which of the four it is.
    const KIND: Kind;

    /// Of every limit the narrower.
    #[must_use]
    fn meet(&self, other: &Self) -> Self;

    /// Whether it allows nothing that `other` does not.
    fn is_within(&self, other: &Self) -> bool {
        self.meet(other) == *self
    }
}

pub(crate) mod sealed {
    use crate::sync::AtomicU64;

    /// How use is counted: several counters, each with a limit. One without a limit is not counted.
    pub trait Counted {
        type Counters: AsRef<[AtomicU64]> + Default + Send + Sync + 'static;
        fn limit(&self, which: usize) -> u64;
    }
}

/// May start tasks, with a limit on how many at a time and on the budget of each; with a weight they have a share of CPU time of their own.
///
/// ```
/// use policy_admission::{CapSpawn, Terms};
/// use vocab::Budget;
///
/// let terms = CapSpawn::new().max_tasks(100).task_budget(Budget::ops(1_000_000).memory(64 << 20));
/// assert!(terms.is_within(&CapSpawn::new()));
/// // A request above the limit is clamped, not refused.
/// assert_eq!(terms.clamp(Budget::ops(u64::MAX)), Budget::ops(1_000_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapSpawn {
    max_tasks: u64,
    task_budget: Budget,
    weight: Option<u32>,
}

/// May recharge budgets up to a total. It is used up by drawing, also if the budget drawn is not spent.
///
/// ```
/// use policy_admission::CapBudget;
/// use vocab::Budget;
///
/// assert_eq!(CapBudget::new().limit(Budget::ops(5)).get_limit(), Budget::ops(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapBudget {
    limit: Budget,
}

/// May open channels, with a limit on how many at a time and on the messages in each.
///
/// ```
/// use policy_admission::CapChannel;
///
/// let terms = CapChannel::new().max_channels(8).max_buffer(1024);
/// assert_eq!((terms.get_max_channels(), terms.get_max_buffer()), (8, 1024));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapChannel {
    max_channels: u64,
    max_buffer: u64,
}

/// May start executors, with a limit on workers and on threads for blocking calls.
///
/// ```
/// use policy_admission::CapExecutor;
///
/// let terms = CapExecutor::new().max_workers(2).max_blocking_threads(16);
/// assert_eq!((terms.get_max_workers(), terms.get_max_blocking_threads()), (2, 16));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapExecutor {
    max_workers: usize,
    max_blocking_threads: usize,
}

impl CapSpawn {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 1_000;

    /// Without any limit, and without a weight.
    pub const fn new() -> Self {
        Self { max_tasks: UNLIMITED, task_budget: Budget::UNLIMITED, weight: None }
    }

    /// The limit of tasks at a time.
    #[must_use]
    pub const fn max_tasks(mut self, tasks: u64) -> Self {
        self.max_tasks = tasks;
        self
    }

    /// The limit of each task's budget.
    #[must_use]
    pub const fn task_budget(mut self, budget: Budget) -> Self {
        self.task_budget = budget;
        self
    }

    /// Makes all tasks under it a tenant, with one share of CPU time however many nurseries they are in: `weight` times that of tasks that are in no group, 1 to
    /// [`WEIGHT_MAX`](Self::WEIGHT_MAX). What is derived from it is a tenant inside this one, has at most this weight, and divides what this one has.
    ///
    /// ```
    /// use policy_admission::{CapSpawn, Delegation, Grant, Ledger};
    ///
    /// let root = Ledger::new().grant(CapSpawn::new()); // no weight: any may be derived
    /// let tenant = root.attenuate(Grant::new(CapSpawn::new().weight(4)).delegation(Delegation::Allowed))?;
    /// let guest = tenant.attenuate(CapSpawn::new().weight(100))?;
    /// assert_eq!((tenant.terms().get_weight(), guest.terms().get_weight()), (Some(4), Some(4)));
    /// # Ok::<(), policy_admission::CapError>(())
    /// ```
    #[must_use]
    pub const fn weight(mut self, weight: u32) -> Self {
        self.weight = Some(match weight {
            0 => 1,
            Self::WEIGHT_MAX.. => Self::WEIGHT_MAX,
            weight => weight,
        });
        self
    }

    /// Its weight, if it has one.
    pub const fn get_weight(&self) -> Option<u32> {
        self.weight
    }

    /// How many tasks at a time.
    pub const fn get_max_tasks(&self) -> u64 {
        self.max_tasks
    }

    /// The largest budget of a task.
    pub const fn get_task_budget(&self) -> Budget {
        self.task_budget
    }

    /// The budget that a task gets whose spawner asks for `requested`.
    #[must_use]
    pub fn clamp(&self, requested: Budget) -> Budget {
        self.task_budget.min(&requested)
    }
}

impl CapBudget {
    /// Without any limit.
    pub const fn new() -> Self {
        Self { limit: Budget::UNLIMITED }
    }

    /// The total.
    #[must_use]
    pub const fn limit(mut self, limit: Budget) -> Self {
        self.limit = limit;
        self
    }

    /// The total.
    pub const fn get_limit(&self) -> Budget {
        self.limit
    }
}

impl CapChannel {
    /// Without any limit.
    pub const fn new() -> Self {
        Self { max_channels: UNLIMITED, max_buffer: UNLIMITED }
    }

    /// The limit of channels at a time.
    #[must_use]
    pub const fn max_channels(mut self, channels: u64) -> Self {
        self.max_channels = channels;
        self
    }

    /// The limit of messages waiting in each.
    #[must_use]
    pub const fn max_buffer(mut self, messages: u64) -> Self {
        self.max_buffer = messages;
        self
    }

    /// How many channels at a time.
    pub const fn get_max_channels(&self) -> u64 {
        self.max_channels
    }

    /// How many messages in each.
    pub const fn get_max_buffer(&self) -> u64 {
        self.max_buffer
    }
}

impl CapExecutor {
    /// Without any limit.
    pub const fn new() -> Self {
        Self { max_workers: usize::MAX, max_blocking_threads: usize::MAX }
    }

    /// The limit of workers.
    #[must_use]
    pub const fn max_workers(mut self, workers: usize) -> Self {
        self.max_workers = workers;
        self
    }

    /// The limit of threads for blocking calls.
    #[must_use]
    pub const fn max_blocking_threads(mut self, threads: usize) -> Self {
        self.max_blocking_threads = threads;
        self
    }

    /// How many workers.
    pub const fn get_max_workers(&self) -> usize {
        self.max_workers
    }

    /// How many threads for calls that block.
    pub const fn get_max_blocking_threads(&self) -> usize {
        self.max_blocking_threads
    }
}

/// The default is [`new`](CapSpawn::new): no limit. It is a request; the terms it meets have the limits.
macro_rules! default_is_new {
    ($($terms:ident)*) => {$(
        impl Default for $terms {
            fn default() -> Self {
                Self::new()
            }
        }
    )*};
}
default_is_new!(CapSpawn CapBudget CapChannel CapExecutor);

impl Terms for CapSpawn {
    const KIND: Kind = Kind::Spawn;
    fn meet(&self, other: &Self) -> Self {
        Self {
            max_tasks: self.max_tasks.min(other.max_tasks),
            task_budget: self.task_budget.min(&other.task_budget),
            // No weight is no limit: that of the whole machine.
            weight: match (self.weight, other.weight) {
                (Some(one), Some(other)) => Some(if one < other { one } else { other }),
                (one, other) => one.or(other),
            },
        }
    }
}

impl Terms for CapBudget {
    const KIND: Kind = Kind::Budget;
    fn meet(&self, other: &Self) -> Self {
        Self { limit: self.limit.min(&other.limit) }
    }
}

impl Terms for CapChannel {
    const KIND: Kind = Kind::Channel;
    fn meet(&self, other: &Self) -> Self {
        Self {
            max_channels: self.max_channels.min(other.max_channels),
            max_buffer: self.max_buffer.min(other.max_buffer),
        }
    }
}

impl Terms for CapExecutor {
    const KIND: Kind = Kind::Executor;
    fn meet(&self, other: &Self) -> Self {
        Self {
            max_workers: self.max_workers.min(other.max_workers),
            max_blocking_threads: self.max_blocking_threads.min(other.max_blocking_threads),
        }
    }
}

impl sealed::Counted for CapSpawn {
    type Counters = [AtomicU64; 1];
    fn limit(&self, _tasks: usize) -> u64 {
        self.max_tasks
    }
}

impl sealed::Counted for CapBudget {
    type Counters = [AtomicU64; 5];
    fn limit(&self, which: usize) -> u64 {
        self.limit[Component::ALL[which]]
    }
}

impl sealed::Counted for CapChannel {
    type Counters = [AtomicU64; 1];
    fn limit(&self, _channels: usize) -> u64 {
        self.max_channels
    }
}

impl sealed::Counted for CapExecutor {
    type Counters = [AtomicU64; 2];
    fn limit(&self, which: usize) -> u64 {
        let limit = [self.max_workers, self.max_blocking_threads][which];
        if limit == usize::MAX { UNLIMITED } else { limit as u64 }
    }
}
