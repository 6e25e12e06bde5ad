//! What a worker owes to one nursery: the news that tasks ended, and the budget it drew for the next ones.
//!
//! Room: state. Knows nurseries and accounts; knows nothing of what a task does.
//!
//! # Invariants
//! A worker owes at most one nursery at a time, and pays before it runs anything of another, goes on with a stopped fiber, or sleeps. So a nursery that
//! is owed has not ended: a task of it is unreported, runs here, or is about to.
//! What was drawn from a pool is in the worker cache, on a meter, or has been settled.
//!
//! # Why they hold
//! Tasks are begun and ended only through here. Code that begins a task without reporting its end, as for a future that will be polled elsewhere or a half of a
//! `join`, calls [`Worker::report`] while it still keeps its nursery open.
//!
//! # Rejected
//! A draw and a return for every task: a lock that all workers fight for, twice a task. With a cache the lock is taken once for many.

use std::{cell::Cell, ptr};

use vocab::Budget;

use super::{scope::ScopeRef, strand::Strand, worker::Worker};
use crate::{
    budget::{Account, Meter, Settlement},
    stats,
};

/// See the module.
pub(crate) struct PendingEnds {
    scope: Cell<Option<ScopeRef>>,
    /// Its tasks that ended here.
    ended: Cell<u32>,
    /// Of these, how many have not given their permit back.
    permits: Cell<u32>,
    /// Whether something was drawn from its pool.
    has_worker_cache: Cell<bool>,
    /// The worker cache: what was drawn and no task has, and what tasks spent of it.
    left: Cell<Budget>,
    spent: Cell<Budget>,
    /// Enough is left for another child.
    is_enough: Cell<bool>,
    /// The meter of a task that runs, if what it began with is still counted as left: most tasks end before that is asked, and spend little or nothing.
    lent_to: Cell<*const Meter>,
}

impl PendingEnds {
    pub(crate) fn none() -> Self {
        Self {
            scope: Cell::new(None),
            ended: Cell::new(0),
            permits: Cell::new(0),
            has_worker_cache: Cell::new(false),
            left: Cell::new(Budget::ZERO),
            spent: Cell::new(Budget::ZERO),
            is_enough: Cell::new(false),
            lent_to: Cell::new(ptr::null()),
        }
    }

    fn take_worker_cache(&self, account: &Account) -> Option<Settlement> {
        self.count_loan(account);
        self.is_enough.set(false);
        self.has_worker_cache
            .replace(false)
            .then(|| Settlement { left: self.left.replace(Budget::ZERO), spent: self.spent.replace(Budget::ZERO) })
    }

    /// What a task began with is not left any more: it will be settled when the task ends.
    fn count_loan(&self, account: &Account) {
        if !self.lent_to.replace(ptr::null()).is_null() {
            let mut left = self.left.get();
            left.charge(account.child()).expect("it was seen to be enough");
            self.set_left(&left, account);
        }
    }

    fn set_left(&self, left: &Budget, account: &Account) {
        self.left.set(*left);
        self.is_enough.set(left.covers(account.child()));
    }
}

impl Strand {
    /// Tells the nursery that a task of it ended here: at once, or together with the next ones.
    #[inline]
    pub(crate) fn count_ended(&self, scope: ScopeRef, owes_permit: bool) {
        match &self.worker {
            Some(worker) => worker.tally(scope, owes_permit),
            None => scope.children_ended(1, u32::from(owes_permit)),
        }
    }
}

impl Worker {
    /// Notes that a task of `scope` ended. Its nursery is told at the latest before anything of another nursery runs: until then whatever
    /// runs here keeps that nursery open anyway.
    #[inline]
    fn tally(&self, scope: ScopeRef, owes_permit: bool) {
        let pending_ends = &self.pending_ends;
        if pending_ends.scope.get() != Some(scope) {
            self.report();
            pending_ends.scope.set(Some(scope));
        }
        pending_ends.ended.set(pending_ends.ended.get() + 1);
        pending_ends.permits.set(pending_ends.permits.get() + u32::from(owes_permit));
    }

    /// One of those was cancelled.
    #[cold]
    pub(crate) fn count_cancelled(&self) {
        stats::add(&self.counters.cancelled, 1);
    }

    /// Pays what it owes.
    #[inline(always)]
    pub(crate) fn report(&self) {
        if self.pending_ends.scope.get().is_some() {
            self.report_now();
        }
    }

    /// The same, unless it is `scope`, of which something is about to run.
    #[inline(always)]
    pub(crate) fn report_others_than(&self, scope: ScopeRef) {
        if self.pending_ends.scope.get().is_some_and(|owed| owed != scope) {
            self.report_now();
        }
    }

    #[inline(never)]
    fn report_now(&self) {
        let Some(scope) = self.pending_ends.scope.take() else { return };
        // The worker cache first: after the last end was told the nursery may be gone.
        if let Some(account) = scope.account()
            && let Some(worker_cache) = self.pending_ends.take_worker_cache(account)
        {
            account.return_worker_cache(&worker_cache).wake();
        }
        match self.pending_ends.ended.replace(0) {
            0 => {}
            ended => {
                stats::add(&self.counters.ended, ended.into());
                scope.children_ended(ended, self.pending_ends.permits.replace(0));
            }
        }
    }

    /// Gives a task of `scope` that begins here its budget. `report_others_than(scope)` was called before.
    #[inline]
    pub(crate) fn open_meter(&self, scope: ScopeRef, account: &Account, meter: &Meter) {
        let pending_ends = &self.pending_ends;
        if !pending_ends.is_enough.get() || !pending_ends.lent_to.get().is_null() || account.is_wanted() {
            return self.open_meter_slowly(scope, account, meter);
        }
        pending_ends.lent_to.set(meter);
        meter.begin_child(account);
    }

    #[inline(never)]
    fn open_meter_slowly(&self, scope: ScopeRef, account: &Account, meter: &Meter) {
        let pending_ends = &self.pending_ends;
        pending_ends.count_loan(account); // the one before has stopped, and keeps what it has
        if !pending_ends.is_enough.get() || account.is_wanted() {
            if let Some(worker_cache) = pending_ends.take_worker_cache(account) {
                account.return_worker_cache(&worker_cache).wake();
            }
            pending_ends.set_left(&account.draw_worker_cache(self.shared.workers.len()), account);
            pending_ends.has_worker_cache.set(true);
            pending_ends.scope.set(Some(scope));
        }
        if pending_ends.is_enough.get() {
            pending_ends.lent_to.set(meter);
            return meter.begin_child(account);
        }
        let mut left = pending_ends.left.get();
        let first = left.min(account.child());
        left.charge(&first).expect("no more than there is");
        pending_ends.set_left(&left, account);
        meter.begin(&first);
    }

    /// Takes back what the task that ends here did not spend.
    #[inline]
    pub(crate) fn close_meter(&self, scope: ScopeRef, account: &Account, meter: &Meter) {
        let pending_ends = &self.pending_ends;
        if ptr::eq(pending_ends.lent_to.get(), meter) {
            if !account.is_wanted() && meter.end_untouched(account) {
                return pending_ends.lent_to.set(ptr::null());
            }
            pending_ends.count_loan(account);
        }
        self.close_meter_slowly(scope, account, meter.end());
    }

    #[inline(never)]
    fn close_meter_slowly(&self, scope: ScopeRef, account: &Account, settlement: Settlement) {
        let pending_ends = &self.pending_ends;
        if pending_ends.scope.get() != Some(scope) || !pending_ends.has_worker_cache.get() {
            return account.settle(&settlement).wake();
        }
        let (mut left, mut spent) = (pending_ends.left.get(), pending_ends.spent.get());
        left.recharge(&settlement.left);
        spent.recharge(&settlement.spent);
        pending_ends.set_left(&left, account);
        pending_ends.spent.set(spent);
        if account.is_wanted()
            && let Some(worker_cache) = pending_ends.take_worker_cache(account)
        {
            account.return_worker_cache(&worker_cache).wake(); // a task waits for what is in it
        }
    }
}
