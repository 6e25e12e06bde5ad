//! The workers of a flow. Each runs on another worker of the runtime, as far as the runtime has enough.
//!
//! Room: driver. Knows fibers and where they run; knows nothing of turns beyond their begin and end.
//!
//! # Invariant
//! While a turn is given and there are fewer workers than were asked for, one more is spawned and can be started by any idle thread. So a node that blocks its fiber, or even its thread, keeps no other
//! node from its turn. Two workers that can go on do not share a thread: they would only alternate.
//!
//! # Why it holds
//! A worker that begins a turn spawns one more. Any thread may take a fiber that was not started; once started, the fiber stays there. That may be the thread of the worker that spawned it. So a new worker first
//! checks for another worker on its thread. If that one is inside a turn, it waits for something in a node, and the new worker is needed. If it is between two turns, the new worker ends, and another is
//! spawned with the next turn. Where no idle thread ever comes, workers are spawned less and less often.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{
        AtomicBool, AtomicU32, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use sched_tasks::Nursery;

use super::{Shared, work::Worker};

/// So many new workers may end at once before they are spawned less often.
const FAILURES_BEFORE_BACKOFF: u32 = 8;
/// Workers are spawned with every 64th turn at least.
const MAX_BACKOFF_SHIFT: u32 = 6;

/// The set of workers of a flow.
pub(super) struct Workers {
    limit: usize,
    size: AtomicUsize,
    /// A worker was spawned and has not joined or ended yet.
    starting: AtomicBool,
    entries: Mutex<Vec<Entry>>,
    /// How many new workers in a row ended at once.
    failures: AtomicU32,
}

/// A worker, as others see it.
struct Entry {
    /// The worker of the runtime on which it runs.
    runtime_worker: Option<usize>,
    in_turn: Arc<AtomicBool>,
}

/// A worker, as it sees itself.
pub(super) struct Member<'scope, 'env> {
    workers: &'scope Workers,
    nursery: &'scope Nursery<'scope, 'env>,
    /// Read only by workers on the same thread, so only while this one is suspended.
    in_turn: Arc<AtomicBool>,
    turns: u32,
    /// It has left time for one that was spawned.
    waited: bool,
}

impl Workers {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            size: AtomicUsize::new(0),
            starting: AtomicBool::new(false),
            entries: Mutex::new(Vec::new()),
            failures: AtomicU32::new(0),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Spawns one more worker, if the limit allows it and none is starting.
    pub(super) fn spawn<'scope>(&'scope self, shared: &'scope Shared, nursery: &'scope Nursery<'scope, '_>) {
        if self.size.load(Acquire) < self.limit && !self.starting.swap(true, AcqRel) {
            nursery.task().name(shared.name.as_str()).spawn(move || {
                let joined = self.join();
                self.starting.store(false, Release);
                if let Some(in_turn) = joined {
                    let member = Member { workers: self, nursery, in_turn, turns: 0, waited: false };
                    shared.work(Worker::Member(member));
                }
            });
        }
    }

    /// None if there is already a worker on this thread that can go on.
    fn join(&self) -> Option<Arc<AtomicBool>> {
        let mut entries = self.entries();
        let here = sched_tasks::current_worker();
        if entries.iter().any(|entry| entry.runtime_worker == here && !entry.in_turn.load(Relaxed)) {
            self.failures.fetch_add(1, Relaxed);
            return None;
        }
        self.failures.store(0, Relaxed);
        let in_turn = Arc::new(AtomicBool::new(false));
        entries.push(Entry { runtime_worker: here, in_turn: Arc::clone(&in_turn) });
        self.size.store(entries.len(), Release);
        Some(in_turn)
    }
}

impl<'scope> Member<'scope, '_> {
    /// A turn begins, in which this worker may block.
    pub(super) fn begins_turn(&mut self, shared: &'scope Shared) {
        self.in_turn.store(true, Relaxed);
        if self.workers.size.load(Relaxed) < self.workers.limit {
            self.turns = self.turns.wrapping_add(1);
            let failures = self.workers.failures.load(Relaxed);
            let shift = failures.saturating_sub(FAILURES_BEFORE_BACKOFF).min(MAX_BACKOFF_SHIFT);
            if self.turns.is_multiple_of(1 << shift) {
                self.workers.spawn(shared, self.nursery);
            }
        }
    }

    pub(super) fn ends_turn(&self) {
        self.in_turn.store(false, Relaxed);
    }

    /// Whether to yield to other tasks of this thread. Once not, after a worker was spawned, so that an idle thread has the time to take it.
    pub(super) fn yields(&mut self) -> bool {
        self.waited = !self.waited && self.workers.starting.load(Relaxed);
        !self.waited
    }

    /// True if another worker on this thread can go on. Then this one is no longer in the set.
    pub(super) fn leaves(&self) -> bool {
        let here = sched_tasks::current_worker();
        let mut entries = self.workers.entries();
        let is_me = |entry: &Entry| Arc::ptr_eq(&entry.in_turn, &self.in_turn);
        let is_other = |entry: &Entry| !is_me(entry) && entry.runtime_worker == here && !entry.in_turn.load(Relaxed);
        let leaves = entries.iter().any(is_other);
        if leaves {
            entries.retain(|entry| !is_me(entry));
            self.workers.size.store(entries.len(), Release);
        }
        leaves
    }
}
