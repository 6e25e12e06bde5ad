//! A channel without a limit: a queue and its waiters, under one lock.
//!
//! Room: driver.
//!
//! # Invariant
//! While a value is in the queue and a receiver waits, some receiver is awake that will look into the queue before it waits or leaves.
//!
//! # Why it holds
//! As in `bounded`, except that a receiver looks and enlists under the same lock under which a sender leaves its value
//! and claims a receiver. So neither can miss the other.
//!
//! The queue grows by blocks: what is in it is never moved, so the lock is held for a few instructions however much waits.

use std::collections::VecDeque;

use mech_sync::{SpinLock, WaitToken};

use super::error::{TryRecvError, TrySendError};
use crate::wait_queue::{Claimed, WaitList};

/// Values in a block.
const BLOCK: usize = 64;

#[derive(Debug)]
pub(crate) struct Unbounded<T> {
    state: SpinLock<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    blocks: VecDeque<VecDeque<T>>,
    /// An empty block to be used next.
    spare: Option<VecDeque<T>>,
    len: usize,
    receivers: WaitList,
    closed: bool,
}

impl<T> State<T> {
    fn push(&mut self, value: T) {
        self.len += 1;
        match self.blocks.back_mut() {
            Some(block) if block.len() < block.capacity() => block.push_back(value),
            _ => {
                let mut block = self.spare.take().unwrap_or_else(|| VecDeque::with_capacity(BLOCK));
                block.push_back(value);
                self.blocks.push_back(block);
            }
        }
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.blocks.front_mut()?;
        let value = first.pop_front()?;
        if first.is_empty() && self.blocks.len() > 1 {
            self.spare = self.blocks.pop_front();
        }
        self.len -= 1;
        Some(value)
    }

    fn can_recv(&self) -> bool {
        self.len > 0 || self.closed
    }
}

impl<T> Unbounded<T> {
    pub(super) fn new() -> Self {
        let state = State { blocks: VecDeque::new(), spare: None, len: 0, receivers: WaitList::new(), closed: false };
        Self { state: SpinLock::new(state) }
    }

    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let claimed = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(TrySendError::Closed(value));
            }
            state.push(value);
            state.receivers.claim()
        };
        if let Some(claimed) = claimed {
            claimed.go();
        }
        Ok(())
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.state.lock();
        match state.pop() {
            Some(value) => Ok(value),
            None if state.closed => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    pub(super) fn can_recv(&self) -> bool {
        self.state.lock().can_recv()
    }

    pub(super) fn enlist_recv(&self, token: WaitToken, code: u16) -> bool {
        let mut state = self.state.lock();
        let ready = state.can_recv();
        if !ready {
            state.receivers.push(token, code, ());
        }
        ready
    }

    pub(super) fn leave_recv(&self) {
        self.state.lock().receivers.leave();
    }

    pub(super) fn pass_on_recv(&self) {
        let claimed = {
            let mut state = self.state.lock();
            if state.can_recv() { state.receivers.claim() } else { None }
        };
        if let Some(claimed) = claimed {
            claimed.go();
        }
    }

    pub(super) fn close(&self) -> bool {
        let (was_closed, claimed) = {
            let mut state = self.state.lock();
            (std::mem::replace(&mut state.closed, true), state.receivers.claim_all())
        };
        claimed.into_iter().for_each(Claimed::go);
        !was_closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().len
    }
}
