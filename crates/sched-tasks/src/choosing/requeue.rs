//! A future that was woken: where it waits for its next poll.
//!
//! Room: driver. Knows queues; knows nothing of futures.
//!
//! # Invariants
//! - A future that waits here may be polled by any worker: one without work takes the first. One that has less to run than another has such futures takes half of the difference, within a few choices: so a worker that the system kept from its
//!   CPU for a while finds its part when it comes back.
//! - Each future has one place in the line of its worker. If others took some, as many places are left out.

use mech_sync::Steal;

use crate::{
    decide::{Oldest, View as _},
    kernel::{
        task::RunnableRef,
        worker::{Behind, Next, ReadyWhat, Worker},
    },
    stats,
};

/// A difference of so many futures is not worth moving any.
const LEVEL_SLACK: usize = 2;

/// So many are moved at a time.
const LEVELLED_MOST: usize = 32;

/// While so many tasks have begun and could go on, no other begins because a turn is over: each has a stack.
const BEGUN_FEW: usize = 32;

/// So many are taken in at the end of a turn.
const TAKEN_IN_MOST: usize = 32;

impl Worker {
    // ---- what tasks ask of their worker ----

    /// A future was woken: it goes on after those that are ready, as a fiber would. Among what has not begun it would wait for all that is ready at any time.
    pub(crate) fn push_woken(&self, future: RunnableRef) {
        if self.shared.goes_long_way() {
            return self.push(future);
        }
        self.line_up_future(future, Behind::Ready);
        self.shared.idle.published();
    }

    /// A future was woken while it ran: it goes to the back of the line, or to a worker that has none.
    pub(crate) fn requeue(&self, runnable: RunnableRef) {
        let runnable = match self.requeued_in_group(runnable, Behind::All) {
            Some(runnable) => runnable,
            None => return,
        };
        if self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.line_up_future(runnable, Behind::All);
        }
    }

    /// Takes in a part of what other threads published, since a turn is over here: a worker that is never without work would look there at every [`crate::decide::GLOBAL_QUEUE_INTERVAL`]th
    /// choice only, and between two choices may lie a turn.
    #[inline]
    pub(crate) fn take_in_at_turn(&self) {
        if !self.shared.injected.is_empty() && self.slot().takes.shared() && !self.shared.goes_long_way() {
            self.take_in_injected();
        }
    }

    #[cold]
    fn take_in_injected(&self) {
        let there = self.shared.injected.len().div_ceil(self.shared.workers.len());
        let (mut batch, mut count) = ([const { None }; TAKEN_IN_MOST], 0);
        let first = self.shared.injected.pop_batch(there.clamp(1, TAKEN_IN_MOST) - 1, |task| {
            batch[count] = Some(task);
            count += 1;
        });
        for task in first.into_iter().chain(batch.into_iter().flatten()) {
            if task.is_future() {
                self.line_up_future(task, Behind::Ready);
            } else {
                self.deque.push(task.into_item());
            }
        }
        self.shared.idle.published(); // on their way from there to here no worker saw them
    }

    /// What goes before something that has used a whole turn: once in [`crate::decide::OLDEST_INTERVAL`] a task that has not begun, or those would wait for many of its turns. Only
    /// while few have begun and not ended, lest all of them do.
    pub(crate) fn behind_after_turn(&self) -> Behind {
        let may_start = self.stepwise.is_none()
            && self.ready.len() < BEGUN_FEW
            && (!self.deque.is_empty() || self.shared.has_groups());
        if may_start && self.is_due(Oldest::Own) { Behind::Oldest } else { Behind::Ready }
    }

    fn line_up_future(&self, future: RunnableRef, behind: Behind) {
        self.yielded.push(future.into_item());
        self.futures_lined.set(self.futures_lined.get() + 1);
        self.enqueue_behind(behind, ReadyWhat::Future);
    }

    /// Gives back a future that is in no group.
    fn requeued_in_group(&self, future: RunnableRef, behind: Behind) -> Option<RunnableRef> {
        if self.shared.has_groups() { self.requeue_in_group(future, behind).err() } else { Some(future) }
    }

    /// The same for one whose turn was over: as a fiber, it waits for those that are ready only. Another worker gets it if that one has nothing and this one has more.
    pub(crate) fn requeue_turn(&self, runnable: RunnableRef) {
        self.take_in_at_turn();
        let behind = self.behind_after_turn();
        let runnable = match self.requeued_in_group(runnable, behind) {
            Some(runnable) => runnable,
            None => return,
        };
        if self.has_other_work() && self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.line_up_future(runnable, behind);
        }
    }

    // ---- choosing ----

    /// The future whose turn it is; none if others took it.
    pub(super) fn next_future(&self) -> Option<Next> {
        let lined = self.futures_lined.get();
        self.futures_lined.set(lined - 1);
        if lined > self.slot().yielded.len() {
            return None; // or those that are left would have more turns than they are due
        }
        let item = self.yielded.pop_oldest()?;
        stats::add(&self.counters.repolled, 1);
        Some(Next::Start(RunnableRef::from_item(item)))
    }

    /// Takes futures from a worker that has more of them than this one has to run: half of the difference.
    #[cold]
    pub(super) fn level_futures(&self) {
        if !self.slot().takes.steals() {
            return;
        }
        for victim in self.other_workers() {
            let victim = &self.shared.workers[victim].yielded;
            let (here, there) = (self.ready.len(), victim.len());
            for _ in 0..futures_to_move(here, there) {
                let Steal::Taken(future) = victim.steal() else { break };
                stats::add(&self.counters.pulled, 1);
                self.line_up_future(RunnableRef::from_item(future), Behind::All);
            }
        }
    }

    // ---- running ----
}

/// How many futures a worker takes that has `here` tasks to run, from one that has `there` futures.
pub(super) fn futures_to_move(here: usize, there: usize) -> usize {
    match there.saturating_sub(here) {
        ..=LEVEL_SLACK => 0,
        more => (more / 2).min(LEVELLED_MOST),
    }
}
