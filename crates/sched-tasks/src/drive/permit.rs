//! Whether the threads of a runtime may start.
//!
//! Room: driver. Knows capabilities; knows nothing of how threads start.
//!
//! # Invariant
//! Where a profile wants everything by name, the runtime's own or that of the task that builds it, no thread starts without a `CapExecutor` of the ledger that counts there.

use policy_admission::{CapError, Capabilities, ExecutorPermit, Scheduler};

use super::runtime::Builder;
use crate::{
    build_error::BuildError,
    strand::{self, Strand},
};

impl Builder {
    /// Whether the caller may start threads.
    pub(super) fn check_caller(&self) -> Result<(), BuildError> {
        let credentials = strand::with(Strand::credentials);
        let Some(credentials) = credentials.filter(|credentials| credentials.is_explicit() && !self.is_seeded) else {
            return Ok(());
        };
        let (ledger, missing) = (credentials.ledger(), CapError::NoExecutorCapability);
        let allowed = match &self.executor {
            Some(lease) => ledger.map_or(Ok(()), |ledger| ledger.vouch(lease)),
            None => Err(ledger.map_or(missing, |ledger| ledger.refuse(missing, None))),
        };
        allowed.map_err(BuildError::NotAllowed)
    }

    /// The permit for the threads, where one is needed.
    pub(super) fn permit(&self, workers: usize) -> Result<Option<ExecutorPermit>, BuildError> {
        if let Some(profile) = self.profile {
            if profile.scheduler() == Scheduler::None {
                return Err(BuildError::NoScheduler { profile });
            }
            if profile.capabilities() == Capabilities::Explicit && self.ledger.is_none() {
                return Err(BuildError::NoLedger { profile });
            }
            if profile.capabilities() == Capabilities::Explicit && self.executor.is_none() {
                let missing = CapError::NoExecutorCapability;
                let refused = self.ledger.as_ref().map_or(missing, |ledger| ledger.refuse(missing, None));
                return Err(BuildError::NotAllowed(refused));
            }
        }
        let Some(lease) = &self.executor else { return Ok(None) };
        let vouched = self.ledger.as_ref().map_or(Ok(()), |ledger| ledger.vouch(lease));
        let permit = vouched.and_then(|()| lease.open_executor(workers, self.blocking_threads));
        permit.map(Some).map_err(BuildError::NotAllowed)
    }
}
