//! What a lease gives: permits that are counted as long as they live.
//!
//! Room: interface.
//!
//! # Invariant
//! Permits of a capability that are alive, together, are never more than its counter says is in use. So no permit
//! counts down what it did not take, and every holder of a capability may have a lease of it.
//!
//! # Why it holds
//! - *Born counted*: fields are private and nothing here is `Clone` or `Default`. Only the three takers below make permits, of what the
//!   counters gave them; [`TaskPermits::empty`] makes none, and `split` and `merge` move them between values of one capability.
//! - *Given back once*: only `Drop` gives back, which runs at most once and cannot be called. One that is leaked stays counted: too few is
//!   safe, too many is not.
//! - *To those it was taken of*: a permit keeps its lease, hence the whole chain above, and limits do not change.
//!
//! # Rejected
//! A lease that also gives back, made only by the ledger: every part of the runtime that counts would need the source of all authority.
//!
//! Checked by the examples below, which must not compile, by `counters_follow_the_model_and_return_to_zero`, and by
//! `threads_that_split_merge_and_drop_permits_give_each_back_once`.

use std::{fmt, mem, sync::Arc};

use crate::{CapChannel, CapError, CapExecutor, CapSpawn, ChannelLimit, ExecutorLimit, Lease, node::Full};

const TASKS: usize = 0;
const CHANNELS: usize = 0;
const WORKERS: usize = 0;
const BLOCKING: usize = 1;

impl Lease<CapSpawn> {
    /// Takes permits to start tasks: at least one and at most `want`, as many as are left. A request for none gives
    /// none.
    pub fn take_tasks(&self, want: u64) -> Result<TaskPermits, CapError> {
        self.check()?;
        let full = |Full { limit, in_use }| self.node.refuse(CapError::TaskLimitExceeded { limit, in_use });
        let count = self.node.take(TASKS, want).map_err(full)?;
        self.node.uses.add(count);
        Ok(TaskPermits { lease: self.clone(), count })
    }
}

impl Lease<CapChannel> {
    /// Takes the permit for a channel with a buffer of `capacity` messages; `u64::MAX` for an unbounded one.
    pub fn open_channel(&self, capacity: u64) -> Result<ChannelPermit, CapError> {
        self.check()?;
        let refused = |what, Full { limit, in_use }, wanted| {
            self.node.refuse(CapError::ChannelLimitExceeded { what, limit, in_use, wanted })
        };
        let limit = self.node.terms.get_max_buffer();
        if capacity > limit {
            return Err(refused(ChannelLimit::Buffer, Full { limit, in_use: 0 }, capacity));
        }
        self.node.take_all(CHANNELS, 1).map_err(|full| refused(ChannelLimit::Channels, full, 1))?;
        self.node.uses.add(1);
        Ok(ChannelPermit { lease: self.clone() })
    }

    /// How many channels are open under it and under everything derived from it. Without a limit nothing is counted,
    /// and this is 0.
    pub fn channels_in_use(&self) -> u64 {
        self.node.in_use(CHANNELS)
    }
}

impl Lease<CapExecutor> {
    /// Takes the permit for this many threads: all of them or none.
    pub fn open_executor(&self, workers: usize, blocking_threads: usize) -> Result<ExecutorPermit, CapError> {
        self.check()?;
        let (workers, blocking) = (workers as u64, blocking_threads as u64);
        let refused = |what, Full { limit, in_use }, wanted| {
            self.node.refuse(CapError::ExecutorLimitExceeded { what, limit, in_use, wanted })
        };
        self.node.take_all(WORKERS, workers).map_err(|full| refused(ExecutorLimit::Workers, full, workers))?;
        // From here on a refusal drops it, and with it the workers.
        let mut permit = ExecutorPermit { lease: self.clone(), workers, blocking: 0 };
        let taken = self.node.take_all(BLOCKING, blocking);
        taken.map_err(|full| refused(ExecutorLimit::BlockingThreads, full, blocking))?;
        permit.blocking = blocking;
        self.node.uses.add(1);
        Ok(permit)
    }

    /// How many workers and blocking threads there are under it. Without a limit nothing is counted, and it is 0.
    pub fn threads_in_use(&self) -> (u64, u64) {
        (self.node.in_use(WORKERS), self.node.in_use(BLOCKING))
    }
}

/// This many tasks may run, or wait to start, as long as this lives. Dropping it gives all of them back, here and all
/// the way up.
///
/// ```
/// use policy_admission::{CapSpawn, Ledger, TaskPermits};
///
/// let cap = Ledger::new().grant(CapSpawn::new().max_tasks(10));
/// let lease = cap.lease();
/// let mut store = lease.take_tasks(64)?; // wants 64, gets what there is
/// assert_eq!(store.count(), 10);
///
/// let mut running = TaskPermits::empty(&lease);
/// running.merge(store.split(3)); // three tasks start
/// drop(store); // no more will
/// assert_eq!(cap.tasks_in_use(), 3);
/// drop(running.split(1)); // one ends
/// assert_eq!((running.count(), cap.tasks_in_use()), (2, 2));
/// # Ok::<(), policy_admission::CapError>(())
/// ```
///
/// Permits cannot be written down,
/// ```compile_fail,E0451
/// use policy_admission::{CapSpawn, Ledger, TaskPermits};
/// let lease = Ledger::new().grant(CapSpawn::new()).lease();
/// let forged = TaskPermits { lease, count: 9 };
/// ```
/// nor made more by hand,
/// ```compile_fail,E0616
/// use policy_admission::{CapSpawn, Ledger, TaskPermits};
/// let lease = Ledger::new().grant(CapSpawn::new()).lease();
/// let mut forged = TaskPermits::empty(&lease);
/// forged.count = 9;
/// ```
/// nor taken from a default,
/// ```compile_fail,E0277
/// use policy_admission::TaskPermits;
/// fn default<T: Default>() -> T { T::default() }
/// let forged = default::<TaskPermits>();
/// ```
/// nor cloned,
/// ```compile_fail,E0277
/// use policy_admission::{CapSpawn, Ledger, TaskPermits};
/// fn copy<T: Clone>(one: &T) -> T { one.clone() }
/// let lease = Ledger::new().grant(CapSpawn::new()).lease();
/// let forged = copy(&TaskPermits::empty(&lease));
/// ```
/// nor given back twice,
/// ```compile_fail,E0382
/// use policy_admission::{CapSpawn, Ledger, TaskPermits};
/// let permits = Ledger::new().grant(CapSpawn::new()).lease().take_tasks(1).unwrap();
/// drop(permits);
/// drop(permits);
/// ```
/// nor given back and kept.
/// ```compile_fail,E0040
/// use policy_admission::{CapSpawn, Ledger, TaskPermits};
/// let mut permits = Ledger::new().grant(CapSpawn::new()).lease().take_tasks(1).unwrap();
/// Drop::drop(&mut permits);
/// ```
#[must_use = "dropping permits gives them back"]
pub struct TaskPermits {
    lease: Lease<CapSpawn>,
    count: u64,
}

impl TaskPermits {
    /// No permits yet, to [`merge`](Self::merge) others into. The capability is not asked, so it may be a revoked one.
    pub fn empty(lease: &Lease<CapSpawn>) -> TaskPermits {
        TaskPermits { lease: lease.clone(), count: 0 }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What they were taken from.
    pub fn lease(&self) -> &Lease<CapSpawn> {
        &self.lease
    }

    /// Splits off `count` of them. Touches no counter.
    ///
    /// # Panics
    /// If there are fewer; then nothing changes.
    pub fn split(&mut self, count: u64) -> TaskPermits {
        let Some(rest) = self.count.checked_sub(count) else {
            panic!("{count} permits were to be split off but there are {}; take more first, or split fewer", self.count)
        };
        let lease = self.lease.clone();
        self.count = rest;
        TaskPermits { lease, count }
    }

    /// Adds `other` to these. Touches no counter.
    ///
    /// # Panics
    /// If they are of different capabilities, also where one was derived from the other; then these stay as they are and `other` is given
    /// back.
    pub fn merge(&mut self, mut other: TaskPermits) {
        let (ours, theirs) = (&self.lease, &other.lease);
        assert!(
            Arc::ptr_eq(&ours.node, &theirs.node),
            "permits of capability {} cannot be merged into those of {}; keep them apart",
            theirs.id(),
            ours.id()
        );
        // Only without a limit can the sum be too large, and then what comes back is not counted.
        self.count = self.count.saturating_add(mem::take(&mut other.count));
    }
}

impl Drop for TaskPermits {
    fn drop(&mut self) {
        self.lease.node.give(TASKS, self.count);
    }
}

impl fmt::Debug for TaskPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskPermits({} of {})", self.count, self.lease.id())
    }
}

/// One open channel is counted as long as this lives.
#[must_use = "dropping the permit says that the channel is gone"]
#[derive(Debug)]
pub struct ChannelPermit {
    lease: Lease<CapChannel>,
}

impl Drop for ChannelPermit {
    fn drop(&mut self) {
        self.lease.node.give(CHANNELS, 1);
    }
}

/// Threads of one executor are counted as long as this lives.
#[must_use = "dropping the permit says that the threads are gone"]
#[derive(Debug)]
pub struct ExecutorPermit {
    lease: Lease<CapExecutor>,
    workers: u64,
    blocking: u64,
}

impl Drop for ExecutorPermit {
    fn drop(&mut self) {
        self.lease.node.give(WORKERS, self.workers);
        self.lease.node.give(BLOCKING, self.blocking);
    }
}
