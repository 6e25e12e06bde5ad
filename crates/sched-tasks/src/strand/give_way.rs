//! Giving way: by a yield, which goes behind everything, and at the end of a turn, which goes behind what is ready.
//!
//! Room: driver. Knows the queues of one worker; knows nothing of why a strand gives way.
//!
//! # Invariants
//! A fiber that gives way is in the ready queue of its worker before it stops. What other threads woke until then goes before it.
//!
//! All of it is inlined into the caller as far as a yield needs it, for the reason that [`Strand::wait`] is.

use mech_sync::Waiter;

use crate::{
    decide,
    kernel::{
        strand::Strand,
        worker::{Behind, HOP, Ready, ReadyWhat, STOP, Worker},
    },
};

impl Worker {
    /// The common case of a yield: nothing happened meanwhile, and the first in line is another fiber. It is taken, and `waiter` goes to the back.
    #[inline(always)]
    fn other_ready_fiber(&self, waiter: &'static Waiter) -> Option<usize> {
        let tick = self.tick.get().wrapping_add(1);
        let first = self.ready.front()?;
        let ReadyWhat::Fiber(other) = first.what else { return None };
        let undisturbed = !self.went_long_way.get()
            && !self.looks_closely.get()
            && !self.leaves_short_way(tick)
            && !self.inbox.has_arrivals()
            && self.shared.high.is_empty()
            && self.deque.has_passed(first.mark());
        if !undisturbed {
            return None;
        }
        self.tick.set(tick);
        self.report();
        self.ready.rotate(Ready::new(self.deque.mark(), true, ReadyWhat::Fiber(waiter)));
        Some(HOP + other.tag() as usize)
    }

    /// Any other case: what is to run before `waiter` goes on, if there is something.
    #[inline(never)]
    fn other_work(&self, waiter: &'static Waiter) -> Option<usize> {
        if self.stepwise.is_some() {
            self.enqueue_behind_all(ReadyWhat::Fiber(waiter));
            return Some(self.yield_step());
        }
        let tick = self.tick.get().wrapping_add(1);
        if self.has_due_waits() {
            self.enqueue_behind_all(ReadyWhat::Fiber(waiter));
            return Some(STOP); // the worker ends them
        }
        if !self.shared.has_groups() && !self.has_other_work() && !self.may_go_behind_others(tick) {
            self.tick.set(tick);
            if self.leaves_short_way(tick) {
                self.plan_look(tick);
            }
            return None; // alone here, and the others have nothing that it would go behind
        }
        self.take_in_any(); // they go first
        self.enqueue_behind_all(ReadyWhat::Fiber(waiter));
        self.other_successor(waiter) // none: the others were taken meanwhile
    }

    /// What is to run before `strand` goes on, whose turn is over: those that are ready, and now and then something that is put off.
    fn other_turn(&self, strand: &Strand) -> Option<usize> {
        let tick = self.tick.get().wrapping_add(1);
        let what = ReadyWhat::Fiber(strand.waiter);
        if self.has_due_waits_now() {
            strand.ensure_room();
            self.enqueue_behind(self.behind_after_turn(), what);
            return Some(STOP); // the worker ends them
        }
        self.take_in_at_turn();
        let behind = self.behind_after_turn();
        let is_alone = behind == Behind::Ready
            && !self.shared.goes_long_way()
            && self.ready.is_empty()
            && !self.inbox.has_arrivals()
            && self.shared.high.is_empty();
        if is_alone && self.stepwise.is_none() && !tick.is_multiple_of(decide::GLOBAL_QUEUE_INTERVAL) {
            self.tick.set(tick);
            return None;
        }
        strand.ensure_room();
        if self.stepwise.is_some() {
            self.enqueue(strand.waiter);
            return Some(self.yield_step());
        }
        self.take_in_any(); // they go first
        self.enqueue_behind(behind, what);
        self.other_successor(strand.waiter)
    }

    /// What is chosen, if it is not `waiter` itself.
    #[inline]
    fn other_successor(&self, waiter: &'static Waiter) -> Option<usize> {
        let successor = self.choose_successor();
        if self.is_key_of(successor, waiter) {
            self.stays();
            return None;
        }
        Some(successor)
    }

    /// Lets the other workers go first, if chance says so.
    #[cold]
    pub(crate) fn interleave(&self, strand: &Strand) {
        if let Some(own) = &self.stepwise
            && own.seeded.preempts()
        {
            self.pause(strand);
        }
    }

    /// Is interrupted here. False if it is a worker that the system interrupts.
    pub(crate) fn pause(&self, strand: &Strand) -> bool {
        let Some(own) = &self.stepwise else { return false };
        own.paused.set(Some(strand.waiter));
        strand.turn.while_kept(|| strand.suspend(self, STOP)); // nothing else of this worker runs meanwhile
        true
    }
}

/// Lets the first fiber in line run first, if there is one that is ready now. Says whether there was.
#[inline(always)]
pub(crate) fn yield_to_ready(strand: &Strand) -> bool {
    let Some(worker) = &strand.worker else { return false };
    let successor = worker.other_ready_fiber(strand.waiter);
    if let Some(successor) = successor {
        strand.suspend_to_yield(worker, successor);
        strand.turn.begin();
    }
    successor.is_some()
}

/// Lets others run first, if there are any. Inlined for the reason that [`Strand::wait`] is.
#[inline(always)]
pub(crate) fn yield_now(strand: &Strand) {
    let Some(worker) = &strand.worker else {
        return strand.yield_thread();
    };
    strand.ensure_room();
    strand.turn.begin(); // also if there is no other
    if let Some(successor) = worker.other_ready_fiber(strand.waiter) {
        strand.suspend_to_yield(worker, successor);
    } else if let Some(successor) = worker.other_work(strand.waiter) {
        strand.suspend_closely(worker, successor);
    }
}

/// Lets those run first that are ready, since the turn of `strand` is over; see `turn.rs`.
pub(crate) fn give_turn(strand: &Strand) {
    match (&strand.worker, &strand.driver) {
        // Between tasks it is no fiber, or one that no task waits for.
        (Some(worker), _) if strand.running.get().is_some() => {
            if let Some(successor) = worker.other_turn(strand) {
                strand.suspend(worker, successor);
            }
        }
        (None, Some(driver)) => driver.others_first(strand),
        _ => {} // a plain thread has its turns from the system
    }
}

impl Strand {
    /// A plain thread lets others run first.
    #[cold]
    fn yield_thread(&self) {
        match &self.driver {
            Some(driver) => driver.others_first(self),
            None => std::thread::yield_now(),
        }
    }

    /// Lets others run that are about to bring what this strand looks for, in a loop.
    #[cold]
    pub(crate) fn give_way(&self) {
        if !self.worker.as_ref().is_some_and(|worker| worker.pause(self)) {
            self.yield_thread();
        }
    }
}
