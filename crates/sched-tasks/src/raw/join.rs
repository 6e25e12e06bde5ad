//! Two closures, perhaps at the same time: fork-join without an allocation.
//!
//! Room: mechanism. Knows two closures and a deque.
//!
//! # Invariant
//! `join` is not left, by return or by unwinding, before its second half was run to its end or taken back unrun.
//!
//! # Why it holds
//! The second half stands in this worker's deque while the first runs. Afterwards it is popped back and run here; or it is not the newest any more, because
//! another worker took it or others were pushed above it, and the strand waits for its completion.

use std::{
    any::Any,
    cell::UnsafeCell,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::Arc,
};

use mech_sync::{Completion, Finish};
use vocab::TaskId;

use super::task;
use crate::{
    error::TaskError,
    kernel::{
        locals::Locals,
        scope::{self, ScopeRef},
        task::{Runnable, RunnableRef, Running, TaskRef, VTable},
        worker::Worker,
    },
    strand::{self, Strand, Woken, panics, room::in_own_frame},
    task_state::TaskState,
};

#[repr(C)]
struct Half<F, T> {
    runnable: Runnable,
    completion: Completion,
    task: TaskRef,
    scope: ScopeRef,
    shields: u32,
    /// The task unwinds: this is part of a destructor.
    for_unwinding: bool,
    closure: UnsafeCell<Option<F>>,
    /// And the values of the task that the half made: the task keeps them.
    result: UnsafeCell<Option<(Result<T, Thrown>, Locals)>>,
}

/// A panic or a cancellation, and where it happened: to be thrown again on another strand.
struct Thrown {
    payload: Box<dyn Any + Send>,
    place: Option<Arc<str>>,
}

/// Runs `first` here and `second` here or on a worker that has nothing else to do.
#[inline]
pub(crate) fn join<A, B, RA, RB>(strand: &Strand, worker: &Worker, first: A, second: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    strand.take_turn();
    if !strand.may_spend_as_two() || strand.traces.has_locals().get() {
        let first = first(); // the values of a task are for one at a time
        return second_beside(strand, first, second);
    }
    let half = Half {
        runnable: Runnable {
            vtable: &VTable {
                run: run::<B, RB>,
                fail: fail::<B, RB>,
                refuse: fail::<B, RB>,
                free: keep,
                id: id::<B, RB>,
                scope: scope_of::<B, RB>,
                state,
                stack_bytes: Some(stack_bytes::<B, RB>),
                waker: None,
            },
        },
        completion: Completion::new(),
        task: strand.running.get().expect("a fiber that runs user code runs a task").task(),
        scope: strand.scope.get().expect("a task has a nursery"),
        shields: strand.traces.shields().get(),
        for_unwinding: strand.is_unwinding(),
        closure: UnsafeCell::new(Some(second)),
        result: UnsafeCell::new(None),
    };
    let pointer = NonNull::from(&half).cast::<Runnable>();
    // SAFETY: `half` stays where it is until it was run or taken back, by the invariant; it is given out once.
    let item = unsafe { RunnableRef::new(pointer) }.into_item();
    let first = scope::while_joining(strand, &half.completion, || {
        worker.offer(RunnableRef::from_item(item));
        if worker.is_watched() {
            worker.interleave(strand); // nothing else in here asks
        }
        let first = catch_unwind(AssertUnwindSafe(first));
        if !worker.pop_if_newest(item, half.scope) {
            wait(strand, &half.completion);
        }
        first
    });
    // Here there is no other pointer to `half`.
    let second = half.result.into_inner().map(|(second, locals)| {
        if !locals.is_empty() {
            strand.add_locals(locals);
        }
        second
    });
    match (first, second, half.closure.into_inner()) {
        (Ok(first), None, Some(closure)) => second_beside(strand, first, closure),
        (Ok(first), Some(Ok(second)), None) => (first, second),
        (Ok(first), Some(Err(Thrown { payload, place })), None) => {
            leave_behind(strand, first);
            strand.panicked_at.replace(place);
            strand.rethrow(payload)
        }
        (Err(panic), second, closure) => {
            let place = strand.panicked_at.take();
            leave_behind(strand, (second.map(|second| second.ok()), closure));
            strand.panicked_at.replace(place);
            strand.rethrow(panic)
        }
        _ => unreachable!("the second half was run or taken back"),
    }
}

/// Runs the second half here, with the value of the first, which is dropped apart if it unwinds.
#[inline(always)]
fn second_beside<RA, RB>(strand: &Strand, first: RA, second: impl FnOnce() -> RB) -> (RA, RB) {
    if !std::mem::needs_drop::<RA>() {
        return (first, second());
    }
    match catch_unwind(AssertUnwindSafe(second)) {
        Ok(second) => (first, second),
        Err(panic) => {
            let place = strand.panicked_at.take();
            leave_behind(strand, first);
            strand.panicked_at.replace(place);
            strand.rethrow(panic)
        }
    }
}

/// Drops what is not returned because a half panicked. Before that panic goes on: during it, a destructor that panics would end the process.
#[cold]
fn leave_behind<T>(strand: &Strand, unwanted: T) {
    strand.traces.unwinding().set(false); // it was caught
    panics::drop_apart(unwanted).unwrap_or_else(panics::discard);
}

/// Waits for the second half, whatever else happens: its frame is ours.
#[cold]
fn wait(strand: &Strand, completion: &Completion) {
    strand.return_share();
    let token = strand.waiter.token();
    if !completion.wait(token) {
        return;
    }
    while strand.wait(token) == Woken::Interrupted {}
}

/// # Safety
/// `this` is a [`Half`] with these types that was not run before.
unsafe fn run<F, T>(this: NonNull<Runnable>, strand: &Strand)
where
    F: FnOnce() -> T,
{
    // SAFETY: live: `join` waits for the completion.
    let half = unsafe { this.cast::<Half<F, T>>().as_ref() };
    // SAFETY: only the strand that runs it touches closure and result before it is done.
    let closure = unsafe { (*half.closure.get()).take() }.expect("a half is run once");
    // SAFETY: `end`, below, takes it off the strand; until then `join` waits for the half, on a strand of the task.
    let running = unsafe { Running::new(half.task, this) };
    strand.begin(running, half.scope);
    strand.traces.shields().set(half.shields);
    strand.traces.for_unwinding().set(half.for_unwinding);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let value = in_own_frame(closure);
        strand.look_at_meter();
        value
    }));
    let outcome = outcome.map_err(|payload| Thrown { payload, place: strand.panicked_at.take() });
    // Sent to another thread: the values are `Send`, and none of them is in use. `FiberLocal::with` counts a reference only while it runs, and what ran has ended.
    let locals = if strand.traces.has_locals().replace(false) {
        strand.end_open_nurseries();
        strand.locals.take()
    } else {
        Locals::default()
    };
    strand.end();
    if half.scope.account().is_some()
        && let Some(worker) = &strand.worker
    {
        worker.report(); // a half is not counted: when it is done its nursery may end
    }
    // SAFETY: as above.
    unsafe { *half.result.get() = Some((outcome, locals)) };
    finish(&half.completion);
}

/// # Safety
/// As for [`run`].
unsafe fn id<F, T>(this: NonNull<Runnable>) -> TaskId {
    // SAFETY: as in `run`; and the task waits for its half.
    unsafe { this.cast::<Half<F, T>>().as_ref() }.task.id()
}

/// # Safety
/// As for [`run`].
unsafe fn scope_of<F, T>(this: NonNull<Runnable>) -> ScopeRef {
    // SAFETY: as in `run`; and the task waits for its half.
    unsafe { this.cast::<Half<F, T>>().as_ref() }.scope
}

/// # Safety
/// As for [`run`]. As much stack as its task has, so that it does not depend on luck whether the half fits.
unsafe fn stack_bytes<F, T>(this: NonNull<Runnable>) -> usize {
    // SAFETY: as in `run`; and the task waits for its half.
    let half = unsafe { this.cast::<Half<F, T>>().as_ref() };
    let (tasks, own) = (half.task.stack_bytes(), task::extra_stack_bytes(size_of::<F>() + size_of::<T>()));
    if own == 0 { tasks } else { tasks.max(half.scope.shared().stacks.usual_bytes()).saturating_add(own) }
}

/// # Safety
/// As for [`run`], except that it began to run and lost its stack, or got none.
unsafe fn fail<F, T>(this: NonNull<Runnable>, error: TaskError, _strand: &Strand) {
    // SAFETY: as in `run`.
    let half = unsafe { this.cast::<Half<F, T>>().as_ref() };
    // SAFETY: as in `run`.
    unsafe { *half.result.get() = Some((Err(Thrown { payload: Box::new(error), place: None }), Locals::default())) };
    // SAFETY: as in `run`.
    let unrun = unsafe { (*half.closure.get()).take() };
    panics::drop_apart(unrun).unwrap_or_else(panics::discard); // whatever it does, `join` waits for us
    finish(&half.completion);
}

fn finish(completion: &Completion) {
    match completion.finish() {
        Finish::Wake(token) => {
            strand::wake(token, 0);
        }
        Finish::Kept => {} // `join` will see it: it has not waited yet
        Finish::Abandoned => unreachable!("join waits for its halves"),
    }
}

/// # Safety
/// None needed: a half has no handle, so this is never asked.
unsafe fn state(_: NonNull<Runnable>) -> TaskState {
    TaskState::Running
}

/// # Safety
/// None needed: a half lives on the stack of its `join`.
unsafe fn keep(_: NonNull<Runnable>) {}
