//! Panics of a user's code outside jobs.
//!
//! # Invariant
//! No panic of an observer, an executor, neighbours or a destructor unwinds through the lock, a worker or the clock. Each is reported once, by the
//! panic hook (on standard error, unless the program set another), and counted.
//!
//! # Why it holds
//! Every call of such code goes through [`Panics::catch`], or is caught under the lock, where what was thrown is only put aside ([`Later::Discard`](super::Later)): it may
//! have a destructor, which may panic, too.
//!
//! # Rejected
//! Calling an observer, or neighbours, again after a panic: they are `FnMut` and `&mut self`, so what they hold may be half changed, and the next call would
//! most likely panic as well: once for every event, under the lock.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::catch_unwind;

/// What was thrown, or what is to be dropped when the lock is free.
pub(super) type Thrown = Box<dyn Any + Send>;

/// How often code of a user panicked where no job can fail for it. The panic hook has reported each: on standard error, unless the program set another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Panics {
    /// In the [observer](super::Builder::observe). At most 1: it is dropped, and told nothing more.
    pub observer: u64,
    /// In methods of [executors](crate::Executor), and in those that listen to [`Processes`](super::process::Processes). They are called again.
    pub executors: u64,
    /// In [`Neighbours::share`](super::Neighbours::share). At most 1: they are dropped, and the run goes on as if it were alone.
    pub neighbours: u64,
    /// In destructors of what was captured, returned or thrown.
    pub destructors: u64,
}

/// Whose code panicked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    Observer,
    Executor,
    Neighbours,
    Destructor,
}

/// Counts panics, without the lock.
#[derive(Debug, Default)]
pub(crate) struct Caught([AtomicU64; 4]);

impl Caught {
    pub(super) fn count(&self, whose: Whose) {
        self.0[whose as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn panics(&self) -> Panics {
        let [observer, executors, neighbours, destructors] =
            [0, 1, 2, 3].map(|i: usize| self.0[i].load(Ordering::Relaxed));
        Panics { observer, executors, neighbours, destructors }
    }

    /// Calls code of a user, not under the lock. If it panics: what it said.
    pub(crate) fn catch<R>(&self, whose: Whose, code: impl FnOnce() -> R) -> Result<R, String> {
        catch_unwind(AssertUnwindSafe(code)).map_err(|thrown| {
            self.count(whose);
            self.message(thrown)
        })
    }

    /// What a panic said. What it threw is dropped.
    pub(super) fn message(&self, thrown: Thrown) -> String {
        let text = thrown.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| thrown.downcast_ref::<String>().cloned());
        let text = text.or_else(|| thrown.downcast_ref::<sched_tasks::TaskError>().map(ToString::to_string));
        self.discard(thrown);
        text.unwrap_or_else(|| "with something that is not a text".to_owned())
    }

    /// Drops what a user made, not under the lock. If that panics, so be it.
    pub(super) fn discard<T>(&self, value: T) {
        if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            self.count(Whose::Destructor);
            core::mem::forget(thrown); // a destructor that throws what panics when it is dropped: no further
        }
    }

    /// Drops one after the other, so that the panic of one does not meet that of another, which would end the process.
    pub(super) fn discard_all<T>(&self, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.discard(value));
    }
}
