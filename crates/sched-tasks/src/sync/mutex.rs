//! A mutex that blocks the fiber, not the worker.
//!
//! Room: interface.

use std::{fmt, time::Duration};

use super::lock::Lock;
use super::raw as lock;
use crate::strand;

/// Data that one task or thread at a time may use.
///
/// Waiting for it blocks only the fiber that waits; on a plain thread it blocks the thread. A free lock is taken by one
/// atomic operation. Waiters are served in the order they came, except that a task that runs already may be faster; a
/// waiter that loses to such a task once is handed the lock next time.
///
/// A panic while it is locked unlocks it, and does not poison it. A task that is cancelled while it waits unwinds; it
/// does not have the lock then. Futures should hold it only between awaits; the guard is not `Send` for that reason.
///
/// ```
/// use bursar::{nursery, sync::Mutex};
///
/// let total = Mutex::new(0);
/// nursery(|n| {
///     for i in 1..=100 {
///         let total = &total;
///         n.spawn(move || *total.lock() += i);
///     }
///     Ok(())
/// })?;
/// assert_eq!(total.into_inner(), 5050);
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub struct Mutex<T: ?Sized>(lock_api::Mutex<Lock, T>);

/// The right to use what a [`Mutex`] protects, until dropped.
///
/// It stays where it was made:
///
/// ```compile_fail,E0277
/// let mutex = bursar::sync::Mutex::new(0);
/// let guard = mutex.lock();
/// std::thread::scope(|s| {
///     s.spawn(move || drop(guard));
/// });
/// ```
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Lock, T>;

impl<T> Mutex<T> {
    /// `value`, unlocked. May be a `static`.
    ///
    /// ```
    /// static NAMES: bursar::sync::Mutex<Vec<String>> = bursar::sync::Mutex::new(Vec::new());
    /// NAMES.lock().push("alpha".into());
    /// ```
    pub const fn new(value: T) -> Self {
        Self(lock_api::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    ///
    /// ```
    /// let mutex = bursar::sync::Mutex::new(vec![1]);
    /// mutex.lock().push(2);
    /// assert_eq!(*mutex.lock(), [1, 2]);
    /// ```
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    /// Waits for the lock; a cancellation does not end that, and the caller has the lock when this returns. For cleanup
    /// that a cancelled task must do too, under a lock that is held for moments only. Only a deadlock of a
    /// [seeded](crate::Builder::seeded) run, which would wait for ever, unwinds it.
    ///
    /// ```
    /// use bursar::{nursery, sync::Mutex};
    ///
    /// let left = Mutex::new(1);
    /// nursery(|n| {
    ///     n.cancel();
    ///     *left.lock_uninterrupted() -= 1; // `lock` would unwind
    ///     Ok(())
    /// })
    /// .unwrap_err();
    /// assert_eq!(left.into_inner(), 0);
    /// ```
    #[inline]
    pub fn lock_uninterrupted(&self) -> MutexGuard<'_, T> {
        lock::lock_uninterrupted(&self.0)
    }

    /// Takes the lock if it is free.
    ///
    /// ```
    /// let mutex = bursar::sync::Mutex::new(1);
    /// let guard = mutex.lock();
    /// assert!(mutex.try_lock().is_none());
    /// drop(guard);
    /// assert!(mutex.try_lock().is_some());
    /// ```
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        strand::with(|strand| {
            strand.take_turn();
            strand.interleave();
        });
        self.0.try_lock()
    }

    /// Waits up to `time` for the lock.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mutex = bursar::sync::Mutex::new(1);
    /// let guard = mutex.lock();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert!(mutex.lock_timeout(Duration::from_millis(1)).is_none()));
    /// });
    /// # drop(guard);
    /// ```
    pub fn lock_timeout(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock_for(time)
    }

    /// Whether it is locked now.
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// The data, without locking: `&mut` is exclusive.
    ///
    /// ```
    /// let mut mutex = bursar::sync::Mutex::new(1);
    /// *mutex.get_mut() = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
