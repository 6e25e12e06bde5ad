//! Waits of futures: a waiter that is parked while no thread is, and wakes a waker.
//!
//! Room: driver. Knows wakers and waiters; knows nothing of what is waited for.

use std::task::Waker;

use mech_sync::{Park, WaitToken};

use crate::{
    places,
    strand::{self, Strand, room},
};

/// One wait of a future: a waiter with an inbox of its own, parked, and the waker in it.
#[derive(Debug)]
pub(crate) struct FutureWait {
    token: WaitToken,
    /// It was ended by us, and nothing is on its way.
    withdrawn: bool,
}

impl FutureWait {
    /// Begins to wait: the token wakes `waker`.
    pub(crate) fn begin(waker: &Waker) -> Self {
        let waiter = places::take_future_waiter();
        waiter.inbox().set_waker(waker);
        let token = waiter.token();
        let parked = token.park();
        debug_assert_eq!(parked, Park::Parked, "no other task has this waiter");
        Self { token, withdrawn: false }
    }

    pub(crate) fn token(&self) -> WaitToken {
        self.token
    }

    /// Ends the wait. False if it was woken first: then what the waker did counts. The waiter stays ours until this is dropped.
    pub(crate) fn withdraw(&mut self) -> bool {
        self.withdrawn = self.token.unpark();
        self.withdrawn
    }

    /// Lets the wait go on without its owner, which will come back with the token.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    /// Comes back to a wait that was left.
    pub(crate) fn come_back(token: WaitToken) -> Self {
        Self { token, withdrawn: false }
    }

    /// Whether the token was woken; if not, `waker` will be.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        // The waker first: a wake that comes after it finds it, one that came before is seen.
        self.token.waiter().inbox().set_waker(waker);
        self.token.is_woken()
    }

    /// Waits for a wake that is under way on another thread.
    pub(crate) fn until_woken(&self) {
        while !self.token.is_woken() {
            strand::with(Strand::give_way);
        }
    }
}

impl Drop for FutureWait {
    fn drop(&mut self) {
        let _room = room::to_drop();
        let inbox = self.token.waiter().inbox();
        if !self.withdrawn && !self.token.unpark() {
            // Woken: the waiter is on its way here, and must arrive before another wait uses it.
            while !inbox.has_arrivals() {
                strand::with(Strand::give_way);
            }
        }
        inbox.clear_waker();
        places::give_future_waiter(self.token.waiter());
    }
}
