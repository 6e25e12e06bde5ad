//! Waiters and inboxes of all threads, fibers and futures that may block. They are never freed, only reused, so that a
//! late waker always finds a live word (see `mech_sync::waiter`).
//!
//! Room: mechanism.
//!
//! Waiters come and go as often as fibers, and as waits of futures. Each thread keeps some: with one list for all, threads would fight for its lock, and neighbours
//! in memory, two of which share a cache line, would belong to different workers.

use std::{cell::RefCell, sync::Mutex, thread::LocalKey};

use mech_sync::{Inbox, Waiter, tally::lock};

/// Waiters are made by the batch, and move between a thread and the list of all by the batch. A thread keeps two at most.
const BATCH: usize = 64;

type Waiters = Vec<&'static Waiter>;

static THREAD_INBOXES: Mutex<Vec<&'static Inbox>> = Mutex::new(Vec::new());
static WAITERS: Mutex<Waiters> = Mutex::new(Vec::new());
static FUTURE_WAITERS: Mutex<Waiters> = Mutex::new(Vec::new());

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::of(&WAITERS)) };
    static KEPT_FUTURE: RefCell<Kept> = const { RefCell::new(Kept::of(&FUTURE_WAITERS)) };
}

/// What a thread keeps.
struct Kept {
    waiters: Waiters,
    all: &'static Mutex<Waiters>,
}

impl Kept {
    const fn of(all: &'static Mutex<Waiters>) -> Self {
        Self { waiters: Vec::new(), all }
    }

    fn take(&mut self, make: impl FnOnce() -> Vec<Waiter>) -> &'static Waiter {
        if self.waiters.is_empty() {
            let mut all = lock(self.all);
            let first = all.len().saturating_sub(BATCH);
            self.waiters.extend(all.drain(first..));
        }
        if self.waiters.is_empty() {
            self.waiters.extend(make().leak().iter());
        }
        self.waiters.pop().expect("a batch was just taken or made")
    }

    fn give(&mut self, waiter: &'static Waiter) {
        if self.waiters.len() >= 2 * BATCH {
            lock(self.all).extend(self.waiters.drain(BATCH..));
        }
        self.waiters.push(waiter);
    }
}

impl Drop for Kept {
    /// The thread ends.
    fn drop(&mut self) {
        lock(self.all).append(&mut self.waiters);
    }
}

/// What this thread keeps; while it ends, in destructors of its values, nothing: then a batch comes and goes.
fn with_kept<R>(
    key: &'static LocalKey<RefCell<Kept>>,
    all: &'static Mutex<Waiters>,
    f: impl FnOnce(&mut Kept) -> R,
) -> R {
    let mut f = Some(f);
    let mut call = |kept: &mut Kept| f.take().expect("called once")(kept);
    key.try_with(|kept| call(&mut kept.borrow_mut())).unwrap_or_else(|_ended| call(&mut Kept::of(all)))
}

/// A waiter of `inbox`.
pub(crate) fn take_waiter(inbox: &'static Inbox) -> &'static Waiter {
    let make = || (0..BATCH).map(|_| Waiter::new(inbox)).collect();
    let waiter = with_kept(&KEPT, &WAITERS, |kept| kept.take(make));
    waiter.move_to(inbox);
    waiter
}

/// Takes back a waiter whose owner will not block on it any more.
pub(crate) fn give_waiter(waiter: &'static Waiter) {
    with_kept(&KEPT, &WAITERS, |kept| kept.give(waiter));
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

/// A waiter for one wait of a future.
pub(crate) fn take_future_waiter() -> &'static Waiter {
    let make = || (0..BATCH).map(|_| Waiter::for_future()).collect();
    with_kept(&KEPT_FUTURE, &FUTURE_WAITERS, |kept| kept.take(make))
}

/// Takes it back: no delivery is on its way to it.
pub(crate) fn give_future_waiter(waiter: &'static Waiter) {
    with_kept(&KEPT_FUTURE, &FUTURE_WAITERS, |kept| kept.give(waiter));
}
