//! Values that several crates share.
//!
//! Room: values. Knows ids, priorities and budgets; knows nothing of clocks, threads or allocation.
#![cfg_attr(not(loom), no_std)] // models ask the environment which bug is planted
#![forbid(unsafe_code)]

mod budget;
mod planted;
mod stable;

use core::fmt;

pub use budget::{Budget, Component, Operation, Shortage, UNLIMITED};
#[cfg(loom)]
pub use planted::is_planted;
pub use stable::{Fnv1a, SplitMix64};

/// Names one task among all that a process ever ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// How soon a task would like to start. A hint: it orders tasks that are ready, and takes nothing from tasks that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// When no worker finds anything else.
    Low,
    /// In the order of its worker.
    #[default]
    Normal,
    /// Before everything that has not started.
    High,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        })
    }
}
