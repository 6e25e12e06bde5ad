//! Waiters and homes for everybody who may block. They are never freed, only reused, so that a late waker always finds a live
//! word (see `mech_sync::waiter`).

use std::sync::{Mutex, PoisonError};

use mech_sync::{Inbox, Waiter};

/// Waiters are made by the batch: neighbours in memory mostly belong to one worker.
const BATCH: usize = 64;

static SEATS: Mutex<Vec<&'static Waiter>> = Mutex::new(Vec::new());
static THREAD_HOMES: Mutex<Vec<&'static Inbox>> = Mutex::new(Vec::new());
static FUTURE_SEATS: Mutex<Vec<&'static Waiter>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A waiter of `inbox`.
pub(crate) fn take_waiter(inbox: &'static Inbox) -> &'static Waiter {
    let mut waiters = lock(&SEATS);
    if waiters.is_empty() {
        let batch: Vec<Waiter> = (0..BATCH).map(|_| Waiter::new(inbox)).collect();
        waiters.extend(batch.leak().iter());
    }
    let waiter = waiters.pop().expect("a batch was just made");
    waiter.move_to(inbox);
    waiter
}

/// Takes back a waiter whose owner will not block on it any more.
pub(crate) fn give_waiter(waiter: &'static Waiter) {
    lock(&SEATS).push(waiter);
}

/// A home for a thread.
pub(crate) fn take_inbox() -> &'static Inbox {
    lock(&THREAD_HOMES).pop().unwrap_or_else(|| Box::leak(Box::new(Inbox::for_thread())))
}

/// Takes back the home of a thread that ends.
pub(crate) fn give_inbox(inbox: &'static Inbox) {
    inbox.stay_awake();
    let _ = inbox.arrivals();
    lock(&THREAD_HOMES).push(inbox);
}

/// A waiter with a home of its own, for one wait of a future.
pub(crate) fn take_future_waiter() -> &'static Waiter {
    lock(&FUTURE_SEATS).pop().unwrap_or_else(|| {
        let inbox = Box::leak(Box::new(Inbox::for_future()));
        Box::leak(Box::new(Waiter::new(inbox)))
    })
}

/// Takes it back: nothing is on its way there.
pub(crate) fn give_future_waiter(waiter: &'static Waiter) {
    lock(&FUTURE_SEATS).push(waiter);
}
