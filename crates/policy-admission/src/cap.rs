//! The handle of a capability.
//!
//! Room: interface.
//!
//! # Invariant
//! A [`Cap`] comes from a ledger or from another `Cap`, and then its terms are within that one's. There is no other way to make one, and none
//! to copy one.
//!
//! # Why it holds
//! Its field is private, it is neither `Clone` nor `Default`, and the crate forbids `unsafe`. Only `Ledger::grant` and [`Cap::derive`] call
//! `Cap::new`, and `derive` meets the terms. Checked by the examples below, which must not compile, and by
//! `no_sequence_of_derivations_and_revocations_widens_authority`.

use std::{fmt, sync::Arc};

use vocab::{Budget, Component};

use crate::{AuditEvent, CapBudget, CapError, CapId, CapSpawn, Delegation, Grant, Lease, Terms, node::Node};

/// Authority that cannot be forged, only narrowed.
///
/// Dropping it ends it, if nothing was derived from it and there is no lease or permit of it; else with the last of those. What was derived
/// from it stays: only [`revoke`](Cap::revoke) takes that back.
///
/// It cannot be made from terms,
/// ```compile_fail,E0308
/// use policy_admission::{Cap, CapSpawn};
/// let forged: Cap<CapSpawn> = CapSpawn::new();
/// ```
/// nor converted from them,
/// ```compile_fail,E0277
/// use policy_admission::{Cap, CapSpawn};
/// let forged: Cap<CapSpawn> = CapSpawn::new().into();
/// ```
/// nor written down,
/// ```compile_fail,E0451
/// use policy_admission::{Cap, CapSpawn};
/// let forged: Cap<CapSpawn> = Cap { node: todo!() };
/// ```
/// nor constructed,
/// ```compile_fail,E0624
/// use policy_admission::{Cap, CapSpawn};
/// let forged = Cap::<CapSpawn>::new(todo!());
/// ```
/// nor taken from a default,
/// ```compile_fail,E0277
/// use policy_admission::{Cap, CapSpawn};
/// fn default<T: Default>() -> T { T::default() }
/// let forged = default::<Cap<CapSpawn>>();
/// ```
/// nor cloned,
/// ```compile_fail,E0277
/// use policy_admission::{Cap, CapSpawn, Ledger};
/// fn copy<T: Clone>(one: &T) -> T { one.clone() }
/// let root = Ledger::new().grant(CapSpawn::new());
/// let forged = copy(&root);
/// ```
/// nor widened to another kind,
/// ```compile_fail,E0308
/// use policy_admission::{Cap, CapBudget, CapSpawn, Ledger};
/// let spawn: Cap<CapSpawn> = Ledger::new().grant(CapSpawn::new());
/// let budget: Cap<CapBudget> = spawn;
/// ```
/// and terms are no substitute for one.
/// ```compile_fail,E0308
/// use policy_admission::{Cap, CapSpawn};
/// fn start(_: &Cap<CapSpawn>) {}
/// start(&CapSpawn::new());
/// ```
#[must_use = "a capability that is dropped is gone"]
pub struct Cap<T: Terms> {
    node: Arc<Node<T>>,
}

impl<T: Terms> Cap<T> {
    pub(crate) fn new(node: Node<T>) -> Self {
        Self { node: Arc::new(node) }
    }

    /// Its name.
    pub fn id(&self) -> CapId {
        self.node.id
    }

    /// What it allows.
    pub fn terms(&self) -> &T {
        &self.node.terms
    }

    /// Whether anything may be derived from it.
    pub fn delegation(&self) -> Delegation {
        self.node.delegation
    }

    /// The label of its holder, if one was given.
    pub fn label(&self) -> Option<&Arc<str>> {
        self.node.label.as_ref()
    }

    /// How often it was used: tasks that were started, draws, channels and executors that were opened. Not what was derived from it.
    pub fn uses(&self) -> u64 {
        self.node.uses.count()
    }

    /// Whether it still holds; if not, that is a refusal, and the log gets it. One load and one comparison.
    #[inline]
    pub fn check(&self) -> Result<(), CapError> {
        self.node.check()
    }

    /// Whether it still holds; writes no refusal.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.node.is_alive()
    }

    /// A lease, to use it where this handle is not. A lease keeps the capability's data, not its validity: once revoked
    /// it gives nothing, and each use checks.
    ///
    /// Every holder of the capability may have one, because a lease only takes; what it took comes back when permits
    /// are dropped.
    ///
    /// ```
    /// use policy_admission::{CapError, CapSpawn, Ledger};
    ///
    /// let cap = Ledger::new().grant(CapSpawn::new().max_tasks(2));
    /// let lease = cap.lease();
    /// let permits = lease.take_tasks(5)?;
    /// assert_eq!((permits.count(), cap.tasks_in_use()), (2, 2));
    /// cap.revoke();
    /// assert_eq!(lease.take_tasks(1).unwrap_err(), CapError::Revoked { id: cap.id() });
    /// drop(permits); // what ran has ended
    /// assert_eq!(cap.tasks_in_use(), 0);
    /// # Ok::<(), CapError>(())
    /// ```
    pub fn lease(&self) -> Lease<T> {
        Lease::new(self.node.clone())
    }

    /// Derives one that allows what both this one and the grant allow, hence never more than this one.
    ///
    /// Its use counts here too: the limits of this one bind the sum of everything derived from it.
    ///
    /// Refused if this one was revoked, or is [`Delegation::Final`]. That holds for the narrowest request too: a holder
    /// that may not pass on authority may not pass on a part of it. The runtime passes a task's capabilities to its
    /// children without deriving.
    pub fn attenuate(&self, grant: impl Into<Grant<T>>) -> Result<Cap<T>, CapError> {
        self.derive(grant.into(), AuditEvent::Attenuated)
    }

    /// Derives one with the same terms, to give away and to revoke later. Refused as in [`attenuate`](Self::attenuate).
    pub fn delegate(&self) -> Result<Cap<T>, CapError> {
        self.derive(Grant::new(self.node.terms), AuditEvent::Delegated)
    }

    fn derive(&self, grant: Grant<T>, event: AuditEvent) -> Result<Cap<T>, CapError> {
        let Node { id, terms, delegation, label, registry, .. } = &*self.node;
        self.check()?;
        if *delegation == Delegation::Final {
            return Err(self.node.refuse(CapError::NotDelegatable { id: *id }));
        }
        let label = grant.label.or_else(|| label.clone());
        let delegation = grant.delegation.unwrap_or(Delegation::Final);
        let node = Node::enter(registry, Some(&self.node), terms.meet(&grant.terms), delegation, label, event);
        // The first check saves the lock; this one is under it.
        node.map(Cap::new).ok_or_else(|| self.node.refuse(CapError::Revoked { id: *id }))
    }

    /// Ends it and everything derived from it, at once. Returns how many capabilities ended; 0 if it had ended before.
    ///
    /// What runs under it goes on to its end and is counted until then; nothing new starts.
    pub fn revoke(&self) -> usize {
        self.node.revoke()
    }

    /// Ends the capability of that name, which was derived from this one, and everything derived from it.
    pub fn revoke_derived(&self, id: CapId) -> Result<usize, CapError> {
        self.node.registry.revoke_below(Some(self.node.id), id)
    }
}

impl Cap<CapSpawn> {
    /// How many tasks run under it and under everything derived from it. Without a limit nothing is counted, and this
    /// is 0.
    pub fn tasks_in_use(&self) -> u64 {
        self.node.in_use(0)
    }
}

impl Cap<CapBudget> {
    /// How much can still be drawn, by the limits of this one and of those above.
    pub fn left(&self) -> Budget {
        let mut left = Budget::ZERO;
        for (which, component) in Component::ALL.into_iter().enumerate() {
            left.set(component, self.node.left(which));
        }
        left
    }
}

impl<T: Terms> fmt::Debug for Cap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cap({}, {:?})", self.node.id, self.node.terms)
    }
}
