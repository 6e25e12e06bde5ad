//! What a thread counts of its dealings with others.

use std::{sync::Mutex, thread};

use mech_sync::{Inbox, SpinLock, Tally, tally::lock};

fn tally() -> &'static Tally {
    Box::leak(Box::default())
}

/// Waits for another thread's next step.
fn until(happened: impl Fn() -> bool) {
    while !happened() {
        thread::yield_now();
    }
}

#[test]
fn a_lock_that_is_found_taken_is_counted_once_by_the_thread_that_waits() {
    let (waits, holds) = (tally(), tally());
    let (spin, mutex) = (SpinLock::new(()), Mutex::new(()));
    holds.begin();
    thread::scope(|threads| {
        let (spin_guard, guard) = (spin.lock(), lock(&mutex));
        let waiter = threads.spawn(|| {
            waits.begin();
            drop(spin.lock());
            drop(lock(&mutex));
            drop((spin.lock(), lock(&mutex))); // both are free
        });
        until(|| waits.contended() == 1);
        drop(spin_guard);
        until(|| waits.contended() == 2);
        drop(guard);
        waiter.join().unwrap();
    });
    assert_eq!((waits.contended(), holds.contended(), waits.signals()), (2, 0, 0));
}

#[test]
fn a_poisoned_lock_is_taken_and_counts_as_free() {
    let (own, mutex) = (tally(), Mutex::new(7));
    thread::scope(|threads| {
        let poisons = threads.spawn(|| {
            let _held = mutex.lock();
            panic!("on purpose");
        });
        poisons.join().unwrap_err();
        threads.spawn(|| {
            own.begin();
            assert_eq!(*lock(&mutex), 7);
        });
    });
    assert_eq!(own.contended(), 0);
}

#[test]
fn a_signal_is_counted_by_the_thread_that_sends_it_if_another_sleeps() {
    let (sends, sleeps) = (tally(), tally());
    let inbox: &'static Inbox = Box::leak(Box::new(Inbox::for_thread()));
    sends.begin();
    inbox.notify(); // it is awake: nothing to do
    assert_eq!(sends.signals(), 0);
    inbox.fall_asleep();
    thread::scope(|threads| {
        threads.spawn(|| {
            sleeps.begin();
            assert!(inbox.sleep(None));
        });
        inbox.notify();
        inbox.notify(); // it is awake, or about to be
    });
    assert_eq!((sends.signals(), sleeps.signals()), (1, 0));
}
