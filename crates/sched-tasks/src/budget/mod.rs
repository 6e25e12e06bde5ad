//! Budgets: what tasks may spend, and where it comes from. How tasks pay, and what is asked when it is gone, is `spending/mod.rs`.
//!
//! Room: values. Knows amounts, pools and tokens of those that wait; knows nothing of strands and workers.
//!
//! ```text
//!   a root's grant ──► pool of a nursery ──draw──► worker cache ──► meter of a task ──► spent
//!                           ▲   ▲                        │            │    │
//!                           │   └────────── settle ──────┴────────────┘    │ opens a nursery
//!                           └──────── its pool comes out of the meter ─────┘
//! ```
//!
//! Every nursery inside a task that has a budget takes its pool out of that task's meter, so no depth of nesting makes budget. See `pool.rs` for the law.

mod account;
mod meter;
mod pool;
mod supervision;

use std::{fmt, sync::Arc};

use vocab::{Budget, Component};

pub use self::pool::{Pool, Settlement};
pub(crate) use self::{
    account::{Account, Draw, Notice, Source, Terms, ToWake},
    meter::{Meter, Reading, Refused},
};
use crate::error::TaskLabel;

/// What a child gets, if the options say nothing else: SPEC-021 §8.2.
pub const CHILD_BUDGET: Budget = Budget::ops(10_000).memory(1 << 20).channel_ops(100).syscalls(10);

/// Whether tasks that have spent their budget get more from their nursery's pool by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Recharge {
    /// No: what a task was given is its limit.
    #[default]
    Never,
    /// Yes, another share each time, while there is some: the pool is the limit. The task goes to the back of its line.
    FromPool,
}

/// A task that has spent its budget and cannot go on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Exhausted {
    /// Which task.
    pub task: TaskLabel,
    /// Of what.
    pub component: Component,
    /// How much it had been given in all.
    pub granted: u64,
    /// How much more it needs at least.
    pub missing: u64,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, component, granted, missing } = self;
        write!(f, "{task} has spent its {component}: {granted} were granted, {missing} more are needed")
    }
}

/// What to do about an exhausted task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// It gets so much more, as far as the nursery has it.
    Recharge(Budget),
    /// It ends, with [`Reason::BudgetExhausted`](crate::Reason::BudgetExhausted).
    Cancel,
    /// No answer from here: the next nursery further out may answer. If none can, it ends.
    Ignore,
}

/// Answers for exhausted tasks; see [`NurseryOptions::on_exhausted`](crate::NurseryOptions::on_exhausted).
pub(crate) type Handler = Arc<dyn Fn(&Exhausted) -> Answer + Send + Sync>;
