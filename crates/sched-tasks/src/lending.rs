//! Workers whose CPUs an island has for itself: they leave the common pool, and come back.
//!
//! Room: driver. Knows workers and admission; which CPU a worker stands for, and what runs there meanwhile, is `sched-islands`.
//!
//! # Invariants
//! - A worker that is lent takes no task from the shared queues or from other workers. What was started on it goes on, on the CPUs that are left: it cannot move.
//! - No task waits for it: what it has not started is for others to steal, and these are told.
//! - At least one worker stays: admission refuses the last one.

use std::sync::Arc;

use policy_admission::cpu::{AdmitError, Admitted, Island};

use crate::{
    drive::runtime::{self, Runtime},
    error::TaskError,
    kernel::shared::Shared,
    strand,
};

/// Workers that are lent, until this is dropped.
pub struct Loan {
    shared: &'static Shared,
    admitted: Admitted,
}

impl Loan {
    /// What was admitted. A CPU there is a worker here.
    pub fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// How many workers the runtime has.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// Whether a seed decides what runs there.
    pub fn is_seeded(&self) -> bool {
        self.shared.seeded.is_some()
    }

    fn set_lent(&self, lent: bool) {
        for cpu in self.admitted.leased().iter() {
            self.shared.workers[cpu as usize].takes.set_lent(lent);
        }
        // Those that sleep may have something to take now; those that are lent must sleep by the new rule.
        self.shared.idle.notify_all();
        self.shared.workers.iter().for_each(|worker| worker.inbox.notify());
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.set_lent(false);
        self.shared.shares.release(&self.admitted);
    }
}

/// Why workers are not lent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LendError {
    /// The runtime cannot promise what the island asks for.
    Admission(Arc<AdmitError>),
    /// The caller's task is limited by a group, a budget or a capability: it may not take from others.
    NotAllowed(TaskError),
}

/// Lends workers of a runtime to an island: that of the caller if none is named.
pub fn lend(runtime: Option<&Runtime>, island: &Island) -> Result<Loan, LendError> {
    strand::with(|strand| {
        // Also around a runtime that a task made for itself.
        let mut around = std::iter::successors(strand.scope.get(), |scope| scope.outer());
        let limit = if strand.meter.is_metered() {
            "a budget"
        } else if around.any(|scope| scope.group().is_some()) {
            "a share of CPU time"
        } else if strand.credentials().is_some() {
            "a capability or a profile"
        } else {
            return Ok(());
        };
        Err(LendError::NotAllowed(TaskError::msg(format!(
            "island `{}` is refused: the task that asks for it has {limit}, and whole CPUs would be beyond that; open it outside",
            island.name()
        ))))
    })?;
    let shared = runtime.map_or_else(runtime::here, Runtime::shared);
    let admitted = shared.shares.admit_island(island).map_err(LendError::Admission)?;
    let loan = Loan { shared, admitted };
    loan.set_lent(true);
    Ok(loan)
}
