//! Chains of claimed jobs: a worker runs them one after the other without the lock; any thread that holds the lock can take the rest back.
//!
//! Room: driver.
//!
//! # Invariant
//! A claimed job is run by the worker that claimed it, or goes back to its lane, never both. A thread that holds the lock and has called `take_back` sees
//! every job in its true state.
//!
//! # Why it holds
//! The worker's `BatchClaim` counts the jobs that it has begun. The work of its jobs is in its slot, behind a small lock of its own, so another thread can
//! put back the jobs that were not begun. A worker continues a chain only after a job that succeeded and returned nothing, so the thread that takes the rest
//! back knows how all begun jobs but the last have ended.
//!
//! Chains are for jobs that take about a microsecond. The length of a chain follows from the time that the last one took. If a job in a chain takes long, the rest
//! of the chain is taken back: by the next thread that takes the lock, or by its own worker if another job became ready meanwhile, or by the clock.
//! Otherwise the ends of earlier jobs in the chain would not be reported until the long one ends.

use std::sync::PoisonError;

use policy_jobs::Time;

use super::Inner;
use super::pool::RunSlot;
use crate::job::Work;

/// How long a chain should take in all.
pub(super) const CHAIN_NS: Time = 20_000;
/// How often the clock checks for chains that take too long.
pub(super) const CHAIN_CHECK_NS: Time = 2_000_000;
/// The limit of jobs in a chain.
pub(super) const CHAIN_LENGTH_MAX: usize = 64;

/// The jobs that one worker has claimed, and how many of them are known to have begun.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The job that runs, and those that follow.
    pub(super) ids: Vec<u32>,
    /// The index of the job that the core has as running.
    pub(super) current: usize,
    pub(super) since: Time,
}

impl RunSlot {
    /// The work of a claimed job.
    pub(super) fn take_work(&self, index: usize) -> Work {
        let mut works = self.works.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut works[index], Work::Nothing)
    }
}

impl Inner {
    /// Puts jobs back that were claimed at least `min_age` ago and have not begun.
    pub(super) fn take_back(&mut self, now: Time, min_age: Time) {
        if self.chain_alarm.is_none() {
            return; // there are no chains
        }
        for index in 0..self.chains.len() {
            let chain = &self.chains[index];
            if chain.ids.len() > chain.current + 1 && now.saturating_sub(chain.since) >= min_age {
                self.take_back_from(index, now);
            }
        }
    }

    /// When the clock has something to do next.
    pub(super) fn next_alarm(&self) -> Option<Time> {
        [self.core.next_alarm(), self.chain_alarm, self.pause_alarm].into_iter().flatten().min()
    }

    /// Sets the clock to check again as long as there are chains.
    pub(super) fn watch_chains(&mut self, now: Time) {
        let any = self.chains.iter().any(|chain| chain.ids.len() > chain.current + 1);
        self.chain_alarm = any.then(|| now.saturating_add(CHAIN_CHECK_NS));
    }

    #[cold]
    fn take_back_from(&mut self, index: usize, now: Time) {
        if let Some(begun) = self.slots[index].batch_claim.stop() {
            self.put_back(index, now, begun);
        }
    }

    /// The chain is over: `begun` of its jobs were begun, the others go back to their lanes.
    pub(super) fn put_back(&mut self, index: usize, now: Time, begun: usize) {
        let slot = self.slots[index].clone();
        let chain = &mut self.chains[index];
        for at in chain.current + 1..begun {
            self.core.set_slot(chain.ids[at], slot.index);
            self.core.hand_over(now, chain.ids[at - 1], chain.ids[at]);
        }
        chain.current = begun - 1;
        self.core.trim_held(chain.ids[chain.current]);
        if chain.ids.len() > begun {
            let mut works = slot.works.lock().unwrap_or_else(PoisonError::into_inner);
            for (id, work) in chain.ids.drain(begun..).zip(works.drain(begun..)).rev() {
                self.works[id as usize] = work;
                self.core.unclaim(id);
            }
        }
    }
}
