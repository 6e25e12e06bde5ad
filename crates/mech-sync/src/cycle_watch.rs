//! A watcher acts on a cycle that takes too long, and on no other.
//!
//! Room: mechanism. Knows cycles and a limit; knows nothing of what is done to a cycle that passed it.
//!
//! A worker says when a cycle begins, with its limit, and when it ends. A watcher looks now and then; a cycle that is past its limit is *caught*: the watcher does something to
//! the worker (it takes its rank away, say), which the worker undoes when that cycle ends.
//!
//! # Invariants
//! - What is done for a cycle is done before its end returns `true`, or not at all. So whatever the worker does after the end comes after it.
//! - No later cycle is caught because an earlier one was too long.
//! - A cycle that is not caught costs its worker no lock.
//!
//! # Why it holds
//! The number of the cycle is part of the word that a watcher changes by CAS, so the CAS fails if the cycle is over. A watcher holds `acting` from before the CAS until it is
//! done; an end that finds its cycle caught takes that lock once before it returns.
//!
//! Checked by `tests/loom/cycle_watch.rs`: an end that does not take the lock fails `what_is_done_to_a_cycle_is_undone_after_it`, a word without a number fails
//! `a_later_cycle_is_not_caught`.

use crate::sync::{
    Mutex,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    lock, or_planted,
};

const IDLE: u64 = 0;
const RUNNING: u64 = 1;
const CAUGHT: u64 = 2;
/// The number of the cycle is above.
const NUMBER: u64 = 4;

/// The cycles of one worker, and who watches them.
#[derive(Debug, Default)]
pub struct CycleWatch {
    /// What the cycle is up to, and its number.
    word: AtomicU64,
    limit: AtomicU64,
    acting: Mutex<()>,
}

impl CycleWatch {
    /// No cycle runs.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(IDLE), limit: AtomicU64::new(0), acting: Mutex::new(()) }
    }

    /// A cycle begins, which should be over at `limit`. Worker only.
    pub fn begin(&self, limit: u64) {
        let number = self.word.load(Relaxed) & !(NUMBER - 1);
        let next = number.wrapping_add(or_planted!(NUMBER, "cycle-without-number" => 0));
        self.limit.store(limit, Relaxed);
        self.word.store(next | RUNNING, Release);
    }

    /// It is over. True if it was caught: then what was done to it is done, and is to be undone. Worker only.
    pub fn end(&self) -> bool {
        let number = self.word.load(Relaxed) & !(NUMBER - 1);
        let was_caught = self.word.swap(number | IDLE, AcqRel) & CAUGHT != 0;
        if was_caught {
            or_planted!(drop(lock(&self.acting)), "cycle-ends-unlocked" => ());
        }
        was_caught
    }

    /// If a cycle runs that should have been over before `now`, and was not caught yet, does `act` to it. Says whether it did.
    pub fn catch(&self, now: u64, act: impl FnOnce()) -> bool {
        let word = self.word.load(Acquire);
        if word & RUNNING == 0 || self.limit.load(Relaxed) >= now {
            return false;
        }
        let _acting = lock(&self.acting);
        let is_caught = self.word.compare_exchange(word, word ^ (RUNNING | CAUGHT), AcqRel, Relaxed).is_ok();
        if is_caught {
            act();
        }
        is_caught
    }
}
