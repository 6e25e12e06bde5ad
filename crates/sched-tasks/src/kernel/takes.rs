//! What a worker takes beside what its own tasks start: unstarted tasks of all, and of other workers.
//!
//! Room: state.
//!
//! # Invariant
//! A worker that is lent takes nothing of others, whatever it was told about stealing. It runs the fibers that were started on it, which cannot move, and what these start; other
//! workers may steal the latter.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// It may steal from other workers.
const STEALS: u8 = 1;
/// Its CPU was lent.
const LENT: u8 = 2;

/// One load says what a worker takes.
pub(crate) struct Takes(AtomicU8);

impl Takes {
    pub(crate) fn new(steals: bool) -> Self {
        Self(AtomicU8::new(if steals { STEALS } else { 0 }))
    }

    /// Whether it takes tasks of other workers.
    #[inline]
    pub(crate) fn steals(&self) -> bool {
        self.0.load(Relaxed) == STEALS
    }

    /// Whether it takes tasks from the queues that all workers share.
    #[inline]
    pub(crate) fn shared(&self) -> bool {
        self.0.load(Relaxed) & LENT == 0
    }

    pub(crate) fn set_steals(&self, steals: bool) {
        self.set(STEALS, steals);
    }

    pub(crate) fn set_lent(&self, lent: bool) {
        self.set(LENT, lent);
    }

    fn set(&self, bit: u8, is_set: bool) {
        if is_set {
            self.0.fetch_or(bit, Relaxed)
        } else {
            self.0.fetch_and(!bit, Relaxed)
        };
    }
}
