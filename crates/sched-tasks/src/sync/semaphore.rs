//! A semaphore: permits, handed out in the order they were asked for.
//!
//! Room: interface.
//!
//! # Invariant
//! A permit is free, or in one [`Permit`], or on its way to the one request that was claimed for it. No request is
//! served before an earlier one, so a large request waits only for those before it.
//!
//! # Why it holds
//! Everything happens under one lock. Permits that become free go to the first request as soon as there are enough; the
//! claim takes them out of `free` under the lock. A claimed request has them, cancelled or not; a request that leaves
//! unclaimed had none, and those behind it are checked again.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use mech_sync::{SpinLock, WaitToken};

use crate::{
    kernel::clock,
    strand::future_wait::FutureWait,
    strand::room,
    strand::{self, Strand},
    wait::{self, End},
    wait_queue::{Claimed, WaitList},
};

/// A number of permits, some of which may be taken.
///
/// ```
/// use bursar::{nursery, sync::Semaphore};
///
/// let downloads = Semaphore::new(3);
/// nursery(|n| {
///     for _ in 0..20 {
///         n.spawn(|| {
///             let _permit = downloads.acquire(1); // three at a time; the others wait here
///         });
///     }
///     Ok(())
/// })?;
/// assert_eq!(downloads.available(), 3);
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Debug)]
pub struct Semaphore {
    state: SpinLock<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Each with how many it wants.
    requests: WaitList<usize>,
}

/// Permits taken from a [`Semaphore`], given back when dropped.
#[derive(Debug)]
#[must_use = "permits that are dropped are given back at once"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

/// Permits to come; made by [`Semaphore::acquire_async`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct AcquireFuture<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
    wait: Option<FutureWait>,
}

impl State {
    /// Takes `permits` if no request waits.
    fn take(&mut self, permits: usize) -> bool {
        let can = self.free >= permits && !self.requests.any();
        if can {
            self.free -= permits;
        }
        can
    }

    /// Claims the first request if there is enough for it.
    fn grant_one(&mut self) -> Option<Claimed> {
        let mut granted = 0;
        let claimed = self.requests.claim_if(|&wanted| {
            granted = wanted;
            wanted <= self.free
        })?;
        self.free -= granted;
        Some(claimed)
    }
}

impl Semaphore {
    /// A semaphore with this many free permits. May be a `static`.
    pub const fn new(permits: usize) -> Self {
        Self { state: SpinLock::new(State { free: permits, requests: WaitList::new() }) }
    }

    /// How many permits are free.
    pub fn available(&self) -> usize {
        self.state.lock().free
    }

    /// Waits for `permits` permits.
    ///
    /// ```
    /// let semaphore = bursar::sync::Semaphore::new(2);
    /// let both = semaphore.acquire(2);
    /// assert_eq!(semaphore.available(), 0);
    /// drop(both);
    /// assert_eq!(semaphore.available(), 2);
    /// ```
    pub fn acquire(&self, permits: usize) -> Permit<'_> {
        self.until(permits, None).expect("without a deadline a wait ends with permits")
    }

    /// Takes `permits` permits if they are free and no request waits.
    ///
    /// ```
    /// let semaphore = bursar::sync::Semaphore::new(1);
    /// let one = semaphore.try_acquire(1);
    /// assert!(one.is_some() && semaphore.try_acquire(1).is_none());
    /// ```
    pub fn try_acquire(&self, permits: usize) -> Option<Permit<'_>> {
        strand::with(Strand::take_turn);
        self.take(permits)
    }

    fn take(&self, permits: usize) -> Option<Permit<'_>> {
        let taken = self.state.lock().take(permits);
        taken.then(|| Permit { semaphore: self, permits }) // not `then_some`: a permit that is dropped gives back
    }

    /// Waits up to `time` for `permits` permits.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let semaphore = bursar::sync::Semaphore::new(1);
    /// assert!(semaphore.acquire_timeout(2, Duration::from_millis(1)).is_none());
    /// assert!(semaphore.acquire_timeout(1, Duration::from_millis(1)).is_some());
    /// ```
    pub fn acquire_timeout(&self, permits: usize, time: Duration) -> Option<Permit<'_>> {
        self.until(permits, Some(clock::due(time)))
    }

    /// Waits for `permits` permits in a future. If the future is dropped before it is done, none were taken.
    ///
    /// ```
    /// use bursar::{nursery, sync::Semaphore};
    ///
    /// let semaphore = Semaphore::new(1);
    /// nursery(|n| {
    ///     n.spawn_async(async { drop(semaphore.acquire_async(1).await) }).join()
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn acquire_async(&self, permits: usize) -> AcquireFuture<'_> {
        AcquireFuture { semaphore: self, permits, wait: None }
    }

    /// Adds permits, for good.
    ///
    /// ```
    /// let semaphore = bursar::sync::Semaphore::new(0);
    /// semaphore.add_permits(3);
    /// semaphore.acquire(1).forget(); // and takes one out, for good
    /// assert_eq!(semaphore.available(), 2);
    /// ```
    ///
    /// # Panics
    /// If there would be more than `usize::MAX`.
    pub fn add_permits(&self, permits: usize) {
        strand::with(Strand::ensure_room);
        self.put_back(permits);
    }

    fn put_back(&self, permits: usize) {
        {
            let mut state = self.state.lock();
            state.free = state.free.checked_add(permits).expect("a semaphore has at most usize::MAX permits");
        }
        self.grant();
        strand::with(Strand::pass_by_in_drop);
    }

    /// Serves the requests for which there is enough.
    fn grant(&self) {
        loop {
            let claimed = self.state.lock().grant_one();
            match claimed {
                Some(claimed) => claimed.go(),
                None => return,
            }
        }
    }

    /// Queues a request. It is served at once if no other is before it.
    fn enlist(&self, token: WaitToken, permits: usize) {
        self.state.lock().requests.push(token, 0, permits);
        self.grant();
    }

    /// A request left unserved: those behind it may be served now.
    fn leave(&self) {
        self.state.lock().requests.leave();
        self.grant();
    }

    fn until(&self, permits: usize, deadline: Option<Instant>) -> Option<Permit<'_>> {
        strand::with(|strand| {
            strand.checkpoint();
            let permit = self.take(permits);
            if permit.is_some() {
                return permit;
            }
            let token = strand.waiter.token();
            self.enlist(token, permits);
            match wait::wait(strand, token, deadline) {
                End::Claimed(_) => Some(Permit { semaphore: self, permits }),
                End::TimedOut => {
                    self.leave();
                    None
                }
                End::Cancelled => {
                    self.leave();
                    strand.unwind();
                }
            }
        })
    }
}

impl Permit<'_> {
    /// The number of permits.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Never gives them back.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.permits > 0 {
            let _room = room::to_drop();
            self.semaphore.put_back(self.permits);
        }
    }
}

impl<'a> Future for AcquireFuture<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit<'a>> {
        let AcquireFuture { semaphore, permits, .. } = *self;
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        if self.wait.is_none() {
            if let Some(permit) = semaphore.take(permits) {
                strand.turn.count();
                return Poll::Ready(permit);
            }
            let wait = FutureWait::begin(cx.waker());
            semaphore.enlist(wait.token(), permits);
            self.wait = Some(wait);
        }
        if !self.wait.as_ref().is_some_and(|wait| wait.poll(cx.waker())) {
            return Poll::Pending;
        }
        self.wait = None;
        strand.turn.count();
        Poll::Ready(Permit { semaphore, permits })
    }
}

impl Drop for AcquireFuture<'_> {
    fn drop(&mut self) {
        if let Some(wait) = &mut self.wait {
            let _room = room::to_drop();
            if wait.withdraw() {
                self.semaphore.leave();
            } else {
                self.semaphore.put_back(self.permits); // served, but the future is gone
            }
        }
    }
}
