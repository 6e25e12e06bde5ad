//! What a task owes, and when it pays.
//!
//! Room: driver. Knows budgets; knows nothing of instructions.
//!
//! # Invariants
//! 1. What was paid is the number of operations done, whenever another can see it.
//! 2. A task whose budget is spent does nothing any more that costs.
//! 3. A task that was cancelled ends, whatever it defers: it does not wait any more, and does `CLEANUP_OPS_MAX` operations at most.
//!
//! # Why they hold
//! 1. `settle` pays all that is owed; it is called before everything observable, and when the task ends.
//! 2. A check is due as soon as so much is owed as was left at the last payment. What cannot be paid in one piece is paid in two, what is left and then one more: so a task that is stopped has spent exactly what it had,
//!    whether its checks are merged or not. A refusal is final.
//! 3. Every loop and every call pays here, and what is paid in a clean-up is counted. What would wait is done in `channels.rs` and `tasks.rs`, and fails there.

use std::panic::resume_unwind;

use sched_tasks::{Reason, TaskError, shield, yield_now};
use sched_tasks::{Stop, contain};
use sched_tasks::{budget_left, charge};

use super::fault::Stopped;
use super::host::Spent;
use crate::limits::CLEANUP_OPS_MAX;

/// The account of one task.
pub(crate) struct Spending {
    owed: u64,
    /// A check is due when so much is owed.
    due: u64,
    interval: u64,
    pub(crate) spent: Spent,
    /// It was refused more.
    refused: Option<TaskError>,
    /// It cleans up after a cancellation: what it does meanwhile is not interrupted, and does not wait.
    pub(super) shielded: bool,
    /// How many operations it may do then.
    cleanup_left: u64,
}

impl Spending {
    pub(super) fn new(interval: u64) -> Self {
        let spent = Spent::default();
        Self { owed: 0, due: 1, interval, spent, refused: None, shielded: false, cleanup_left: CLEANUP_OPS_MAX }
    }

    /// The task begins.
    pub(super) fn begin(&mut self) -> Result<(), Stopped> {
        self.plan()
    }

    pub(crate) fn owe(&mut self, operations: u32) {
        self.owed = self.owed.saturating_add(operations.into());
    }

    /// How many operations may be owed more before a check is due; 0 or less if one is. Above 0 at every end of a block, by `ir/verify/budget.rs`.
    #[cfg(feature = "native")]
    pub(crate) fn left(&self) -> i64 {
        (i128::from(self.due) - i128::from(self.owed)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// So much is left now: the rest is owed.
    #[cfg(feature = "native")]
    pub(crate) fn set_left(&mut self, left: i64) {
        self.owed = (i128::from(self.due) - i128::from(left)).clamp(0, u64::MAX.into()) as u64;
    }

    /// A check: pays if that is due, and then lets others run.
    pub(crate) fn check(&mut self) -> Result<(), Stopped> {
        if self.owed < self.due {
            return Ok(());
        }
        self.settle()?;
        self.guarded(yield_now)
    }

    /// Pays everything that is owed.
    pub(crate) fn settle(&mut self) -> Result<(), Stopped> {
        if self.owed == 0 {
            return Ok(());
        }
        if let Some(error) = &self.refused {
            self.owed = 0;
            return Err(Stopped::Task(error.clone()));
        }
        if self.shielded {
            let Some(left) = self.cleanup_left.checked_sub(self.owed) else {
                (self.owed, self.cleanup_left) = (0, 0);
                return Err(Stopped::Cancelled);
            };
            self.cleanup_left = left;
        }
        while self.owed > 0 {
            let left = self.guarded(|| budget_left().ops)?;
            let part = self.owed.min(left.max(1));
            if let Err(stopped) = self.guarded(|| charge(part)) {
                self.owed = 0; // it was not done
                return Err(stopped);
            }
            self.spent.ops += part;
            self.owed -= part;
        }
        self.plan()
    }

    fn plan(&mut self) -> Result<(), Stopped> {
        let left = self.guarded(|| budget_left().ops)?;
        self.due = self.interval.min(left.max(1));
        Ok(())
    }

    /// Calls the task runtime. What unwinds there is an error here.
    pub(super) fn guarded<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, Stopped> {
        let done = if self.shielded { contain(|| shield(call)) } else { contain(call) };
        done.map_err(|stop| self.stopped(stop))
    }

    /// What stopped a call of the runtime. A panic is none of ours, and continues.
    pub(super) fn stopped(&mut self, stop: Stop) -> Stopped {
        match stop {
            Stop::Cancelled => Stopped::Cancelled,
            Stop::Failed(error) => {
                if matches!(error.reason(), Reason::BudgetExhausted { .. }) {
                    (self.refused, self.due) = (Some(error.clone()), 1);
                }
                Stopped::Task(error)
            }
            Stop::Panicked { thrown, .. } => resume_unwind(thrown),
        }
    }
}
