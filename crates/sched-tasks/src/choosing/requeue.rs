//! A future that was woken: where it waits for its next poll.
//!
//! Room: driver. Knows queues; knows nothing of futures.
//!
//! # Invariants
//! - A future that waits here may be polled by any worker. One that has less to run than another has such futures takes half of the difference, within a few choices: so a worker that the system kept from its
//!   CPU for a while finds its part when it comes back.
//! - Each future has one place in the line of its worker. If others took some, as many places are left out.

use mech_sync::Steal;

use crate::{
    kernel::{
        task::{Runnable, RunnableRef},
        worker::{Next, ReadyWhat, Worker},
    },
    stats,
};

/// A difference of so many futures is not worth moving any.
const LEVEL_SLACK: usize = 2;

/// So many are moved at a time.
const LEVELLED_MOST: usize = 32;

/// So many are taken in at the end of a turn.
const TAKEN_IN_MOST: usize = 32;

impl Worker {
    // ---- what tasks ask of their worker ----

    /// A future was woken: it goes on after those that are ready, as a fiber would. Among what has not begun it would wait for all that is ready at any time. Not where there are other workers: these steal what
    /// has not begun, at once, and in the line it would wait behind a task that computes.
    pub(crate) fn push_woken(&self, future: RunnableRef) {
        if self.shared.goes_long_way() || !self.is_the_only_one() {
            return self.push(future);
        }
        self.line_up_future(future.into_item());
        self.enqueue_ready(ReadyWhat::Future);
    }

    /// A future was woken while it ran: it goes to the back of the line, or to a worker that has none.
    pub(crate) fn requeue(&self, runnable: RunnableRef) {
        let runnable = match self.requeued_in_group(runnable, true) {
            Some(runnable) => runnable,
            None => return,
        };
        if self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.line_up_future(runnable.into_item());
            self.enqueue_behind_all(ReadyWhat::Future);
        }
    }

    /// Takes in what other threads woke, since a turn is over here. What has not begun goes where it would have been taken to.
    #[inline]
    pub(crate) fn take_in_woken_futures(&self) {
        if !self.shared.injected.is_empty()
            && self.is_the_only_one()
            && self.slot().takes.shared()
            && !self.shared.goes_long_way()
        {
            self.take_in_injected();
        }
    }

    #[cold]
    fn take_in_injected(&self) {
        let mut is_published = false;
        let mut take_in = |task: RunnableRef| {
            if task.is_future() {
                self.line_up_future(task.into_item());
                self.enqueue_ready(ReadyWhat::Future);
            } else {
                self.deque.push(task.into_item());
                is_published = true;
            }
        };
        let first = self.shared.injected.pop_batch(TAKEN_IN_MOST, &mut take_in);
        first.into_iter().for_each(take_in);
        if is_published {
            self.shared.idle.published(); // on their way from there to here no worker saw them
        }
    }

    /// Whether its runtime has no other worker.
    pub(crate) fn is_the_only_one(&self) -> bool {
        self.shared.workers.len() == 1
    }

    fn line_up_future(&self, future: *mut Runnable) {
        self.yielded.push(future);
        self.futures_lined.set(self.futures_lined.get() + 1);
    }

    /// Gives back a future that is in no group.
    fn requeued_in_group(&self, future: RunnableRef, yielded: bool) -> Option<RunnableRef> {
        if self.shared.has_groups() { self.requeue_in_group(future, yielded).err() } else { Some(future) }
    }

    /// The same for one whose turn was over: as a fiber, it waits for those that are ready only. Another worker gets it if that one has nothing and this one has more.
    pub(crate) fn requeue_turn(&self, runnable: RunnableRef) {
        let runnable = match self.requeued_in_group(runnable, false) {
            Some(runnable) => runnable,
            None => return,
        };
        if self.has_other_work() && self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.line_up_future(runnable.into_item());
            self.enqueue_ready(ReadyWhat::Future);
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
                self.line_up_future(future);
                self.enqueue_behind_all(ReadyWhat::Future);
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
