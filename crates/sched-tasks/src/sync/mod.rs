//! Locks that block the fiber, not the worker.
//!
//! Room: interface.

pub mod atomic;
mod condvar;
pub(crate) mod lock;
mod mutex;
mod raw;
mod semaphore;

pub use self::{
    condvar::Condvar,
    mutex::{Mutex, MutexGuard},
    semaphore::{AcquireFuture, Permit, Semaphore},
};
