//! What workers count. Each number has one writer, so counting is a load and a store.
//!
//! Room: values.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One worker's counters, kept apart from its neighbours'.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) executed: AtomicU64,
    /// Begun or polled after they were taken from a queue that all workers share.
    pub(crate) shared_pops: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) stolen: AtomicU64,
    pub(crate) failed_steals: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) wakes: AtomicU64,
    pub(crate) switches: AtomicU64,
    pub(crate) overflows: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// The watchdog's.
    pub(crate) stuck: AtomicU64,
}

/// Adds to a counter that only the caller writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// What a worker has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Tasks it began, and futures it polled.
    pub executed: u64,
    /// Of these, taken from other workers.
    pub stolen: u64,
    /// Of these, taken from its own queue: all that were neither stolen nor taken from a queue that the workers share.
    pub local_pops: u64,
    /// Tasks that came to their end on it, well or not: all but the cancelled.
    pub completed: u64,
    /// Tasks that ended on it because they were cancelled, those that had not begun included.
    pub cancelled: u64,
    /// Attempts to steal that brought nothing.
    pub failed_steals: u64,
    /// Times it went to sleep.
    pub parks: u64,
    /// Times it was woken.
    pub wakes: u64,
    /// Times it entered a fiber.
    pub switches: u64,
    /// Tasks that overflowed their stack on it.
    pub overflows: u64,
    /// Times it was restarted after a panic of its own.
    pub restarts: u64,
    /// Times a task held it for too long without a checkpoint; see [`Builder::watchdog`](crate::Builder::watchdog).
    pub stuck: u64,
}

impl Counters {
    pub(crate) fn read(&self) -> WorkerStats {
        let (executed, stolen) = (self.executed.load(Relaxed), self.stolen.load(Relaxed));
        let cancelled = self.cancelled.load(Relaxed);
        WorkerStats {
            executed,
            stolen,
            local_pops: executed.saturating_sub(stolen + self.shared_pops.load(Relaxed)),
            completed: self.ended.load(Relaxed).saturating_sub(cancelled),
            cancelled,
            failed_steals: self.failed_steals.load(Relaxed),
            parks: self.parks.load(Relaxed),
            wakes: self.wakes.load(Relaxed),
            switches: self.switches.load(Relaxed),
            overflows: self.overflows.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
            stuck: self.stuck.load(Relaxed),
        }
    }
}

/// What a runtime has done so far: one entry per worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The workers, by index.
    pub workers: Vec<WorkerStats>,
}

impl Stats {
    /// All workers together.
    pub fn total(&self) -> WorkerStats {
        self.workers.iter().fold(WorkerStats::default(), |sum, one| WorkerStats {
            executed: sum.executed + one.executed,
            stolen: sum.stolen + one.stolen,
            local_pops: sum.local_pops + one.local_pops,
            completed: sum.completed + one.completed,
            cancelled: sum.cancelled + one.cancelled,
            failed_steals: sum.failed_steals + one.failed_steals,
            parks: sum.parks + one.parks,
            wakes: sum.wakes + one.wakes,
            switches: sum.switches + one.switches,
            overflows: sum.overflows + one.overflows,
            restarts: sum.restarts + one.restarts,
            stuck: sum.stuck + one.stuck,
        })
    }
}
