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
//! 3. Every loop and every call pays here, every operation of a channel is counted here, and a clean-up has a limit like that of a budget. What would wait is done in `channels.rs` and `tasks.rs`, and fails there.

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
        let owed = std::mem::take(&mut self.owed); // what is refused was not done
        let allowed = self.take_cleanup(owed);
        let mut unpaid = allowed;
        while unpaid > 0 {
            let left = self.guarded(|| budget_left().ops)?;
            let part = unpaid.min(left.max(1));
            let charged = self.guarded(|| charge(part));
            // A cancellation is found behind the payment; but one more than what is left is not paid.
            if matches!(charged, Ok(()) | Err(Stopped::Cancelled)) && (left > 0 || charged.is_ok()) {
                self.spent.ops += part;
            }
            charged?;
            unpaid -= part;
        }
        self.plan()?;
        if allowed < owed { Err(Stopped::Cancelled) } else { Ok(()) }
    }

    /// An operation that the runtime charges itself, if it may be done.
    pub(super) fn begin_charged(&mut self) -> Result<(), Stopped> {
        if self.take_cleanup(1) == 1 { Ok(()) } else { Err(Stopped::Cancelled) }
    }

    /// How many of these operations may be done: all, unless it cleans up.
    fn take_cleanup(&mut self, operations: u64) -> u64 {
        if !self.shielded {
            return operations;
        }
        let allowed = operations.min(self.cleanup_left);
        self.cleanup_left -= allowed;
        allowed
    }

    fn plan(&mut self) -> Result<(), Stopped> {
        let left = self.guarded(|| budget_left().ops)?;
        let left = if self.shielded { left.min(self.cleanup_left) } else { left };
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
