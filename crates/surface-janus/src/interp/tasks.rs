//! Nurseries and tasks.
//!
//! Room: driver.
//!
//! # Invariant
//! What stands between the begin and the end of a nursery runs inside a `bursar::nursery`, in the same function, so whatever way leads out of it, its tasks have ended first.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use sched_tasks::contain;
use sched_tasks::oneshot;
use sched_tasks::{Budget, Nursery, NurseryOptions, TaskError, yield_now};
use sched_tasks::{Recharge, budget_left};

use super::fault::{Failure, FaultKind, Stopped};
use super::machine::{Argument, Machine, Slot, give_up, run_task};
use crate::ir::{Callee, Reg};
use crate::limits::OPEN_NURSERIES_MAX;

/// What a task returns comes through a channel of its own.
pub(super) struct Handle(RefCell<Awaited>);

enum Awaited {
    Waiting(oneshot::Receiver<Result<i64, TaskError>>),
    /// It was awaited before.
    Known(Result<i64, TaskError>),
    /// It is awaited now, or has no result.
    Gone,
}

/// Says whether a task was dropped before it began.
struct Begun {
    has_begun: bool,
    was_dropped: Arc<AtomicBool>,
}

impl Begun {
    /// A method, so that a closure which calls it takes all of this along.
    fn begin(&mut self) {
        self.has_begun = true;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.was_dropped.store(!self.has_begun, SeqCst);
    }
}

/// A nursery's tasks share what the task has that opens it, spawns included: its budget is the limit of the whole tree. Without a budget nothing is counted.
fn options() -> NurseryOptions {
    let options = NurseryOptions::new();
    if budget_left() == Budget::UNLIMITED {
        return options;
    }
    options.task_budget(Budget::UNLIMITED).recharge(Recharge::FromPool)
}

impl Machine {
    /// Opens a nursery, in which `body` runs up to the end of the nursery. It says if what was owed there could not be paid.
    pub(super) fn nursery(
        &mut self,
        body: impl for<'scope> FnOnce(&mut Machine, &'scope Nursery<'scope, '_>) -> Result<(), Stopped>,
    ) -> Result<(), Failure> {
        self.spending.settle()?;
        if self.open_nurseries == OPEN_NURSERIES_MAX {
            return Err(FaultKind::Nurseries.into());
        }
        if self.spending.shielded {
            return Err(Stopped::Cancelled.into()); // it would wait for tasks that are not cancelled
        }
        let options = self.spending.guarded(options)?;
        let open = || {
            sched_tasks::nursery_with(options, |nursery| {
                self.open_nurseries += 1;
                let paid = body(self, nursery);
                self.open_nurseries -= 1;
                match (self.pending(), paid) {
                    // The task that failed has cancelled the others.
                    (Some(Stopped::Awaited(_)), _) | (None, Ok(())) => Ok(()),
                    (Some(stopped), _) => give_up(stopped.clone()),
                    (None, Err(stopped)) => give_up(stopped),
                }
            })
        };
        let stopped = match contain(open) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.is_cancelled() => Stopped::Cancelled,
            Ok(Err(error)) => Stopped::Task(error),
            Err(stop) => self.spending.stopped(stop), // it could not even be opened
        };
        if self.pending().is_none() {
            return Err(stopped.into());
        }
        // The verdict says what led to the end, or what failed before that.
        self.replace_pending(stopped);
        Ok(())
    }

    pub(super) fn create_task<'scope>(
        &mut self,
        nursery: &'scope Nursery<'scope, '_>,
        to: Reg,
        callee: &Callee,
    ) -> Result<(), Failure> {
        self.spending.settle()?;
        let function = callee.function.0 as usize;
        let arguments = self.arguments(callee).into_iter().map(|slot| match slot {
            Slot::Int(value) => Argument::Int(value),
            Slot::Channel(channel) => Argument::Channel(channel),
            Slot::Empty | Slot::Task(_) => unreachable!("the verifier lets no task be a parameter"),
        });
        let arguments: Vec<_> = arguments.collect();
        let (engine, host) = (self.engine.clone(), self.host.clone());
        let name = engine.program.module().functions[function].name.clone();
        let was_dropped = Arc::new(AtomicBool::new(false));
        let mut begun = Begun { has_begun: false, was_dropped: was_dropped.clone() };
        let (result, receiver) = oneshot::channel();
        let task = self.spending.guarded(|| {
            nursery.task().name(name).try_spawn(move || {
                begun.begin();
                let ended = run_task(&engine, &host, function, arguments);
                // If it is not awaited, it is not wanted.
                _ = result.send(ended.clone());
                ended.map(|_| ())
            })
        })?;
        // A task that is refused is dropped at once.
        if was_dropped.load(SeqCst) {
            let refused = self.spending.guarded(|| task.join())?;
            return match refused {
                Err(error) if error.is_cancelled() => Err(Stopped::Cancelled.into()),
                Err(error) => Err(Stopped::Task(error).into()),
                Ok(()) => unreachable!("a task that never began has no result"),
            };
        }
        self.spending.spent.ops += 1;
        self.spending.spent.spawns += 1;
        let handle = Handle(RefCell::new(Awaited::Waiting(receiver)));
        self.set(to, Slot::Task(std::rc::Rc::new(handle)));
        Ok(())
    }

    pub(super) fn join(&mut self, to: Option<Reg>, task: Reg) -> Result<(), Failure> {
        let Slot::Task(handle) = self.get(task).clone() else { unreachable!("the verifier knows that it is a task") };
        let awaited = handle.0.replace(Awaited::Gone);
        let result = match awaited {
            Awaited::Waiting(receiver) => self.spending.guarded(|| receiver.recv())?.ok(),
            Awaited::Known(result) => Some(result),
            Awaited::Gone => None,
        };
        let Some(result) = result else {
            // Its nursery is cancelled, and with it we are.
            self.spending.guarded(yield_now)?;
            return Err(FaultKind::NoResult.into());
        };
        handle.0.replace(Awaited::Known(result.clone()));
        match result {
            Ok(value) => {
                if let Some(to) = to {
                    self.set_int(to, value);
                }
                Ok(())
            }
            Err(error) => Err(Stopped::Awaited(error).into()),
        }
    }
}
