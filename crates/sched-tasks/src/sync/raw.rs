//! The traits of `lock_api` for our lock. Its `unsafe` rests on the first invariant of `lock.rs`.
//!
//! Room: mechanism.

use std::time::{Duration, Instant};

use lock_api::{GuardNoSend, RawMutex, RawMutexTimed};

use super::{MutexGuard, lock::Lock};
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
