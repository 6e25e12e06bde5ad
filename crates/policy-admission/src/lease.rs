//! How a capability is used: a lease takes permits or budget from it.
//!
//! Room: interface.
//!
//! # Invariant
//! What is taken here is taken of every capability above too, or not at all; see `node.rs`. A revoked one gives
//! nothing. A lease never gives back: a permit does when it is dropped, see `permits.rs`; and of a budget nothing comes
//! back.

use std::{fmt, sync::Arc};

use vocab::{Budget, Component};

use crate::{CapBudget, CapError, CapId, CapSpawn, Terms, node::Node};

/// The right to use a capability and nothing more, made by [`Cap::lease`](crate::Cap::lease). A clone is the same
/// lease.
///
/// It takes, and derives nothing, so delegation does not matter to it: its holder uses what its capability has, counted
/// there, and no longer than that lives. What it gives is counted until it is dropped, also after a revocation.
///
/// A lease cannot be had of terms,
/// ```compile_fail,E0599
/// use policy_admission::CapSpawn;
/// let lease = CapSpawn::new().lease();
/// ```
/// nor constructed,
/// ```compile_fail,E0624
/// use policy_admission::{CapSpawn, Lease};
/// let forged = Lease::<CapSpawn>::new(todo!());
/// ```
/// nor made into a capability,
/// ```compile_fail,E0308
/// use policy_admission::{Cap, CapSpawn, Ledger};
/// let forged: Cap<CapSpawn> = Ledger::new().grant(CapSpawn::new()).lease();
/// ```
/// nor derived from.
/// ```compile_fail,E0599
/// use policy_admission::{CapSpawn, Ledger};
/// let forged = Ledger::new().grant(CapSpawn::new()).lease().attenuate(CapSpawn::new());
/// ```
/// Its holder cannot count tasks down,
/// ```compile_fail,E0599
/// use policy_admission::{CapSpawn, Ledger};
/// Ledger::new().grant(CapSpawn::new().max_tasks(1)).lease().release_tasks(1);
/// ```
/// nor reach the counters,
/// ```compile_fail,E0616
/// use policy_admission::{CapSpawn, Ledger};
/// Ledger::new().grant(CapSpawn::new().max_tasks(1)).lease().node.give(0, 1);
/// ```
/// nor put a budget back.
/// ```compile_fail,E0599
/// use policy_admission::{CapBudget, Ledger};
/// use vocab::Budget;
/// Ledger::new().grant(CapBudget::new()).lease().put_back(Budget::ops(1));
/// ```
pub struct Lease<T: Terms> {
    pub(crate) node: Arc<Node<T>>,
}

impl<T: Terms> Lease<T> {
    pub(crate) fn new(node: Arc<Node<T>>) -> Self {
        Self { node }
    }

    /// The name of the capability.
    pub fn id(&self) -> CapId {
        self.node.id
    }

    /// What it allows.
    pub fn terms(&self) -> &T {
        &self.node.terms
    }

    /// The label of its holder, if one was given.
    pub fn label(&self) -> Option<&Arc<str>> {
        self.node.label.as_ref()
    }

    /// How often the capability was used; not what was derived from it.
    pub fn uses(&self) -> u64 {
        self.node.uses.count()
    }

    /// Writes the refusal into the log of the ledger that its capability comes from; returns it.
    pub fn refuse(&self, error: CapError) -> CapError {
        self.node.refuse(error)
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
}

impl<T: Terms> Clone for Lease<T> {
    fn clone(&self) -> Self {
        Self::new(self.node.clone())
    }
}

impl<T: Terms> fmt::Debug for Lease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({}, {:?})", self.node.id, self.node.terms)
    }
}

impl Lease<CapSpawn> {
    /// Permits were used again for `tasks` tasks. The cache that keeps them counts this.
    pub fn count_reuse(&self, tasks: u64) {
        self.node.uses.add(tasks);
    }

    /// `tasks` permits that were taken, or used again, were not needed after all.
    pub fn count_unused(&self, tasks: u64) {
        self.node.uses.take_back(tasks);
    }

    /// How many permits are out, of this one and of everything derived from it. Without a limit nothing is counted, and
    /// this is 0.
    pub fn tasks_in_use(&self) -> u64 {
        self.node.in_use(0)
    }

    /// How many permits could be taken now.
    pub fn tasks_left(&self) -> u64 {
        self.node.left(0)
    }

    /// How many permits a nursery may cache, so that it need not ask for each: one in 64 of what is left, at most 64.
    /// So the caches of a few nurseries never starve the others.
    pub fn batch(&self) -> u64 {
        (self.tasks_left() / 64).clamp(1, 64)
    }

    /// The budget that a task gets whose spawner asks for `requested`.
    #[must_use]
    pub fn clamp(&self, requested: Budget) -> Budget {
        self.node.terms.clamp(requested)
    }
}

impl Lease<CapBudget> {
    /// Draws what is left, of each component at most what is wanted. Refused if that is nothing of anything that is wanted.
    ///
    /// A capability for budgets is used up by drawing: what is drawn is spent of it and of those above for good, also
    /// if a task leaves some of it. A budget is a plain number: a caller that could put one back could put back more
    /// than was drawn.
    ///
    /// ```
    /// use policy_admission::{CapBudget, Ledger};
    /// use vocab::Budget;
    ///
    /// let cap = Ledger::new().grant(CapBudget::new().limit(Budget::ops(100)));
    /// let lease = cap.lease();
    /// assert_eq!(lease.draw(Budget::ops(70))?, Budget::ops(70));
    /// assert_eq!(lease.draw(Budget::ops(70))?, Budget::ops(30));
    /// assert!(lease.draw(Budget::ops(1)).is_err()); // for ever
    /// # Ok::<(), policy_admission::CapError>(())
    /// ```
    #[must_use = "what is drawn and not used is lost"]
    pub fn draw(&self, wanted: Budget) -> Result<Budget, CapError> {
        self.check()?;
        let mut drawn = Budget::ZERO;
        let mut refusal = None;
        for (which, component) in Component::ALL.into_iter().enumerate() {
            match self.node.take(which, wanted[component]) {
                Ok(amount) => drawn.set(component, amount),
                Err(full) => {
                    let wanted = wanted[component];
                    refusal = refusal.or(Some(CapError::BudgetLimitExceeded { component, wanted, limit: full.limit }));
                }
            }
        }
        match refusal {
            Some(error) if drawn == Budget::ZERO => Err(self.node.refuse(error)),
            _ => {
                self.node.uses.add(1);
                Ok(drawn)
            }
        }
    }

    /// How much can still be drawn.
    pub fn left(&self) -> Budget {
        let mut left = Budget::ZERO;
        for (which, component) in Component::ALL.into_iter().enumerate() {
            left.set(component, self.node.left(which));
        }
        left
    }
}
