//! Permits that are taken in bulk, used again, and given back when many are spare.
//!
//! Room: mechanism. Knows numbers and a pile; knows nothing of what a permit allows, or where it comes from.
//!
//! # Invariant
//! A permit that is in use is never given back or used twice, and none is lost: the pile holds those in use, those that
//! are spare, and nothing else but what a thread has claimed and is just moving.
//!
//! # Why it holds
//! The pile changes under its lock only. `spare` says how many of it are not in use, and is raised only after a use has
//! ended. A user of a permit took it from the pile, or put it there first. So `spare` never says more than the pile
//! has. The thread that lowers `spare`, by one RMW, has claimed that many and no other: [`reuse`](PermitCache::reuse)
//! to use them, [`ended`](PermitCache::ended) to take them off the pile.
//!
//! Raising `spare` is a Release and lowering it an Acquire: the thread that claims a permit sees its last use ended,
//! and the pile with that permit in it.
//!
//! `keep` only says when it is worth giving back. Read late, it costs a little room.
//!
//! # Rejected
//! One lock for all: every end of a task would take it. Counters without a pile: then the permit is a bare number,
//! which could be given back twice.
//!
//! Checked by `tests/loom/permit_cache.rs`: with `spare` lowered in two steps, by either side,
//! `a_permit_in_use_is_not_given_back_and_none_is_lost` fails; with either ordering relaxed,
//! `a_reused_permit_has_seen_its_last_use_end`.

use crate::{
    SpinLock,
    sync::{
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
        or_planted,
    },
};

/// A pile of permits, and how many of them are not in use.
#[derive(Debug)]
pub struct PermitCache<P> {
    pile: SpinLock<P>,
    spare: AtomicU64,
    /// The limit of spare permits.
    keep: AtomicU64,
}

impl<P> PermitCache<P> {
    /// An empty pile, of which nothing is kept.
    pub fn new(empty: P) -> Self {
        Self { pile: SpinLock::new(empty), spare: AtomicU64::new(0), keep: AtomicU64::new(0) }
    }

    /// One to `want` permits that are not in use; none if all are.
    pub fn reuse(&self, want: u64) -> Option<u64> {
        let acquire = or_planted!(Acquire, "reuse-without-acquire" => Relaxed);
        let spare = or_planted!(
            self.spare.fetch_update(acquire, Relaxed, |spare| (spare > 0).then(|| spare - spare.min(want))).ok(),
            "reuse-in-two-steps" => {
                let spare = self.spare.load(Acquire);
                self.spare.store(spare - spare.min(want), Release);
                Some(spare).filter(|&spare| spare > 0)
            }
        );
        Some(spare?.min(want))
    }

    /// Puts new permits on the pile; the caller counts their users. From now on `keep` may stay spare.
    ///
    /// ```
    /// use mech_sync::PermitCache;
    ///
    /// let permit_cache = PermitCache::new(0);
    /// permit_cache.add(1, |pile| *pile += 3); // three are in use
    /// let take_off = |pile: &mut u64, count: u64| {
    ///     *pile -= count;
    ///     count
    /// };
    /// assert_eq!(permit_cache.ended(1, take_off), None); // one is kept
    /// assert_eq!(permit_cache.reuse(9), Some(1));
    /// assert_eq!(permit_cache.ended(2, take_off), Some(2)); // two would be too many
    /// assert_eq!(permit_cache.close(|pile| *pile), 1); // still in use
    /// ```
    pub fn add(&self, keep: u64, merge: impl FnOnce(&mut P)) {
        merge(&mut self.pile.lock());
        self.keep.store(keep, Relaxed);
    }

    /// `uses` uses ended, or did not begin. If more than `keep` permits are spare now, all spare ones come off the
    /// pile: `split` takes that many from it, under the lock, and the caller gives back what it returns, outside the
    /// lock.
    #[inline]
    #[must_use = "what came off the pile must be given back"]
    pub fn ended<R>(&self, uses: u64, split: impl FnOnce(&mut P, u64) -> R) -> Option<R> {
        let release = or_planted!(Release, "ended-relaxed" => Relaxed);
        let spare = self.spare.fetch_add(uses, release) + uses;
        if spare > self.keep.load(Relaxed) { self.take_off(split) } else { None }
    }

    #[inline(never)]
    fn take_off<R>(&self, split: impl FnOnce(&mut P, u64) -> R) -> Option<R> {
        let spare = or_planted!(self.spare.swap(0, Acquire), "take-off-in-two-steps" => {
            let spare = self.spare.load(Acquire);
            self.spare.store(0, Release);
            spare
        });
        (spare > 0).then(|| split(&mut self.pile.lock(), spare))
    }

    /// Everything has ended, and no other thread uses the cache: `split` takes what is left off the pile.
    pub fn close<R>(&self, split: impl FnOnce(&mut P) -> R) -> R {
        self.spare.store(0, Relaxed);
        split(&mut self.pile.lock())
    }
}
