//! Waits of futures: a waiter that is parked while no thread is, and wakes a waker.
//!
//! Room: driver. Knows wakers and waiters; knows nothing of what is waited for.

use std::task::Waker;

use mech_sync::{PackedToken, Park, WaitToken};

use crate::{
    places,
    strand::{self, Strand, room},
};

/// One wait of a future: a parked waiter with the waker in it.
#[derive(Debug)]
pub(crate) struct FutureWait(PackedToken);

impl FutureWait {
    /// Begins to wait: the token wakes `waker`.
    pub(crate) fn begin(waker: &Waker) -> Self {
        let waiter = places::take_future_waiter();
        waiter.keep_waker(waker);
        let token = waiter.token();
        let parked = token.park();
        debug_assert_eq!(parked, Park::Parked, "no other task has this waiter");
        Self(token.into())
    }

    pub(crate) fn token(&self) -> WaitToken {
        self.0.token()
    }

    /// Ends the wait. False if it was woken first: then what the waker did counts. The waiter stays ours until this is dropped.
    pub(crate) fn withdraw(&mut self) -> bool {
        let token = self.token();
        let is_withdrawn = token.unpark();
        if is_withdrawn {
            token.waiter().clear_waker(); // nothing is on its way
        }
        is_withdrawn
    }

    /// Lets the wait go on without its owner, which will come back with the token.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    /// Comes back to a wait that was left.
    pub(crate) fn come_back(token: WaitToken) -> Self {
        Self(token.into())
    }

    /// Whether the token was woken; if not, `waker` will be.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        // The waker first: a wake that comes after it finds it, one that came before is seen.
        let token = self.token();
        token.waiter().change_waker(waker);
        token.is_woken()
    }

    /// Waits for a wake that is under way on another thread.
    pub(crate) fn until_woken(&self) {
        let token = self.token();
        while !token.is_woken() {
            strand::with(Strand::give_way);
        }
    }
}

impl Drop for FutureWait {
    fn drop(&mut self) {
        let _room = room::to_drop();
        let token = self.token();
        let waiter = token.waiter();
        if waiter.has_waker() {
            if !token.unpark() {
                // Woken: who did it must be done with the waiter before another wait uses it.
                while !waiter.is_waker_taken() {
                    strand::with(Strand::give_way);
                }
            }
            waiter.clear_waker();
        }
        places::give_future_waiter(waiter);
    }
}
