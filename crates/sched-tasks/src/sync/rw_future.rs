//! Waiting for a readers-writer lock in a future.
//!
//! Room: driver.
//!
//! # Invariant
//! A future that is dropped before it gave its guard away holds nothing, and no request of it is in the queue.
//!
//! # Why it holds
//! Its wait is served or taken back, by one CAS. Taken back: the request leaves, and those behind it are looked at.
//! Served: it releases what it was given.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{
    RwLockReadGuard, RwLockWriteGuard, raw,
    rw::{Access, SharedLock},
};
use crate::strand::{self, future_wait::FutureWait, room};

/// One request of a future. Its `poll` is ready only when the lock is held for it: guards are made from that.
pub(super) struct Request {
    access: Access,
    wait: Option<FutureWait>,
}

/// The right to read, to come; made by [`RwLock::read_async`](super::RwLock::read_async).
#[must_use = "a future does nothing until it is awaited"]
pub struct ReadFuture<'a, T: ?Sized> {
    lock: &'a lock_api::RwLock<SharedLock, T>,
    request: Request,
}

/// The right to write, to come; made by [`RwLock::write_async`](super::RwLock::write_async).
#[must_use = "a future does nothing until it is awaited"]
pub struct WriteFuture<'a, T: ?Sized> {
    lock: &'a lock_api::RwLock<SharedLock, T>,
    request: Request,
}

impl Request {
    /// Ready when the lock is held for it.
    pub(super) fn poll(&mut self, lock: &SharedLock, cx: &Context<'_>) -> Poll<()> {
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        strand.interleave();
        if self.wait.is_none() && !lock.try_acquire(self.access) {
            let wait = FutureWait::begin(cx.waker());
            lock.enlist(wait.token(), self.access);
            self.wait = Some(wait);
        }
        if self.wait.as_ref().is_some_and(|wait| !wait.poll(cx.waker())) {
            return Poll::Pending;
        }
        self.wait = None;
        strand.turn.count();
        Poll::Ready(())
    }

    fn cancel(&mut self, lock: &SharedLock) {
        if let Some(wait) = &mut self.wait {
            let _room = room::to_drop();
            if wait.withdraw() {
                lock.leave();
            } else {
                lock.release(self.access); // served, but the future is gone
            }
        }
    }
}

impl<'a, T: ?Sized> ReadFuture<'a, T> {
    pub(super) fn new(lock: &'a lock_api::RwLock<SharedLock, T>) -> Self {
        Self { lock, request: Request { access: Access::Read, wait: None } }
    }
}

impl<'a, T: ?Sized> WriteFuture<'a, T> {
    pub(super) fn new(lock: &'a lock_api::RwLock<SharedLock, T>) -> Self {
        Self { lock, request: Request { access: Access::Write, wait: None } }
    }
}

impl<'a, T: ?Sized> Future for ReadFuture<'a, T> {
    type Output = RwLockReadGuard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lock = self.lock;
        raw::poll_read(lock, &mut self.request, cx)
    }
}

impl<'a, T: ?Sized> Future for WriteFuture<'a, T> {
    type Output = RwLockWriteGuard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lock = self.lock;
        raw::poll_write(lock, &mut self.request, cx)
    }
}

impl<T: ?Sized> Drop for ReadFuture<'_, T> {
    fn drop(&mut self) {
        self.request.cancel(raw::shared(self.lock));
    }
}

impl<T: ?Sized> Drop for WriteFuture<'_, T> {
    fn drop(&mut self) {
        self.request.cancel(raw::shared(self.lock));
    }
}

impl<T: ?Sized> fmt::Debug for ReadFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadFuture").field("waiting", &self.request.wait.is_some()).finish_non_exhaustive()
    }
}

impl<T: ?Sized> fmt::Debug for WriteFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteFuture").field("waiting", &self.request.wait.is_some()).finish_non_exhaustive()
    }
}
