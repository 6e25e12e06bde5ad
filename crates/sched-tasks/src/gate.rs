//! Who may spawn into a nursery, and how many tasks.
//!
//! # Invariant
//! A task is admitted only after everything that counts it was paid: the nursery's own limit, and the spawns of its pool.
//!
//! # Why it holds
//! The owner of a nursery pays in advance for some tasks at once, and counts them off alone; whoever else spawns pays for each. What was paid and not
//! used goes back when the nursery ends.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use vocab::{Budget, Component, Shortage};

use crate::{budget::Account, error::Reason, nursery::NurseryCore, options::NurseryOptions, strand::Strand};

/// See the module.
pub(crate) struct Gate {
    /// How many tasks may be spawned in all, and how many were.
    limit: Option<u64>,
    spawned: AtomicU64,
    /// How many more the owner may spawn without asking. Only the owner writes it.
    paid: AtomicU64,
}

impl Gate {
    /// None if anybody may spawn as many as they like.
    pub(crate) fn new(options: &NurseryOptions, has_account: bool) -> Option<Self> {
        let needed = has_account || options.spawn_limit.is_some();
        needed.then(|| Self { limit: options.spawn_limit, spawned: AtomicU64::new(0), paid: AtomicU64::new(0) })
    }

    /// Lets one task in.
    #[inline]
    pub(crate) fn admit(&self, nursery: &NurseryCore, strand: &Strand) -> Result<(), Reason> {
        let paid = self.paid.load(Relaxed);
        let owner = nursery.is_owned_by(strand.seat);
        if owner && paid > 0 {
            self.paid.store(paid - 1, Relaxed);
            return Ok(());
        }
        self.admit_slowly(nursery, strand, owner)
    }

    #[inline(never)]
    fn admit_slowly(&self, nursery: &NurseryCore, strand: &Strand, owner: bool) -> Result<(), Reason> {
        if let Some(limit) = self.limit
            && self.spawned.fetch_add(1, Relaxed) >= limit
        {
            return Err(Reason::BudgetExhausted { component: Component::Spawns, granted: limit, wanted: 1 });
        }
        let mut paid = 1;
        if let Some(account) = nursery.account() {
            let most = if owner && self.limit.is_none() { account.spawns_in_advance() } else { 1 };
            paid = strand.buy_spawns(nursery, account, most)?;
        }
        if owner {
            self.paid.store(paid - 1, Relaxed);
        }
        Ok(())
    }

    /// The nursery is over.
    pub(crate) fn close(&self, account: Option<&Account>) {
        let unused = self.paid.swap(0, Release);
        if let Some(account) = account.filter(|_| unused > 0) {
            account.refund(&Budget::ZERO.spawns(unused));
        }
    }
}

impl Strand {
    /// Pays for a task that is spawned into a nursery without an account.
    pub(crate) fn charge_spawn(&self) -> Result<(), Reason> {
        let exhausted = |shortage: Shortage| Reason::BudgetExhausted {
            component: shortage.component,
            granted: self.meter.granted()[shortage.component],
            wanted: shortage.wanted,
        };
        self.meter.pay(&Budget::ZERO.spawns(1)).map_err(exhausted)
    }

    /// Buys the right to spawn, one to `most` times, into a nursery with an account. What its pool does not have may come from further out.
    fn buy_spawns(&self, nursery: &NurseryCore, account: &Account, most: u64) -> Result<u64, Reason> {
        loop {
            match account.charge_spawns(most) {
                0 => {
                    if !self.ask_further_out(nursery, account, Component::Spawns) {
                        let granted = account.pool().granted().spawns;
                        return Err(Reason::BudgetExhausted { component: Component::Spawns, granted, wanted: 1 });
                    }
                }
                bought => return Ok(bought),
            }
        }
    }
}
