//! How many candidates a worker looks at while it chooses: counted only in runtimes with diagnostics.
//!
//! Room: driver. Knows how often it was asked; what is asked is said by `decide.rs`.
//!
//! # Invariant
//! Counting changes no choice: each question is passed on, and answered as it was.

use std::cell::Cell;

use crate::{
    decide::{self, Choice, FirstReady, Oldest, View},
    kernel::worker::Worker,
    stats,
};

/// A view that counts its looks: one for each queue, and one for each other worker.
struct Counted<'a, V> {
    view: &'a V,
    others: u64,
    looks: Cell<u64>,
}

impl<V> Counted<'_, V> {
    fn look(&self, looks: u64) {
        self.looks.set(self.looks.get() + looks);
    }
}

impl<V: View> View for Counted<'_, V> {
    fn high(&self) -> bool {
        self.look(1);
        self.view.high()
    }

    fn ready(&self) -> Option<FirstReady> {
        self.look(1);
        self.view.ready()
    }

    fn unstarted(&self) -> bool {
        self.look(1);
        self.view.unstarted()
    }

    fn injected(&self) -> bool {
        self.look(1);
        self.view.injected()
    }

    fn low(&self) -> bool {
        self.look(1);
        self.view.low()
    }

    fn goes_behind_shared(&self, tick: u32) -> bool {
        self.look(1);
        self.view.goes_behind_shared(tick)
    }

    fn goes_behind_others(&self, tick: u32) -> bool {
        self.view.goes_behind_others(tick) // mostly it is not time to look; else the view counts
    }

    fn elsewhere(&self) -> bool {
        self.look(self.others);
        self.view.elsewhere()
    }

    fn is_due(&self, oldest: Oldest) -> bool {
        self.view.is_due(oldest)
    }
}

impl Worker {
    /// Chooses, and counts what was looked at if that was asked for.
    #[cold]
    #[inline(never)]
    pub(super) fn choose_and_count(&self, tick: u32, view: &impl View) -> Choice {
        if !self.is_diagnosed {
            return decide::choose(tick, view);
        }
        let counted = Counted { view, others: self.other_count(), looks: Cell::new(0) };
        let choice = decide::choose(tick, &counted);
        self.looked_at(counted.looks.get());
        choice
    }

    /// How many other workers there are.
    pub(super) fn other_count(&self) -> u64 {
        self.shared.workers.len() as u64 - 1
    }

    /// So many candidates were looked at.
    #[inline]
    pub(super) fn looked_at(&self, candidates: u64) {
        if self.is_diagnosed {
            stats::add(&self.counters.candidates, candidates);
        }
    }
}
