//! Admission: a task is let into a nursery when it is paid for. The owner pays in advance for some tasks at once, any other task pays for each.
//!
//! Room: driver. Knows strands and owners; what is counted is `gate.rs`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use vocab::Component;

use crate::{
    error::Reason,
    gate::{Claim, Gate, MOST_AHEAD},
    kernel::nursery::NurseryCore,
    strand::Strand,
};

impl Gate {
    /// Lets one task in. The owner has `paid_ahead` for some.
    #[inline]
    pub(crate) fn admit(&self, nursery: &NurseryCore, paid_ahead: &AtomicU64, strand: &Strand) -> Result<(), Reason> {
        if let Some(permits) = &self.permits {
            permits.check().map_err(Reason::NotAllowed)?; // revoked is revoked, whatever was paid
        }
        let owner = nursery.is_owned_by(strand.waiter);
        if owner && paid_ahead.fetch_update(Relaxed, Relaxed, |paid| paid.checked_sub(1)).is_ok() {
            return Ok(());
        }
        let admitted = self.admit_slowly(nursery, strand, owner)?;
        if owner {
            paid_ahead.store(admitted - 1, Relaxed);
        }
        Ok(())
    }

    /// Lets in one, or several of the owner's at once: how many.
    #[inline(never)]
    fn admit_slowly(&self, nursery: &NurseryCore, strand: &Strand, owner: bool) -> Result<u64, Reason> {
        if let Some(error) = self.closed {
            return Err(Reason::NotAllowed(error));
        }
        let mut claim = Claim { gate: self, counted: false, permits: 0 };
        if let Some(limit) = self.limit {
            claim.counted = true;
            if self.spawned.fetch_add(1, Relaxed) >= limit {
                return Err(Reason::BudgetExhausted { component: Component::Spawns, granted: limit, wanted: 1 });
            }
        }
        let ahead = owner && self.limit.is_none();
        let mut admitted = if ahead { MOST_AHEAD } else { 1 };
        if let Some(permits) = &self.permits {
            admitted = permits.take(admitted.min(permits.batch())).map_err(Reason::NotAllowed)?;
            claim.permits = admitted;
        }
        match nursery.account() {
            Some(account) => {
                let most = admitted.min(if ahead { account.spawns_in_advance(MOST_AHEAD) } else { 1 });
                admitted = strand.buy_spawns(nursery, account, most)?;
            }
            // A nursery that only counts, lent to a task that has a budget: the task pays.
            None => strand.charge_spawn()?,
        }
        claim.keep(admitted);
        Ok(admitted)
    }
}
