//! The way from C into Rust and back.
//!
//! Room: surface. Knows what can stop a call; knows nothing of what is called.
//!
//! # Invariant
//! Nothing unwinds through [`door`].
//!
//! # Why it holds
//! `contain` catches panics, cancellations and refused budgets. What it throws itself, because too little stack is left to begin, is caught around it. To keep the text of an error takes stack, too: if there is
//! too little, it is noted that the last text is the one about that.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
};

use sched_tasks::{Reason, Stop, TaskId, contain, current_task, fiber_local};

use crate::{
    codes::{JANUS_CANCELLED, JANUS_OK, JANUS_PANICKED, JANUS_STACK_OVERFLOW, Refusal},
    forks,
    words::text_of,
};

fiber_local! {
    /// What went wrong last, in this task or on this thread.
    static LAST_ERROR: RefCell<String> = RefCell::new(String::new());
}

thread_local! {
    /// The task of this thread whose last error came without room for its text. Of several the last; a task stays on its thread.
    static TEXT_LOST: Cell<Option<TaskId>> = const { Cell::new(None) };
}

/// Runs `body`, whatever it does; `refused` makes the result of a code. A task of the parent of a fork is refused.
#[inline]
pub(crate) fn door<R>(refused: impl FnOnce(i64) -> R, body: impl FnOnce() -> Result<R, Refusal>) -> R {
    door_for_all(refused, || {
        forks::check_caller()?;
        body()
    })
}

/// The same for what a task of the parent of a fork may call as well: there it neither waits nor lets other tasks run.
#[inline]
pub(crate) fn door_for_all<R>(refused: impl FnOnce(i64) -> R, body: impl FnOnce() -> Result<R, Refusal>) -> R {
    match catch_unwind(AssertUnwindSafe(|| contain(body))) {
        Ok(Ok(Ok(value))) => value,
        Ok(Ok(Err(refusal))) => refused(keep(refusal)),
        Ok(Err(stop)) => refused(keep(refusal_of(stop))),
        Err(_no_room) => refused(keep(no_room())),
    }
}

/// The same for a call that returns a code.
#[inline]
pub(crate) fn coded(body: impl FnOnce() -> Result<(), Refusal>) -> i32 {
    number(|| body().map(|()| JANUS_OK))
}

/// The same for a call that returns a code.
pub(crate) fn coded_for_all(body: impl FnOnce() -> Result<(), Refusal>) -> i32 {
    let narrow = |code: i64| i32::try_from(code).unwrap_or(JANUS_PANICKED);
    door_for_all(narrow, || {
        let _ = forks::check_caller(); // in a fork, the thread leaves the nurseries of the parent
        body().map(|()| JANUS_OK)
    })
}

/// The same for a call that returns a number, or a code below 0.
#[inline]
pub(crate) fn number<N: TryFrom<i64>>(body: impl FnOnce() -> Result<N, Refusal>) -> N {
    let narrow = |code: i64| N::try_from(code).or_else(|_| N::try_from(i64::from(JANUS_PANICKED)));
    door(|code| narrow(code).unwrap_or_else(|_| unreachable!("codes fit into every number")), body)
}

/// Notes a refusal for `janus_last_error`.
#[cold]
pub(crate) fn keep(refusal: Refusal) -> i64 {
    let Refusal { code, text } = refusal;
    let kept = catch_unwind(AssertUnwindSafe(|| LAST_ERROR.with(|last| *last.borrow_mut() = text)));
    match kept {
        Ok(()) if TEXT_LOST.get().is_none() => {}
        Ok(()) => TEXT_LOST.set(TEXT_LOST.get().filter(|lost| Some(*lost) != current_id())),
        Err(_no_room) => TEXT_LOST.set(current_id()),
    }
    code
}

fn current_id() -> Option<TaskId> {
    current_task().map(|task| task.id)
}

/// Uses the text of the last error.
pub(crate) fn with_last_error<R>(f: impl FnOnce(&str) -> R) -> R {
    if TEXT_LOST.get().is_some_and(|lost| Some(lost) == current_id()) {
        return f(NO_ROOM);
    }
    LAST_ERROR.with(|last| f(&last.borrow()))
}

#[cold]
fn refusal_of(stop: Stop) -> Refusal {
    match stop {
        Stop::Cancelled => Refusal::new(
            JANUS_CANCELLED,
            "the nursery around the caller was cancelled; clean up and return, every further call that waits says the same",
        ),
        Stop::Failed(error) if matches!(error.reason(), Reason::StackOverflow { .. }) => {
            Refusal::new(JANUS_STACK_OVERFLOW, text_of(&error))
        }
        Stop::Failed(error) => error.into(),
        Stop::Panicked { thrown, at } => {
            let message = match (thrown.downcast_ref::<&str>(), thrown.downcast_ref::<String>()) {
                (Some(text), _) => text,
                (None, Some(text)) => text.as_str(),
                (None, None) => "(not a text)",
            };
            let at = at.as_deref().unwrap_or("an unknown place");
            Refusal::new(JANUS_PANICKED, format!("the library panicked at {at}: {message}; this is a bug in it"))
        }
    }
}

#[cold]
fn no_room() -> Refusal {
    Refusal::new(JANUS_STACK_OVERFLOW, NO_ROOM)
}

pub(crate) const NO_ROOM: &str =
    "too little of the task's stack was left for a call; return, or start it with a larger `stack_bytes`";
