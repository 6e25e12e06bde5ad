//! Standing still: what runs in a paused nursery stops at its next checkpoint. See `nursery/pause.rs` for how a nursery is paused.
//!
//! Room: driver. Knows strands and the nurseries around them.
//!
//! # Invariant
//! A task that stands still has left its token, or its waker, with the paused nursery, under the lock under which it saw that the nursery is paused.

use std::task::Waker;

use super::{
    Strand,
    until::{self, End},
};
use crate::kernel::scope::ScopeRef;

impl ScopeRef {
    /// The innermost nursery around that is paused.
    fn paused(self) -> Option<ScopeRef> {
        let mut at = self;
        loop {
            if at.standing(|standing| standing.is_paused) {
                return Some(at);
            }
            if at.is_shielded() {
                return None;
            }
            at = at.outer()?;
        }
    }

    /// Has `waker` called when the nursery is resumed. False if nothing is paused.
    #[cold]
    pub(crate) fn holds_back(self, waker: &Waker) -> bool {
        let Some(paused) = self.paused() else { return false };
        let waker = waker.clone();
        paused.standing(|standing| {
            if standing.is_paused {
                standing.wakers.push(waker);
            }
            standing.is_paused
        })
    }
}

impl Strand {
    /// The same at the entry of an operation that is no checkpoint of its own.
    #[inline]
    pub(crate) fn stand_still_if_paused(&self) {
        if self.needs_attention() {
            self.stand_still();
        }
    }

    /// Stands still as long as a nursery around is paused. Unwinds if it is cancelled meanwhile.
    #[cold]
    pub(crate) fn stand_still(&self) {
        if !self.rest_while_paused() {
            self.unwind();
        }
    }

    /// The same for a task that has something to finish first: a cancellation ends the pause for it, and counts at the next checkpoint. False if one did.
    #[cold]
    pub(crate) fn rest_while_paused(&self) -> bool {
        while let Some(paused) = self.scope.get().and_then(ScopeRef::paused) {
            if self.traces.shields().get() > 0 || self.turn.is_fixed() || self.is_unwinding() {
                return true;
            }
            let token = self.token();
            let stands = paused.standing(|standing| {
                if standing.is_paused {
                    standing.tokens.push(token);
                }
                standing.is_paused
            });
            if stands && until::wait_through_pauses(self, token, None) == End::Cancelled {
                return false; // the token is withdrawn: a later wake does nothing
            }
        }
        true
    }
}
