//! Waking: a token is claimed, and its waiter goes to the worker that it belongs to.
//!
//! Room: driver. Knows the strand and the worker of the caller; knows nothing of what the waiter waits for.

use mech_sync::{Delivery, WaitToken, Wake};

use super::{strand::with, turn::Fixed};
use crate::budget::ToWake;

/// Puts a woken waiter into the ready queue of this worker, or into the inbox of its own.
#[inline]
pub(crate) fn deliver(delivery: Delivery) {
    with(|strand| match &strand.worker {
        Some(worker) if delivery.is_for(worker.inbox) => worker.enqueue(delivery.waiter()),
        _ => strand.turn.while_fixed(Fixed::InWaker, || delivery.send()), // that may run a foreign waker, in the middle of our operation
    });
}

/// Ends the wait that `token` names. False if it was over already.
#[inline]
pub(crate) fn wake(token: WaitToken, code: u16) -> bool {
    match token.wake(code) {
        Wake::Parked(delivery) => {
            deliver(delivery);
            true
        }
        Wake::Awake => true,
        Wake::Stale => false,
    }
}

impl ToWake {
    /// Wakes them. Not under the lock of their account.
    #[inline]
    pub(crate) fn wake(self) {
        for token in self.0 {
            wake(token, 0);
        }
    }
}
