//! How a strand unwinds, and stops in the middle of it.
//!
//! Room: driver. Knows panics and strands; knows nothing of what is unwound.
//!
//! # Invariant
//! A strand that unwinds is not made to unwind again: that would end the process. No other strand of its thread seems to unwind.

use std::{any::Any, cell::Cell};

use mech_fiber::PanicsAside;

use crate::{
    budget::Refused,
    error::{Reason, TaskError},
    kernel::{
        current,
        strand::{Strand, UNWIND_ROOM_BYTES},
        worker::Worker,
    },
};

/// In the count of strands of a thread that stopped in the middle of an unwinding: those that the thread goes on to count; and that one was taken aside, ever. From then on
/// every strand of the thread checks closely, so that no unwinding is taken for that of another strand.
const STOPPED: u32 = !ASIDE;
const ASIDE: u32 = 1 << 31;

/// What is thrown to end a cancelled task.
#[derive(Debug)]
pub(crate) struct Cancellation;

/// What is thrown to end a task that has too little stack left for what it asked of the runtime.
#[derive(Debug)]
pub(crate) struct OutOfRoom {
    pub(crate) stack_bytes: usize,
}

impl Strand {
    #[cold]
    #[inline(never)]
    pub(crate) fn out_of_room(&self) {
        if !self.is_unwinding() {
            self.rethrow(Box::new(OutOfRoom { stack_bytes: mech_fiber::stack_bytes().unwrap_or(0) }));
        }
    }

    #[cold]
    pub(crate) fn suspend_unwinding(&self, worker: &Worker, successor: usize) {
        let (unwinding, known) = (self.is_unwinding(), self.traces.unwinding().get());
        self.traces.unwinding().set(unwinding); // what was caught is over
        if unwinding {
            worker.looks_closely.set(true);
        }
        self.aside_while(known, unwinding, &worker.stopped_unwinding, || {
            mech_fiber::suspend(successor);
        });
        worker.watch.show(self.name.get());
        self.turn.begin();
    }

    /// Lets others run on this thread, by `others`. If this strand is `known` to be in the middle of an unwinding, the thread does not count that meanwhile: else
    /// another strand that unlocks a `std::sync::Mutex` would poison it. Where that cannot be done, `stopped` counts it.
    pub(crate) fn aside_while(&self, known: bool, unwinding: bool, stopped: &Cell<u32>, others: impl FnOnce()) {
        if !unwinding {
            return others();
        }
        // Beside one that the thread goes on to count, it is not known which unwinding is whose.
        let aside = if known && stopped.get() & STOPPED == 0 { current::without(PanicsAside::take) } else { None };
        match aside {
            Some(aside) => {
                stopped.set(stopped.get() | ASIDE);
                others();
                current::without(|| aside.put_back());
            }
            None => {
                stopped.set(stopped.get() + 1);
                others();
                stopped.set(stopped.get() - 1);
            }
        }
    }

    /// Whether a seeded run came to a deadlock behind a shield, and ends in spite of it.
    #[cold]
    pub(crate) fn breaks_shields(&self) -> bool {
        let seeded = self.shared().and_then(|shared| shared.seeded.as_ref());
        seeded.is_some_and(|seeded| seeded.breaks_shields())
    }

    /// Destructors that block must not be interrupted: a second unwinding would abort. `panicking` speaks of the thread; while another of its
    /// fibers has stopped in the middle of an unwinding that could not be taken aside, only the flag says so, which outlives a `catch_unwind` in the task.
    pub(crate) fn is_unwinding(&self) -> bool {
        let stopped = || match (&self.worker, &self.driver) {
            (Some(worker), _) => worker.stopped_unwinding.get(),
            (None, Some(driver)) => driver.stopped_unwinding().get(),
            (None, None) => 0,
        };
        let elsewhere = || stopped() & STOPPED > 0;
        std::thread::panicking() && (self.traces.unwinding().get() || !elsewhere()) || self.traces.for_unwinding().get()
    }

    /// Unwinds to the nearest nursery or the end of the task: it was cancelled, or refused a budget. Not a panic: no hook runs and nothing is printed.
    #[cold]
    pub(crate) fn unwind(&self) -> ! {
        let told_to_stop =
            self.traces.shields().get() == 0 && self.scope.get().is_some_and(|scope| scope.is_cancelled());
        match self.exhaustion().filter(|_| !told_to_stop) {
            Some(error) => self.fail(error),
            None => self.throw(Box::new(Cancellation)),
        }
    }

    /// What ends a task that was refused a budget.
    fn exhaustion(&self) -> Option<TaskError> {
        let Refused { component, granted, wanted, .. } = self.meter.refused()?;
        Some(TaskError::new(Reason::BudgetExhausted { component, granted, wanted }, self.label()))
    }

    /// Ends the task, or the body of the nursery, with `error`, by unwinding: it is what [`Nursery`](crate::Nursery) and task say of their end.
    #[cold]
    pub(crate) fn fail(&self, error: TaskError) -> ! {
        self.failed_before.take(); // of a panic that was caught
        self.rethrow(Box::new(error))
    }

    /// Unwinds with what was caught before.
    #[cold]
    pub(crate) fn rethrow(&self, payload: Box<dyn Any + Send>) -> ! {
        if self.scope.get().is_none()
            && let Some(error) = payload.downcast_ref::<TaskError>()
        {
            panic!("{error}"); // no task and no nursery to end with it: the panic hook prints it
        }
        self.throw(payload)
    }

    /// The same for what is not an error. Inlined: every frame on the way costs an unwinding some 4000 instructions, a tenth of the whole.
    #[inline(always)]
    fn throw(&self, payload: Box<dyn Any + Send>) -> ! {
        if !mech_fiber::has_room(UNWIND_ROOM_BYTES) && self.worker.is_some() {
            self.traces.guard_lent().set(mech_fiber::lend_guard());
        }
        self.traces.unwinding().set(true);
        std::panic::resume_unwind(payload)
    }
}
