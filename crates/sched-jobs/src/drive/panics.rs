//! Panics of user code outside jobs.
//!
//! Room: driver.
//!
//! # Invariant
//! No panic of an observer, an executor, neighbours or a destructor unwinds through the lock, a worker or the clock. Each is reported once, by the
//! panic hook (on standard error, unless the program set another), and counted.
//!
//! # Why it holds
//! Every call of such code goes through [`Caught::catch`], or is caught under the lock, where the payload is only stored for later ([`Later::Discard`](super::Later)): it may
//! have a destructor, which may panic, too.
//!
//! # Rejected
//! Calling an observer, or neighbours, again after a panic: they are `FnMut` and `&mut self`, so their state may be inconsistent, and the next call would
//! most likely panic as well: once for every event, under the lock.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::catch_unwind;

/// A panic payload, or another value that is to be dropped without the lock.
pub(super) type Thrown = Box<dyn Any + Send>;

/// How often user code panicked outside jobs, where no job can fail for it. The panic hook has reported each: on standard error, unless the program set another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Panics {
    /// In the [observer](super::Builder::observe). At most 1: it is dropped after a panic.
    pub observer: u64,
    /// In methods of [executors](crate::Executor), and in listeners of [`Processes`](super::process::Processes). They are called again.
    pub executors: u64,
    /// In [`Neighbours::share`](super::Neighbours::share). At most 1: they are dropped after a panic, and the run continues as if it were alone.
    pub neighbours: u64,
    /// In destructors of captures, return values and panic payloads.
    pub destructors: u64,
}

/// The code that panicked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PanicSource {
    Observer,
    Executor,
    Neighbours,
    Destructor,
}

/// Counts panics, without the lock.
#[derive(Debug, Default)]
pub(crate) struct Caught([AtomicU64; 4]);

impl Caught {
    pub(super) fn count(&self, source: PanicSource) {
        self.0[source as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn panics(&self) -> Panics {
        let [observer, executors, neighbours, destructors] =
            [0, 1, 2, 3].map(|i: usize| self.0[i].load(Ordering::Relaxed));
        Panics { observer, executors, neighbours, destructors }
    }

    /// Calls user code, not under the lock. If it panics, returns the message.
    pub(crate) fn catch<R>(&self, source: PanicSource, code: impl FnOnce() -> R) -> Result<R, String> {
        catch_unwind(AssertUnwindSafe(code)).map_err(|thrown| {
            self.count(source);
            self.message(thrown)
        })
    }

    /// The message of a panic. The payload is dropped.
    pub(super) fn message(&self, thrown: Thrown) -> String {
        let text = thrown.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| thrown.downcast_ref::<String>().cloned());
        let text = text.or_else(|| thrown.downcast_ref::<sched_tasks::TaskError>().map(ToString::to_string));
        self.discard(thrown);
        text.unwrap_or_else(|| "with a payload that is not a text".to_owned())
    }

    /// Drops a value of a user, not under the lock. A panic is counted.
    pub(super) fn discard<T>(&self, value: T) {
        if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            self.count(PanicSource::Destructor);
            core::mem::forget(thrown); // its destructor may panic, too
        }
    }

    /// Drops values one after the other, so that no panic happens during the unwinding of another, which would abort the process.
    pub(super) fn discard_all<T>(&self, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.discard(value));
    }
}
