//! Nurseries and tasks.
//!
//! Room: driver.
//!
//! # Invariant
//! What stands between the begin and the end of a nursery runs inside a `bursar::nursery`, in the same function, so whatever way leads out of it, its tasks have ended first.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sched_tasks::contain;
use sched_tasks::oneshot;
use sched_tasks::{Budget, Nursery, NurseryOptions, TaskError, yield_now};
use sched_tasks::{Recharge, budget_left};

use super::fault::{Failure, FaultKind, Stopped};
use super::state::{Argument, State, give_up, run_task};
use crate::limits::OPEN_NURSERIES_MAX;

/// What a task returns comes through a channel of its own.
pub(crate) struct Handle(RefCell<Awaited>);

enum Awaited {
    Waiting(oneshot::Receiver<Result<i64, TaskError>>),
    /// It was awaited before.
    Known(Result<i64, TaskError>),
    /// It is awaited now, or has no result.
    Gone,
}

/// What a task takes along to say that it was dropped before it began.
///
/// A task that is refused is dropped at once, by the thread that wanted to start it, and before that call returns. So it is enough that a thread knows which one it dropped last: nothing is shared, and a task costs no memory for it.
struct Begun {
    number: u64,
    has_begun: bool,
}

thread_local! {
    /// The number for the next task of this thread.
    static NEXT: Cell<u64> = const { Cell::new(0) };
    /// The task that this thread dropped last of those that never began.
    static DROPPED: Cell<u64> = const { Cell::new(0) };
}

/// Threads take so many numbers at a time.
const NUMBERS: u64 = 1 << 20;

impl Begun {
    /// With a number that no other has.
    fn new() -> Self {
        static TAKEN: AtomicU64 = AtomicU64::new(NUMBERS);
        let number = match NEXT.get() {
            next if next % NUMBERS == 0 => TAKEN.fetch_add(NUMBERS, Relaxed),
            next => next,
        };
        NEXT.set(number + 1);
        Self { number, has_begun: false }
    }

    /// A method, so that a closure which calls it takes all of this along.
    fn begin(&mut self) {
        self.has_begun = true;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.has_begun {
            DROPPED.set(self.number);
        }
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

/// How what stands in a nursery came to its end.
pub(crate) struct Arrived {
    /// Whether what was owed there could be paid.
    pub(crate) paid: Result<(), Stopped>,
    /// Whether the function is failing.
    pub(crate) is_failing: bool,
}

/// Opens a nursery, in which `body` runs up to the end of the nursery. If the function is failing there, what the nursery says replaces its error.
pub(crate) fn nursery<'a, M: AsMut<State<'a>>>(
    machine: &mut M,
    body: impl for<'scope> FnOnce(&mut M, &'scope Nursery<'scope, '_>) -> Arrived,
) -> Result<(), Failure> {
    let state = machine.as_mut();
    state.spending.settle()?;
    if state.open_nurseries == OPEN_NURSERIES_MAX {
        return Err(FaultKind::Nurseries.into());
    }
    if state.spending.shielded {
        return Err(Stopped::Cancelled.into()); // it would wait for tasks that are not cancelled
    }
    let options = state.spending.guarded(options)?;
    let mut is_failing = false;
    let open = || {
        sched_tasks::nursery_with(options, |nursery| {
            machine.as_mut().open_nurseries += 1;
            let arrived = body(machine, nursery);
            let state = machine.as_mut();
            state.open_nurseries -= 1;
            is_failing = arrived.is_failing;
            match (state.pending.last().filter(|_| is_failing), arrived.paid) {
                // The task that failed has cancelled the others.
                (Some(Stopped::Awaited(_)), _) | (None, Ok(())) => Ok(()),
                (Some(stopped), _) => give_up(stopped.clone()),
                (None, Err(stopped)) => give_up(stopped),
            }
        })
    };
    let ended = contain(open);
    let state = machine.as_mut();
    let stopped = match ended {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) if error.is_cancelled() => Stopped::Cancelled,
        Ok(Err(error)) => Stopped::Task(error),
        Err(stop) => state.spending.stopped(stop), // it could not even be opened
    };
    match state.pending.last_mut().filter(|_| is_failing) {
        None => return Err(stopped.into()),
        // The verdict says what led to the end, or what failed before that.
        Some(pending) => *pending = stopped,
    }
    state.look_at_pending();
    Ok(())
}

impl State<'_> {
    /// Starts a task. Its handle is returned if anything waits for it.
    pub(crate) fn create_task<'scope>(
        &mut self,
        nursery: &'scope Nursery<'scope, '_>,
        function: usize,
        arguments: Vec<Argument>,
        is_awaited: bool,
    ) -> Result<Option<Handle>, Failure> {
        self.spending.settle()?;
        let run = self.run.clone();
        let name = &*self.run.code.names[function];
        let mut begun = Begun::new();
        let number = begun.number;
        let (result, receiver) = if is_awaited { Some(oneshot::channel()).unzip() } else { (None, None) };
        let stack_bytes = run.engine.stack_bytes(function);
        let task = self.spending.guarded(|| {
            let options = nursery.task().name(name);
            let options = if stack_bytes > 0 { options.stack_bytes(stack_bytes) } else { options };
            options.try_spawn(move || {
                begun.begin();
                let ended = run_task(&run, function, arguments);
                drop(run); // before others can know that the task has ended
                let Some(result) = result else { return ended.map(|_| ()) };
                // Who waited may be gone.
                _ = result.send(ended.clone());
                ended.map(|_| ())
            })
        })?;
        if DROPPED.get() == number {
            let refused = self.spending.guarded(|| task.join())?;
            return match refused {
                Err(error) if error.is_cancelled() => Err(Stopped::Cancelled.into()),
                Err(error) => Err(Stopped::Task(error).into()),
                Ok(()) => unreachable!("a task that never began has no result"),
            };
        }
        self.spending.spent.ops += 1;
        self.spending.spent.spawns += 1;
        Ok(receiver.map(|receiver| Handle(RefCell::new(Awaited::Waiting(receiver)))))
    }

    /// Waits for a task and takes its result.
    pub(crate) fn join(&mut self, handle: &Handle) -> Result<i64, Failure> {
        self.spending.settle()?;
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
        result.map_err(|error| Stopped::Awaited(error).into())
    }
}
