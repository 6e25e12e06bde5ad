//! A channel without a buffer: a sender and a receiver meet, or wait.
//!
//! Room: driver.
//!
//! # Invariant
//! A value passes from one sender to one receiver, once both have committed. A side that was claimed has committed; a
//! side that took its wait back has not, and a sender then has its value again.
//!
//! # Why it holds
//! Everything happens under one lock. A waiting sender's value is in its offer. The side that finds a counterpart
//! claims it and moves the value in one step: out of the offer, or into `delivered` under the receiver's waiter, where
//! the receiver fetches it before its waiter can wait again. An offer whose wait has ended stays where it is until its
//! owner takes it back, so a stale claim cannot lose a value.
//!
//! No side enlists while a live counterpart waits: of two that come together the second sees the first. Only a select,
//! which waits in several channels, may have to start again because of that.
//!
//! A future that is dropped after it was claimed leaves its value to the next receiver, or to `orphans`, which receivers take from first.

use std::collections::VecDeque;

use mech_sync::{SpinLock, WaitToken, Waiter, Wake};

use super::error::{TryRecvError, TrySendError};
use crate::{
    strand,
    wait_queue::{Claimed, WaitList},
};

#[derive(Debug)]
pub(crate) struct Rendezvous<T> {
    state: SpinLock<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    offers: VecDeque<Offer<T>>,
    receivers: WaitList,
    delivered: VecDeque<(&'static Waiter, T)>,
    orphans: VecDeque<T>,
    closed: bool,
}

#[derive(Debug)]
struct Offer<T> {
    token: WaitToken,
    code: u16,
    value: T,
}

impl<T> State<T> {
    /// Hands `value` to a waiting receiver.
    fn give(&mut self, value: T) -> Result<Claimed, T> {
        match self.receivers.claim() {
            Some(claimed) => {
                self.delivered.push_back((claimed.token.waiter(), value));
                Ok(claimed)
            }
            None => Err(value),
        }
    }

    /// Takes the offer of `token`'s waiter out, if it is still there. A select may have several, with different codes.
    fn retract(&mut self, token: WaitToken, code: u16) -> Option<T> {
        let is_it = |offer: &Offer<T>| std::ptr::eq(offer.token.waiter(), token.waiter()) && offer.code == code;
        let at = self.offers.iter().position(is_it)?;
        self.offers.remove(at).map(|offer| offer.value)
    }

    fn fetch(&mut self, token: WaitToken) -> Option<T> {
        let at = self.delivered.iter().position(|(waiter, _)| std::ptr::eq(*waiter, token.waiter()))?;
        self.delivered.remove(at).map(|(_, value)| value)
    }
}

impl<T> Rendezvous<T> {
    pub(super) fn new() -> Self {
        Self {
            state: SpinLock::new(State {
                offers: VecDeque::new(),
                receivers: WaitList::new(),
                delivered: VecDeque::new(),
                orphans: VecDeque::new(),
                closed: false,
            }),
        }
    }

    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let given = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(TrySendError::Closed(value));
            }
            state.give(value)
        };
        given.map(Claimed::go).map_err(TrySendError::Full)
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.state.lock();
        if let Some(orphan) = state.orphans.pop_front() {
            return Ok(orphan);
        }
        let mut claimed = None;
        for (at, offer) in state.offers.iter().enumerate() {
            match offer.token.wake(offer.code) {
                Wake::Stale => {} // its owner is about to take it back
                Wake::Awake => claimed = Some((at, None)),
                Wake::Parked(delivery) => claimed = Some((at, Some(delivery))),
            }
            if claimed.is_some() {
                break;
            }
        }
        let Some((at, delivery)) = claimed else {
            return Err(if state.closed { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        let offer = state.offers.remove(at).expect("it was there under this lock");
        drop(state);
        if let Some(delivery) = delivery {
            strand::deliver(delivery);
        }
        Ok(offer.value)
    }

    /// Leaves an offer, unless a receiver waits. The value goes into the offer.
    pub(super) fn enlist_send(&self, token: WaitToken, code: u16, slot: &mut Option<T>) -> bool {
        let mut state = self.state.lock();
        let ready = state.closed || state.receivers.any_other_than(token);
        if !ready {
            let value = slot.take().expect("a sender that waits has a value");
            state.offers.push_back(Offer { token, code, value });
        }
        ready
    }

    pub(super) fn enlist_recv(&self, token: WaitToken, code: u16) -> bool {
        let mut state = self.state.lock();
        let others_offer =
            |offer: &Offer<T>| !std::ptr::eq(offer.token.waiter(), token.waiter()) && !offer.token.is_woken();
        let ready = state.closed || !state.orphans.is_empty() || state.offers.iter().any(others_offer);
        if !ready {
            state.receivers.push(token, code, ());
        }
        ready
    }

    /// The wait has ended, claimed or not: the value comes back unless a receiver took it.
    pub(super) fn retract(&self, token: WaitToken, code: u16, slot: &mut Option<T>) {
        if slot.is_none() {
            *slot = self.state.lock().retract(token, code);
        }
    }

    pub(super) fn leave_recv(&self) {
        self.state.lock().receivers.leave();
    }

    /// What a sender left for the claimed `token`; nothing if the channel was closed instead.
    pub(super) fn fetch(&self, token: WaitToken) -> Option<T> {
        self.state.lock().fetch(token)
    }

    /// The claimed `token` does not want its value after all.
    pub(super) fn pass_on_recv(&self, token: WaitToken) {
        let claimed = {
            let mut state = self.state.lock();
            let Some(value) = state.fetch(token) else { return };
            match state.give(value) {
                Ok(claimed) => claimed,
                Err(value) => return state.orphans.push_back(value),
            }
        };
        claimed.go();
    }

    pub(super) fn close(&self) -> bool {
        let (was_closed, receivers, senders) = {
            let mut state = self.state.lock();
            let was_closed = std::mem::replace(&mut state.closed, true);
            let receivers = state.receivers.claim_all();
            // The offers stay: their owners find them untouched, and take them back.
            let senders: Vec<_> = state.offers.iter().map(|offer| (offer.token, offer.code)).collect();
            (was_closed, receivers, senders)
        };
        receivers.into_iter().for_each(Claimed::go);
        for (token, code) in senders {
            strand::wake(token, code);
        }
        !was_closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().orphans.len()
    }
}
