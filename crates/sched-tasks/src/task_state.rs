//! The state of a task, for observers.
//!
//! Room: values.
//!
//! ```text
//!      Ready ◄──────────────┬───────────────────┐
//!        │ a worker takes it │ woken             │ recharged
//!        ▼                   │                   │
//!     Running ──────────► Blocked         BudgetExhausted
//!        │    waits                              ▲
//!        ├── a component is spent ───────────────┘
//!        ├── returns, fails or panics ──► Completed
//!        └── is cancelled and unwinds ──► Cancelled
//! ```
//!
//! # Invariant
//! No task stores its state. It is derived from what is there anyway: its completion, the list of its account, the
//! members of its nursery, the name slots of the workers. So a running task pays nothing for it, and the answer may be
//! old by the time it is read; an end is final.

use std::fmt;

/// The state of a task: SPEC-021 §5.2. Returned by [`Task::state`](crate::Task::state).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// It could run, and no worker has taken it yet.
    Ready,
    /// A worker runs it.
    Running,
    /// It waits: for a channel, a lock, a timer, a socket, another task.
    Blocked,
    /// It has spent its budget, and waits for more; or it got none, and ended for that reason.
    BudgetExhausted,
    /// It came to its end: it returned, or failed.
    Completed,
    /// It ended because it was cancelled.
    Cancelled,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TaskState::Ready => "Ready",
            TaskState::Running => "Running",
            TaskState::Blocked => "Blocked",
            TaskState::BudgetExhausted => "BudgetExhausted",
            TaskState::Completed => "Completed",
            TaskState::Cancelled => "Cancelled",
        })
    }
}
