//! Janus: a small language whose tasks cannot hog. A program becomes QTJIR, which is verified, and runs as tasks of any nursery, under its budgets and capabilities.
//!
//! Room: surface. Knows the language and the task runtime; knows nothing of files of jobs and flows.
//!
//! | module | one idea |
//! |---|---|
//! | `syntax` | text to tree |
//! | `check` | names, types, and what may stand where |
//! | `lower` | a tree to QTJIR |
//! | [`ir`] | QTJIR: blocks, instructions, text form, verifier |
//! | [`passes`] | tasks, fewer blocks, budget checks |
//! | `task` | what a task does to the runtime, whatever engine runs it |
//! | `interp` | runs QTJIR step by step: the reference |
//! | `native` | runs QTJIR as machine code |
//! | `program` | what users call |
//!
//! # Invariants
//! 1. Any text gives a program or [`Problems`]: no panic, no overflow of the stack, and memory in proportion to the text.
//! 2. Any module of QTJIR is refused, or does what tasks may do and nothing else.
//!
//! The language is described in `docs/janus.md`.
#![deny(unsafe_code)] // `native::raw` alone may: it calls machine code

mod check;
#[cfg(test)]
mod evaluate;
#[doc(hidden)]
pub mod generate;
mod interp;
pub mod ir;
pub mod limits;
mod lower;
#[cfg(feature = "native")]
mod native;
pub mod passes;
mod program;
mod syntax;
mod task;

pub use check::Profile;
pub use program::{CallError, Failure, Options, Outcome, Program, Value};
pub use surface_text::{Location, Problem, Problems};
pub use task::{Engine, Fault, FaultKind, Host, Printed, Spent};
