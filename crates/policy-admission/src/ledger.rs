//! The source of authority.
//!
//! Room: interface.
//!
//! # Invariant
//! The holder of a [`Ledger`] may grant anything of it and revoke anything of it. No other code can make a first
//! capability. A runtime keeps its ledger and hands out capabilities; using those takes no ledger.
//!
//! Its data is in `registry.rs`.

use std::{fmt, sync::Arc};

use crate::{
    AuditEvent, AuditRecord, AuditTotals, Cap, CapError, CapId, CapUse, Delegation, Grant, Lease, Terms,
    arena::Account, node::Node, registry::Registry,
};

/// Grants, revokes, and remembers. A clone is the same ledger.
///
/// ```
/// use policy_admission::{AuditEvent, CapError, CapSpawn, Grant, Ledger};
///
/// let ledger = Ledger::new();
/// let root = ledger.grant(CapSpawn::new());
/// let tenant = root.attenuate(Grant::new(CapSpawn::new().max_tasks(2)).label("plugin-7"))?;
///
/// let lease = tenant.lease(); // what the runtime counts with
/// let permits = lease.take_tasks(64)?;
/// assert_eq!(permits.count(), 2);
/// assert_eq!(lease.take_tasks(1).unwrap_err(), CapError::TaskLimitExceeded { limit: 2, in_use: 2 });
///
/// ledger.revoke(tenant.id())?;
/// assert_eq!(tenant.check(), Err(CapError::Revoked { id: tenant.id() }));
/// let events: Vec<_> = ledger.audit().into_iter().map(|record| record.event).collect();
/// assert_eq!(events[..2], [AuditEvent::Granted, AuditEvent::Attenuated]);
/// assert_eq!(ledger.audit_totals().refusals(), 2);
/// # Ok::<(), CapError>(())
/// ```
#[derive(Clone)]
pub struct Ledger(Arc<Registry>);

impl Ledger {
    /// How many records the log of [`new`](Self::new) keeps.
    pub const AUDIT_CAPACITY: usize = 1024;

    /// An empty one.
    #[allow(clippy::new_without_default, reason = "a source of authority is made on purpose")]
    pub fn new() -> Self {
        Self::with_audit(Self::AUDIT_CAPACITY)
    }

    /// An empty one whose log keeps `capacity` records: half of them for grants and revocations, the other half for
    /// refusals.
    pub fn with_audit(capacity: usize) -> Self {
        Self(Arc::new(Registry::new(capacity)))
    }

    /// Makes a capability from nothing. It may be delegated unless the grant says otherwise.
    pub fn grant<T: Terms>(&self, grant: impl Into<Grant<T>>) -> Cap<T> {
        let Grant { terms, delegation, label } = grant.into();
        let delegation = delegation.unwrap_or(Delegation::Allowed);
        let node = Node::enter(&self.0, None, terms, delegation, label, AuditEvent::Granted);
        Cap::new(node.expect("what has no parent needs none alive"))
    }

    /// Checks that a capability comes from this ledger. Any code can make a ledger and grant itself everything, but not
    /// from this one.
    pub fn vouch<T: Terms>(&self, lease: &Lease<T>) -> Result<(), CapError> {
        if self.is_source_of(lease) { Ok(()) } else { Err(self.refuse(CapError::Foreign, None)) }
    }

    /// The same without writing a refusal down.
    pub fn is_source_of<T: Terms>(&self, lease: &Lease<T>) -> bool {
        Arc::ptr_eq(&self.0, &lease.node.registry)
    }

    /// Whether both are the same ledger.
    pub fn is_same(&self, other: &Ledger) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether two capabilities, of any kind, come from the same ledger.
    pub fn is_common<A: Terms, B: Terms>(one: &Lease<A>, other: &Lease<B>) -> bool {
        Arc::ptr_eq(&one.node.registry, &other.node.registry)
    }

    /// Revokes the capability of that name and everything derived from it, at once: how many that were.
    pub fn revoke(&self, id: CapId) -> Result<usize, CapError> {
        self.0.revoke_below(None, id)
    }

    /// Writes down a refusal where there was no capability to ask, such as [`CapError::NoSpawnCapability`]; returns it.
    pub fn refuse(&self, error: CapError, label: Option<&Arc<str>>) -> CapError {
        self.0.log().write(AuditEvent::Refused(error.kind()), error.missing(), None, None, label.cloned());
        error
    }

    /// What the log still holds, oldest first.
    pub fn audit(&self) -> Vec<AuditRecord> {
        self.0.log().records()
    }

    /// How often each event happened, also those that the log no longer holds.
    pub fn audit_totals(&self) -> AuditTotals {
        let used = self.0.arena().uses();
        let mut totals = self.0.log().totals();
        totals.used = used;
        totals
    }

    /// How often each live capability was used, by all its holders: tasks started, draws, channels and executors
    /// opened. Use of a derived capability is counted there. The sum of all that have ended is in
    /// [`AuditTotals::used`].
    ///
    /// ```
    /// use policy_admission::{CapSpawn, Grant, Kind, Ledger};
    ///
    /// let ledger = Ledger::new();
    /// let cap = ledger.grant(Grant::new(CapSpawn::new()).label("plugin-7"));
    /// drop(cap.lease().take_tasks(3)?);
    /// let uses = ledger.uses();
    /// assert_eq!((uses[0].kind, uses[0].label.as_deref(), uses[0].uses), (Kind::Spawn, Some("plugin-7"), 3));
    /// assert_eq!((cap.uses(), ledger.audit_totals().used), (3, 3));
    /// # Ok::<(), policy_admission::CapError>(())
    /// ```
    pub fn uses(&self) -> Vec<CapUse> {
        let of = |(id, account): (CapId, &Account)| CapUse {
            id,
            kind: account.kind,
            label: account.label.clone(),
            uses: account.uses.count(),
        };
        self.0.arena().accounts().map(of).collect()
    }

    /// How many capabilities are alive.
    pub fn live(&self) -> usize {
        self.0.arena().live()
    }

    /// How many fit without growing.
    pub fn slots(&self) -> usize {
        self.0.arena().slots()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusals = self.audit_totals().refusals();
        f.debug_struct("Ledger").field("live", &self.live()).field("refusals", &refusals).finish_non_exhaustive()
    }
}
