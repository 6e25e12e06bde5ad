//! What both ends of a watch channel share: the newest value, its version, and who waits.
//!
//! Room: mechanism.
//!
//! # Invariant
//! A receiver that waits has seen the newest version, and the sender is there. A sender that waits for the end of all receivers has at least one.
//!
//! # Why it holds
//! Both are looked at under the lock under which the wait is enlisted; what changes one of them claims all waits for it under that lock.

use std::sync::Arc;

use mech_sync::{SpinLock, WaitToken};
use policy_admission::ChannelPermit;

use crate::{
    channel::RecvError,
    strand::panics,
    sync::Mutex,
    wait_queue::{Claimed, WaitList},
};

pub(super) struct Shared<T> {
    state: SpinLock<State<T>>,
    /// Held while the next value is made.
    pub(super) sending: Mutex<()>,
    /// It is counted as open until both ends are gone.
    _permits: Vec<ChannelPermit>,
}

struct State<T> {
    newest: Arc<T>,
    version: u64,
    receivers: usize,
    is_closed: bool,
    /// Receivers that wait for a change.
    readers: WaitList,
    /// Senders that wait until there is no receiver.
    leavers: WaitList,
}

impl<T> Shared<T> {
    pub(super) fn new(initial: T, permits: Vec<ChannelPermit>) -> Self {
        let state = State {
            newest: Arc::new(initial),
            version: 0,
            receivers: 1,
            is_closed: false,
            readers: WaitList::new(),
            leavers: WaitList::new(),
        };
        Self { state: SpinLock::new(state), sending: Mutex::new(()), _permits: permits }
    }

    /// The newest value and its version.
    pub(super) fn newest(&self) -> (Arc<T>, u64) {
        let state = self.state.lock();
        (state.newest.clone(), state.version)
    }

    pub(super) fn version(&self) -> u64 {
        self.state.lock().version
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    pub(super) fn receivers(&self) -> usize {
        self.state.lock().receivers
    }

    /// Puts `value` in the place of the newest, which it returns, and wakes all who wait for a change.
    pub(super) fn publish(&self, value: Arc<T>) -> Arc<T> {
        let (before, woken) = {
            let mut state = self.state.lock();
            state.version += 1;
            (std::mem::replace(&mut state.newest, value), state.readers.claim_all())
        };
        woken.into_iter().for_each(Claimed::go);
        before
    }

    /// No value comes any more.
    pub(super) fn close(&self) {
        let woken = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.readers.claim_all()
        };
        woken.into_iter().for_each(Claimed::go);
    }

    // ---- receivers ----

    pub(super) fn add_receiver(&self) {
        self.state.lock().receivers += 1;
    }

    pub(super) fn remove_receiver(&self) {
        let woken = {
            let mut state = self.state.lock();
            state.receivers -= 1;
            if state.receivers == 0 { state.leavers.claim_all() } else { Vec::new() }
        };
        woken.into_iter().for_each(Claimed::go);
    }

    /// A value that is newer than version `seen`, with its own version.
    pub(super) fn newer_than(&self, seen: u64) -> Option<Result<(Arc<T>, u64), RecvError>> {
        let state = self.state.lock();
        if state.version > seen {
            return Some(Ok((state.newest.clone(), state.version)));
        }
        state.is_closed.then_some(Err(RecvError))
    }

    /// Enlists a receiver, unless there is something newer than `seen`, or the end.
    pub(super) fn enlist_reader(&self, seen: u64, token: WaitToken, code: u16) -> bool {
        let mut state = self.state.lock();
        let is_ready = state.version > seen || state.is_closed;
        if !is_ready {
            state.readers.push(token, code, ());
        }
        is_ready
    }

    pub(super) fn leave_reader(&self) {
        self.state.lock().readers.leave();
    }

    // ---- senders ----

    /// Enlists a sender that waits until there is no receiver, unless that is so.
    pub(super) fn enlist_leaver(&self, token: WaitToken, code: u16) -> bool {
        let mut state = self.state.lock();
        let is_ready = state.receivers == 0;
        if !is_ready {
            state.leavers.push(token, code, ());
        }
        is_ready
    }

    pub(super) fn leave_leaver(&self) {
        self.state.lock().leavers.leave();
    }
}

/// Drops a value that was replaced: the last reader of it may be us. Never under a lock.
pub(super) fn discard<T>(value: Arc<T>) {
    panics::drop_contained(value);
}
