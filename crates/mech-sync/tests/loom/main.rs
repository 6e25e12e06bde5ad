//! Every interleaving of every protocol of this crate, as far as two preemptions go.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p mech-sync --test loom
//! ```
//!
//! Each model is a sentence that the file it is about claims in its header. That a model can fail at all is shown by
//! `tests/planted.rs`, which breaks the code on purpose.
//!
//! What a thread hands to another is a [`Parcel`]: loom stops at any access to it that is not ordered after the one before.
//! Waiters and inboxes live for ever in the real program, so here they are leaked.
#![cfg(loom)]

use std::{sync::Arc, task::Wake as StdWake};

use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, Notify,
        atomic::{
            AtomicU32,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
};
use mech_sync::{
    Arming, Awake, BatchClaim, Completion, Countdown, Counts, CycleWatch, Deque, Directory, Finish, Gates, Idle, Inbox,
    Injector, Lasts, Line, Listing, Members, Park, PermitCache, PollerRole, Readiness, Ring, Roster, SpinLock, Steal,
    Stealer, TIMEOUT, Taken, Throttle, WaitToken, Waiter, Wake, directory, inbox as inboxes,
};

/// Checks `model` under every schedule with few preemptions: two, unless `LOOM_MAX_PREEMPTIONS` says otherwise.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Something one thread prepares and another uses, without atomics of its own.
#[derive(Debug)]
struct Parcel(UnsafeCell<u32>);

// SAFETY: loom reports the accesses that would make this unsound.
unsafe impl Send for Parcel {}
// SAFETY: as above.
unsafe impl Sync for Parcel {}

impl Parcel {
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn put(&self, value: u32) {
        // SAFETY: loom has just checked that the access is exclusive.
        self.0.with_mut(|place| unsafe { *place = value });
    }

    fn peek(&self) -> u32 {
        // SAFETY: loom has just checked that no thread writes.
        self.0.with(|place| unsafe { *place })
    }

    /// Takes the value and leaves zero: it may not be taken twice.
    fn take(&self) -> u32 {
        // SAFETY: as in `put`.
        self.0.with_mut(|place| unsafe { std::mem::take(&mut *place) })
    }
}

/// A thread's inbox and a waiter of it.
fn thread_waiter() -> (&'static Inbox, &'static Waiter) {
    let inbox = leak(Inbox::for_thread());
    (inbox, leak(Waiter::new(inbox)))
}

/// Sleeps until something is delivered; says how many waiters were.
fn await_arrivals(inbox: &'static Inbox) -> usize {
    loop {
        let arrived = inbox.arrivals().count();
        if arrived > 0 {
            return arrived;
        }
        inbox.fall_asleep();
        if inbox.has_arrivals() {
            inbox.stay_awake();
        } else {
            inbox.sleep(None);
        }
    }
}

/// Waits as a plain thread does, and returns the code it was woken with.
fn await_wake(inbox: &'static Inbox, token: WaitToken) -> u16 {
    loop {
        match token.park() {
            Park::Woken(code) => return code,
            Park::Parked => assert_eq!(await_arrivals(inbox), 1, "a parked waiter is delivered once"),
            Park::Interrupted => {}
        }
    }
}

/// Wakes and delivers; says whether the token was still good.
fn wake(token: WaitToken, code: u16) -> bool {
    match token.wake(code) {
        Wake::Parked(delivery) => delivery.send(),
        Wake::Awake => {}
        Wake::Stale => return false,
    }
    true
}

mod deque;

mod waiter;
mod waker_slot;

mod inbox;

mod idle;

mod injector;

mod countdown;

mod completion;

mod spin;

mod ring;

mod permit_cache;

mod arming;

mod batch_claim;

mod cycle_watch;

mod line;

mod counts;

mod throttle;

mod roster;

mod members;

mod directories;

mod readiness;

mod poller_role;
