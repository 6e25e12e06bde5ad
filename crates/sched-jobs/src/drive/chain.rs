//! Claimed jobs: run one after the other without the lock, and taken back by whoever needs to know.
//!
//! # Invariant
//! A claimed job is run by the worker that claimed it, or goes back in line, never both; whoever holds the lock and has called `take_back` sees
//! every job in its true state.
//!
//! # Why it holds
//! The worker's `BatchClaim` counts what it has begun. Its works lie in its post, behind a small lock of their own, so what was not
//! begun can be put back by another. A worker goes on only from a job that succeeded and returned nothing, so whoever takes the rest
//! back knows how all but the last begun have ended.
//!
//! Chains are for jobs that take about a microsecond. How long one may be follows from how long the last one took; and one that has become old, because a job in it
//! turned out long, is taken back by the next who comes along, or by its own worker if anything else became ready meanwhile, or by the clock:
//! else nobody would hear of what has ended in it until the long one ends.

use std::sync::PoisonError;

use policy_jobs::Time;

use super::Inner;
use super::pool::Post;
use crate::job::Work;

/// What a chain should take in all.
pub(super) const CHAIN_NS: Time = 20_000;
/// So often the clock looks for chains that became old.
pub(super) const WATCH_NS: Time = 2_000_000;
/// The longest chain.
pub(super) const LONGEST: usize = 64;

/// What one worker has claimed, and how much of that is known to have happened.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The job that runs, and those that follow.
    pub(super) ids: Vec<u32>,
    /// The job that the decisions believe to be running.
    pub(super) current: usize,
    pub(super) since: Time,
}

impl Post {
    /// The work of a claimed job.
    pub(super) fn take_work(&self, index: usize) -> Work {
        let mut works = self.works.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut works[index], Work::Nothing)
    }
}

impl Inner {
    /// Everything that was claimed longer ago than `patience` and has not begun goes back in line.
    pub(super) fn take_back(&mut self, now: Time, patience: Time) {
        if self.chain_alarm.is_none() {
            return; // nobody has claimed anything
        }
        for index in 0..self.chains.len() {
            let chain = &self.chains[index];
            if chain.ids.len() > chain.current + 1 && now.saturating_sub(chain.since) >= patience {
                self.take_back_from(index, now);
            }
        }
    }

    /// When the clock has something to do next.
    pub(super) fn next_alarm(&self) -> Option<Time> {
        [self.core.next_alarm(), self.chain_alarm, self.pause_alarm].into_iter().flatten().min()
    }

    /// Has the clock look again as long as there are chains.
    pub(super) fn watch_chains(&mut self, now: Time) {
        let any = self.chains.iter().any(|chain| chain.ids.len() > chain.current + 1);
        self.chain_alarm = any.then(|| now.saturating_add(WATCH_NS));
    }

    #[cold]
    fn take_back_from(&mut self, index: usize, now: Time) {
        if let Some(begun) = self.posts[index].batch_claim.stop() {
            self.put_back(index, now, begun);
        }
    }

    /// So many of a chain were begun, and no more will be.
    pub(super) fn put_back(&mut self, index: usize, now: Time, begun: usize) {
        let post = self.posts[index].clone();
        let chain = &mut self.chains[index];
        for at in chain.current + 1..begun {
            self.core.set_place(chain.ids[at], post.index);
            self.core.hand_over(now, chain.ids[at - 1], chain.ids[at]);
        }
        chain.current = begun - 1;
        self.core.exact(chain.ids[chain.current]);
        if chain.ids.len() > begun {
            let mut works = post.works.lock().unwrap_or_else(PoisonError::into_inner);
            for (id, work) in chain.ids.drain(begun..).zip(works.drain(begun..)).rev() {
                self.works[id as usize] = work;
                self.core.unclaim(id);
            }
        }
    }
}
