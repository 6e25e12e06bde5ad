//! How tasks of groups get to other workers: what a worker takes in, pulls, steals, and leaves to others.
//!
//! Room: driver. Knows the lines of groups and the workers; which group has a worker next is `choosing/shares.rs`.
//!
//! # Invariants
//! - While others have unstarted tasks of groups that have nothing here, a worker takes its part of them, at every choice: so groups are spread over the workers before their fibers are pinned. If it
//!   found none, it looks again after a quarter of a slice. A worker with nothing to run takes one, and starts it at once.
//! - Of the unstarted tasks of a group, one for each worker that has nothing of it is left to that worker, for [`KEPT_MOST`] at most and only while there is something else of it to run here. Otherwise
//!   a worker whose thread the system has just taken off its CPU would find all fibers of the group pinned elsewhere when it comes back, and the group could never have more than one worker.
//!
//! # What cannot be balanced
//! Started fibers stay on their worker. Groups whose fibers are all on the same worker share that one, whatever they are owed: with `n` such groups each gets at least its share
//! of one worker. See `groups_that_are_pinned_to_one_worker_share_that_one`.

use std::sync::Arc;

use policy_cpu::Nanos;
use vocab::Priority;

use super::requeue::futures_to_move;
use crate::{
    decide::Choice,
    kernel::{
        local_shares::{GroupReady, LocalGroup},
        shares::{Lines, SLICE, ShareGroup},
        task::RunnableRef,
        worker::{ReadyWhat, Worker},
    },
    stats,
};

/// So many tasks from other threads a worker takes in at a time.
const TAKEN_IN_MOST: usize = 1024;

/// So many tasks of a group a worker takes from others at a time, for itself to start.
const PULLED_MOST: usize = 32;

/// So long it does not look again, if there were none.
const PULL_INTERVAL: Nanos = SLICE / 4;

/// So many groups it looks at for that.
const PULLED_GROUPS: u32 = 4;

/// So many it tries to steal from when it has nothing to run: others may be quicker.
const STOLEN_GROUPS: u32 = 4;

/// So long the last unstarted tasks of a group are kept for workers that have none of it: longer than the system usually lets another program have a CPU.
const KEPT_MOST: Nanos = 5_000_000;

impl Worker {
    /// Takes tasks of groups in that other threads spawned or woke.
    pub(super) fn take_in_groups(&self) {
        let shares = &self.shared.shares;
        if shares.injected.is_empty() || !self.slot().takes.shared() {
            return;
        }
        let share = (shares.injected.len() / self.shared.workers.len()).min(TAKEN_IN_MOST);
        let mut more = Vec::new();
        let first = shares.injected.pop_batch(share, |task| more.push(task));
        for (priority, task) in first.into_iter().chain(more) {
            if let Err(task) = self.push_to_group(priority, task) {
                unreachable!("{:?} is in no group and was injected as if it were", task.id());
            }
        }
    }

    /// Takes a part of the unstarted tasks of groups that have nothing here. A few groups at a time, in turn.
    #[cold]
    pub(super) fn pull(&self, now: Nanos) {
        let workers = self.shared.workers.len();
        let may_pull = self.slot().takes.steals() && self.shared.shares.has_stealable(self.index);
        let mut pulled = false;
        for _ in 0..if may_pull { PULLED_GROUPS } else { 0 } {
            let Some(group) = self.next_elsewhere() else { break };
            self.looked_at(1);
            // One that has ended may have left its number to another, which is known here and stays: who knows that one sees that this one has ended.
            if group.has_ended() || self.local_shares().known(&group).has_work(&group.lines[self.index]) {
                continue;
            }
            let mut taken = 0;
            for victim in self.other_workers() {
                self.looked_at(1);
                let there = group.lines[victim].unstarted.len();
                for _ in 0..there.div_ceil(workers).min(PULLED_MOST) {
                    let Some(task) = group.steal_from(victim) else { break };
                    group.push(self.index, Priority::Normal, task);
                    taken += 1;
                }
            }
            if taken > 0 {
                stats::add(&self.counters.pulled, taken);
                self.local_shares().wake(group.number);
                group.published(self.index); // on their way from there to here no worker saw them
                pulled = true;
            }
        }
        if !pulled {
            self.local_shares().next_pull = now.saturating_add(PULL_INTERVAL);
        }
    }

    /// Takes futures of a group from a worker that has more of them than this one has of the group to run. How many it took.
    #[cold]
    pub(super) fn level_futures_of(&self, local: &mut LocalGroup) -> usize {
        let LocalGroup { group, ready, futures_lined, .. } = local;
        let before = ready.len();
        for victim in self.other_workers().filter(|_| self.slot().takes.steals()) {
            let (from, to) = (&group.lines[victim].yielded, &group.lines[self.index]);
            for _ in 0..futures_to_move(ready.len(), from.len()) {
                let Some(future) = from.pop_oldest() else { break };
                stats::add(&self.counters.pulled, 1);
                ready.push_back(GroupReady { mark: to.unstarted.mark(), yielded: true, what: ReadyWhat::Future });
                *futures_lined += 1;
                to.yielded.push(future);
            }
        }
        ready.len() - before
    }

    /// The other workers, from the next one on.
    pub(super) fn other_workers(&self) -> impl Iterator<Item = usize> + use<> {
        let (index, workers) = (self.index, self.shared.workers.len());
        (1..workers).map(move |step| (index + step) % workers)
    }

    /// A group, in turn, that has something unstarted on another worker.
    pub(super) fn next_elsewhere(&self) -> Option<Arc<ShareGroup>> {
        let shares = &self.shared.shares;
        let turn = self.local_shares().turn;
        let mut loaded = self.other_workers().filter(|&victim| shares.counts.of(victim) > 0);
        let group = loaded.find_map(|victim| shares.next_on(victim, turn, || self.looked_at(1)))?;
        self.local_shares().turn = group.serial;
        Some(group)
    }

    /// Takes an unstarted task of any group from another worker.
    pub(super) fn steal_of_groups(&self) -> Option<RunnableRef> {
        if !self.slot().takes.steals() || !self.shared.shares.has_stealable(self.index) {
            return None;
        }
        let (group, task) = (0..STOLEN_GROUPS).find_map(|_| {
            let group = self.next_elsewhere()?;
            let task = self.steal_in_group(&group)?;
            Some((group, task))
        })?;
        // It has the worker from now on.
        let now = self.shared.charging_now();
        self.settle(now);
        let mut shares = self.local_shares();
        shares.known(&group);
        shares.wake(group.number);
        drop(shares);
        let _ = self.group_at(now);
        Some(task)
    }

    pub(super) fn steal_in_group(&self, group: &ShareGroup) -> Option<RunnableRef> {
        let may_steal = self.slot().takes.steals() && !group.is_throttled();
        if !may_steal || !self.shared.shares.has_stealable(self.index) {
            return None;
        }
        let (victim, task) = self.other_workers().find_map(|victim| {
            self.looked_at(1);
            Some((victim, group.steal_from(victim)?))
        })?;
        stats::add(&self.counters.stolen, 1);
        if self.watched && self.stepwise.is_none() {
            self.log(Choice::Elsewhere, Some(victim), Some(task.id()));
        }
        Some(task)
    }
}

impl LocalGroup {
    pub(super) fn has_work(&self, lines: &Lines) -> bool {
        !self.ready.is_empty() || lines.has_unstarted()
    }

    /// Whether what has not started here is for workers that have nothing of the group. One that does not come in time is not waited for again before all have been seen.
    pub(super) fn keeps_unstarted(&mut self, worker: &Worker) -> bool {
        let unstarted = self.group.lines[worker.index].unstarted.len();
        if unstarted == 0 || unstarted >= self.group.lines.len() || self.ready.is_empty() {
            return false;
        }
        let absent = self.group.absent_workers(worker.index);
        if absent == 0 {
            self.kept_until = None;
        }
        if unstarted > absent {
            return false;
        }
        let now = worker.shared.charging_now();
        now < *self.kept_until.get_or_insert(now.saturating_add(KEPT_MOST))
    }
}
