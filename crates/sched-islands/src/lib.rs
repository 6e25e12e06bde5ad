//! Realtime islands: periodic tasks on CPUs of their own.
//!
//! Room: interface.
//!
//! An [`Island`] says what it needs: tasks with a budget in every period, CPUs that nothing else of this process uses, memory that is there beforehand. It is admitted as a whole or
//! refused with the number that did not fit. An [`AdmittedIsland`] runs closures, one for each task, once in every period, and counts every deadline that was missed.
//!
//! | file | one idea |
//! |---|---|
//! | `spec` | what an island asks for |
//! | `error` | why it is refused |
//! | `decide` | which task of a CPU runs now, or until when there is none: pure |
//! | `telemetry` | what is counted of each task |
//! | `in_force`, `ended` | what the system granted, and why it ended |
//! | `lease` | the CPUs it has, and how they are taken away |
//! | `admitted` | what users hold of it |
//! | `drive` | the threads: one for each CPU, and one that guards them |
#![forbid(unsafe_code)]

mod admitted;
mod buffer;
mod decide;
mod drive;
mod ended;
mod error;
mod handle;
mod in_force;
mod lease;
mod spec;
mod telemetry;

pub use admitted::{AdmittedIsland, Program};
pub use buffer::Buffer;
pub use drive::cycle::Cycle;
pub use ended::Ended;
pub use error::IslandError;
pub use handle::IslandHandle;
pub use in_force::{CpuInForce, InForce};
pub use spec::{Island, Realtime};
pub use telemetry::{IslandStats, IslandTaskStats};
