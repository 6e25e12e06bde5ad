//! Locks that block the fiber, not the worker.
//!
//! Room: interface.

pub mod atomic;
mod condvar;
pub(crate) mod lock;
mod mutex;
mod raw;
mod rw;
mod rw_future;
mod rw_guard;
mod rwlock;
mod semaphore;

pub use self::{
    condvar::Condvar,
    mutex::{Mutex, MutexGuard},
    rw_future::{ReadFuture, WriteFuture},
    rw_guard::{RwLockReadGuard, RwLockWriteGuard},
    rwlock::RwLock,
    semaphore::{AcquireFuture, Permit, Semaphore},
};
