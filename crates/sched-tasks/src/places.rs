//! Seats and homes for everybody who may block. They are never freed, only reused, so that a late waker always finds a live
//! word (see `mech_sync::seat`).

use std::{
    sync::{Mutex, PoisonError},
    task::Waker,
};

use mech_sync::{Home, Park, Seat, Ticket};

use crate::{
    room,
    strand::{self, Strand},
};

/// Seats are made by the batch: neighbours in memory mostly belong to one worker.
const BATCH: usize = 64;

static SEATS: Mutex<Vec<&'static Seat>> = Mutex::new(Vec::new());
static THREAD_HOMES: Mutex<Vec<&'static Home>> = Mutex::new(Vec::new());
static FUTURE_SEATS: Mutex<Vec<&'static Seat>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A seat of `home`.
pub(crate) fn take_seat(home: &'static Home) -> &'static Seat {
    let mut seats = lock(&SEATS);
    if seats.is_empty() {
        let batch: Vec<Seat> = (0..BATCH).map(|_| Seat::new(home)).collect();
        seats.extend(batch.leak().iter());
    }
    let seat = seats.pop().expect("a batch was just made");
    seat.move_to(home);
    seat
}

/// Takes back a seat whose owner will not block on it any more.
pub(crate) fn give_seat(seat: &'static Seat) {
    lock(&SEATS).push(seat);
}

/// A home for a thread.
pub(crate) fn take_home() -> &'static Home {
    lock(&THREAD_HOMES).pop().unwrap_or_else(|| Box::leak(Box::new(Home::for_thread())))
}

/// Takes back the home of a thread that ends.
pub(crate) fn give_home(home: &'static Home) {
    home.stay_awake();
    let _ = home.arrivals();
    lock(&THREAD_HOMES).push(home);
}

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
        let seat = lock(&FUTURE_SEATS).pop().unwrap_or_else(|| {
            let home = Box::leak(Box::new(Home::for_future()));
            Box::leak(Box::new(Seat::new(home)))
        });
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
        lock(&FUTURE_SEATS).push(self.ticket.seat());
    }
}
