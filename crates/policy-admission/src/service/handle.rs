//! What a runtime reads: the profile of a name or a hint, now.
//!
//! Room: mechanism.
//!
//! # Invariant
//! A read never waits for the service, nor for a check, nor for anything that takes long.
//!
//! # Why it holds
//! The lock protects one pointer. A writer has built and checked the epoch before it takes the lock, holds it for one exchange of pointers, and drops the old
//! epoch after it is released; a reader holds it for one increment of a count. Nothing else is ever done under it, no user code and no allocation.
//!
//! # Rejected
//! `arc-swap`: reads without a lock. They are made when a nursery opens or a job starts, not at each dispatch; there 20 ns are nothing, and one more
//! dependency of every program that uses tasks is something.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::check::Machine;
use super::cpu_profile::{CpuProfile, Hint};
use super::epoch::Epoch;
use super::refusal::Refusal;
use super::set::PolicySet;

/// The policy in force. Clones see the same policy.
///
/// ```
/// use policy_admission::service::{CpuProfile, Hint, PolicyHandle, PolicySet, Rule, Subject};
///
/// let mut set = PolicySet::new(CpuProfile::new("normal"));
/// let mut batch = CpuProfile::new("encoder");
/// batch.weight = 256;
/// set.profiles.push(batch);
/// set.hints.push((Hint::Batch, "encoder".into()));
/// set.rules.push(Rule::new(Subject::Name, "nightly-*", "encoder"));
///
/// let policy = PolicyHandle::fixed(set)?;
/// assert_eq!(policy.hint(Hint::Batch).weight, 256);
/// assert_eq!(policy.profile("nightly-backup").weight, 256); // by the rule
/// assert_eq!(policy.profile("encoder").weight, 256); // by its name
/// assert_eq!(policy.profile("something else").weight, 1024); // the default
/// # Ok::<(), policy_admission::service::Refusal>(())
/// ```
#[derive(Clone)]
pub struct PolicyHandle(Arc<Mutex<Arc<Epoch>>>);

impl PolicyHandle {
    /// A policy that never changes, for programs without a service.
    ///
    /// # Errors
    /// The first thing that is wrong with it, on this machine.
    pub fn fixed(set: PolicySet) -> Result<PolicyHandle, Refusal> {
        let epoch = Epoch::new(1, set, &Machine::here()).map_err(|mut refusals| refusals.swap_remove(0))?;
        Ok(PolicyHandle::of(epoch))
    }

    pub(super) fn of(epoch: Epoch) -> PolicyHandle {
        PolicyHandle(Arc::new(Mutex::new(Arc::new(epoch))))
    }

    /// The profile of a name: by the first rule that matches, else by its own name, else the default.
    pub fn profile(&self, name: &str) -> CpuProfile {
        self.epoch().profile(name).0.clone()
    }

    /// The profile that a hint leads to.
    pub fn hint(&self, hint: Hint) -> CpuProfile {
        self.epoch().hint(hint).0.clone()
    }

    /// The whole policy in force: for several questions that should have answers of one epoch.
    pub fn epoch(&self) -> Arc<Epoch> {
        // A pointer is whole at any time, also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts an epoch in force.
    pub(super) fn publish(&self, epoch: Arc<Epoch>) {
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), epoch);
        drop(old); // after the lock
    }
}

impl Default for PolicyHandle {
    /// All work is normal.
    fn default() -> Self {
        PolicyHandle::of(Epoch::initial())
    }
}

impl fmt::Debug for PolicyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyHandle({})", self.epoch())
    }
}
