//! What the task that runs on a strand may do, by the capabilities of the nursery around it.
//!
//! Room: interface. Knows whose authority counts; what it allows is said by `authority.rs`.

use std::sync::Arc;

use policy_admission::ChannelPermit;

use crate::{
    authority::Credentials,
    error::{Reason, TaskError},
    kernel::{nursery::NurseryCore, strand::Strand},
};

impl Strand {
    /// Whether what runs here opened `scope`, or acts for the strand that did.
    pub(crate) fn owns(&self, scope: &NurseryCore) -> bool {
        scope.is_owned_by(self.waiter) || self.acts_for.get().is_some_and(|waiter| scope.is_owned_by(waiter))
    }

    /// Whether the caller belongs to a tenant.
    #[inline]
    pub(crate) fn has_tenant(&self) -> bool {
        let has_tenant = |credentials: &Arc<Credentials>| credentials.has_tenant();
        match self.scope.get().as_ref().and_then(|scope| scope.credentials()) {
            Some(credentials) => has_tenant(credentials),
            None => self.inherited.borrow().as_ref().is_some_and(has_tenant),
        }
    }

    /// What the caller may do, if that is limited.
    pub(crate) fn credentials(&self) -> Option<Arc<Credentials>> {
        match self.scope.get() {
            // A nursery without limits that was opened before limits were taken over: see `Confinement::enter`.
            Some(scope) => scope.credentials().cloned().or_else(|| self.inherited.borrow().clone()),
            None => self.inherited.borrow().clone(),
        }
    }
}

/// The permits to open a channel for so many messages, where some are needed.
pub(crate) fn permit_channel(strand: &Strand, capacity: u64) -> Result<Vec<ChannelPermit>, TaskError> {
    let Some(credentials) = strand.credentials() else { return Ok(Vec::new()) };
    let ledger = strand.scope.get().and_then(|scope| scope.shared().ledger.as_ref());
    let leases = credentials.to_open_channel(ledger);
    let permits = leases.and_then(|leases| leases.iter().map(|lease| lease.open_channel(capacity)).collect());
    permits.map_err(|error| TaskError::new(Reason::NotAllowed(error), strand.label()))
}
