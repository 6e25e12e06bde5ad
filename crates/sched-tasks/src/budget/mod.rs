//! Budgets: what tasks may spend, where it comes from, and what happens when it is gone.
//!
//! ```text
//!   a root's grant ──► pool of a nursery ──draw──► worker_cache of a worker ──► meter of a task ──► spent
//!                           ▲   ▲                        │                  │    │
//!                           │   └────────── settle ──────┴──────────────────┘    │ opens a nursery
//!                           └──────────── its pool comes out of the meter ───────┘
//! ```
//!
//! Every nursery inside a task that has a budget takes its pool out of that task's meter, so no depth of nesting makes budget. See `pool.rs` for the law.

mod account;
mod desk;
mod exhausted;
mod meter;
mod pool;
mod treasury;

use std::{fmt, sync::Arc};

use vocab::{Budget, Component};

pub(crate) use self::{
    account::{Account, Source, Terms},
    meter::{Meter, Reading},
};
pub use self::{
    pool::{Pool, Settlement},
    treasury::Treasury,
};
use crate::{
    error::{Reason, TaskError, TaskLabel},
    strand::{self, Strand},
};

/// What a child gets, if nobody says otherwise: SPEC-021 §8.2.
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
    /// Who.
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
    /// Not my business: somebody else may answer. If nobody can, it ends.
    Ignore,
}

/// Somebody who answers for exhausted tasks; see [`NurseryOptions::on_exhausted`](crate::NurseryOptions::on_exhausted).
pub(crate) type Handler = Arc<dyn Fn(&Exhausted) -> Answer + Send + Sync>;

/// Charges the running task for `ops` operations of its own, and ends it if it was cancelled. A task that has not so much left stops here until it gets more; if
/// nobody gives it any, it ends with [`Reason::BudgetExhausted`](crate::Reason::BudgetExhausted).
///
/// ```
/// use bursar::{Budget, NurseryOptions, Reason, budget::{Component, charge}, nursery_with};
///
/// let options = NurseryOptions::new().task_budget(Budget::ops(1_000));
/// let outcome = nursery_with(options, |n| {
///     n.spawn(|| {
///         loop {
///             charge(10); // what one round is worth
///         }
///     })
///     .join()
/// });
/// let error = outcome.unwrap_err();
/// assert!(matches!(error.reason(), Reason::BudgetExhausted { component: Component::Ops, granted: 1_000, .. }));
/// ```
#[inline]
pub fn charge(ops: u64) {
    strand::with(|strand| {
        strand.charge_ops(ops);
        strand.checkpoint();
    });
}

/// Gives the running task more to spend, by the `CapBudget` of its nursery. Returns how much it got: at most what the capability has left.
///
/// Without such a capability it is refused: [`Reason::NotAllowed`](crate::Reason::NotAllowed).
///
/// ```
/// use bursar::{Budget, NurseryOptions, budget::{budget_left, recharge}, capability::{CapBudget, Ledger}, nursery_with};
///
/// let reserve = Ledger::new().grant(CapBudget::new().limit(Budget::ops(500)));
/// let options = NurseryOptions::new().task_budget(Budget::ops(100)).capability(&reserve);
/// nursery_with(options, |n| {
///     n.spawn(|| {
///         assert_eq!(recharge(Budget::ops(10_000)).unwrap(), Budget::ops(500));
///         assert_eq!(budget_left().ops, 600);
///     })
///     .join()
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn recharge(amount: Budget) -> Result<Budget, TaskError> {
    strand::with(Strand::ensure_room);
    strand::with(|strand| strand.recharge_by_capability(amount))
        .map_err(|error| TaskError::new(Reason::NotAllowed(error), strand::current().label()))
}

/// What the running task may still spend. Unlimited if it has no budget.
pub fn budget_left() -> Budget {
    strand::with(|strand| {
        strand.ensure_room();
        if !strand.meter.is_metered() {
            return Budget::UNLIMITED;
        }
        if let Some(worker) = &strand.worker {
            worker.report(); // what is in the worker_cache is in no pool
        }
        let mut left = strand.meter.left();
        left.recharge(&strand.undrawn());
        left
    })
}

impl Strand {
    /// What the task could draw without asking anybody, besides what is on its meter.
    fn undrawn(&self) -> Budget {
        let Some(scope) = self.scope.get() else { return Budget::ZERO };
        let Some(account) = scope.account() else { return Budget::ZERO };
        let left = account.pool().left();
        if self.owns(&scope) { left } else { account.undrawn(&self.meter.granted()).min(&left) }
    }

    /// Draws of the task's due what is missing to have `wanted`, without asking a handler.
    pub(crate) fn draw_due(&self, wanted: &Budget, supervises: bool) {
        let missing = wanted.saturating_sub(&self.meter.left());
        if missing != Budget::ZERO {
            self.meter.recharge(&self.fetch(missing, self.scope.get(), Some(self.meter.granted()), supervises));
        }
    }

    /// Returns the unspent share before the task waits for its other half. Else each of many waiting halves would keep a share, and the pool would be dry.
    #[cold]
    pub(crate) fn return_share(&self) {
        if let Some(scope) = self.scope.get().filter(|scope| self.meter.is_metered() && !self.owns(scope))
            && let Some(account) = scope.account()
        {
            account.settle(&self.meter.end_and_wait());
        }
    }

    /// A task whose pool was dry when it was to begin asks first.
    #[inline(always)]
    pub(crate) fn start_funded(&self) {
        if self.meter.is_metered() && self.meter.left().ops == 0 {
            self.pay_slowly(&Budget::ops(1));
            self.meter.unpay_ops(1); // it has done nothing yet
        }
    }

    /// What it overdrew it pays before it ends, or fails: else what it leaves to others would be free. And who was refused a budget does not end well.
    #[inline(always)]
    pub(crate) fn look_at_meter(&self) {
        if self.meter.needs_look() {
            self.pay_slowly(&Budget::ZERO);
        }
    }

    /// The task's stack was lost, and with it what it had left: open nurseries on it may have had a part.
    pub(crate) fn forfeit_meter(&self) {
        if self.meter.is_metered() || self.lent.get() {
            self.meter.take();
            if let Some(account) = self.base.get().as_ref().and_then(|scope| scope.account()) {
                account.holder_lost();
            }
        }
    }

    /// Whether a half of a `join` may run elsewhere, where it is paid like another task of the nursery. Not if that makes a difference: an owner spends from the pool, and a
    /// task with a limit of its own would have it twice.
    #[inline]
    pub(crate) fn may_spend_as_two(&self) -> bool {
        let Some(scope) = self.scope.get() else { return true };
        scope.account().is_none_or(|account| !self.owns(&scope) && !account.limits_each())
    }

    /// Pays for operations.
    #[inline(always)]
    pub(crate) fn charge_ops(&self, ops: u64) {
        if self.meter.is_metered() && !self.meter.pay_ops(ops) {
            self.pay_slowly(&Budget::ops(ops));
        }
    }

    /// Pays for an operation of a channel.
    #[inline(always)]
    pub(crate) fn charge_channel_op(&self) {
        if self.meter.is_metered() && !self.meter.pay_channel_op() {
            self.pay_slowly(&vocab::Operation::ChannelSend.cost());
        }
    }

    /// Pays for a call of the operating system.
    #[inline]
    pub(crate) fn charge_syscall(&self) {
        let cost = vocab::Operation::FileIo.cost();
        if self.meter.is_metered() && self.meter.pay(&cost).is_err() {
            self.pay_slowly(&cost);
        }
    }
}
