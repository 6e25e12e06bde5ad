//! Where the woken waiters of a thread are delivered.
//!
//! Room: mechanism.
//!
//! A worker thread has one inbox for all its fibers; a plain thread has one for itself. A future has none: see `waker_slot.rs`.
//!
//! # Invariant
//! A waiter delivered to a thread's inbox is seen by that thread before it sleeps, or wakes it.
//!
//! # Why it holds
//! A deliverer does *push, fence, read `SLEEPING`*. The thread does *set `SLEEPING`, fence, look into the inbox*. Two SeqCst
//! fences have one order: the look sees the push, or the deliverer sees the sleeper and notifies it. The notifier is a
//! mutex and a condition variable. The notifying thread changes the state under that mutex and the sleeper reads it
//! there before it waits, so a notification between the look and the wait is not lost. A late notification may end the
//! next sleep instead: a thread that is notified always looks again.
//!
//! Waiters in the inbox are linked through themselves: a delivery allocates nothing, and cannot fail.
//!
//! Checked by `tests/loom/inbox.rs`: without either fence, with a relaxed push, or if the sleeper does not read the state once more,
//! `a_delivery_is_seen_or_notifies` fails. A thread may sleep elsewhere, as in a system call, if something there hears a notifier: it looks at the state and leaves the notifier
//! under one lock, and `a_delivery_ends_a_sleep_elsewhere` fails if it does not look.

use std::{ptr, time::Instant};

use crate::{
    sync::{
        Condvar, Mutex,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU32,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
            fence,
        },
        lock, or_planted,
    },
    tally,
};

const AWAKE: u32 = 0;
const SLEEPING: u32 = 1;

/// What is delivered: in this project a [`Waiter`](crate::Waiter). An inbox needs to know no more of it than its link.
pub trait Linked: Sized + 'static {
    /// Links it in the inbox or queue that it is in: it is in at most one.
    fn link(&self) -> &Link<Self>;
}

/// The next in an inbox or a queue.
#[derive(Debug)]
pub struct Link<T>(
    /// Null, or set from a `&'static T`.
    AtomicPtr<T>,
);

impl<T: 'static> Link<T> {
    /// It is in no queue.
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The next one.
    #[inline]
    pub(crate) fn next(&self) -> Option<&'static T> {
        // SAFETY: null or set from a `&'static T`, by `set_next` or by an inbox.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Only the owner of the queue may do so.
    #[inline]
    pub(crate) fn set_next(&self, next: Option<&'static T>) {
        self.0.store(next.map_or(ptr::null_mut(), |next| ptr::from_ref(next).cast_mut()), Relaxed);
    }
}

/// Where woken waiters are delivered.
#[derive(Debug)]
pub struct Inbox<T> {
    head: AtomicPtr<T>,
    state: AtomicU32,
    /// The thread's own flag: since it announced sleep, it did go to sleep.
    slept: AtomicBool,
    /// The thread waits on the condition variable, or where this notifier is heard.
    notifier: Mutex<Option<&'static dyn Notify>>,
    notified: Condvar,
}

/// Ends a wait that is none of an inbox: see [`Inbox::sleep_elsewhere`].
pub trait Notify: std::fmt::Debug + Sync {
    /// Ends the wait that lasts, or the next one.
    fn notify(&self);
}

/// The waiters that were in an inbox, oldest first.
#[derive(Debug)]
pub struct Arrivals<T: 'static>(Option<&'static T>);

impl<T: Linked> Inbox<T> {
    /// An inbox for a thread.
    pub fn for_thread() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            state: AtomicU32::new(AWAKE),
            slept: AtomicBool::new(false),
            notifier: Mutex::new(None),
            notified: Condvar::new(),
        }
    }

    /// Puts a waiter into the inbox and wakes the thread there. Called by [`crate::Delivery::send`].
    pub(crate) fn deliver(&self, waiter: &'static T) {
        let mut head = self.head.load(Relaxed);
        loop {
            waiter.link().0.store(head, Relaxed);
            let release = or_planted!(Release, "deliver-relaxed" => Relaxed);
            match self.head.compare_exchange_weak(head, ptr::from_ref(waiter).cast_mut(), release, Relaxed) {
                Ok(_) => break,
                Err(changed) => head = changed,
            }
        }
        self.notify();
    }

    /// Wakes the thread if it sleeps or is about to.
    pub fn notify(&self) {
        or_planted!(fence(SeqCst), "notify-without-fence" => ()); // pairs with the fence in `fall_asleep`
        if self.state.load(Relaxed) == SLEEPING {
            self.notify_sleeper();
        }
    }

    #[cold]
    fn notify_sleeper(&self) {
        let elsewhere = lock(&self.notifier);
        if self.state.load(Relaxed) == SLEEPING {
            tally::count_signal(); // else another thread was quicker
            elsewhere.iter().for_each(|place| place.notify());
        }
        self.state.store(AWAKE, Relaxed); // under the lock, so the sleeper sees it before it waits
        self.notified.notify_one();
    }

    /// Whether waiters are waiting to be taken in.
    #[inline]
    pub fn has_arrivals(&self) -> bool {
        !self.head.load(Relaxed).is_null()
    }

    /// How many waiters are waiting to be taken in, counted up to `at_most`. For observers: meanwhile the thread may take them.
    pub fn arrivals_len(&self, at_most: usize) -> usize {
        let mut newest = self.head.load(Acquire);
        let mut count = 0;
        // SAFETY: the inbox links `&'static T`s, which are never freed. One that is taken in meanwhile leads elsewhere or nowhere: then the count
        // is wrong, but bounded.
        while let Some(waiter) = unsafe { newest.as_ref() } {
            if count == at_most {
                break;
            }
            newest = waiter.link().0.load(Relaxed);
            count += 1;
        }
        count
    }

    /// Takes in what has arrived, oldest first.
    pub fn arrivals(&self) -> Arrivals<T> {
        let mut newest = self.head.swap(ptr::null_mut(), Acquire);
        let mut oldest_first = None;
        // SAFETY: the inbox links `&'static T`s, and the swap made the whole chain ours.
        while let Some(waiter) = unsafe { newest.as_ref() } {
            newest = waiter.link().0.load(Relaxed);
            waiter.link().set_next(oldest_first);
            oldest_first = Some(waiter);
        }
        Arrivals(oldest_first)
    }

    /// Announces sleep. The thread must now look at everything it could be woken for, then [`Inbox::sleep`] or
    /// [`Inbox::stay_awake`].
    pub fn fall_asleep(&self) {
        self.slept.store(false, Relaxed);
        self.state.store(SLEEPING, Relaxed);
        or_planted!(fence(SeqCst), "sleep-without-fence" => ()); // pairs with the fence in `notify`
    }

    /// Takes the announcement back.
    pub fn stay_awake(&self) {
        self.state.store(AWAKE, Relaxed);
    }

    /// Whether the thread slept since it last announced sleep. Owner only.
    pub(crate) fn has_slept(&self) -> bool {
        self.slept.load(Relaxed)
    }

    /// Sleeps until notified, or until the deadline. Says whether it was notified.
    pub fn sleep(&self, deadline: Option<Instant>) -> bool {
        self.slept.store(true, Relaxed);
        let mut notifier = lock(&self.notifier);
        while or_planted!(self.state.load(Relaxed) == SLEEPING, "sleep-without-look" => true) {
            match deadline {
                None => notifier = self.notified.wait(notifier).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.state.store(AWAKE, Relaxed);
                        return false;
                    }
                    let waited = self.notified.wait_timeout(notifier, left);
                    notifier = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                }
            }
        }
        true
    }
}

impl<T: Linked> Inbox<T> {
    /// Sleeps in `wait`, which ends when `place` is notified, also if that was before it began; or when it likes. Not begun if the thread was notified meanwhile.
    pub fn sleep_elsewhere(&self, place: &'static dyn Notify, wait: impl FnOnce()) {
        self.slept.store(true, Relaxed);
        {
            let mut notifier = lock(&self.notifier);
            if or_planted!(self.state.load(Relaxed) != SLEEPING, "sleep-elsewhere-without-look" => false) {
                return;
            }
            *notifier = Some(place); // under the same lock: who notifies from now on reaches it there
        }
        wait();
        *lock(&self.notifier) = None;
    }
}

impl<T: Linked> Iterator for Arrivals<T> {
    type Item = &'static T;

    fn next(&mut self) -> Option<&'static T> {
        let waiter = self.0.take()?;
        self.0 = waiter.link().next();
        waiter.link().set_next(None);
        Some(waiter)
    }
}
