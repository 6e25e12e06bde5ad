//! The limits of a closure that a task hands to a thread and does not wait for.
//!
//! Room: interface.
//!
//! # Invariant
//! Code in the closure may not do what the task may not, and spends nothing: the task, and its nursery, may have ended
//! by then.
//!
//! # Why it holds
//! The closure keeps the capabilities, and their use is counted as everywhere. It does not keep the budget: a strand
//! without a nursery and with an empty meter can ask for nothing, so everything that costs something fails.
//!
//! # Rejected
//! A share of the task's budget for the closure: it would have to be settled with an account that may be closed, and a
//! task could have two shares although its limit is one.

use std::sync::Arc;

use vocab::Budget;

use crate::{
    authority::Credentials,
    kernel::current,
    strand::{self, Strand},
};

/// The limits of the caller, to be taken to another thread.
///
/// Everything that the library runs elsewhere on a task's behalf takes this along by itself:
/// [`unblock`](crate::unblock) with the task's budget, because the task waits; [`unblock_async`](crate::unblock_async)
/// and jobs without. The library cannot see `std::thread::spawn`: a thread that a task starts so has no limits but
/// those of the process, unless its closure enters this.
///
/// ```
/// use bursar::{Budget, NurseryOptions, capability::Confinement, nursery, nursery_with};
///
/// nursery_with(NurseryOptions::new().task_budget(Budget::ops(1_000)), |n| {
///     n.spawn(|| {
///         let confinement = Confinement::here().expect("the task has a budget");
///         let thread = std::thread::spawn(move || confinement.enter(|| nursery(|m| m.spawn(|| ()).join())));
///         assert!(thread.join().unwrap().is_err()); // there is nothing to spend for it there
///     })
///     .join()
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Confinement {
    credentials: Option<Arc<Credentials>>,
    /// The caller has a budget, so the closure has none.
    is_metered: bool,
}

impl Confinement {
    /// The limits of the caller. None if it has none.
    pub fn here() -> Option<Self> {
        let strand = current::peek()?;
        let credentials = strand.credentials();
        let has_account = strand.scope.get().is_some_and(|scope| scope.account().is_some());
        let is_metered = strand.meter.is_metered() || has_account;
        (is_metered || credentials.is_some()).then_some(Self { credentials, is_metered })
    }

    /// Runs `body` within these limits. Where the caller has limits already, those count instead.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Leave(Option<Arc<Credentials>>, Option<crate::budget::Reading>, usize);
        impl Drop for Leave {
            fn drop(&mut self) {
                strand::with(|strand| {
                    strand.end_open_nurseries_above(self.2); // they have a part of the meter
                    strand.inherited.replace(self.0.take());
                    if let Some(meter) = &self.1 {
                        strand.meter.put(meter);
                    }
                });
            }
        }
        let leave = strand::with(|strand: &Strand| {
            strand.ensure_room();
            let scope = strand.scope.get();
            let has_limits = scope.is_some_and(|scope| scope.credentials().is_some() || scope.account().is_some());
            if has_limits || strand.meter.is_metered() {
                return None;
            }
            let meter = self.is_metered.then(|| {
                let before = strand.meter.take();
                strand.meter.begin(&Budget::ZERO);
                before
            });
            let open = strand.open_scopes.borrow().len();
            Some(Leave(strand.inherited.replace(self.credentials.clone()), meter, open))
        });
        let value = body();
        drop(leave);
        value
    }
}
