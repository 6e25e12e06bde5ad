//! What a worker owes to one nursery: the news that tasks ended, and the budget it drew for the next ones.
//!
//! # Invariants
//! A worker owes at most one nursery at a time, and pays before it runs anything of another, goes on with a stopped fiber, or sleeps. So a nursery that
//! is owed has not ended: a task of it is unreported, runs here, or is about to.
//! What was drawn from a pool is in the purse, on a meter, or has been settled.
//!
//! # Why they hold
//! Tasks are begun and ended only through here. Whoever begins without an end that is reported, a future that will be polled elsewhere or a half of a
//! `join`, calls [`Worker::report`] while it still keeps its nursery open.
//!
//! # Rejected
//! A draw and a return for every task: a lock that all workers fight for, twice a task. With a purse the lock is taken once for many.

use std::cell::Cell;

use vocab::Budget;

use super::worker::Worker;
use crate::{
    budget::{Account, Meter, Settlement},
    raw::scope::ScopeRef,
};

/// See the module.
pub(super) struct Dues {
    scope: Cell<Option<ScopeRef>>,
    /// Its tasks that ended here.
    ended: Cell<u32>,
    /// Whether something was drawn from its pool.
    has_purse: Cell<bool>,
    /// The purse: what was drawn and nobody has, and what those spent who had it.
    left: Cell<Budget>,
    spent: Cell<Budget>,
}

impl Dues {
    pub(super) fn none() -> Self {
        Self {
            scope: Cell::new(None),
            ended: Cell::new(0),
            has_purse: Cell::new(false),
            left: Cell::new(Budget::ZERO),
            spent: Cell::new(Budget::ZERO),
        }
    }

    fn take_purse(&self) -> Option<Settlement> {
        self.has_purse
            .replace(false)
            .then(|| Settlement { left: self.left.replace(Budget::ZERO), spent: self.spent.replace(Budget::ZERO) })
    }
}

impl Worker {
    /// Notes that a task of `scope` ended. Its nursery is told at the latest before anything of another nursery runs: until then whatever
    /// runs here keeps that nursery open anyway.
    #[inline]
    pub(crate) fn tally(&self, scope: ScopeRef) {
        let dues = &self.dues;
        if dues.scope.get() != Some(scope) {
            self.report();
            dues.scope.set(Some(scope));
        }
        dues.ended.set(dues.ended.get() + 1);
    }

    /// Pays what it owes.
    #[inline(always)]
    pub(crate) fn report(&self) {
        if self.dues.scope.get().is_some() {
            self.report_now();
        }
    }

    /// The same, unless it is `scope`, of which something is about to run.
    #[inline(always)]
    pub(crate) fn report_others_than(&self, scope: ScopeRef) {
        if self.dues.scope.get().is_some_and(|owed| owed != scope) {
            self.report_now();
        }
    }

    #[inline(never)]
    fn report_now(&self) {
        let Some(scope) = self.dues.scope.take() else { return };
        // The purse first: after the last end was told the nursery may be gone.
        if let (Some(purse), Some(account)) = (self.dues.take_purse(), scope.account()) {
            account.return_purse(&purse);
        }
        match self.dues.ended.replace(0) {
            0 => {}
            ended => scope.children_ended(ended),
        }
    }

    /// Gives a task of `scope` that begins here its budget. `report_others_than(scope)` was called before.
    #[inline]
    pub(crate) fn open_meter(&self, scope: ScopeRef, account: &Account, meter: &Meter) {
        let dues = &self.dues;
        let mut left = dues.left.get();
        let ready = dues.has_purse.get() && !account.is_wanted();
        if !ready || left.charge(account.child()).is_err() {
            return self.open_meter_anew(scope, account, meter);
        }
        dues.left.set(left);
        meter.begin(account.child());
    }

    #[inline(never)]
    fn open_meter_anew(&self, scope: ScopeRef, account: &Account, meter: &Meter) {
        let dues = &self.dues;
        if let Some(purse) = dues.take_purse() {
            account.return_purse(&purse);
        }
        let mut purse = account.draw_purse(self.shared.workers.len());
        let first = purse.min(account.child());
        purse.charge(&first).expect("no more than there is");
        meter.begin(&first);
        dues.left.set(purse);
        dues.has_purse.set(true);
        dues.scope.set(Some(scope));
    }

    /// Takes back what the task that ends here did not spend.
    #[inline]
    pub(crate) fn close_meter(&self, scope: ScopeRef, account: &Account, meter: &Meter) {
        let settlement = meter.end();
        let dues = &self.dues;
        if dues.scope.get() != Some(scope) || !dues.has_purse.get() || account.is_wanted() {
            return self.close_meter_at_once(scope, account, settlement);
        }
        let mut left = dues.left.get();
        left.recharge(&settlement.left);
        dues.left.set(left);
        let mut spent = dues.spent.get();
        spent.recharge(&settlement.spent);
        dues.spent.set(spent);
    }

    /// There is no purse, or somebody waits for what is in it.
    #[cold]
    fn close_meter_at_once(&self, scope: ScopeRef, account: &Account, settlement: Settlement) {
        account.settle(&settlement);
        if self.dues.scope.get() == Some(scope)
            && let Some(purse) = self.dues.take_purse()
        {
            account.return_purse(&purse);
        }
    }
}
