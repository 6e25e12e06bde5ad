//! The atomics and locks of this crate: the standard ones, or loom's when a model runs.
//!
//! Room: mechanism.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Arc, Condvar, Mutex, atomic},
    thread::yield_now,
};

pub(crate) use vocab::or_planted;

/// A cell whose accesses loom can watch.
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// The standard cell behind loom's interface, so that one source serves both.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A cache line of its own, against false sharing.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Locks, also if a holder panicked: the data behind our locks is valid between any two of its
/// writes, and a worker must not die of another's panic.
#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(not(loom))]
pub(crate) use crate::tally::lock;

/// Waits for another thread's next few instructions.
///
/// That thread may have lost its CPU. Then we yield ours as well, now and then, so that 256 threads on 2 CPUs still
/// make progress.
#[derive(Debug, Default)]
pub(crate) struct Spin(u32);

impl Spin {
    /// Waits a little.
    pub(crate) fn turn(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if cfg!(loom) || self.0.is_multiple_of(64) { yield_now() } else { std::hint::spin_loop() }
    }
}
