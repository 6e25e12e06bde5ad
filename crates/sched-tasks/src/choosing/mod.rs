//! How a worker chooses what to run next: of its own queues, of those that all share, and of other workers'.
//!
//! Room: driver. Knows queues; which of them comes first is said by `decide.rs`.
//!
//! # Invariant
//! Whatever was counted for a nursery is reported before something else than its tasks goes on.

mod candidates;
mod group_spread;
mod requeue;
mod shares;
mod steal;
mod stepwise;
mod view;

use crate::{
    decide::{self, Choice},
    kernel::{
        task::RunnableRef,
        worker::{HOP, Next, Ready, ReadyWhat, STOP, Worker},
    },
    stats,
};

/// Past so many that yielded a woken fiber is found, while they wait for tasks that have not started.
const AHEAD_MOST: usize = 64;

/// A worker takes so many at a time from the queue that all share.
const INJECTED_MOST: usize = 32;

impl Worker {
    // ---- what tasks ask of their worker ----

    // ---- choosing ----

    /// What to run next, of what is here or can be had. Whatever was counted for a nursery is reported before something else than its tasks goes on.
    #[inline(never)] // on the way of every task: one call, not one in another
    pub(crate) fn next(&self) -> Option<Next> {
        let goes_long_way = self.shared.goes_long_way();
        self.went_long_way.set(goes_long_way);
        if goes_long_way { self.next_long_way() } else { self.next_unwatched::<false>() }
    }

    #[cold]
    #[inline(never)]
    fn next_long_way(&self) -> Option<Next> {
        if self.watched { self.next_watched() } else { self.next_shared::<false>() }
    }

    #[inline(always)]
    pub(crate) fn next_unwatched<const LOG: bool>(&self) -> Option<Next> {
        if let Some(next) = self.next_here::<LOG>() {
            return Some(next);
        }
        if let Some(stolen) = self.steal() {
            return Some(Next::Start(stolen)); // still on the same stack: a run of stolen tasks costs no switches
        }
        self.report(); // that may make an owner ready
        let ready = self.next_ready();
        if LOG && let Some(ready) = &ready {
            self.log_next(Choice::Ready, ready);
        }
        ready
    }

    /// What to run next, of what is here.
    #[inline(always)] // into `next`, once for each kind
    pub(super) fn next_here<const LOG: bool>(&self) -> Option<Next> {
        self.take_in_any();
        loop {
            let tick = self.tick.get().wrapping_add(1);
            self.tick.set(tick);
            if self.leaves_short_way(tick) {
                self.plan_look(tick);
                self.level_futures();
            }
            let choice = if LOG { self.choose_and_count(tick, self) } else { decide::choose(tick, self) };
            let found = match choice {
                Choice::Ready => self.next_ready(),
                Choice::Ahead => self.next_ahead().or_else(|| self.next_oldest()),
                Choice::Newest => self.deque.pop_some().map(|item| Next::Start(RunnableRef::from_item(item))),
                Choice::Oldest => self.next_oldest(),
                Choice::High => self.shared.high.pop_batch(0, |_| {}).map(|task| self.popped_shared(task)),
                Choice::Injected => self.take_injected().map(|task| self.popped_shared(task)),
                Choice::Low => self.shared.low.pop_batch(0, |_| {}).map(|task| self.popped_shared(task)),
                Choice::Elsewhere => self.steal().map(Next::Start),
                Choice::Search => return None,
            };
            if let Some(found) = found {
                if LOG && choice != Choice::Elsewhere {
                    let nothing_ahead = choice == Choice::Ahead && matches!(found, Next::Start(_));
                    self.log_next(if nothing_ahead { Choice::Oldest } else { choice }, &found);
                }
                return Some(found); // else another worker was quicker: look again
            }
        }
    }

    #[inline]
    fn next_ready(&self) -> Option<Next> {
        loop {
            let ready = self.ready.pop_front()?;
            self.watch.count_ready(self.ready.len());
            match ready.what {
                ReadyWhat::Fiber(waiter) => {
                    self.report();
                    return Some(Next::Resume(waiter));
                }
                ReadyWhat::Future => {
                    if let Some(next) = self.next_future() {
                        return Some(next);
                    } // else others took it
                }
            }
        }
    }

    fn next_oldest(&self) -> Option<Next> {
        let item = self.deque.pop_oldest()?;
        stats::add(&self.counters.oldest, 1);
        Some(Next::Start(RunnableRef::from_item(item)))
    }

    /// The first fiber in line that waits for no unstarted task, past those that do. Futures stay: their line has one order.
    #[cold]
    fn next_ahead(&self) -> Option<Next> {
        let is_next = |ready: Ready| matches!(ready.what, ReadyWhat::Fiber(_)) && self.deque.has_passed(ready.mark());
        let ReadyWhat::Fiber(waiter) = self.ready.take_first(AHEAD_MOST, is_next)?.what else { return None };
        self.watch.count_ready(self.ready.len());
        self.report();
        Some(Next::Resume(waiter))
    }

    #[inline]
    pub(crate) fn take_in_any(&self) {
        if self.inbox.has_arrivals() {
            self.take_in();
        }
    }

    /// Takes in the fibers that other threads woke.
    #[cold]
    fn take_in(&self) {
        self.inbox.arrivals().for_each(|waiter| self.enqueue(waiter));
    }

    /// What a fiber that stops leaves with: the fiber to enter next, or that the worker must search.
    #[inline]
    pub(crate) fn choose_successor(&self) -> usize {
        self.next().map_or(STOP, |next| self.successor(next))
    }

    /// How to go on with `next`.
    #[inline(always)]
    pub(crate) fn successor(&self, next: Next) -> usize {
        match next {
            Next::Resume(waiter) => HOP + waiter.tag() as usize,
            Next::Start(runnable) => {
                let idle = if self.is_for_usual_stack(&runnable) { self.idle_fibers.pop_back() } else { None };
                match idle {
                    Some(key) => {
                        self.handoff.set(Some(runnable));
                        HOP + key as usize
                    }
                    None => {
                        self.found.set(Some(runnable));
                        STOP
                    }
                }
            }
        }
    }

    /// Counts what came from a queue that all workers share: what came from the new end of its own is the rest, and need not be counted.
    fn popped_shared(&self, task: RunnableRef) -> Next {
        stats::add(&self.counters.shared_pops, 1);
        Next::Start(task)
    }

    /// Takes a fair share of the shared queue.
    fn take_injected(&self) -> Option<RunnableRef> {
        self.took_shared_at.set(self.tick.get());
        let share = self.shared.injected.len() / self.shared.workers.len();
        let (mut batch, mut count) = ([const { None }; INJECTED_MOST], 0);
        let first = self.shared.injected.pop_batch(share.min(INJECTED_MOST), |runnable| {
            batch[count] = Some(runnable);
            count += 1;
        });
        // The newest of the deque runs first: those that came first go on top.
        batch.into_iter().rev().flatten().for_each(|runnable| self.deque.push(runnable.into_item()));
        if share > 0 {
            self.shared.idle.published(); // on their way from there to here no worker saw them
        }
        first
    }

    // ---- running ----
}
