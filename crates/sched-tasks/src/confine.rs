//! What a closure may do that a task hands to a thread it does not wait for.
//!
//! # Invariant
//! Nothing that is started there may do what the task may not, or spends anything: the task, and its nursery, may be over by then.
//!
//! # Why it holds
//! The capabilities are kept by the closure, and use of them is counted wherever it happens. The budget is not: a strand that belongs to no nursery and has a meter with
//! nothing on it can ask nobody, so whatever has a price fails.
//!
//! # Rejected
//! A share of the task's budget for the closure: it would have to be settled with an account that may be closed, and a task could have two shares where one is its limit.

use std::sync::Arc;

use vocab::Budget;

use crate::{
    authority::Credentials,
    raw::current,
    strand::{self, Strand},
};

/// What limits the caller, to be taken to another thread.
///
/// Whatever the library runs elsewhere on a task's behalf takes this along by itself: [`unblock`](crate::unblock) with the task's budget, since the task waits;
/// [`unblock_async`](crate::unblock_async) and jobs without. What it cannot see is `std::thread::spawn`: a thread that a task starts so has no limits but those of the
/// process, unless the closure is entered with this.
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
    /// It has a budget here, hence none there.
    is_metered: bool,
}

impl Confinement {
    /// What limits the caller. None if nothing does.
    pub fn here() -> Option<Self> {
        let strand = current::peek()?;
        let credentials = strand.credentials();
        let has_account = strand.scope.get().is_some_and(|scope| scope.account().is_some());
        let is_metered = strand.meter.is_metered() || has_account;
        (is_metered || credentials.is_some()).then_some(Self { credentials, is_metered })
    }

    /// Runs `body` within these limits. Where the caller has limits already, those count instead.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Leave(Option<Arc<Credentials>>, Option<crate::budget::Reading>);
        impl Drop for Leave {
            fn drop(&mut self) {
                strand::with(|strand| {
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
            Some(Leave(strand.inherited.replace(self.credentials.clone()), meter))
        });
        let value = body();
        drop(leave);
        value
    }
}
