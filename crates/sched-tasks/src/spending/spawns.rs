//! Paying for spawns: from the pool of the nursery, or by the task itself.
//!
//! Room: driver. Knows accounts and what owners paid ahead; which task is let in is said by `nursery/admission.rs`.
//!
//! # Invariant
//! Before a spawn is refused, spawns that owners paid for ahead and have not used are taken back.

use std::sync::atomic::Ordering::Relaxed;

use vocab::{Budget, Component, Shortage};

use crate::{
    budget::{Account, Pool},
    error::Reason,
    kernel::nursery::NurseryCore,
    strand::Strand,
};

impl NurseryCore {
    /// Takes back the spawns that owners of nurseries with this account paid for ahead, so that another task can use them. False if there are none.
    #[cold]
    fn take_advances_back(&self, account: &Account) -> bool {
        let _one_at_a_time = account.advances.lock();
        let mut found = account.pool().left().spawns > 0; // another task was quicker
        self.each_with_same_account(|nursery| {
            let unused = nursery.paid_ahead().swap(0, Relaxed);
            if let Some(gate) = nursery.gate().filter(|_| unused > 0) {
                gate.take_back(unused, account);
                found = true;
            }
        });
        found
    }

    /// Where its budget is. What an owner paid for ahead is not spent.
    pub(crate) fn pool(&self) -> Option<Pool> {
        let mut pool = self.account()?.pool();
        self.each_with_same_account(|nursery| {
            pool.refund(&Budget::ZERO.spawns(nursery.paid_ahead().load(Relaxed)));
        });
        Some(pool)
    }

    /// Nurseries that one task opened inside each other may have one account.
    fn each_with_same_account(&self, mut visit: impl FnMut(&NurseryCore)) {
        let mut outermost = self;
        while let Some(outer) = outermost.outer_ref().filter(|_| outermost.shares_account()) {
            outermost = outer;
        }
        visit(outermost);
        let mut inside = outermost.nested();
        while let Some(nursery) = inside.pop() {
            if nursery.shares_account() {
                visit(&nursery);
                inside.extend(nursery.nested());
            }
        }
    }
}

impl Strand {
    /// Pays for a task that is spawned into a nursery without an account.
    pub(crate) fn charge_spawn(&self) -> Result<(), Reason> {
        while self.meter.is_metered()
            && let Err(Shortage { component, wanted, .. }) = self.meter.pay(&Budget::ZERO.spawns(1))
        {
            if !self.ask_for_spawn() {
                let granted = self.meter.granted()[component];
                return Err(Reason::BudgetExhausted { component, granted, wanted });
            }
        }
        Ok(())
    }

    /// Buys the right to spawn, one to `most` times, into a nursery with an account. What its pool does not have may come from further out.
    pub(crate) fn buy_spawns(&self, nursery: &NurseryCore, account: &Account, most: u64) -> Result<u64, Reason> {
        loop {
            match account.charge_spawns(most) {
                0 => {
                    if !nursery.take_advances_back(account)
                        && !self.ask_further_out(nursery, account, Component::Spawns)
                    {
                        let granted = account.pool().granted().spawns;
                        return Err(Reason::BudgetExhausted { component: Component::Spawns, granted, wanted: 1 });
                    }
                }
                bought => return Ok(bought),
            }
        }
    }
}
