//! A readers-writer lock that blocks the fiber, not the worker.
//!
//! Room: interface.

use std::{fmt, time::Duration};

use super::{
    RwLockReadGuard, RwLockWriteGuard, raw,
    rw::SharedLock,
    rw_future::{ReadFuture, WriteFuture},
};
use crate::strand::{self, Strand};

/// Data that many tasks or threads may read at the same time, or one may write.
///
/// Waiting for it blocks only the fiber that waits, or the future; on a plain thread it blocks the thread. It is fair: the request that comes first is served first, and readers
/// with no writer between them have the lock together. So neither a stream of readers nor one of writers keeps the others out. A task that waits has nothing; if it is cancelled there it
/// unwinds, and those behind it are served as if it had never asked.
///
/// A panic while it is locked unlocks it, and does not poison it. A guard may be held across an `.await`, and be dropped on another thread.
///
/// A task that reads must not wait for a second guard of the same lock: a writer that came in between is before it, and waits for the first guard. A [seeded](crate::Builder::seeded) run
/// reports that as a deadlock.
///
/// ```
/// use bursar::{nursery, sync::RwLock};
///
/// let prices = RwLock::new(vec![3, 5]);
/// let sum = nursery(|n| {
///     let readers: Vec<_> = (0..4).map(|_| n.spawn(|| prices.read().iter().sum::<i32>())).collect();
///     n.spawn(|| prices.write().push(7));
///     readers.into_iter().map(|reader| reader.join()).sum::<Result<i32, _>>()
/// })?;
/// assert!((32..=60).contains(&sum)); // each reader saw two prices or three
/// assert_eq!(*prices.read(), [3, 5, 7]);
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub struct RwLock<T: ?Sized>(lock_api::RwLock<SharedLock, T>);

impl<T> RwLock<T> {
    /// `value`, unlocked. May be a `static`.
    ///
    /// ```
    /// static NAMES: bursar::sync::RwLock<Vec<String>> = bursar::sync::RwLock::new(Vec::new());
    /// NAMES.write().push("alpha".into());
    /// ```
    pub const fn new(value: T) -> Self {
        Self(lock_api::RwLock::new(value))
    }

    /// The value.
    ///
    /// ```
    /// assert_eq!(bursar::sync::RwLock::new(1).into_inner(), 1);
    /// ```
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until it may read.
    ///
    /// ```
    /// let lock = bursar::sync::RwLock::new(1);
    /// let (one, two) = (lock.read(), lock.read()); // no writer waits
    /// assert_eq!(*one + *two, 2);
    /// ```
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(self.0.read())
    }

    /// Waits until it may write.
    ///
    /// ```
    /// let lock = bursar::sync::RwLock::new(vec![1]);
    /// lock.write().push(2);
    /// assert_eq!(*lock.read(), [1, 2]);
    /// ```
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(self.0.write())
    }

    /// Reads if that can be done at once: no writer has the lock or waits for it.
    ///
    /// ```
    /// let lock = bursar::sync::RwLock::new(1);
    /// let guard = lock.write();
    /// assert!(lock.try_read().is_none());
    /// drop(guard);
    /// assert_eq!(lock.try_read().as_deref(), Some(&1));
    /// ```
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        strand::with(begin_try);
        self.0.try_read().map(RwLockReadGuard)
    }

    /// Writes if that can be done at once: the lock is free.
    ///
    /// ```
    /// let lock = bursar::sync::RwLock::new(1);
    /// let guard = lock.read();
    /// assert!(lock.try_write().is_none());
    /// drop(guard);
    /// assert!(lock.try_write().is_some());
    /// ```
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        strand::with(begin_try);
        self.0.try_write().map(RwLockWriteGuard)
    }

    /// Waits up to `time` until it may read.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let lock = bursar::sync::RwLock::new(1);
    /// let guard = lock.write();
    /// assert!(lock.read_timeout(Duration::from_millis(1)).is_none());
    /// # drop(guard);
    /// ```
    pub fn read_timeout(&self, time: Duration) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read_for(time).map(RwLockReadGuard)
    }

    /// Waits up to `time` until it may write.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let lock = bursar::sync::RwLock::new(1);
    /// let guard = lock.read();
    /// assert!(lock.write_timeout(Duration::from_millis(1)).is_none());
    /// # drop(guard);
    /// ```
    pub fn write_timeout(&self, time: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write_for(time).map(RwLockWriteGuard)
    }

    /// Waits until it may write; a cancellation does not end that, as with [`Mutex::lock_uninterrupted`](super::Mutex::lock_uninterrupted). For cleanup that a cancelled task must do too,
    /// under a lock that is held for moments only.
    ///
    /// ```
    /// use bursar::{nursery, sync::RwLock};
    ///
    /// let left = RwLock::new(1);
    /// nursery(|n| {
    ///     n.cancel();
    ///     *left.write_uninterrupted() -= 1; // `write` would unwind
    ///     Ok(())
    /// })
    /// .unwrap_err();
    /// assert_eq!(left.into_inner(), 0);
    /// ```
    pub fn write_uninterrupted(&self) -> RwLockWriteGuard<'_, T> {
        raw::write_uninterrupted(&self.0)
    }

    /// Waits in a future until it may read. If the future is dropped before it is done, it has not asked.
    ///
    /// ```
    /// use bursar::{nursery, sync::RwLock};
    ///
    /// let lock = RwLock::new(5);
    /// let read = nursery(|n| n.spawn_async(async { *lock.read_async().await }).join())?;
    /// assert_eq!(read, 5);
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn read_async(&self) -> ReadFuture<'_, T> {
        ReadFuture::new(&self.0)
    }

    /// Waits in a future until it may write. If the future is dropped before it is done, it has not asked.
    ///
    /// ```
    /// use bursar::{nursery, sync::RwLock};
    ///
    /// let lock = RwLock::new(5);
    /// nursery(|n| n.spawn_async(async { *lock.write_async().await += 1 }).join())?;
    /// assert_eq!(lock.into_inner(), 6);
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn write_async(&self) -> WriteFuture<'_, T> {
        WriteFuture::new(&self.0)
    }

    /// Whether it is locked now, by readers or a writer.
    ///
    /// ```
    /// let lock = bursar::sync::RwLock::new(1);
    /// let guard = lock.read();
    /// assert!(lock.is_locked());
    /// drop(guard);
    /// assert!(!lock.is_locked());
    /// ```
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// The data, without locking: `&mut` is exclusive.
    ///
    /// ```
    /// let mut lock = bursar::sync::RwLock::new(1);
    /// *lock.get_mut() = 2;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

fn begin_try(strand: &Strand) {
    strand.take_turn();
    strand.interleave();
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
