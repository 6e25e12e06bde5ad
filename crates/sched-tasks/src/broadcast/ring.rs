//! The values that a broadcast channel keeps, and who waits for the next.
//!
//! Room: mechanism.
//!
//! # Invariants
//! 1. A receiver gets every value that was sent after it was made, in order; or is told how many of them were dropped because the ring was full.
//! 2. A value is kept only as long as a receiver has not read it, and at most `capacity` are.
//! 3. A receiver that waits has read everything, and there is a sender.
//!
//! # Why they hold
//! 1. Values are numbered. A receiver has the number of the next one it reads, its cursor; what lies between the cursor and the oldest that is kept was dropped unread.
//! 2. Each value has the number of receivers that have not read it, and goes with the last of them. Who has not read a value has not read the next one either, so values go from the front.
//! 3. It enlists under the lock under which that is seen; a send, and the end of the last sender, claim all waits.
//!
//! Cursors are atomic only so that a receiver can be shared: they are read and written under the lock of the channel. Values are cloned and dropped outside of it.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use mech_sync::{SpinLock, WaitToken};
use policy_admission::ChannelPermit;

use super::error::RecvError;
use crate::wait_queue::{Claimed, WaitList};

pub(super) struct Shared<T> {
    state: SpinLock<State<T>>,
    capacity: usize,
    /// It is counted as open until both ends are gone.
    _permits: Vec<ChannelPermit>,
}

struct State<T> {
    ring: VecDeque<Slot<T>>,
    /// The number of the oldest value in the ring; of the next one, if there is none.
    first: u64,
    senders: usize,
    receivers: usize,
    waits: WaitList,
}

struct Slot<T> {
    value: Arc<T>,
    /// So many receivers have not read it.
    unread: usize,
}

/// The number of the next value that a receiver reads.
pub(super) struct Cursor(AtomicU64);

impl Cursor {
    pub(super) fn new(at: u64) -> Self {
        Self(AtomicU64::new(at))
    }
}

impl<T> State<T> {
    fn next(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Whether there is something for a receiver: a value, the number of those it has missed, or the end.
    fn is_ready(&self, cursor: &Cursor) -> bool {
        cursor.0.load(Relaxed) < self.next() || self.senders == 0
    }

    /// Reads a value for a receiver.
    fn read(&mut self, number: u64) -> Option<Arc<T>> {
        let shared = self.ring.get((number - self.first) as usize).filter(|slot| slot.unread > 1);
        let shared = shared.map(|slot| slot.value.clone());
        self.pass(number).or(shared)
    }

    /// A receiver will not read this value any more. The last one takes it out.
    fn pass(&mut self, number: u64) -> Option<Arc<T>> {
        let slot = self.ring.get_mut((number - self.first) as usize)?;
        slot.unread -= 1;
        if slot.unread > 0 {
            return None;
        }
        debug_assert_eq!(number, self.first, "who has not read a value has not read the next one");
        self.first += 1;
        self.ring.pop_front().map(|slot| slot.value)
    }
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize, permits: Vec<ChannelPermit>) -> Self {
        let state = State { ring: VecDeque::new(), first: 0, senders: 1, receivers: 1, waits: WaitList::new() };
        Self { state: SpinLock::new(state), capacity, _permits: permits }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many receivers there are.
    pub(super) fn receivers(&self) -> usize {
        self.state.lock().receivers
    }

    /// Whether every sender is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().senders == 0
    }

    /// Adds a value, and says how many receivers will see it, and which value was dropped for it. It comes back if there is no receiver.
    pub(super) fn send(&self, value: Arc<T>) -> Result<(usize, Option<Arc<T>>), Arc<T>> {
        let (receivers, dropped, woken) = {
            let mut state = self.state.lock();
            let receivers = state.receivers;
            if receivers == 0 {
                return Err(value);
            }
            let mut dropped = None;
            if state.ring.len() == self.capacity {
                dropped = state.ring.pop_front().map(|slot| slot.value);
                state.first += 1;
            }
            state.ring.push_back(Slot { value, unread: receivers });
            (receivers, dropped, state.waits.claim_all())
        };
        woken.into_iter().for_each(Claimed::go);
        Ok((receivers, dropped))
    }

    pub(super) fn add_sender(&self) {
        self.state.lock().senders += 1;
    }

    pub(super) fn remove_sender(&self) {
        let woken = {
            let mut state = self.state.lock();
            state.senders -= 1;
            if state.senders == 0 { state.waits.claim_all() } else { Vec::new() }
        };
        woken.into_iter().for_each(Claimed::go);
    }

    /// Counts one more receiver, and says where it begins.
    pub(super) fn add_receiver(&self) -> u64 {
        let mut state = self.state.lock();
        state.receivers += 1;
        state.next()
    }

    /// A receiver is gone. Returns what it alone had not read.
    pub(super) fn remove_receiver(&self, cursor: &Cursor) -> Vec<Arc<T>> {
        let mut state = self.state.lock();
        state.receivers -= 1;
        let unread = cursor.0.load(Relaxed).max(state.first)..state.next();
        unread.filter_map(|number| state.pass(number)).collect()
    }

    /// How many values a receiver has not read, of those that are kept.
    pub(super) fn len(&self, cursor: &Cursor) -> usize {
        let state = self.state.lock();
        (state.next() - cursor.0.load(Relaxed).max(state.first)) as usize
    }

    /// The next value for a receiver, or why there is none. Nothing if it has read everything.
    pub(super) fn recv(&self, cursor: &Cursor) -> Option<Result<Arc<T>, RecvError>> {
        let mut state = self.state.lock();
        let number = cursor.0.load(Relaxed);
        if number < state.first {
            cursor.0.store(state.first, Relaxed);
            return Some(Err(RecvError::Lagged(state.first - number)));
        }
        if let Some(value) = state.read(number) {
            cursor.0.store(number + 1, Relaxed);
            return Some(Ok(value));
        }
        (state.senders == 0).then_some(Err(RecvError::Closed))
    }

    /// Enlists a receiver, unless there is something for it.
    pub(super) fn enlist(&self, cursor: &Cursor, token: WaitToken, code: u16) -> bool {
        let mut state = self.state.lock();
        let is_ready = state.is_ready(cursor);
        if !is_ready {
            state.waits.push(token, code, ());
        }
        is_ready
    }

    pub(super) fn leave(&self) {
        self.state.lock().waits.leave();
    }
}
