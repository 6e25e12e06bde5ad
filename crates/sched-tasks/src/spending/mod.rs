//! Spending: tasks pay for what they do, and ask for more when their budget is gone.
//!
//! Room: interface. Knows strands, nurseries and accounts; how much there is, is said by `budget/mod.rs`.

mod asking;
mod spawns;
mod supervisor;

use std::sync::Arc;

use vocab::Budget;

pub use self::supervisor::BudgetSupervisor;
use crate::{
    budget::{Account, Source, Terms},
    error::{Reason, TaskError},
    kernel::clock,
    strand::{self, Strand},
};

/// Opens the account of a nursery that `strand` opens, with as much of `wanted` as the source has, or all of it.
pub(crate) fn open_account(terms: Terms, wanted: Option<Budget>, source: Source, strand: &Strand) -> Arc<Account> {
    let all = wanted.unwrap_or(Budget::UNLIMITED);
    let given = match &source {
        Source::Root(usual) => wanted.unwrap_or(*usual),
        Source::Meter => {
            strand.draw_due(&wanted.unwrap_or(Budget::ZERO), terms.supervises);
            strand.meter.draw(&all)
        }
        Source::Account(around) => {
            let mut given = around.draw(&all);
            if let Some(wanted) = wanted {
                given.recharge(&strand.fetch_around(wanted.saturating_sub(&given), around));
            }
            given
        }
    };
    let period_end = terms.period.map(clock::due);
    Account::new(terms, wanted, source, given, &strand.meter, period_end)
}

/// Charges the running task for `ops` operations of its own, and ends it if it was cancelled. A task that has not so much left stops here until it gets more; if
/// none gives it any, it ends with [`Reason::BudgetExhausted`](crate::Reason::BudgetExhausted).
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
            worker.report(); // what is in the worker cache is in no pool
        }
        let mut left = strand.meter.left();
        left.recharge(&strand.undrawn());
        left
    })
}

impl Strand {
    /// What the task could draw without asking, besides what is on its meter.
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
            account.settle(&self.meter.end_and_wait()).wake();
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

    /// What it overdrew it pays before it ends, or fails: else what it leaves to others would be free. And a task that was refused a budget fails.
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

    /// At the entry of an operation of a channel that does not wait for others.
    #[inline]
    pub(crate) fn begin_try(&self) {
        self.take_turn();
        self.charge_channel_op();
        self.interleave();
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
