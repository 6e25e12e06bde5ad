//! What functions return, and what the end of a task or a nursery is as a number.
//!
//! Room: values.
//!
//! The numbers of the first five are those of `await_all` in the specification. Codes of tasks are their own affair, but those from -99 to -1 mean what they mean here.

use std::{error::Error, fmt};

use sched_tasks::{Reason, TaskError};

use crate::words::text_of;

/// It was done.
pub const JANUS_OK: i32 = 0;
/// The nursery was cancelled, or the task that called. Clean up and return.
pub const JANUS_CANCELLED: i32 = -1;
/// A task panicked: see `janus_task_panic`. It used up its stack.
pub const JANUS_PANICKED: i32 = -2;
/// A budget is spent, and none gives more.
pub const JANUS_BUDGET_EXHAUSTED: i32 = -3;
/// It has not ended.
pub const JANUS_PENDING: i32 = -4;
/// A handle is NULL, was destroyed, is of another kind, or was never one.
pub const JANUS_INVALID_HANDLE: i32 = -5;
/// An argument is NULL or out of range.
pub const JANUS_INVALID_ARGUMENT: i32 = -6;
/// The channel is closed.
pub const JANUS_CLOSED: i32 = -7;
/// The channel has no room now.
pub const JANUS_FULL: i32 = -8;
/// The channel has no value now.
pub const JANUS_EMPTY: i32 = -9;
/// Time was up first.
pub const JANUS_TIMED_OUT: i32 = -10;
/// Only what created the nursery may do that.
pub const JANUS_NOT_OWNER: i32 = -11;
/// A capability is missing, revoked or used up.
pub const JANUS_NOT_ALLOWED: i32 = -12;
/// The runtime, the nursery or the task is not in a state for that.
pub const JANUS_NOT_ACTIVE: i32 = -13;
/// Too little stack is left for the call.
pub const JANUS_STACK_OVERFLOW: i32 = -14;
/// There are no more stacks, threads or handles.
pub const JANUS_OUT_OF_RESOURCES: i32 = -15;
/// Another thread or task is using it.
pub const JANUS_BUSY: i32 = -16;
/// Something else failed; `janus_last_error` says what.
pub const JANUS_FAILED: i32 = -17;

/// Why a call did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into() }
    }
}

impl From<TaskError> for Refusal {
    fn from(error: TaskError) -> Self {
        Self { code: code_of(&error), text: text_of(&error) }
    }
}

/// What a task function returned, if not 0.
#[derive(Debug)]
pub(crate) struct ExitCode(pub(crate) i64);

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "returned {}", self.0)
    }
}

impl Error for ExitCode {}

/// The end of a task or a nursery as a number.
pub(crate) fn code_of(error: &TaskError) -> i64 {
    let code = match error.reason() {
        Reason::Failed(_) => match error.downcast_ref::<ExitCode>() {
            Some(ExitCode(own)) => return *own,
            None if error.downcast_ref::<std::io::Error>().is_some() => JANUS_OUT_OF_RESOURCES, // no thread could be started
            None => JANUS_FAILED,
        },
        Reason::Cancelled | Reason::DeadlineExceeded { .. } | Reason::CpuTimeSpent { .. } => JANUS_CANCELLED,
        Reason::Panicked { .. } | Reason::StackOverflow { .. } => JANUS_PANICKED,
        Reason::BudgetExhausted { .. } => JANUS_BUDGET_EXHAUSTED,
        Reason::NotAllowed(_) => JANUS_NOT_ALLOWED,
        Reason::NurseryNotActive { .. } => JANUS_NOT_ACTIVE,
        Reason::OutOfStacks { .. } => JANUS_OUT_OF_RESOURCES,
        _ => JANUS_FAILED,
    };
    code.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_for_c_says_which_task_and_not_where_this_library_spawned_it() {
        let failed = sched_tasks::nursery(|n| {
            n.task().name("named").spawn(|| ()).join()?;
            n.task().name("failing").try_spawn(|| Err::<(), _>(ExitCode(7).into())).join()
        });
        let text = text_of(&failed.unwrap_err());
        assert!(text.starts_with("task `failing` (#") && text.ends_with("returned 7"), "{text}");
        assert!(!text.contains("spawned at"), "{text}");
    }
}
