//! The last member to end wakes the owner.
//!
//! Room: mechanism.
//!
//! Counts the members of a group that has one owner: the owner starts members, members end (and may start more), and
//! the owner waits until none is left.
//!
//! # Invariant
//! Exactly one caller is told that the count reached zero: the last `done`, which gets the owner's token, or the owner's
//! `close`, if no member was left. No other member touches the countdown after its last call.
//!
//! # Why it holds
//! The word begins at `OWNER`, a weight no number of members outweighs, so it cannot reach zero before `close`. The owner counts its own
//! starts in a plain variable and pays them in with `close`, which also takes the weight away: until then the word is merely *short* by
//! that number. From `close` on the word is the number of live members, and one RMW makes it zero. The owner wrote its
//! token before `close` released it, so the last `done`, which acquires, reads it.
//!
//! # Rejected
//! Counting every start with an RMW: a second contended operation per task for nothing.
//!
//! Checked by `tests/loom/countdown.rs`: with `close` or `done` relaxed, `the_last_member_wakes_the_owner` fails. Also
//! `members_may_start_members`.

use crate::{
    sync::{
        atomic::{
            AtomicI64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
        or_planted,
    },
    waiter::{TokenCell, WaitToken},
};

const OWNER: i64 = 1 << 48;

/// Live members of a group.
#[derive(Debug)]
pub struct Countdown {
    word: AtomicI64,
    owner: TokenCell,
}

impl Default for Countdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Countdown {
    /// No members yet.
    pub fn new() -> Self {
        Self { word: AtomicI64::new(OWNER), owner: TokenCell::new() }
    }

    /// Counts members that are not started by the owner but by a member, which keeps the count above zero meanwhile.
    #[inline]
    pub fn add(&self, members: u32) {
        self.word.fetch_add(i64::from(members), Relaxed);
    }

    /// Whether no member is left, of those that were counted by [`add`](Self::add). False after `close`.
    pub fn has_no_members(&self) -> bool {
        self.word.load(Acquire) == OWNER
    }

    /// How many members are left, if the owner has started `started`; the answer may be old.
    pub fn members(&self, started: u64) -> i64 {
        match self.word.load(Acquire) {
            open if open >= OWNER / 2 => open - OWNER + i64::try_from(started).expect("fewer than 2^48 members"),
            closed => closed,
        }
    }

    /// Counts members that have ended. The last gets the owner's token, to be woken; it must not touch the countdown again.
    #[inline]
    #[must_use = "the owner waits for its token"]
    pub fn done(&self, members: u32) -> Option<WaitToken> {
        let order = or_planted!(AcqRel, "done-relaxed" => Relaxed);
        let left = self.word.fetch_sub(i64::from(members), order) - i64::from(members);
        debug_assert!(left >= 0, "more members ended than were started");
        if left == 0 { self.owner.get() } else { None }
    }

    /// The owner has started its last member, `started` in all, and wants to be woken by `token`. True if none is left:
    /// then the token is never woken.
    #[must_use = "if none is left the token is never woken"]
    pub fn close(&self, started: u64, token: WaitToken) -> bool {
        self.owner.set(token);
        let started = i64::try_from(started).expect("fewer than 2^48 members");
        let order = or_planted!(AcqRel, "close-relaxed" => Relaxed);
        self.word.fetch_add(started - OWNER, order) + started - OWNER == 0
    }
}
