//! A batch of work that one thread does in order, until another takes the rest back.
//!
//! Room: mechanism. Knows counts; knows nothing of the items, which both sides know under a lock of their own.
//!
//! # Invariant
//! Every item of the batch is begun by its owner or taken back, never both. The thread that takes the rest back sees
//! all effects of the items before the one that was begun last.
//!
//! # Why it holds
//! One word holds how many were begun, how many there are, and whether it was stopped. The owner adds one before it
//! begins the next; the other thread sets the stop mark. Both are single operations on the word, so one comes first:
//! either the other thread counts the next as begun, or the owner finds the mark and begins nothing. `claim_next`
//! releases what was done; `stop` acquires it.
//!
//! # Rejected
//! A lock around every step: the owner would pay for it each time, and it is almost never stopped.
//!
//! Checked by `tests/loom/batch_claim.rs`, `everything_is_begun_or_taken_back_once`: it fails with `claim_next` or `stop` relaxed, or with `stop` in two steps.

use crate::sync::{
    atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    or_planted,
};

const STOPPED: u32 = 1 << 31;
const LENGTH: u32 = 16;
const BEGUN: u32 = (1 << LENGTH) - 1;

/// How far a thread is with a batch.
#[derive(Debug)]
pub struct BatchClaim {
    word: AtomicU32,
}

impl Default for BatchClaim {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchClaim {
    /// The longest batch.
    pub const LONGEST: usize = 1 << 14;

    /// Nothing to do.
    pub fn new() -> Self {
        Self { word: AtomicU32::new(STOPPED) }
    }

    /// The owner has a new batch, and begins the first item. Under the lock that `stop` is called under.
    pub fn begin(&self, length: usize) {
        debug_assert!((1..=Self::LONGEST).contains(&length));
        self.word.store((length as u32) << LENGTH | 1, Relaxed);
    }

    /// The owner has done one item. Whether it may begin the next; if not, it must not ask again before the next
    /// `begin`.
    #[inline]
    #[must_use = "what is begun is not taken back"]
    pub fn claim_next(&self) -> bool {
        let order = or_planted!(Release, "claim-next-relaxed" => Relaxed);
        let before = self.word.fetch_add(1, order);
        before & STOPPED == 0 && before & BEGUN < before >> LENGTH
    }

    /// Takes back what has not been begun. Returns how many were; `None` if it was stopped before.
    pub fn stop(&self) -> Option<usize> {
        let order = or_planted!(Acquire, "stop-relaxed" => Relaxed);
        let before = or_planted!(self.word.fetch_or(STOPPED, order), "stop-in-two-steps" => {
            let seen = self.word.load(Acquire);
            self.word.store(seen | STOPPED, Relaxed);
            seen
        });
        let length = before >> LENGTH;
        (before & STOPPED == 0).then_some((before & BEGUN).min(length) as usize)
    }
}
