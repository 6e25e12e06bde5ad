//! Runs QTJIR: the reference that every other engine is compared with.
//!
//! Room: driver. Knows the task runtime; knows nothing of sources.
//!
//! | file | one idea |
//! |---|---|
//! | `machine` | one task: frames, registers, the next instruction, and where control goes when one fails |
//! | `spending` | what is owed, and when it is paid |
//! | `tasks` | nurseries, tasks and what they return |
//! | `channels` | channels and selects |
//! | `host` | what all tasks of a run share: output, limits, what was spent |
//! | `fault` | what can fail, with the line of the source |
//!
//! # Invariants
//! 1. A program does to the process what the task runtime lets tasks do, and nothing else: no input overflows the stack, and nothing runs without being charged.
//! 2. Nothing is decided here that the IR does not say.
//!
//! # Why they hold
//! 1. Only [`Verified`](crate::ir::Verified) modules get here. Calls are frames on the heap, counted against a limit; only open nurseries stand on the stack of the fiber, and those are limited, too.
//! 2. Every call of the runtime belongs to one instruction, in the order that `ir` gives.

mod channels;
mod fault;
mod host;
mod machine;
mod spending;
mod tasks;

pub use fault::{Fault, FaultKind};
pub use host::{Host, Printed, Spent};
pub(crate) use machine::{Argument, Engine, run_task};
