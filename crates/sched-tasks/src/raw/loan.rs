//! A strand that runs on behalf of another, which waits meanwhile: with its nursery, its name, its budget and its rights.
//!
//! Room: mechanism. Knows strands; knows nothing of threads.
//!
//! # Invariant
//! While one strand acts for another, the other does not run. So a loan is never used after the nursery or the task it names has ended, and what is on its meter is spent by
//! one at a time.
//!
//! # Why it holds
//! A [`Loan`] is seen only inside [`lend`], which is not left before the closure that uses it has returned or unwound; code that hands it to another thread waits for that thread, as
//! `run_elsewhere` does. Its meter lies behind a lock, and only one borrower gets it.

use std::sync::{Mutex, PoisonError};

use mech_sync::Waiter;

use crate::{
    budget::Reading,
    kernel::{scope::ScopeRef, task::Running},
    strand::Strand,
};

/// What one strand lends another.
pub(crate) struct Loan {
    scope: Option<ScopeRef>,
    running: Option<Running>,
    lender: &'static Waiter,
    meter: Mutex<Option<Reading>>,
}

// SAFETY: a task's name, which `running` points to, does not change, and the task is there while the loan is, by the invariant; the meter is behind a lock.
unsafe impl Sync for Loan {}

/// Runs `body` with what `lender` can lend. Whatever is left of its budget it has again afterwards, also if `body` unwinds.
pub(crate) fn lend<R>(lender: &Strand, body: impl FnOnce(&Loan) -> R) -> R {
    struct Back<'a>(&'a Strand, Loan, bool);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            let meter = self.1.meter.get_mut().unwrap_or_else(PoisonError::into_inner);
            self.0.meter.put(&meter.take().expect("the borrower brought it back"));
            self.0.lent.set(self.2);
        }
    }
    let back = Back(
        lender,
        Loan {
            scope: lender.scope.get(),
            running: lender.running.get(),
            lender: lender.acts_for.get().unwrap_or(lender.waiter),
            meter: Mutex::new(Some(lender.put_meter_aside())),
        },
        lender.lent.replace(true),
    );
    body(&back.1)
}

impl Loan {
    /// Runs `body`, which does not unwind, on `borrower` in the lender's name. A cancellation of the lender does not come in.
    pub(crate) fn on<R>(&self, borrower: &Strand, body: impl FnOnce() -> R) -> R {
        let take = || self.meter.lock().unwrap_or_else(PoisonError::into_inner).take();
        let meter = take().expect("one borrower at a time");
        let before = borrower.meter.take();
        borrower.meter.put(&meter);
        let scope = borrower.scope.replace(self.scope);
        let running = borrower.running.replace(self.running);
        let acts_for = borrower.acts_for.replace(Some(self.lender));
        let shields = borrower.traces.shields().replace(u32::from(self.scope.is_some()));
        let value = body();
        borrower.scope.set(scope);
        borrower.running.set(running);
        borrower.acts_for.set(acts_for);
        borrower.traces.shields().set(shields);
        *self.meter.lock().unwrap_or_else(PoisonError::into_inner) = Some(borrower.meter.take());
        borrower.meter.put(&before);
        value
    }
}
