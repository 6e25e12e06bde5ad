//! Seats and homes for everybody who may block. They are never freed, only reused, so that a late waker always finds a live
//! word (see `mech_sync::seat`).

use std::sync::{Mutex, PoisonError};

use mech_sync::{Home, Seat};

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

/// A seat with a home of its own, for one wait of a future.
pub(crate) fn take_future_seat() -> &'static Seat {
    lock(&FUTURE_SEATS).pop().unwrap_or_else(|| {
        let home = Box::leak(Box::new(Home::for_future()));
        Box::leak(Box::new(Seat::new(home)))
    })
}

/// Takes it back: nothing is on its way there.
pub(crate) fn give_future_seat(seat: &'static Seat) {
    lock(&FUTURE_SEATS).push(seat);
}
