//! Checkpoints: where a task hears that it was cancelled, stands still while its nursery is paused, and in a seeded run lets others go first.
//!
//! Room: driver. Knows cancellations and pauses; how it unwinds is `strand/unwinding.rs`.

use std::cell::Cell;

use super::Strand;
use crate::{chance::Decision, decide};

impl Strand {
    /// Whether the running task is cancelled, or was refused a budget, and may not put it off.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        (self.scope.get().is_some_and(|scope| scope.is_cancelled()) || self.meter.is_refused())
            && (self.traces.shields().get() == 0 || self.breaks_shields())
            && !self.is_unwinding()
    }

    /// Leaves the task by unwinding if it was cancelled. Answers the watchdog. Others go first if its turn is over; in a seeded run, by chance.
    #[inline]
    pub(crate) fn checkpoint(&self) {
        self.come_by();
        self.take_turn();
        if self.needs_attention() {
            self.check_closely();
        }
    }

    /// The same for a task that holds a lock: it does not stand still here, and no other runs.
    #[inline]
    pub(crate) fn checkpoint_with_lock(&self) {
        self.come_by();
        self.ensure_room();
        if self.needs_attention() {
            self.interleave_now();
            if self.is_cancelled() {
                self.unwind();
            }
        }
    }

    #[cold]
    pub(crate) fn check_closely(&self) {
        self.interleave_now();
        self.stand_still();
        if self.is_cancelled() {
            self.unwind();
        }
    }

    /// In a seeded run, others may go first. Else nothing happens.
    #[inline]
    pub(crate) fn interleave(&self) {
        if self.needs_attention() {
            self.interleave_now();
        }
    }

    /// At the entry of an operation that never waits: it is counted.
    #[inline]
    pub(crate) fn pass_by(&self) {
        self.ensure_room();
        self.pass_by_in_drop();
    }

    /// The same in a destructor.
    #[inline]
    pub(crate) fn pass_by_in_drop(&self) {
        self.turn.count();
        self.interleave();
    }

    #[cold]
    fn interleave_now(&self) {
        if !self.scope.get().is_some_and(|scope| self.is_of(scope.shared())) {
            return; // on behalf of a task of another runtime, which has turns of its own
        }
        self.ensure_room();
        match (&self.worker, &self.driver) {
            (Some(worker), _) => worker.interleave(self),
            (None, Some(driver)) => driver.interleave(self),
            (None, None) => {}
        }
    }

    /// A number below `among`. The only source of chance for what runs here, so that a seed decides all of it.
    #[inline]
    pub(crate) fn choose(&self, among: usize, why: Decision) -> usize {
        if let Some(seeded) = self.shared().and_then(|shared| shared.seeded.as_ref()) {
            self.ensure_room();
            return seeded.choose(among, why);
        }
        ((u128::from(self.random()) * among as u128) >> 64) as usize
    }

    fn random(&self) -> u64 {
        thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
        match &self.worker {
            Some(worker) => worker.random(),
            None => {
                let (state, random) = decide::next_random(STATE.get());
                STATE.set(state);
                random
            }
        }
    }
}
