//! Who belongs to something that many open and leave: the last one to leave ends it, and nothing that has ended is joined.
//!
//! Room: mechanism. Knows a count; knows nothing of who is counted.
//!
//! # Invariant
//! [`Members::leave`] says once that it was the last. After that none joins: [`Members::try_join`] says no.
//!
//! # Why it holds
//! The count only ever goes from zero to zero: `try_join` adds to what is not zero, by a CAS, and [`Members::join`] is called by a member. `leave` releases and, for the last one, acquires what
//! all members did before they left.
//!
//! Checked by `tests/loom/members.rs`: with `try_join` in two steps, `nothing_that_has_ended_is_joined` fails; with `leave` relaxed, `the_last_to_leave_sees_what_the_others_did`.

use crate::sync::{
    atomic::{
        AtomicUsize,
        Ordering::{AcqRel, Relaxed},
    },
    or_planted,
};

/// A count of members, which ends when it is zero.
#[derive(Debug)]
pub struct Members(AtomicUsize);

impl Members {
    /// With the first member.
    #[allow(clippy::new_without_default, reason = "its first member is the caller")]
    pub fn new() -> Self {
        Self(AtomicUsize::new(1))
    }

    /// One more, by a member.
    #[inline]
    pub fn join(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One more, by one that is no member. False if it has ended.
    #[must_use = "what has ended must not be used"]
    pub fn try_join(&self) -> bool {
        or_planted!(
            self.0.fetch_update(Relaxed, Relaxed, |members| (members > 0).then_some(members + 1)).is_ok(),
            "join-in-two-steps" => {
                let is_there = self.0.load(Relaxed) > 0;
                if is_there {
                    self.0.fetch_add(1, Relaxed);
                }
                is_there
            }
        )
    }

    /// One less. True if it was the last: the caller ends it.
    #[inline]
    #[must_use = "the last one ends it"]
    pub fn leave(&self) -> bool {
        self.0.fetch_sub(1, or_planted!(AcqRel, "leave-relaxed" => Relaxed)) == 1
    }

    /// Whether the last one has left.
    pub fn have_left(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}
