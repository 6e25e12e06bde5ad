//! Waits of futures: a seat that is parked while no thread is, and wakes a waker.

use std::task::Waker;

use mech_sync::{Park, Ticket};

use crate::{
    places,
    strand::{self, Strand, room},
};

/// One wait of a future: a seat with a home of its own, parked, and the waker in it.
#[derive(Debug)]
pub(crate) struct FutureWait {
    ticket: Ticket,
    /// It was ended by us, and nothing is on its way.
    withdrawn: bool,
}

impl FutureWait {
    /// Begins to wait: the ticket wakes `waker`.
    pub(crate) fn begin(waker: &Waker) -> Self {
        let seat = places::take_future_seat();
        seat.home().set_waker(waker);
        let ticket = seat.ticket();
        let parked = ticket.park();
        debug_assert_eq!(parked, Park::Parked, "nobody else has this seat");
        Self { ticket, withdrawn: false }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Ends the wait. False if somebody woke it first: then what the waker did counts. The seat stays ours until this is dropped.
    pub(crate) fn withdraw(&mut self) -> bool {
        self.withdrawn = self.ticket.unpark();
        self.withdrawn
    }

    /// Lets the wait go on without its owner, which will come back with the ticket.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    /// Comes back to a wait that was left.
    pub(crate) fn come_back(ticket: Ticket) -> Self {
        Self { ticket, withdrawn: false }
    }

    /// Whether the ticket was woken; if not, `waker` will be.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        // The waker first: a wake that comes after it finds it, one that came before is seen.
        self.ticket.seat().home().set_waker(waker);
        self.ticket.is_woken()
    }

    /// Waits for a wake that is under way on another thread.
    pub(crate) fn until_woken(&self) {
        while !self.ticket.is_woken() {
            strand::with(Strand::give_way);
        }
    }
}

impl Drop for FutureWait {
    fn drop(&mut self) {
        let _room = room::to_drop();
        let home = self.ticket.seat().home();
        if !self.withdrawn && !self.ticket.unpark() {
            // Woken: the seat is on its way here, and must arrive before somebody else sits on it.
            while !home.has_arrivals() {
                strand::with(Strand::give_way);
            }
        }
        home.clear_waker();
        places::give_future_seat(self.ticket.seat());
    }
}
