//! Tenants: capabilities to spawn that have a weight. Whatever runs under one has one share of CPU time.
//!
//! Room: values. Knows which capability was derived from which; who shares what is said elsewhere.
//!
//! # Invariant
//! Of a capability with a weight, everything derived from it has a weight, too, and at most that one: so the tenants above a capability are the last part of its chain, without a gap.

use std::{fmt, sync::Arc};

use crate::{CapId, CapSpawn, Lease, node::Node};

/// A capability to spawn that has a weight.
#[derive(Clone, Copy)]
pub struct Tenant<'a> {
    node: &'a Node<CapSpawn>,
    weight: u32,
}

/// Names a tenant among those of all ledgers of the process, for ever. Like a [`CapId`], it is no authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId {
    ledger: u64,
    cap: CapId,
}

impl Tenant<'_> {
    /// Its name among all.
    pub fn id(&self) -> TenantId {
        TenantId { ledger: self.node.registry.number, cap: self.node.id }
    }

    /// Its weight beside the tenants that are inside the same one.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// The label of the capability, or which one it is.
    pub fn name(&self) -> Arc<str> {
        self.node.label.clone().unwrap_or_else(|| format!("capability {}", self.node.id).into())
    }
}

impl fmt::Debug for Tenant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({}, weight {})", self.node.id, self.weight)
    }
}

impl Lease<CapSpawn> {
    /// The tenants that its tasks belong to: that of the capability itself first, then those it was derived from. None if it has no weight.
    ///
    /// ```
    /// use policy_admission::{CapSpawn, Delegation, Grant, Ledger};
    ///
    /// let root = Ledger::new().grant(CapSpawn::new());
    /// let team = Grant::new(CapSpawn::new().weight(4)).label("team").delegation(Delegation::Allowed);
    /// let team = root.attenuate(team)?;
    /// let member = team.attenuate(Grant::new(CapSpawn::new().weight(2)).label("member"))?.lease();
    /// let tenants: Vec<_> = member.tenants().map(|tenant| (tenant.name(), tenant.weight())).collect();
    /// assert_eq!(tenants, [("member".into(), 2), ("team".into(), 4)]);
    /// assert_eq!(root.lease().tenants().count(), 0);
    /// # Ok::<(), policy_admission::CapError>(())
    /// ```
    pub fn tenants(&self) -> impl Iterator<Item = Tenant<'_>> {
        std::iter::successors(Some(&*self.node), |node| node.parent.as_deref())
            .map_while(|node| node.terms.get_weight().map(|weight| Tenant { node, weight }))
    }
}
