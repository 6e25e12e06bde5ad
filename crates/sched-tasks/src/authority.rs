//! What the tasks of a nursery may do, by capabilities.
//!
//! # Invariant
//! A nursery has the authority that it was given, and of what it was not given, that of the nursery around it. Where a profile wants
//! everything by name, what nobody gave is refused; and what comes from another ledger than the runtime's is no authority at all.

use std::sync::Arc;

use policy_admission::{Cap, CapBudget, CapChannel, CapError, CapSpawn, Capabilities, ChannelPermit, Lease};

use crate::{
    drive::shared::Shared,
    error::{Reason, TaskError},
    strand::Strand,
};

/// Leases of one nursery.
#[derive(Debug, Clone, Default)]
pub struct Authority {
    pub(crate) spawn: Option<Lease<CapSpawn>>,
    pub(crate) budget: Option<Lease<CapBudget>>,
    pub(crate) channel: Option<Lease<CapChannel>>,
}

/// What can be given to a nursery with [`NurseryOptions::capability`](crate::NurseryOptions::capability).
pub trait Capability: sealed::Sealed {
    #[doc(hidden)]
    fn lend(&self, authority: &mut Authority);
}

mod sealed {
    pub trait Sealed {}
    impl<T: policy_admission::Terms> Sealed for policy_admission::Cap<T> {}
}

impl Capability for Cap<CapSpawn> {
    fn lend(&self, authority: &mut Authority) {
        authority.spawn = Some(self.lease());
    }
}

impl Capability for Cap<CapBudget> {
    fn lend(&self, authority: &mut Authority) {
        authority.budget = Some(self.lease());
    }
}

impl Capability for Cap<CapChannel> {
    fn lend(&self, authority: &mut Authority) {
        authority.channel = Some(self.lease());
    }
}

impl Authority {
    /// What a nursery has that was given `self` inside one that has `around`.
    pub(crate) fn inside(&self, around: Option<&Arc<Authority>>) -> Option<Arc<Authority>> {
        let Authority { spawn, budget, channel } = self;
        if spawn.is_none() && budget.is_none() && channel.is_none() {
            return around.cloned();
        }
        let mut all = around.map_or_else(Authority::default, |around| (**around).clone());
        all.spawn = spawn.clone().or(all.spawn);
        all.budget = budget.clone().or(all.budget);
        all.channel = channel.clone().or(all.channel);
        Some(Arc::new(all))
    }
}

impl Shared {
    /// Whether everything must be given by name.
    pub(crate) fn is_explicit(&self) -> bool {
        self.profile.is_some_and(|profile| profile.capabilities() == Capabilities::Explicit)
    }

    /// A lease that may be used here, if there is one; `none` is what to say where one is needed and there is none.
    pub(crate) fn honour<'a, T: policy_admission::Terms>(
        &self,
        lease: Option<&'a Lease<T>>,
        none: CapError,
    ) -> Result<Option<&'a Lease<T>>, CapError> {
        match (lease, &self.ledger) {
            (Some(lease), Some(ledger)) => ledger.vouch(lease).map(|()| Some(lease)),
            (Some(lease), None) => Ok(Some(lease)),
            (None, ledger) if self.is_explicit() => {
                Err(ledger.as_ref().map_or(none, |ledger| ledger.refuse(none, None)))
            }
            (None, _) => Ok(None),
        }
    }
}

/// The permit to open a channel for so many messages, where one is needed.
pub(crate) fn permit_channel(strand: &Strand, capacity: u64) -> Result<Option<ChannelPermit>, TaskError> {
    let Some(scope) = strand.scope.get() else { return Ok(None) };
    let lease = scope.authority().and_then(|authority| authority.channel.as_ref());
    let honoured = scope.shared().honour(lease, CapError::NoChannelCapability);
    let permit = honoured.and_then(|lease| lease.map(|lease| lease.open_channel(capacity)).transpose());
    permit.map_err(|error| TaskError::new(Reason::NotAllowed(error), strand.label()))
}
