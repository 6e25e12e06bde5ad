//! How a worker runs: one thread that runs tasks, on stacks it changes only when a task waits.
//!
//! Room: driver. Knows fibers and stacks; what it runs next is said by `choosing/mod.rs`.
//!
//! ```text
//!   worker's own strand (the thread's own stack)
//!     │ resume ──► a fiber: runs task after task, until one of them waits
//!     │ ◄── HOP + key           it waits, yielded or is idle, and chose what runs next
//!     │ ◄── STOP                the same, but it found no other
//!     └ search, sleep, make new fibers
//! ```
//!
//! # Invariants
//! A started task never leaves its worker. A task that does not wait costs no switch. Before a worker runs anything of another nursery, or
//! sleeps, it has reported to the last nursery how many of its tasks ended.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use mech_fiber::{Fiber, Step};

use crate::{
    build_error::about_stacks,
    error::Reason,
    kernel::{
        current,
        name_slot::Name,
        task::RunnableRef,
        thread,
        worker::{HOP, Next, STOP, Worker},
    },
    places, stats,
    strand::Strand,
};

/// After so many switches a worker looks whether waits of its tasks are over, and whether events of sockets have gone unseen.
const LOOK_INTERVAL: u64 = 16;
/// After so many tasks it looks for the events. So seldom that it costs little, and so often that tasks of a millisecond leave nothing to the monitor.
#[cfg(feature = "net")]
const POLL_INTERVAL: u64 = 8;

/// What to resume an idle fiber with.
const GO_ON: usize = 0;
const EXIT: usize = 1;

impl Worker {
    // ---- what tasks ask of their worker ----

    // ---- choosing ----

    // ---- running ----

    /// The thread's main function: restarts the worker in place if it panics. Its fibers are pinned to this thread, so the thread stays. Says at its
    /// end whether the thread may end as well: not if frames on a lost stack may have lent its thread-locals on.
    #[must_use]
    pub(crate) fn main(self: &Rc<Self>) -> bool {
        let worker_strand = Strand::new(places::take_waiter(self.inbox), Some(self.clone()));
        current::enter(&worker_strand, || {
            while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.work(&worker_strand))) {
                drop(payload); // the panic hook has printed it
                stats::add(&self.counters.restarts, 1);
            }
            self.end_fibers(&worker_strand);
        });
        places::give_waiter(worker_strand.waiter);
        !self.lost_stacks.get()
    }

    /// Ends all fibers: none of them has a task.
    pub(super) fn end_fibers(&self, worker_strand: &Strand) {
        let waiters = current::enter(worker_strand, || self.fibers.end_all(EXIT, worker_strand));
        waiters.into_iter().for_each(places::give_waiter);
        while self.idle_fibers.pop_back().is_some() {}
        self.vacant.borrow_mut().clear();
    }

    fn work(self: &Rc<Self>, worker_strand: &Strand) {
        loop {
            if self.slot().fails_next.load(Relaxed) && self.slot().fails_next.swap(false, Relaxed) {
                panic!("worker {} was told to fail", self.index);
            }
            self.start_cleanups(worker_strand);
            self.end_due_waits();
            match self.found.take().map(Next::Start).or_else(|| self.next()).or_else(|| self.search()) {
                Some(next) => {
                    self.shared.watchdog.arm(self.watch, self.shared);
                    match next {
                        Next::Start(runnable) => self.start(runnable, worker_strand),
                        Next::Resume(waiter) => self.resume(waiter.tag(), worker_strand),
                    }
                }
                None => return,
            }
        }
    }

    /// Runs an unstarted task on an idle fiber, or on a new one.
    pub(super) fn start(self: &Rc<Self>, runnable: RunnableRef, worker_strand: &Strand) {
        let idle = if self.is_for_usual_stack(&runnable) { self.idle_fibers.pop_back() } else { None };
        match idle.map_or_else(|| self.new_fiber(runnable.stack_bytes()), Ok) {
            Ok(key) => {
                self.handoff.set(Some(runnable));
                self.resume(key, worker_strand);
            }
            Err(error) => {
                let reason = Reason::OutOfStacks { what: Arc::from(about_stacks(&error)) };
                // What it captured is dropped on this thread, and may block it: the worker's own strand is no fiber.
                let here = thread::for_thread_here();
                current::enter(&here, || runnable.refuse(reason, &here));
                stats::add(&self.counters.refused, 1);
                stats::add(&self.counters.ended, 1); // that strand has no worker to count
                thread::retire_thread(&here);
            }
        }
    }

    /// A fiber with a stack of at least `bytes`, and at least the usual one.
    pub(super) fn new_fiber(self: &Rc<Self>, bytes: usize) -> Result<u32, Arc<mech_fiber::StackError>> {
        let stack = self.shared.stacks.take(bytes)?;
        let waiter = places::take_waiter(self.inbox);
        let worker = self.clone();
        let fiber = Fiber::new(stack, move |word| {
            let is_watched = worker.watched;
            let strand = Strand::new(waiter, Some(worker));
            if is_watched { run_tasks::<true>(&strand, word) } else { run_tasks::<false>(&strand, word) }
        });
        let key = self.fibers.add(self.vacant.borrow_mut().pop(), fiber, waiter);
        waiter.set_tag(key);
        Ok(key)
    }

    /// Enters a fiber, and then the one that it names, until one names none.
    pub(super) fn resume(self: &Rc<Self>, key: u32, worker_strand: &Strand) {
        match self.watched {
            false => self.resume_all::<false>(key, worker_strand),
            true if self.stepwise.is_some() => self.resume_once(key, worker_strand),
            true => self.resume_all::<true>(key, worker_strand),
        }
    }

    fn resume_all<const WATCHED: bool>(self: &Rc<Self>, mut key: u32, worker_strand: &Strand) {
        let lost = current::enter(worker_strand, || {
            loop {
                stats::add(&self.counters.switches, 1);
                if self.counters.switches.load(Relaxed).is_multiple_of(LOOK_INTERVAL) {
                    self.look_around();
                }
                if WATCHED {
                    self.counters.timing.enter_task();
                }
                let successor = match self.fibers.enter(key, GO_ON) {
                    Step::Suspended(successor) => successor,
                    Step::Returned(successor) => {
                        self.dismiss(key, worker_strand);
                        successor
                    }
                    Step::Overflowed => return Some(key),
                };
                match successor {
                    STOP => return None,
                    hop => key = (hop - HOP) as u32,
                }
            }
        });
        if WATCHED {
            self.counters.timing.enter_scheduler();
        }
        self.watch.clear();
        if let Some(key) = lost {
            self.clean_up_overflow(key, self.fibers.strand(key), worker_strand);
        }
    }

    /// Between two fibers: what has come meanwhile that no thread delivers?
    #[inline(always)]
    fn look_around(&self) {
        self.end_due_waits();
        #[cfg(feature = "net")]
        self.look_at_sockets(crate::reactor::BETWEEN_FIBERS);
    }

    /// The same between two tasks on one stack.
    #[cfg(feature = "net")]
    #[inline(always)]
    fn look_at_sockets_at_times(&self) {
        if self.counters.executed.load(Relaxed).is_multiple_of(POLL_INTERVAL) && self.stepwise.is_none() {
            self.look_at_sockets(crate::reactor::BETWEEN_TASKS);
        }
    }

    /// Tells what has come to sockets, if that went unseen for so long. Futures that it wakes go behind those that were woken earlier.
    #[cfg(feature = "net")]
    #[cold]
    #[inline(never)]
    fn look_at_sockets(&self, unseen_max: std::time::Duration) {
        let Some(arrived) = crate::reactor::poll_if_due(unseen_max) else { return };
        let (mark, was_empty) = (self.deque.mark(), self.deque.is_empty());
        arrived.dispatch();
        while !was_empty
            && self.deque.mark().wrapping_sub(mark) > 0
            && let Some(newest) = self.deque.pop()
        {
            self.shared.inject(&self.shared.injected, RunnableRef::from_item(newest));
        }
    }

    /// A fiber returned, since enough others are idle: others may have its stack and its place.
    #[cold]
    pub(super) fn dismiss(&self, key: u32, worker_strand: &Strand) {
        let waiter = self.fibers.remove(key, worker_strand);
        self.vacant.borrow_mut().push(key);
        places::give_waiter(waiter);
    }
}

/// What a fiber does: task after task; with a larger stack than usual, one. Returns when the worker exits or has enough idle fibers, with the one that
/// is next.
fn run_tasks<const WATCHED: bool>(strand: &Strand, mut word: usize) -> usize {
    let worker = strand.worker.as_ref().expect("a fiber has a worker");
    let has_usual_stack = strand.stack_bytes <= worker.shared.stacks.usual_bytes();
    worker.fibers.introduce(strand.waiter.tag(), strand);
    while word == GO_ON {
        stats::add(&worker.counters.other_entries, 1);
        while let Some(overflow_cleanup) = { worker.cleanups.borrow_mut().pop_front() } {
            strand.name.set(Name::NO_TASK);
            overflow_cleanup(strand);
        }
        let mut next = worker.handoff.take().map(Next::Start);
        while let Some(Next::Start(runnable)) = next {
            stats::add(&worker.counters.executed, 1);
            if WATCHED {
                worker.counters.timing.enter_task();
            }
            runnable.run(strand);
            worker.end_due_waits_at_times();
            #[cfg(feature = "net")]
            worker.look_at_sockets_at_times();
            next = worker.next();
            if let Some(Next::Start(other)) = &next
                && !(has_usual_stack && worker.is_for_usual_stack(other))
            {
                break; // it wants another stack
            }
        }
        // Nothing to start here: this fiber is idle, and the one that was chosen goes on.
        let successor = next.map_or(STOP, |next| worker.successor(next));
        if !has_usual_stack || worker.idle_fibers.len() >= worker.max_idle_fibers {
            return successor;
        }
        worker.idle_fibers.push(strand.waiter.tag());
        word = mech_fiber::suspend(successor);
    }
    STOP
}
