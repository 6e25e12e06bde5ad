//! The source of authority.
//!
//! # Invariant
//! Whoever holds a [`Ledger`] may grant anything of it and revoke anything of it; nobody else can begin. A runtime keeps its ledger and hands
//! out capabilities; to use those takes no ledger.
//!
//! # Locks
//! The arena's is taken to derive, to revoke and to forget, never to use. The log's is taken inside it, or alone.

use std::{
    fmt,
    sync::{Arc, PoisonError},
};

use crate::{
    AuditEvent, AuditRecord, AuditTotals, Cap, CapError, CapId, CapUse, Delegation, Grant, Lease, Terms,
    arena::{Account, Arena},
    audit::AuditLog,
    node::{Apart, Node, Uses},
    sync::{Mutex, MutexGuard},
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
pub struct Ledger(Arc<Inner>);

struct Inner {
    arena: Mutex<Arena>,
    log: AuditLog,
}

impl Ledger {
    /// How many records the log of [`new`](Self::new) keeps.
    pub const AUDIT_CAPACITY: usize = 1024;

    /// An empty one.
    #[allow(clippy::new_without_default, reason = "a source of authority is made on purpose")]
    pub fn new() -> Self {
        Self::with_audit(Self::AUDIT_CAPACITY)
    }

    /// An empty one whose log keeps so many records: the last half of them of grants and revocations, the other half of refusals.
    pub fn with_audit(capacity: usize) -> Self {
        Self(Arc::new(Inner { arena: Mutex::new(Arena::default()), log: AuditLog::new(capacity) }))
    }

    /// Makes a capability from nothing. It may be delegated unless the grant says otherwise.
    pub fn grant<T: Terms>(&self, grant: impl Into<Grant<T>>) -> Cap<T> {
        let Grant { terms, delegation, label } = grant.into();
        let delegation = delegation.unwrap_or(Delegation::Allowed);
        let node = self.enter(None, terms, delegation, label, AuditEvent::Granted);
        Cap::new(node.expect("what has no parent needs none alive"))
    }

    /// Says whether a capability is one of this ledger's: anybody can make a ledger and grant themselves everything, but not from this one.
    pub fn vouch<T: Terms>(&self, lease: &Lease<T>) -> Result<(), CapError> {
        if self.is_source_of(lease) { Ok(()) } else { Err(self.refuse(CapError::Foreign, None)) }
    }

    /// The same for who only wants to know: no refusal is written down.
    pub fn is_source_of<T: Terms>(&self, lease: &Lease<T>) -> bool {
        Arc::ptr_eq(&self.0, &lease.node.ledger.0)
    }

    /// The ledger that a capability comes from.
    pub(crate) fn of<T: Terms>(lease: &Lease<T>) -> &Ledger {
        &lease.node.ledger
    }

    /// Whether both are the same ledger.
    pub fn is_same(&self, other: &Ledger) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether two capabilities, of whatever kind, come from the same ledger.
    pub fn is_common<A: Terms, B: Terms>(one: &Lease<A>, other: &Lease<B>) -> bool {
        Self::of(one).is_source_of(other)
    }

    /// Enters a capability, in the arena and in the log; `None` if its parent was revoked.
    pub(crate) fn enter<T: Terms>(
        &self,
        parent: Option<&Arc<Node<T>>>,
        terms: T,
        delegation: Delegation,
        label: Option<Arc<str>>,
        event: AuditEvent,
    ) -> Option<Node<T>> {
        let above = parent.map(|parent| parent.id);
        let uses = Arc::new(Uses::default());
        let (id, word) = {
            let mut arena = self.arena();
            let entered = arena.enter(above)?;
            arena.set_account(entered.0, Account { kind: T::KIND, label: label.clone(), uses: uses.clone() });
            self.0.log.write(event, Some(T::KIND), Some(entered.0), above, label.clone());
            entered
        };
        let parent = parent.cloned();
        Some(Node { id, word, terms, delegation, label, parent, ledger: self.clone(), used: Apart::default(), uses })
    }

    /// Revokes the capability of that name and everything derived from it, at once: how many that were.
    pub fn revoke(&self, id: CapId) -> Result<usize, CapError> {
        self.revoke_below(None, id)
    }

    /// The same, if it was derived from `above`.
    pub(crate) fn revoke_below(&self, above: Option<CapId>, id: CapId) -> Result<usize, CapError> {
        let mut arena = self.arena();
        let outcome = match above {
            Some(from) if arena.is_alive(id) && !(arena.is_alive(from) && arena.is_below(id, from)) => {
                Err(CapError::NotDerived { id, from })
            }
            _ => arena.revoke(id).ok_or(CapError::Stale { id }),
        };
        let event = match outcome {
            Ok(reached) => AuditEvent::Revoked { reached },
            Err(error) => AuditEvent::Refused(error.kind()),
        };
        self.0.log.write(event, None, Some(id), above, None);
        outcome
    }

    /// Revokes on behalf of the holder; 0 if it is over already.
    pub(crate) fn revoke_own<T: Terms>(&self, node: &Node<T>) -> usize {
        let mut arena = self.arena();
        let Some(reached) = arena.revoke(node.id) else { return 0 };
        let parent = node.parent.as_ref().map(|parent| parent.id);
        self.0.log.write(AuditEvent::Revoked { reached }, Some(T::KIND), Some(node.id), parent, node.label.clone());
        reached
    }

    pub(crate) fn forget(&self, id: CapId) {
        self.arena().forget(id);
    }

    /// Writes down a refusal where there was no capability to ask, such as [`CapError::NoSpawnCapability`]; returns it.
    pub fn refuse(&self, error: CapError, label: Option<&Arc<str>>) -> CapError {
        self.0.log.write(AuditEvent::Refused(error.kind()), error.missing(), None, None, label.cloned());
        error
    }

    /// What the log still holds, oldest first.
    pub fn audit(&self) -> Vec<AuditRecord> {
        self.0.log.records()
    }

    /// How often each thing happened, also of what the log holds no more.
    pub fn audit_totals(&self) -> AuditTotals {
        let used = self.arena().uses();
        let mut totals = self.0.log.totals();
        totals.used = used;
        totals
    }

    /// How often each capability that is alive was used, by whoever holds it: tasks that were started, draws, channels and executors that were opened. Use of what was
    /// derived from it is counted there. Of those that are over, [`AuditTotals::used`] has the sum.
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
        self.arena().accounts().map(of).collect()
    }

    /// How many capabilities are alive.
    pub fn live(&self) -> usize {
        self.arena().live()
    }

    /// For how many there is room without growing.
    pub fn slots(&self) -> usize {
        self.arena().slots()
    }

    pub(crate) fn audit_log(&self) -> &AuditLog {
        &self.0.log
    }

    fn arena(&self) -> MutexGuard<'_, Arena> {
        // The arena panics only before it changes anything.
        self.0.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusals = self.audit_totals().refusals();
        f.debug_struct("Ledger").field("live", &self.live()).field("refusals", &refusals).finish_non_exhaustive()
    }
}
