//! A worker of a seeded runtime: it takes one step when its driver says so.
//!
//! Room: driver. Knows fibers; what such a worker chooses is `choosing/stepwise.rs`.
//!
//! # Invariant
//! A step ends when the task it started or went on with waits, yields, is interrupted or ends. Between two steps no fiber runs.
//!
//! # Why it holds
//! `Worker::next` finds nothing for a fiber of such a worker, so whatever stops, yields or ends leaves its thread to the worker's own strand.
//!
//! An interrupted worker is what a thread is that the system has taken the CPU from: it goes on where it was, and until then others may steal from it, but nothing else runs
//! on it. So a seeded run does only what a parallel one could have done.

use std::rc::Rc;

use mech_fiber::Step;
use mech_sync::Waiter;

use crate::{
    kernel::{
        current,
        worker::{Next, Worker},
    },
    stats,
    strand::Strand,
    trace::What,
};

impl Worker {
    /// Whether a step would do something.
    pub(super) fn is_able(&self) -> bool {
        let own = self.own();
        if own.in_step.get() {
            return false;
        }
        own.paused.get().is_some()
            || self.has_other_work()
            || !self.cleanups.borrow().is_empty()
            || self.shared.has_stealable(self.index)
            || self.shared.has_groups() && self.shared.shares.has_stealable(self.index)
    }

    /// Forgets the last run.
    pub(super) fn begin_run(&self) {
        self.tick.set(0);
        self.look_at.set(0);
        self.next_look.set(0);
        self.looks_left.set(0);
        self.look_every.set(1);
        *self.shares.borrow_mut() = None;
        while self.shared.shares.notices[self.index].pop_batch(0, drop).is_some() {}
    }

    /// Takes a step.
    pub(super) fn step(self: &Rc<Self>, worker_strand: &Strand) {
        let own = self.own();
        own.in_step.set(true);
        own.yielded.set(false);
        if let Some(waiter) = own.paused.take() {
            stats::add(&self.counters.other_entries, 1); // it was not chosen: it was interrupted
            self.go_on(waiter, worker_strand);
        } else {
            self.start_cleanups(worker_strand);
            let found = self.found.take().map(Next::Start);
            match found.or_else(|| self.next_step()) {
                Some(Next::Start(runnable)) => {
                    own.task.set(Some(runnable.id()));
                    self.note(What::Started, own.task.get());
                    self.start(runnable, worker_strand);
                }
                Some(Next::Resume(waiter)) => self.go_on(waiter, worker_strand),
                None => {} // another worker took it, or an end was reported
            }
        }
        self.report(); // that may make an owner ready
        own.in_step.set(false);
    }

    fn go_on(self: &Rc<Self>, waiter: &'static Waiter, worker_strand: &Strand) {
        self.own().task.set(self.fibers.task(waiter.tag()));
        self.note(What::Resumed, self.own().task.get());
        self.resume(waiter.tag(), worker_strand);
    }

    /// Enters a fiber until it stops. The caller may itself be a fiber, of another runtime.
    pub(super) fn resume_once(self: &Rc<Self>, key: u32, worker_strand: &Strand) {
        let own = self.own();
        stats::add(&self.counters.switches, 1);
        let step = current::enter(worker_strand, || {
            let step = self.fibers.enter_from_anywhere(key);
            if matches!(step, Step::Returned(_)) {
                self.dismiss(key, worker_strand);
            }
            step
        });
        let what = match step {
            Step::Overflowed => What::Overflowed,
            Step::Returned(_) => What::Ended,
            Step::Suspended(_) if own.paused.get().is_some() => What::Preempted,
            Step::Suspended(_) if own.yielded.get() => What::Yielded,
            Step::Suspended(_) if self.fibers.task(key).is_some() => What::Waited,
            Step::Suspended(_) => What::Ended,
        };
        self.note(what, own.task.get());
        if step == Step::Overflowed {
            self.clean_up_overflow(key, self.fibers.strand(key), worker_strand);
        }
    }
}
