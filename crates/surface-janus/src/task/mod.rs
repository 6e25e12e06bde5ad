//! What a task of a program does to the task runtime: the same for every engine.
//!
//! Room: driver. Knows the task runtime; knows nothing of sources, frames and registers.
//!
//! | file | one idea |
//! |---|---|
//! | `state` | one task, whatever engine runs it: its account, its pending errors, its open nurseries |
//! | `spending` | what is owed, and when it is paid |
//! | `tasks` | nurseries, tasks and what they return |
//! | `channels` | channels and selects |
//! | `host` | what all tasks of a run share: output, limits, what was spent |
//! | `fault` | what can fail, with the line of the source |
//!
//! # Invariant
//! Engines call the task runtime through [`State`] alone, one method for each instruction. So they call it at the same points in the same order, and what is printed, spent and traced does not depend on the engine.

mod channels;
mod fault;
mod host;
mod spending;
mod state;
mod tasks;

pub(crate) use channels::Channel;
pub(crate) use fault::{Failure, Stopped};
pub use fault::{Fault, FaultKind};
pub use host::{Engine, Host, Printed, Spent};
pub(crate) use state::{Argument, Code, Ended, Execute, Run, State, call_bytes, run_task};
pub(crate) use tasks::{Arrived, Handle, nursery};
