//! Counting use along a chain of capabilities.
//!
//! Room: mechanism. Knows counters, limits and the chain above; knows nothing of tasks or budgets.
//!
//! # Invariant
//! For every capability with a limit: what is held of it and of everything derived from it ≤ its counter ≤ its limit.
//!
//! # Why it holds
//! - *Counter ≤ limit*: a counter grows by one CAS, from a value it had to at most the limit; and limits do not change.
//! - *Held ≤ counter*: [`take`](Node::take) adds to the counters from the holder upwards and answers only after the last. Where one gives
//!   less, the surplus is taken back from those below before the walk continues; so when it answers, each has counted exactly the answer, and when it
//!   refuses, none has counted anything. [`give`](Node::give) is called by permits that are dropped, for what they
//!   hold, see `permits.rs`, and by [`take_all`](Node::take_all) for what it got and will not hand out.
//! - Derived terms are within their parent's, so above one without a limit there is none with: the walk ends there, and capabilities
//!   without limits share no counter that many threads would fight for.
//!
//! A grant is never wrong. A refusal may come early: while one taker has counted at the bottom what it will not get at
//! the top, another may find the bottom full. No taker waits for a counter, so nothing can hang.
//!
//! # Rejected
//! A lock per root: exact refusals too, but every spawn of every tenant would pass through it.
//!
//! Checked by `tests/loom/main.rs`: with a counter raised in two steps `no_limit_is_exceeded_by_takers_at_once` fails;
//! with the surplus not returned, or with a part of an all-or-nothing request kept,
//! `each_counter_has_exactly_what_was_answered`; with either ordering relaxed, `what_is_taken_again_is_used_no_more`.
//! Also by `threads_that_take_and_give_never_exceed_any_limit` and `counters_follow_the_model_and_return_to_zero`.

use std::sync::{Arc, atomic::Ordering::*};

use vocab::UNLIMITED;

use crate::{
    AuditEvent, CapError, CapId, Delegation, Terms,
    arena::Account,
    registry::Registry,
    sync::{AtomicU32, AtomicU64, or_planted},
    terms::sealed::Counted,
    uses::Uses,
};

/// One capability, shared by its handle, its leases and everything derived from it.
pub(crate) struct Node<T: Terms> {
    pub(crate) id: CapId,
    /// Of its slot: alive while it equals the generation in `id`.
    pub(crate) word: Arc<AtomicU32>,
    pub(crate) terms: T,
    pub(crate) delegation: Delegation,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) parent: Option<Arc<Node<T>>>,
    /// Its ledger's.
    pub(crate) registry: Arc<Registry>,
    pub(crate) used: CachePadded<<T as Counted>::Counters>,
    /// How often it was used, for the audit: of itself, not of what was derived from it.
    pub(crate) uses: Arc<Uses>,
}

/// On a cache line of its own: threads that only read the word and the terms are not slowed by those that count.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct CachePadded<C>(C);

/// Why a counter gave nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Full {
    pub(crate) limit: u64,
    pub(crate) in_use: u64,
}

impl<T: Terms> Node<T> {
    /// Enters a capability below `parent`, or at the top if there is none; `None` if the parent was revoked.
    pub(crate) fn enter(
        registry: &Arc<Registry>,
        parent: Option<&Arc<Node<T>>>,
        terms: T,
        delegation: Delegation,
        label: Option<Arc<str>>,
        event: AuditEvent,
    ) -> Option<Node<T>> {
        let uses = Arc::new(Uses::default());
        let account = Account { kind: T::KIND, label: label.clone(), uses: uses.clone() };
        let (id, word) = registry.enter(parent.map(|parent| parent.id), account, event)?;
        let (parent, registry) = (parent.cloned(), registry.clone());
        Some(Node { id, word, terms, delegation, label, parent, registry, used: CachePadded::default(), uses })
    }

    /// Revokes it and everything derived from it, on behalf of its holder: returns how many; 0 if it has ended already.
    pub(crate) fn revoke(&self) -> usize {
        self.registry.revoke_own(self.id, T::KIND, self.parent_id(), self.label.clone())
    }

    fn parent_id(&self) -> Option<CapId> {
        self.parent.as_ref().map(|parent| parent.id)
    }

    #[inline]
    pub(crate) fn is_alive(&self) -> bool {
        let acquire = or_planted!(Acquire, "look-relaxed" => Relaxed);
        self.word.load(acquire) == self.id.generation // pairs with the Release in `Arena::vacate`
    }

    #[inline]
    pub(crate) fn check(&self) -> Result<(), CapError> {
        if self.is_alive() { Ok(()) } else { Err(self.refuse(CapError::Revoked { id: self.id })) }
    }

    /// Writes the refusal down, and returns it.
    #[cold]
    pub(crate) fn refuse(&self, error: CapError) -> CapError {
        self.registry.log().write(
            AuditEvent::Refused(error.kind()),
            Some(T::KIND),
            Some(self.id),
            self.parent_id(),
            self.label.clone(),
        );
        error
    }

    /// Itself and those above, as far as there are limits.
    fn limited(&self, which: usize) -> impl Iterator<Item = (&Self, &AtomicU64, u64)> {
        std::iter::successors(Some(self), |node| node.parent.as_deref())
            .map(move |node| (node, &node.used.0.as_ref()[which], node.terms.limit(which)))
            .take_while(|&(_, _, limit)| limit != UNLIMITED)
    }

    /// Takes between 1 and `want`, here and all the way up.
    pub(crate) fn take(&self, which: usize, want: u64) -> Result<u64, Full> {
        let mut granted = want;
        for (node, used, limit) in self.limited(which) {
            let (got, in_use) = take_up_to(used, limit, granted);
            if got < granted {
                for (below, used, _) in self.limited(which) {
                    if std::ptr::eq(below, node) {
                        break;
                    }
                    put_back(used, or_planted!(granted - got, "surplus-stays" => 0));
                }
                granted = got;
            }
            if granted == 0 && want > 0 {
                return Err(Full { limit, in_use });
            }
        }
        Ok(granted)
    }

    /// Takes all of `want` or nothing.
    pub(crate) fn take_all(&self, which: usize, want: u64) -> Result<(), Full> {
        let got = self.take(which, want)?;
        if got == want {
            return Ok(());
        }
        or_planted!(self.give(which, got), "part-is-kept" => ());
        let limits = self.limited(which).map(|(_, used, limit)| Full { limit, in_use: used.load(Relaxed) });
        let tightest = limits.min_by_key(|full| full.limit - full.in_use);
        Err(tightest.expect("something that has a limit gave less than was wanted"))
    }

    /// Gives back what [`take`](Self::take) gave; also after a revocation, because tasks that run end later.
    pub(crate) fn give(&self, which: usize, amount: u64) {
        if amount == 0 {
            return; // permits that were merged away need no counter's cache line
        }
        for (_, used, _) in self.limited(which) {
            put_back(used, amount);
        }
    }

    /// How much could be taken now.
    pub(crate) fn left(&self, which: usize) -> u64 {
        let left = self.limited(which).map(|(_, used, limit)| limit - used.load(Relaxed));
        left.min().unwrap_or(UNLIMITED)
    }

    /// How much is taken; 0 if there is no limit, because then nothing is counted.
    pub(crate) fn in_use(&self, which: usize) -> u64 {
        self.used.0.as_ref()[which].load(Relaxed)
    }
}

/// Adds at most `want` without passing `limit`: how much, and what was there before.
fn take_up_to(used: &AtomicU64, limit: u64, want: u64) -> (u64, u64) {
    let mut seen = used.load(Relaxed);
    loop {
        let got = want.min(limit - seen);
        if got == 0 {
            return (0, seen);
        }
        // Acquire pairs with the Release in `put_back`: what was given back is no longer used by its former holder.
        let acquire = or_planted!(Acquire, "take-relaxed" => Relaxed);
        let counted = or_planted!(used.compare_exchange_weak(seen, seen + got, acquire, Relaxed), "take-in-two-steps" => {
            used.store(seen + got, Relaxed);
            Ok(seen)
        });
        match counted {
            Ok(_) => return (got, seen),
            Err(now) => seen = now,
        }
    }
}

fn put_back(used: &AtomicU64, amount: u64) {
    let release = or_planted!(Release, "put-back-relaxed" => Relaxed);
    let result = used.fetch_update(release, Relaxed, |used| used.checked_sub(amount));
    // Continuing would create authority out of nothing.
    assert!(result.is_ok(), "{amount} were given back but only {} had been taken", used.load(Relaxed));
}

impl<T: Terms> Drop for Node<T> {
    fn drop(&mut self) {
        if self.is_alive() {
            self.registry.forget(self.id);
        }
        // One after the other, not each inside the one below: chains may be of any depth.
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            parent = node.parent.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "2 were given back but only 1 had been taken")]
    fn giving_back_more_than_was_taken_is_a_bug() {
        put_back(&AtomicU64::new(1), 2);
    }
}
