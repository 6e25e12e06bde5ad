//! Waiters and inboxes of all threads, fibers and futures that may block. They are never freed, only reused, so that a
//! late waker always finds a live word (see `mech_sync::waiter`).
//!
//! Room: mechanism.

use std::sync::Mutex;

use mech_sync::{Inbox, Waiter, tally::lock};

/// Waiters are made by the batch: neighbours in memory mostly belong to one worker.
const BATCH: usize = 64;

static WAITERS: Mutex<Vec<&'static Waiter>> = Mutex::new(Vec::new());
static THREAD_INBOXES: Mutex<Vec<&'static Inbox>> = Mutex::new(Vec::new());
static FUTURE_WAITERS: Mutex<Vec<&'static Waiter>> = Mutex::new(Vec::new());

/// A waiter of `inbox`.
pub(crate) fn take_waiter(inbox: &'static Inbox) -> &'static Waiter {
    let mut waiters = lock(&WAITERS);
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
    lock(&WAITERS).push(waiter);
}

/// An inbox for a thread.
pub(crate) fn take_inbox() -> &'static Inbox {
    lock(&THREAD_INBOXES).pop().unwrap_or_else(|| Box::leak(Box::new(Inbox::for_thread())))
}

/// Takes back the inbox of a thread that ends.
pub(crate) fn give_inbox(inbox: &'static Inbox) {
    inbox.stay_awake();
    let _ = inbox.arrivals();
    lock(&THREAD_INBOXES).push(inbox);
}

/// A waiter with an inbox of its own, for one wait of a future.
pub(crate) fn take_future_waiter() -> &'static Waiter {
    lock(&FUTURE_WAITERS).pop().unwrap_or_else(|| {
        let inbox = Box::leak(Box::new(Inbox::for_future()));
        Box::leak(Box::new(Waiter::new(inbox)))
    })
}

/// Takes it back: no delivery is on its way to it.
pub(crate) fn give_future_waiter(waiter: &'static Waiter) {
    lock(&FUTURE_WAITERS).push(waiter);
}
