//! Functions for every task, without a handle.
//!
//! Room: interface.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use crate::{
    drive::runtime,
    error::{RunError, TaskError, TaskLabel},
    kernel::clock,
    options::NurseryOptions,
    raw, scope,
    strand::panics,
    strand::{self, OutOfRoom, Strand, give_way},
    wait::{self, End},
};

/// Runs `root` as a task and blocks the caller until it has ended. See [`Runtime::run`](crate::Runtime::run).
///
/// On a plain thread it runs on the common runtime; in a task on the runtime of the task, inside its nursery and within
/// its budget.
///
/// ```
/// let total = bursar::run(|| 6 * 7)?;
/// assert_eq!(total, 42);
/// # Ok::<(), bursar::RunError>(())
/// ```
#[track_caller]
pub fn run<F, T>(root: F) -> Result<T, RunError>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    match strand::with(Strand::runtime) {
        Some(shared) => scope::run::run_on(shared, std::panic::Location::caller(), NurseryOptions::new(), root),
        None => runtime::global()?.run(root),
    }
}

/// Lets other tasks run first: everything that is ready now on this worker goes before the caller. A cancelled task
/// does not come back.
#[inline(always)]
pub fn yield_now() {
    let strand = strand::current(); // not a closure, because that cannot be forced inline; see `Strand::wait`
    // Everything that can be done before the switch is done here: after it the caches and the branch predictor are
    // cold.
    strand.look_at_meter(); // a yield costs nothing, but overdrawn memory is checked
    strand.come_by();
    give_way::yield_now(&strand);
    if strand.needs_attention() {
        strand.check_closely();
    }
}

/// Ends the task here if it was cancelled, by unwinding. Long computations call this now and then. Costs one operation of the task's budget, if it has one.
#[inline]
pub fn checkpoint() {
    crate::charge(1);
}

/// Whether the nursery around the caller was cancelled: the next checkpoint ends the task, or will when shields and grace are over.
pub fn is_cancelled() -> bool {
    strand::with(|strand| strand.scope.get().is_some_and(|scope| scope.state().is_cancelled()))
}

/// Whether a seed decides what happens here: see [`Builder::seeded`](crate::Builder::seeded). A spin loop that waits
/// for another task never ends there.
pub fn is_seeded() -> bool {
    strand::with(|strand| strand.shared().is_some_and(|shared| shared.seeded.is_some()))
}

/// Stops the caller for a while; other tasks run meanwhile. A cancellation ends it early.
pub fn sleep(time: Duration) {
    strand::with(|strand| {
        strand.stand_still_if_paused();
        let token = strand.token();
        if wait::wait(strand, token, Some(clock::due(time))) == End::Cancelled {
            strand.unwind();
        }
        strand.stand_still_if_paused(); // it does not continue while its nursery is paused
    });
}

/// Runs `first` here and `second` here or on a worker that has nothing else to do; returns when both are done.
///
/// Costs a few nanoseconds more than calling both, so divide as finely as is natural. If one panics, the panic continues here after the other has ended.
/// In a task with a [limit of its own](crate::NurseryOptions::task_budget), in one that has a value of a [`fiber_local!`](crate::fiber_local), and in the body of a nursery with
/// a budget, one half runs after the other.
///
/// ```
/// use bursar::{join, run};
///
/// fn sum(numbers: &[u64]) -> u64 {
///     match numbers {
///         [] => 0,
///         [one] => *one,
///         _ => {
///             let (left, right) = numbers.split_at(numbers.len() / 2);
///             let (left, right) = join(|| sum(left), || sum(right));
///             left + right
///         }
///     }
/// }
/// let numbers: Vec<u64> = (1..=1000).collect();
/// assert_eq!(run(|| sum(&numbers))?, 500_500);
/// # Ok::<(), bursar::RunError>(())
/// ```
#[inline]
pub fn join<A, B, RA, RB>(first: A, second: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    strand::with(|strand| match &strand.worker {
        Some(worker) => raw::join::join(strand, worker, first, second),
        None if !strand.locals.borrow().is_empty() => (first(), second()), // a task would not see the thread's values
        None => match run(|| {
            let both = catch_unwind(AssertUnwindSafe(|| join(first, second)));
            both.map_err(|payload| (payload, panics::take_place()))
        }) {
            Ok(Ok(both)) => both,
            // On a thread there is no task to end with it.
            Ok(Err((payload, _))) if payload.is::<OutOfRoom>() => {
                strand.fail(TaskError::new(panics::reason(&*payload), None))
            }
            Ok(Err((payload, place))) => {
                strand.panicked_at.replace(place);
                strand.rethrow(payload) // as in a task: the panic continues here
            }
            Err(RunError::Task(error)) if error.is_cancelled() && strand.is_cancelled() => strand.unwind(),
            Err(RunError::Task(error)) => strand.fail(error),
            Err(error) => panic!("{error}"),
        },
    })
}

/// The number of the worker that runs this fiber, from 0 on; it does not change while the fiber lives. None on a plain
/// thread.
///
/// ```
/// let workers = bursar::Runtime::builder().workers(2).build()?;
/// assert!(workers.run(|| bursar::runtime::current_worker()).unwrap().is_none_or(|worker| worker < 2));
/// # Ok::<(), bursar::runtime::BuildError>(())
/// ```
pub fn current_worker() -> Option<usize> {
    strand::with(|strand| strand.worker.as_ref().map(|worker| worker.index))
}

/// The label of the running task. None on a plain thread.
pub fn current_task() -> Option<TaskLabel> {
    strand::with(Strand::label)
}
