//! A worker of a seeded runtime: it takes one step when its driver says so.
//!
//! # Invariant
//! A step ends when the task it started or went on with waits, yields, is interrupted or ends. Between two steps no fiber runs.
//!
//! # Why it holds
//! [`Worker::next`] finds nothing for a fiber of such a worker, so whatever stops, yields or ends leaves its thread to the worker_strand.
//!
//! An interrupted worker is what a thread is that the system has taken the CPU from: it goes on where it was, and until then others may rob it, but nothing else runs
//! on it. So a seeded run does only what a parallel one could have done.

use std::{cell::Cell, rc::Rc};

use mech_fiber::Step;
use mech_sync::{Steal, Waiter};
use vocab::TaskId;

use super::{
    chance::Decision,
    seeded::Seeded,
    stats,
    trace::What,
    worker::{Next, STOP, Worker},
};
use crate::{
    decide::VictimStrategy,
    raw::{current, task::RunnableRef},
    strand::Strand,
};

/// What only a worker of a seeded runtime has.
pub(crate) struct Stepwise {
    seeded: &'static Seeded,
    /// The fiber in which it was interrupted.
    paused: Cell<Option<&'static Waiter>>,
    /// It takes a step: its worker_strand may wait in the middle, for a destructor.
    pub(super) in_step: Cell<bool>,
    /// The last step ended with a yield.
    pub(super) yielded: Cell<bool>,
    /// Which task it started or went on with last.
    task: Cell<Option<TaskId>>,
}

impl Stepwise {
    pub(super) fn new(seeded: &'static Seeded) -> Self {
        Self {
            seeded,
            paused: Cell::new(None),
            in_step: Cell::new(false),
            yielded: Cell::new(false),
            task: Cell::new(None),
        }
    }
}

impl Worker {
    /// Its own part, for what is called only in a seeded run.
    pub(super) fn own(&self) -> &Stepwise {
        self.stepwise.as_ref().expect("a driver has stepwise workers")
    }

    fn note(&self, what: What, task: Option<TaskId>) {
        self.own().seeded.note(Some(self.index as u32), what, task);
    }

    /// What a fiber finds to go on with: nothing, if its worker goes step by step.
    #[cold]
    pub(super) fn next_watched(&self) -> Option<Next> {
        if self.stepwise.is_some() { None } else { self.next_unwatched::<true>() }
    }

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
    }

    /// Forgets the last run.
    pub(super) fn begin_run(&self) {
        self.tick.set(0);
    }

    /// Takes a step.
    pub(super) fn step(self: &Rc<Self>, worker_strand: &Strand) {
        let own = self.own();
        own.in_step.set(true);
        own.yielded.set(false);
        if let Some(waiter) = own.paused.take() {
            self.go_on(waiter, worker_strand);
        } else {
            self.attend_cleanups(worker_strand);
            let found = self.found.take().map(Next::Start);
            match found.or_else(|| self.next_unwatched::<false>()) {
                Some(Next::Start(runnable)) => {
                    own.task.set(Some(runnable.id()));
                    self.note(What::Started, own.task.get());
                    self.start(runnable, worker_strand);
                }
                Some(Next::Resume(waiter)) => self.go_on(waiter, worker_strand),
                None => {} // somebody else was meant, or a nursery was told
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
        stats::add(&self.slot().counters.switches, 1);
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
            self.bury(key, self.fibers.strand(key), worker_strand);
        }
    }

    /// A fiber of a seeded runtime yields: to the other workers as well.
    #[cold]
    pub(super) fn yield_step(&self) -> usize {
        self.own().yielded.set(true);
        STOP
    }

    /// Lets the other workers go first, if chance will have it.
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

    /// Robs one of those who have something.
    #[cold]
    pub(super) fn steal_step(&self) -> Option<RunnableRef> {
        let workers = &self.shared.workers;
        let behind = (1..workers.len()).map(|steps| (self.index + steps) % workers.len());
        let rich: Vec<usize> = behind.filter(|&index| !workers[index].stealer.is_empty()).collect();
        let &first = rich.first()?;
        let victim = match self.shared.strategy {
            VictimStrategy::Random => rich[self.own().seeded.choose(rich.len(), Decision::Victim)],
            VictimStrategy::RoundRobin => first,
            VictimStrategy::LeastLoaded => {
                // The first of the richest: `max_by_key` would give the last.
                rich.into_iter().rev().max_by_key(|&index| workers[index].stealer.len()).unwrap_or(first)
            }
        };
        let Steal::Taken(item) = workers[victim].stealer.steal() else { return None };
        stats::add(&self.slot().counters.stolen, 1);
        let stolen = RunnableRef::from_item(item);
        self.note(What::Stole { victim: victim as u32 }, Some(stolen.id()));
        Some(stolen)
    }
}
