//! A queue of waiters, woken in the order they came.
//!
//! Room: mechanism. Knows tokens, their order and their claims; knows nothing of what is waited for.
//!
//! # Invariants
//! 1. A waiter that enlists and then finds nothing to take is seen by every thread that leaves something and then looks
//!    for waiters.
//! 2. A wake claims one live wait of the queue, the oldest, if there is one.
//!
//! # Why they hold
//! 1. `enlist` stores the length with SeqCst and then looks (SeqCst); the other side leaves something by a SeqCst operation and then loads the length
//!    with SeqCst. All four are in one order: the look sees what was left, or the load sees the length. Other changes of the length are made under the lock,
//!    after the wait they take out was claimed.
//! 2. Waits are claimed under the lock, in order; one that is over already cannot be claimed, and is skipped.
//!
//! A wait that ends otherwise leaves its entry to be swept: by claims that skip it, or all at once when half of the
//! entries are dead. So leaving costs the same however long the queue is, and a queue is never more than twice as long
//! as needed.

use std::{
    collections::VecDeque,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};

use mech_sync::{CodedToken, Delivery, SpinLock, WaitToken, Wake};

use crate::strand;

/// Waits in the order they came, each with a note. To be kept under a lock.
#[derive(Debug)]
pub(crate) struct WaitList<N = ()> {
    queue: VecDeque<Wait<N>>,
    /// About how many entries belong to waits that have ended.
    over: usize,
}

#[derive(Debug)]
struct Wait<N> {
    wait: CodedToken,
    note: N,
}

impl<N> WaitList<N> {
    pub(crate) const fn new() -> Self {
        Self { queue: VecDeque::new(), over: 0 }
    }

    /// Adds a wait that is claimed with `code`.
    #[inline]
    pub(crate) fn push(&mut self, token: WaitToken, code: u16, note: N) {
        self.queue.push_back(Wait { wait: token.with_code(code), note });
    }

    /// Adds a wait that goes before all others.
    pub(crate) fn push_front(&mut self, token: WaitToken, code: u16, note: N) {
        self.queue.push_front(Wait { wait: token.with_code(code), note });
    }

    /// A wait of this list has ended, and was not claimed from it.
    pub(crate) fn leave(&mut self) {
        self.over += 1;
        if self.over * 2 > self.queue.len() {
            self.queue.retain(|entry| !entry.wait.token().is_woken());
            self.over = 0;
        }
    }

    /// Claims the oldest wait. The caller wakes it after it has released the lock.
    #[inline]
    pub(crate) fn claim(&mut self) -> Option<Claimed> {
        self.claim_if(|_| true)
    }

    /// Claims the oldest wait if its note says so.
    #[inline]
    pub(crate) fn claim_if(&mut self, mut wanted: impl FnMut(&N) -> bool) -> Option<Claimed> {
        while let Some(Wait { wait, note }) = self.queue.front() {
            let (token, code) = (wait.token(), wait.code());
            if !wanted(note) && !token.is_woken() {
                return None;
            }
            self.queue.pop_front();
            match token.wake(code) {
                Wake::Parked(delivery) => return Some(Claimed { token, code, delivery: Some(delivery) }),
                Wake::Awake => return Some(Claimed { token, code, delivery: None }),
                Wake::Stale => self.over = self.over.saturating_sub(1),
            }
        }
        None
    }

    /// Claims all.
    pub(crate) fn claim_all(&mut self) -> Vec<Claimed> {
        std::iter::from_fn(|| self.claim()).collect()
    }

    /// Whether a waiter other than the owner of `token` waits here.
    pub(crate) fn any_other_than(&self, token: WaitToken) -> bool {
        self.queue
            .iter()
            .map(|entry| entry.wait.token())
            .any(|wait| !std::ptr::eq(wait.waiter(), token.waiter()) && !wait.is_woken())
    }

    /// Whether a waiter waits here.
    pub(crate) fn any(&self) -> bool {
        self.queue.iter().any(|entry| !entry.wait.token().is_woken())
    }

    /// How many entries there are, also of waits that have ended.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// A wait that we have ended.
#[derive(Debug)]
#[must_use = "it sleeps until it is delivered"]
pub(crate) struct Claimed {
    pub(crate) token: WaitToken,
    pub(crate) code: u16,
    delivery: Option<Delivery>,
}

impl Claimed {
    /// Wakes its owner. Not under a lock: that may run a foreign waker.
    #[inline]
    pub(crate) fn go(self) {
        if let Some(delivery) = self.delivery {
            strand::deliver(delivery);
        }
    }
}

/// A wait list with its lock, and a length that can be read without it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WaitQueue {
    len: AtomicUsize,
    waits: SpinLock<WaitList>,
}

impl WaitQueue {
    pub(crate) const fn new() -> Self {
        Self { len: AtomicUsize::new(0), waits: SpinLock::new(WaitList::new()) }
    }

    /// Adds a wait. The caller must now check again whether it has to wait.
    #[inline]
    pub(crate) fn enlist(&self, token: WaitToken, code: u16) {
        let mut waits = self.waits.lock();
        waits.push(token, code, ());
        self.len.store(waits.len(), SeqCst);
    }

    /// A wait has ended, and was not claimed from this queue.
    pub(crate) fn leave(&self) {
        let mut waits = self.waits.lock();
        waits.leave();
        self.len.store(waits.len(), Relaxed);
    }

    /// Wakes the oldest waiter. True if there was one.
    #[inline]
    pub(crate) fn wake_one(&self) -> bool {
        self.len.load(SeqCst) != 0 && self.wake_first()
    }

    fn wake_first(&self) -> bool {
        let claimed = {
            let mut waits = self.waits.lock();
            let claimed = waits.claim();
            self.len.store(waits.len(), Relaxed);
            claimed
        };
        claimed.map(Claimed::go).is_some()
    }

    /// Wakes all. Returns how many there were.
    pub(crate) fn wake_all(&self) -> usize {
        if self.len.load(SeqCst) == 0 {
            return 0;
        }
        let claimed = {
            let mut waits = self.waits.lock();
            let claimed = waits.claim_all();
            self.len.store(waits.len(), Relaxed);
            claimed
        };
        let count = claimed.len();
        claimed.into_iter().for_each(Claimed::go);
        count
    }
}
