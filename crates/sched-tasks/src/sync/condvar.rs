//! Waiting until what a mutex protects has changed.
//!
//! Room: interface.
//!
//! # Invariant
//! A notification that comes after a wait has released the mutex ends that wait, or one that began earlier. A wait that
//! unwinds has used up none.
//!
//! # Why it holds
//! A wait is in the queue before the mutex is free. It is claimed, or ended by a timeout or a cancellation; one that
//! has ended cannot be claimed, and the notification goes to the next. The mutex is taken again before `wait` returns
//! or unwinds, by an operation that is not interrupted: so the guard always holds the lock.

use std::time::{Duration, Instant};

use super::{MutexGuard, raw as lock};
use crate::{
    kernel::clock,
    strand::{self, Strand},
    wait::{self, End},
    wait_queue::WaitQueue,
};

/// Lets tasks wait until others changed something under a [`Mutex`](super::Mutex).
///
/// A wait ends by a notification or a timeout, never spuriously. Still, check the condition again, because another task
/// may have been faster: [`wait_while`](Self::wait_while) does.
///
/// ```
/// use bursar::{nursery, sync::{Condvar, Mutex}};
///
/// let (jobs, changed) = (Mutex::new(Vec::new()), Condvar::new());
/// nursery(|n| {
///     let taker = n.spawn(|| {
///         let mut jobs = jobs.lock();
///         changed.wait_while(&mut jobs, |jobs| jobs.is_empty());
///         jobs.pop()
///     });
///     jobs.lock().push("sweep");
///     changed.notify_one();
///     assert_eq!(taker.join()?, Some("sweep"));
///     Ok(())
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Debug)]
pub struct Condvar {
    queue: WaitQueue,
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// No waiter. May be a `static`.
    pub const fn new() -> Self {
        Self { queue: WaitQueue::new() }
    }

    /// Releases the mutex, waits for a notification, and takes the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.until(guard, None);
    }

    /// The same, waiting up to `time`. False if time was up first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::sync::{Condvar, Mutex};
    ///
    /// let (mutex, never) = (Mutex::new(()), Condvar::new());
    /// assert!(!never.wait_timeout(&mut mutex.lock(), Duration::from_millis(1)));
    /// ```
    pub fn wait_timeout<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> bool {
        self.until(guard, Some(clock::due(time)))
    }

    /// Waits as long as `condition` holds.
    pub fn wait_while<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits as long as `condition` holds, up to `time`. False if it still holds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::sync::{Condvar, Mutex};
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// let mut guard = ready.lock();
    /// assert!(!changed.wait_while_timeout(&mut guard, Duration::from_millis(1), |ready| !*ready));
    /// ```
    pub fn wait_while_timeout<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> bool {
        let deadline = clock::due(time);
        while condition(guard) {
            if !self.until(guard, Some(deadline)) {
                return !condition(guard);
            }
        }
        true
    }

    fn until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Instant>) -> bool {
        strand::with(|strand| {
            strand.checkpoint_with_lock();
            let token = strand.waiter.token();
            self.queue.enlist(token, 0);
            match lock::while_unlocked(guard, || wait::wait(strand, token, deadline)) {
                End::Claimed(_) => true,
                End::TimedOut => {
                    self.queue.leave();
                    false
                }
                End::Cancelled => {
                    self.queue.leave();
                    strand.unwind();
                }
            }
        })
    }

    /// Wakes the oldest waiter. True if there was one.
    ///
    /// ```
    /// assert!(!bursar::sync::Condvar::new().notify_one()); // no task waits, and nothing is kept for later
    /// ```
    pub fn notify_one(&self) -> bool {
        strand::with(Strand::pass_by);
        self.queue.wake_one()
    }

    /// Wakes all waiters. Returns how many there were.
    ///
    /// ```
    /// assert_eq!(bursar::sync::Condvar::new().notify_all(), 0);
    /// ```
    pub fn notify_all(&self) -> usize {
        strand::with(Strand::pass_by);
        self.queue.wake_all()
    }
}
