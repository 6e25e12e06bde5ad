//! A closure that another thread runs while its caller waits.
//!
//! Room: mechanism. Knows one closure and the frame that waits for it.
//!
//! # Invariant
//! `run_elsewhere` is not left, by return or by unwinding, before its closure has been run and dropped, or taken back unrun.
//!
//! # Why it holds
//! Between the hand-over and the end stands only the wait for `completion`, which no cancellation ends; the thread that runs the closure finishes
//! the completion last. A stack that overflows in between is waited for by its cleaner, as for a `join`.

use std::{
    any::Any,
    cell::UnsafeCell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use mech_sync::{Completion, Finish};

use super::loan;
use crate::{
    kernel::scope,
    strand::{self, Strand, Woken},
    threads::{Job, Pool},
};

/// Where the closure's outcome goes.
struct ResultSlot<T> {
    outcome: UnsafeCell<Option<Result<T, Box<dyn Any + Send>>>>,
    completion: Completion,
}

// SAFETY: the outcome is written by one thread before `completion` is done, and read by another after.
unsafe impl<T: Send> Sync for ResultSlot<T> {}

impl<T> ResultSlot<T> {
    /// # Safety
    /// Called once, while the outcome is not read. The place may be gone when this returns.
    unsafe fn fill(&self, outcome: Result<T, Box<dyn Any + Send>>) {
        // SAFETY: ours until the completion is done.
        unsafe { *self.outcome.get() = Some(outcome) };
        match self.completion.finish() {
            Finish::Wake(token) => {
                strand::wake(token, 0);
            }
            Finish::Kept => {} // the caller will see it: it has not waited yet
            Finish::Abandoned => unreachable!("the caller waits for its closure"),
        }
    }
}

/// Has `pool` run `closure` and waits for it. None: the caller was cancelled before the closure began, and it was dropped.
pub(crate) fn run_elsewhere<F, T>(
    strand: &Strand,
    pool: &'static Pool,
    closure: F,
) -> Option<Result<T, Box<dyn Any + Send>>>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let for_unwinding = strand.is_unwinding();
    let place = ResultSlot { outcome: UnsafeCell::new(None), completion: Completion::new() };
    let there = &place;
    let taken_back = loan::lend(strand, |loan| {
        let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            let outcome = strand::with(|thread| {
                thread.traces.for_unwinding().set(for_unwinding);
                let outcome = loan.on(thread, || catch_unwind(AssertUnwindSafe(closure)));
                thread.traces.for_unwinding().set(false);
                outcome
            });
            // SAFETY: a job is called at most once, and the closure is gone.
            unsafe { there.fill(outcome) };
        });
        // SAFETY: only the lifetime changes. The job is called, and with that used up, or handed back before this frame is left; see the wait below.
        let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) };
        scope::while_joining(strand, &place.completion, || {
            let number = pool.submit(job);
            wait(strand, &place.completion, || pool.take_back(number))
        })
    });
    drop(taken_back); // a destructor of the closure may do as it likes: no other thread knows of it any more
    place.outcome.into_inner()
}

/// Waits for the completion, or takes the job back if the caller is cancelled before a thread began it.
fn wait(strand: &Strand, completion: &Completion, take_back: impl Fn() -> Option<Job>) -> Option<Job> {
    let token = strand.waiter.token();
    if !completion.wait(token) {
        return None;
    }
    loop {
        // Before every stop, not only after an interrupt: an earlier wait may have used the interrupt up.
        if strand.is_cancelled()
            && let Some(job) = take_back()
        {
            token.withdraw();
            return Some(job);
        }
        if let Woken::By(_) = strand.wait(token) {
            return None;
        }
    }
}
