//! What a thread counts of its dealings with others: sleepers that it woke, and locks that it found taken.
//!
//! Room: mechanism. Knows counters of one thread; knows nothing of who reads them.
//!
//! # Invariant
//! A counter has one writer: the thread that called [`Tally::begin`] with it. To deliver to a thread that is awake, or to take a lock that is free, costs no more than without counters.
//!
//! # Why it holds
//! The tally is found through a thread-local, which only its thread sees. It is looked for where a thread is woken by the system or a lock is found taken: there the thread pays for a call of
//! the system, or for the other's time, anyway.
//!
//! # Rejected
//! A result of every function that may wake a thread, for its callers to count: there are a dozen, and one is part of every spawn.

use std::{
    cell::Cell,
    sync::{
        MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The counters of one thread.
#[derive(Debug, Default)]
pub struct Tally {
    signals: AtomicU64,
    contended: AtomicU64,
}

thread_local!(static TALLY: Cell<Option<&'static Tally>> = const { Cell::new(None) });

impl Tally {
    /// From now on the calling thread counts here, and no other thread does.
    pub fn begin(&'static self) {
        TALLY.set(Some(self));
    }

    /// How many sleeping threads it woke.
    pub fn signals(&self) -> u64 {
        self.signals.load(Relaxed)
    }

    /// How many locks it found taken.
    pub fn contended(&self) -> u64 {
        self.contended.load(Relaxed)
    }
}

/// The calling thread wakes one that sleeps.
pub(crate) fn count_signal() {
    count(|tally| &tally.signals);
}

/// The calling thread found a lock taken.
pub(crate) fn count_contended() {
    count(|tally| &tally.contended);
}

#[cold]
fn count(which: impl FnOnce(&Tally) -> &AtomicU64) {
    if let Ok(Some(tally)) = TALLY.try_with(Cell::get) {
        let counter = which(tally);
        counter.store(counter.load(Relaxed) + 1, Relaxed); // this thread alone writes
    }
}

/// Locks a mutex of the runtime, also if a holder panicked; counts if it was taken. To try first costs nothing: a lock that is free is taken by the same instruction.
#[inline]
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => lock_taken(mutex),
    }
}

#[cold]
fn lock_taken<T>(mutex: &std::sync::Mutex<T>) -> MutexGuard<'_, T> {
    count_contended();
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
