//! A spin lock for a few instructions.
//!
//! Room: mechanism.
//!
//! For critical sections that push to or pop from a list and never block, allocate rarely and run no foreign code.
//!
//! # Invariant
//! At most one guard exists at a time, and what one holder wrote the next one sees.
//!
//! # Why it holds
//! A CAS from `false` to `true` (Acquire) succeeds for one thread at a time; the guard's drop stores `false` with Release. A CAS
//! that fails writes nothing; a failing `swap` would, and loom does not know that the holder's `false` comes after it.
//!
//! A holder may lose its CPU; see `sync::Spin` for how the other threads wait then.
//!
//! # Rejected
//! `std::sync::Mutex`: unlocking costs it a second RMW, which shows in a channel's round trip.
//!
//! Checked by `tests/loom/spin.rs`: with the guard's drop relaxed, `the_lock_excludes` fails.

use std::ops::{Deref, DerefMut};

use crate::{
    sync::{
        Spin, UnsafeCell,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
        },
        or_planted,
    },
    tally,
};

/// Data behind a spinning lock.
#[derive(Debug)]
pub struct SpinLock<T> {
    held: AtomicBool,
    data: UnsafeCell<T>,
}

/// The right to use the data, until dropped.
#[derive(Debug)]
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    data: *mut T,
}

// SAFETY: the lock hands the data to one thread at a time, so it is as if it were sent from one to the next.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T: Default> Default for SpinLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> SpinLock<T> {
    /// `data`, unlocked.
    #[cfg(not(loom))]
    pub const fn new(data: T) -> Self {
        Self { held: AtomicBool::new(false), data: UnsafeCell::new(data) }
    }

    /// `data`, unlocked.
    #[cfg(loom)]
    pub fn new(data: T) -> Self {
        Self { held: AtomicBool::new(false), data: UnsafeCell::new(data) }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        if !self.try_hold() {
            self.lock_slowly();
        }
        SpinGuard { lock: self, data: self.data.with_mut(|data| data) }
    }

    #[inline(always)]
    fn try_hold(&self) -> bool {
        self.held.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    #[cold]
    fn lock_slowly(&self) {
        tally::count_contended();
        let mut spin = Spin::default();
        loop {
            while self.held.load(Relaxed) {
                spin.turn();
            }
            if self.try_hold() {
                return;
            }
        }
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: exclusive while `held` is ours, which it is until this guard is dropped.
        unsafe { &*self.data }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.data }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.held.store(false, or_planted!(Release, "unlock-relaxed" => Relaxed));
    }
}
