//! One result and one reader, in either order.
//!
//! Room: mechanism.
//!
//! Joins the side that produces a value and the side that may want it. Each side leaves once; the second to leave frees
//! what they share.
//!
//! ```text
//!   bits: DONE      the value is there        (producer, once)
//!         GONE      no reader will come      (reader, once)
//!         WAITING   the reader left a token  (reader)
//! ```
//!
//! # Invariant
//! The value is read only after DONE. Exactly one side is told to free. A reader that waits is woken exactly once, and a
//! producer that must wake it may still read the token.
//!
//! # Why it holds
//! Each side leaves by one RMW that sets its bit, and learns from the old bits what the other had done. A producer that sees that the reader has left need not say that it leaves, too. A waiting reader does not go on until its token was
//! woken, or until `retract` told it that no producer saw WAITING; so the token outlives the producer's look at it.
//!
//! Checked by `tests/loom/completion.rs`: if `finish`, `abandon` or `is_done` does not acquire, `a_result_is_read_once_and_freed_once`
//! fails; if `retract` does not look at DONE, `a_reader_may_change_its_mind`.

#[cfg(loom)]
use crate::sync::atomic::Ordering::{Relaxed, Release};
use crate::{
    sync::{
        atomic::{
            AtomicU32,
            Ordering::{AcqRel, Acquire},
        },
        or_planted,
    },
    waiter::{TokenCell, WaitToken},
}; // for the planted bugs

const DONE: u32 = 1;
const GONE: u32 = 2;
const WAITING: u32 = 4;

/// The meeting point of a producer and a reader.
#[derive(Debug)]
pub struct Completion {
    bits: AtomicU32,
    reader: TokenCell,
}

/// What the producer does after [`Completion::finish`].
#[derive(Debug)]
#[must_use = "a waiting reader must be woken, and an abandoned value freed"]
pub enum Finish {
    /// The reader will come, and frees. Touch nothing any more.
    Kept,
    /// The reader left: the producer frees.
    Abandoned,
    /// Wake the reader. Touch nothing else any more.
    Wake(WaitToken),
}

impl Default for Completion {
    fn default() -> Self {
        Self::new()
    }
}

impl Completion {
    /// Nothing produced, no reader waiting.
    #[inline(always)]
    pub fn new() -> Self {
        Self { bits: AtomicU32::new(0), reader: TokenCell::new() }
    }

    /// A value whose reader left before the producer began.
    pub fn unread() -> Self {
        Self { bits: AtomicU32::new(GONE), reader: TokenCell::new() }
    }

    /// The producer has written the value.
    #[inline]
    pub fn finish(&self) -> Finish {
        // Most readers that leave do so long before. Then the bits are the producer's alone, and a look will do.
        if self.bits.load(or_planted!(Acquire, "gone-relaxed" => Relaxed)) & GONE != 0 {
            return Finish::Abandoned;
        }
        let order = or_planted!(AcqRel, "finish-without-acquire" => Release);
        let before = self.bits.fetch_add(DONE, order); // as `fetch_or`, since it is set once; one instruction on x86
        debug_assert_eq!(before & DONE, 0, "a value is produced once");
        if before & WAITING != 0 {
            Finish::Wake(self.reader.get().expect("a waiting reader left a token"))
        } else if before & GONE != 0 {
            Finish::Abandoned
        } else {
            Finish::Kept
        }
    }

    /// Whether the value is there.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.bits.load(or_planted!(Acquire, "is-done-relaxed" => Relaxed)) & DONE != 0
    }

    /// The reader will wait for `token`. False if the value is there already.
    pub fn wait(&self, token: WaitToken) -> bool {
        self.reader.set(token);
        self.bits.fetch_or(WAITING, AcqRel) & DONE == 0
    }

    /// The token the reader left last. For the reader.
    pub fn token(&self) -> Option<WaitToken> {
        self.reader.get()
    }

    /// The reader changes its mind. False if the producer has already seen its token: then the token *will* be woken,
    /// and the reader must wait for that.
    pub fn retract(&self) -> bool {
        self.bits.fetch_and(!WAITING, AcqRel) & or_planted!(DONE, "retract-without-look" => 0) == 0
    }

    /// The reader leaves for good. True if the value is there: then the reader frees.
    #[inline]
    pub fn abandon(&self) -> bool {
        let order = or_planted!(AcqRel, "abandon-without-acquire" => Release);
        self.bits.fetch_add(GONE, order) & DONE != 0 // as above
    }
}
