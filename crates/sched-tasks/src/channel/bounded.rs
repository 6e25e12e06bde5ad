//! A channel with a buffer: a lock-free ring, and two queues of waiters.
//!
//! Room: driver.
//!
//! # Invariant
//! While a value is in the ring and a receiver waits, some receiver is awake that will look into the ring before it
//! waits or leaves. While there is room and a sender waits, some sender is. So no waiter sleeps while what it waits for
//! is there.
//!
//! # Why it holds
//! No value is handed over: a claim is a hint, and the claimed waiter tries the ring like every other. For receivers
//! (senders are the mirror):
//!
//! - Every push is followed by one `wake_one`. By the wait queue's first invariant it sees every receiver that found
//!   the ring empty before the push; and one that found it non-empty takes its wait back and tries again.
//! - A wake claims one live wait. Waits that timed out or were cancelled cannot be claimed, and the wake goes to the next.
//! - A claimed receiver tries the ring. It takes one value, because one push made one wake; or it finds the ring empty.
//!   Then it need not wake another: the receiver that took the value was awake, and every later push has a wake of its
//!   own.
//! - A claimed receiver that will not try (a future that is dropped, a select that took another case) passes the claim on: `pass_on_recv` wakes the next if
//!   the ring is not empty.
//!
//! # Rejected
//! Handing the value to the receiver: one switch less when a receiver waits, but a lock around every operation, and then a stream through two workers is
//! five times slower.

use mech_sync::{Ring, WaitToken};

use super::error::{TryRecvError, TrySendError};
use crate::wait_queue::WaitQueue;

#[derive(Debug)]
pub(crate) struct Bounded<T> {
    ring: Ring<T>,
    receivers: WaitQueue,
    senders: WaitQueue,
}

impl<T> Bounded<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { ring: Ring::new(capacity), receivers: WaitQueue::new(), senders: WaitQueue::new() }
    }

    #[inline(always)]
    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.ring.push(value) {
            Ok(()) => {
                self.receivers.wake_one();
                Ok(())
            }
            Err(value) if self.ring.is_closed() => Err(TrySendError::Closed(value)),
            Err(value) => Err(TrySendError::Full(value)),
        }
    }

    #[inline(always)]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.take().ok_or(TryRecvError::Empty).or_else(|empty| {
            if !self.ring.is_closed() {
                return Err(empty);
            }
            self.take().ok_or(TryRecvError::Closed) // closed before this attempt, so nothing comes after it
        })
    }

    #[inline(always)]
    fn take(&self) -> Option<T> {
        let value = self.ring.pop()?;
        self.senders.wake_one();
        Some(value)
    }

    pub(super) fn can_send(&self) -> bool {
        !self.ring.is_full() || self.ring.is_closed()
    }

    pub(super) fn can_recv(&self) -> bool {
        !self.ring.is_empty() || self.ring.is_closed()
    }

    #[inline]
    pub(super) fn enlist_send(&self, token: WaitToken, code: u16) -> bool {
        self.senders.enlist(token, code);
        self.can_send()
    }

    #[inline]
    pub(super) fn enlist_recv(&self, token: WaitToken, code: u16) -> bool {
        self.receivers.enlist(token, code);
        self.can_recv()
    }

    pub(super) fn leave_send(&self) {
        self.senders.leave();
    }

    pub(super) fn leave_recv(&self) {
        self.receivers.leave();
    }

    pub(super) fn pass_on_send(&self) {
        if self.can_send() {
            self.senders.wake_one();
        }
    }

    pub(super) fn pass_on_recv(&self) {
        if self.can_recv() {
            self.receivers.wake_one();
        }
    }

    pub(super) fn close(&self) -> bool {
        let closed = self.ring.close();
        self.receivers.wake_all();
        self.senders.wake_all();
        closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}
