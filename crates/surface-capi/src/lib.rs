//! The C interface: what `include/janus.h` declares.
//!
//! Room: surface. Knows the task runtime; how C programs use it is `docs/c.md`.
//!
//! # Invariants
//! 1. No handle is dereferenced: it is a number that is looked up, and refused if it is not there. See `handles.rs`.
//! 2. Nothing unwinds into C: every function catches panics, cancellations and exhausted budgets, and returns a code. See `door.rs`.
//! 3. A task that runs a C function ends before what opened its nursery: a [`sched_tasks::OpenNursery`] sees to that, whatever becomes of handles.
//! 4. In a fork of the process nothing of the parent is used. See `forks.rs`.
//!
//! | file | what C sees |
//! |---|---|
//! | `scheduler` | `janus_rt_*`, `janus_scheduler_*`: runtimes |
//! | `nursery` | `janus_nursery_*`: nurseries |
//! | `tasks` | `janus_task_*`: what the running task says of itself |
//! | `budget` | `janus_budget_*`: what the running task may spend |
//! | `supervisor` | `janus_supervisor_*`: those that give more to tasks |
//! | `channel` | `janus_channel_*`: channels of 64-bit integers |
//! | `select` | `janus_select_*`: the first of several operations |
//! | `cancel_token` | `janus_cancel_token_*`: one word for many nurseries |
//! | `codes` | what functions return |
//!
//! Rust code uses the crate `bursar`.

pub mod budget;
mod c_task;
pub mod cancel_token;
pub mod channel;
pub mod codes;
mod door;
mod forks;
mod handles;
pub mod nursery;
mod pointers;
pub mod scheduler;
pub mod select;
pub mod supervisor;
mod task_table;
pub mod tasks;
mod words;

const _: () = assert!(usize::BITS == 64, "a handle has 64 bits");
