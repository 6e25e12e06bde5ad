//! A task on a strand: how it begins, goes on, and ends, and how what it leaves behind is dropped.
//!
//! Room: driver. Knows strands, meters and members; what runs is `raw/task.rs`.
//!
//! # Invariant
//! When a task has ended on a strand, nothing of it is left there: no nursery, also none that it opened, no member, no meter, no value, no shield.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use crate::{
    budget::{Account, Reading},
    kernel::{scope::ScopeRef, task::Running, worker::Worker},
    strand::{Cancellation, Strand, panics},
};

/// How often destructors of a task's locals may make new ones, as for a thread's.
const MAX_LOCALS_ROUNDS: u32 = 5;

impl Strand {
    /// Begins a task on this strand, in the nursery `scope`.
    #[inline(always)] // on the way of every task: 2 ns of 70
    pub(crate) fn begin(&self, running: Running, scope: ScopeRef) {
        let worker = self.worker.as_deref(); // read once
        self.occupy_on(worker, running, scope);
        let Some(worker) = worker else { return self.begin_on_thread(scope) };
        if let Some(account) = scope.account() {
            worker.open_meter(scope, account, &self.meter);
        }
    }

    /// A thread has nothing drawn ahead. It is enlisted from the beginning: it stops in many ways, and is looked for there by `NurseryCore::state_of`.
    #[cold]
    #[inline(never)]
    fn begin_on_thread(&self, scope: ScopeRef) {
        if let Some(account) = scope.account() {
            self.meter.begin(&account.draw(account.child()));
        }
        self.enlist();
    }

    /// Goes on with a future that was polled before, with what it had left then.
    pub(crate) fn begin_again(&self, running: Running, scope: ScopeRef, meter: &Reading) {
        self.occupy(running, scope);
        self.meter.put(meter);
    }

    #[inline]
    pub(crate) fn occupy(&self, running: Running, scope: ScopeRef) {
        self.occupy_on(self.worker.as_deref(), running, scope);
    }

    #[inline(always)]
    fn occupy_on(&self, worker: Option<&Worker>, running: Running, scope: ScopeRef) {
        if let Some(worker) = worker {
            worker.report_others_than(scope);
            let name = running.task().name();
            self.name.set(name);
            worker.watch.show(name);
        }
        self.scope.set(Some(scope));
        self.base.set(Some(scope));
        self.running.set(Some(running));
        self.turn.begin();
    }

    /// Puts the meter aside: the task goes on later, perhaps elsewhere. Nothing that was drawn for its nursery stays with this worker.
    pub(crate) fn put_meter_aside(&self) -> Reading {
        if let Some(worker) = &self.worker {
            worker.report();
        }
        self.meter.take()
    }

    /// Ends the task: nothing of it stays behind.
    #[inline(always)] // as `begin`
    pub(crate) fn end(&self) {
        if !self.traces.are_none() {
            self.clean_up();
        }
        if self.meter.is_metered() {
            self.close_meter();
        }
        // A cleanup may wait here next, between tasks: it belongs to no nursery.
        self.scope.set(None);
        self.base.set(None);
        self.running.set(None);
    }

    #[inline(never)] // most tasks have none
    fn close_meter(&self) {
        let Some(scope) = self.base.get() else { return };
        let Some(account) = scope.account() else { return };
        match &self.worker {
            Some(worker) => worker.close_meter(scope, account, &self.meter),
            None => self.close_meter_of_thread(account),
        }
    }

    #[cold]
    #[inline(never)]
    fn close_meter_of_thread(&self, account: &Account) {
        account.settle(&self.meter.end()).wake();
    }

    #[cold]
    fn clean_up(&self) {
        if self.traces.guard_lent().replace(false)
            && let Err(error) = mech_fiber::take_guard_back()
        {
            eprintln!("bursar: a stack goes on with half of its guard: {error}");
        }
        if self.traces.has_locals().get() {
            self.drop_locals(Ok(())).unwrap_or_else(panics::discard); // of a half of a `join` that has none to hand on to
        }
        if let (Some(place), Some(scope)) = (self.enlisted.take(), self.base.get()) {
            scope.delist(place);
        }
        self.traces.enlisted().set(false);
        self.traces.shields().set(0);
        self.traces.unwinding().set(false);
        self.traces.for_unwinding().set(false);
    }

    /// Ends the nurseries that the task left open, and drops its values; it had this outcome. They are its own: a panic there, or a budget that they are refused, is the task's.
    #[cold]
    pub(crate) fn drop_locals<R>(&self, outcome: thread::Result<R>) -> thread::Result<R> {
        let place = self.panicked_at.take();
        self.traces.shields().set(1); // destructors may block, and are not interrupted
        self.end_open_nurseries();
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..MAX_LOCALS_ROUNDS {
                if !self.traces.has_locals().replace(false) {
                    break;
                }
                let locals = self.locals.take();
                locals.drop_each(); // the borrow is over: they may make new ones
            }
            self.end_open_nurseries(); // of destructors
            self.look_at_meter();
        }));
        self.end_open_nurseries(); // of one that panicked
        match (dropped, outcome) {
            (Ok(()), outcome) => {
                self.panicked_at.replace(place);
                outcome
            }
            (Err(worse), Ok(value)) => {
                panics::drop_apart(value).unwrap_or_else(panics::discard);
                Err(worse)
            }
            (Err(worse), Err(payload)) if payload.is::<Cancellation>() => Err(worse),
            (Err(another), Err(payload)) => {
                panics::discard(another);
                self.panicked_at.replace(place);
                Err(payload)
            }
        }
    }

    /// Drops what a task leaves behind when it does not run: in its name, so that destructors may block, and for a share of its own, so that they cannot spend without end. A
    /// cancellation does not interrupt them.
    pub(crate) fn aside(&self, running: Running, scope: ScopeRef, drop: impl FnOnce()) -> std::thread::Result<()> {
        self.begin(running, scope);
        self.traces.shields().set(1);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            drop();
            self.look_at_meter();
        }));
        let outcome = if self.traces.has_locals().get() { self.drop_locals(outcome) } else { outcome };
        self.traces.shields().set(0);
        self.end();
        outcome
    }

    /// The same for what is dropped where it is, in the task's memory. That is freed when the task has ended, so no frame of this may be skipped: an overflow ends the process.
    pub(crate) fn aside_in_place(
        &self,
        running: Running,
        scope: ScopeRef,
        drop: impl FnOnce(),
    ) -> std::thread::Result<()> {
        self.drops_in_place.set(true);
        let outcome = self.aside(running, scope, drop);
        self.drops_in_place.set(false);
        outcome
    }
}
