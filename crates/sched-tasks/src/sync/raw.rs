//! The traits of `lock_api` for our locks. Its `unsafe` rests on the first invariants of `lock.rs` and `rw.rs`.
//!
//! Room: mechanism.

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

use lock_api::{
    GuardNoSend, GuardSend, RawMutex, RawMutexTimed, RawRwLock, RawRwLockDowngrade, RawRwLockTimed, RwLock,
};

use super::{
    MutexGuard, RwLockReadGuard, RwLockWriteGuard,
    lock::Lock,
    rw::{Access, SharedLock},
    rw_future::Request,
};
use crate::kernel::clock;

// SAFETY: a `Lock` is held by one strand at a time, from `acquire` to `release`; see its first invariant. What one
// holder wrote is seen by the next: the word is released and acquired, and a lock that is handed over goes with a
// claim, which is both.
unsafe impl RawMutex for Lock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Lock::new();

    /// A fiber is bound to its thread, and so is what it locked.
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.acquire(None);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_acquire()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.release();
    }

    fn is_locked(&self) -> bool {
        Lock::is_locked(self)
    }
}

// SAFETY: as above; both say true only if `acquire` did.
unsafe impl RawMutexTimed for Lock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.acquire(Some(clock::due(timeout)))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.acquire(Some(timeout))
    }
}

/// Waits for the lock, and nothing interrupts that.
#[inline]
pub(crate) fn lock_uninterrupted<T: ?Sized>(mutex: &lock_api::Mutex<Lock, T>) -> MutexGuard<'_, T> {
    // SAFETY: the lock is used as its guards use it, and the guard is made by its holder.
    unsafe {
        mutex.raw().acquire_uninterrupted();
        mutex.make_guard_unchecked()
    }
}

/// Runs `body` without the lock, and takes it again, also if `body` unwinds.
pub(crate) fn while_unlocked<T: ?Sized, R>(guard: &mut MutexGuard<'_, T>, body: impl FnOnce() -> R) -> R {
    struct TakeAgain<'a>(&'a Lock);
    impl Drop for TakeAgain<'_> {
        fn drop(&mut self) {
            self.0.acquire_regardless();
        }
    }
    // SAFETY: unlocked and locked again while we have the guard exclusively: it cannot be used in between.
    let lock = unsafe { MutexGuard::mutex(guard).raw() };
    lock.release();
    let _take_again = TakeAgain(lock);
    body()
}

// SAFETY: a `SharedLock` has one writer or any number of readers, each from `acquire` to `release`; see its first
// invariant. Holders come and go under its inner lock, which orders what one wrote before what the next one sees.
unsafe impl RawRwLock for SharedLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = SharedLock::new();

    /// Who holds it is a count: any thread may release it, and a future may hold it across an await.
    type GuardMarker = GuardSend;

    #[inline]
    fn lock_shared(&self) {
        self.acquire(Access::Read, None);
    }

    fn try_lock_shared(&self) -> bool {
        self.try_acquire(Access::Read)
    }

    unsafe fn unlock_shared(&self) {
        self.release(Access::Read);
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.acquire(Access::Write, None);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.try_acquire(Access::Write)
    }

    unsafe fn unlock_exclusive(&self) {
        self.release(Access::Write);
    }

    fn is_locked(&self) -> bool {
        self.held().0
    }

    fn is_locked_exclusive(&self) -> bool {
        self.held().1
    }
}

// SAFETY: the writer is counted as a reader before any other request is served.
unsafe impl RawRwLockDowngrade for SharedLock {
    unsafe fn downgrade(&self) {
        SharedLock::downgrade(self);
    }
}

// SAFETY: as above; all say true only if `acquire` did.
unsafe impl RawRwLockTimed for SharedLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.acquire(Access::Read, Some(clock::due(timeout)))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.acquire(Access::Read, Some(timeout))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.acquire(Access::Write, Some(clock::due(timeout)))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.acquire(Access::Write, Some(timeout))
    }
}

/// The lock itself, for requests of futures, which release only what they were given.
pub(super) fn shared<T: ?Sized>(lock: &RwLock<SharedLock, T>) -> &SharedLock {
    // SAFETY: the caller is `rw_future.rs`, which by its invariant releases only what was acquired for it.
    unsafe { lock.raw() }
}

/// Waits until it may write, and nothing interrupts that.
pub(crate) fn write_uninterrupted<T: ?Sized>(lock: &RwLock<SharedLock, T>) -> RwLockWriteGuard<'_, T> {
    // SAFETY: the lock is used as its guards use it, and the guard is made by its holder.
    unsafe {
        lock.raw().acquire_uninterrupted(Access::Write);
        RwLockWriteGuard(lock.make_write_guard_unchecked())
    }
}

/// A guard, when `request` has been served.
pub(super) fn poll_read<'a, T: ?Sized>(
    lock: &'a RwLock<SharedLock, T>,
    request: &mut Request,
    cx: &Context<'_>,
) -> Poll<RwLockReadGuard<'a, T>> {
    // SAFETY: a request to read that is ready holds the lock as a reader, and gives that to this guard.
    request.poll(shared(lock), cx).map(|()| RwLockReadGuard(unsafe { lock.make_read_guard_unchecked() }))
}

/// A guard, when `request` has been served.
pub(super) fn poll_write<'a, T: ?Sized>(
    lock: &'a RwLock<SharedLock, T>,
    request: &mut Request,
    cx: &Context<'_>,
) -> Poll<RwLockWriteGuard<'a, T>> {
    // SAFETY: a request to write that is ready holds the lock as its writer, and gives that to this guard.
    request.poll(shared(lock), cx).map(|()| RwLockWriteGuard(unsafe { lock.make_write_guard_unchecked() }))
}
