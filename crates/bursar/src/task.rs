//! What belongs to tasks and nurseries beside [`nursery`](crate::nursery) and [`Task`](crate::Task): builders, states, labels, and nurseries that a value owns.
//!
//! Room: interface.
//!
//! ```
//! use bursar::{nursery, task::{TaskState, current_task}};
//!
//! nursery(|n| {
//!     let task = n.task().name("parse").spawn(|| current_task().is_some()); // a `TaskBuilder`
//!     assert_ne!(task.state(), TaskState::Cancelled);
//!     assert!(task.join()?);
//!     Ok(())
//! })?;
//! # Ok::<(), bursar::TaskError>(())
//! ```
#[doc(inline)]
pub use sched_tasks::{
    FiberLocal, IllegalMove, NurseryEvent, NurseryState, OpenNursery, OpenTask, OpenTaskBuilder, OwnedNursery,
    OwnedTaskBuilder, Pauser, Spawner, Stop, TaskBuilder, TaskId, TaskLabel, TaskState, ThreadTaskBuilder, Unblock,
    contain, current_task,
};
