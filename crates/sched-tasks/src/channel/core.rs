//! What every kind of channel can do, and how fibers and threads wait for it.
//!
//! Room: driver.
//!
//! # Invariant
//! A value belongs to the sender, to the channel, or to the receiver; never to none and never to two. An operation that
//! unwinds has not taken anything from the channel.
//!
//! # Why it holds
//! An operation *tries*; if that fails it *enlists* its token and tries once more; then it waits. It unwinds only on
//! entry and after [`End::Cancelled`], when its token was not claimed and has been taken off the list. If it was
//! claimed it tries again, cancelled or not.

use std::time::{Duration, Instant};

use mech_sync::WaitToken;

use super::{
    bounded::Bounded,
    error::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError},
    rendezvous::Rendezvous,
    timer::Timer,
    unbounded::Unbounded,
};
use crate::{
    strand::Strand,
    wait::{self, End},
};

/// The kinds of channel.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one per channel, and behind an `Arc`
pub(crate) enum Core<T> {
    Bounded(Bounded<T>),
    Unbounded(Unbounded<T>),
    Rendezvous(Rendezvous<T>),
    Timer(Timer<T>),
}

impl<T> Core<T> {
    pub(super) fn bounded(capacity: usize) -> Self {
        if capacity == 0 { Self::Rendezvous(Rendezvous::new()) } else { Self::Bounded(Bounded::new(capacity)) }
    }

    pub(super) fn unbounded() -> Self {
        Self::Unbounded(Unbounded::new())
    }

    pub(super) fn timer(due: Instant, period: Option<Duration>, value: fn(Instant) -> T) -> Self {
        Self::Timer(Timer::new(due, period, value))
    }

    // ---- steps of an operation ----

    /// Sends if that can be done at once.
    #[inline(always)]
    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self {
            Self::Bounded(channel) => channel.try_send(value),
            Self::Unbounded(channel) => channel.try_send(value),
            _ => self.try_send_unbuffered(value),
        }
    }

    /// Out of line: what has a buffer is not to pay for these.
    #[inline(never)]
    fn try_send_unbuffered(&self, value: T) -> Result<(), TrySendError<T>> {
        match self {
            Self::Rendezvous(channel) => channel.try_send(value),
            _ => Err(TrySendError::Closed(value)), // only time sends into a timer
        }
    }

    /// Receives if that can be done at once.
    #[inline(always)]
    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        match self {
            Self::Bounded(channel) => channel.try_recv(),
            Self::Unbounded(channel) => channel.try_recv(),
            _ => self.try_recv_unbuffered(),
        }
    }

    #[inline(never)]
    fn try_recv_unbuffered(&self) -> Result<T, TryRecvError> {
        match self {
            Self::Rendezvous(channel) => channel.try_recv(),
            Self::Timer(timer) => timer.try_recv(),
            Self::Bounded(_) | Self::Unbounded(_) => Err(TryRecvError::Empty), // it has a buffer
        }
    }

    /// Enlists a sender that has `slot` to send. True if it should not wait but try again.
    pub(crate) fn enlist_send(&self, token: WaitToken, code: u16, slot: &mut Option<T>) -> bool {
        match self {
            Self::Bounded(channel) => channel.enlist_send(token, code),
            Self::Unbounded(_) | Self::Timer(_) => true,
            Self::Rendezvous(channel) => channel.enlist_send(token, code, slot),
        }
    }

    /// Enlists a receiver. True if it should not wait but try again.
    #[inline]
    pub(crate) fn enlist_recv(&self, token: WaitToken, code: u16) -> bool {
        match self {
            Self::Bounded(channel) => channel.enlist_recv(token, code),
            Self::Unbounded(channel) => channel.enlist_recv(token, code),
            Self::Rendezvous(channel) => channel.enlist_recv(token, code),
            Self::Timer(timer) => timer.enlist(token, code),
        }
    }

    /// A sender's wait ended without a claim here: it is off the list, and has its value again.
    pub(crate) fn leave_send(&self, token: WaitToken, code: u16, slot: &mut Option<T>) {
        match self {
            Self::Bounded(channel) => channel.leave_send(),
            Self::Unbounded(_) | Self::Timer(_) => {}
            Self::Rendezvous(channel) => channel.retract(token, code, slot),
        }
    }

    /// A receiver's wait ended without a claim here: it is off the list.
    pub(crate) fn leave_recv(&self, token: WaitToken) {
        match self {
            Self::Bounded(channel) => channel.leave_recv(),
            Self::Unbounded(channel) => channel.leave_recv(),
            Self::Rendezvous(channel) => channel.leave_recv(),
            Self::Timer(timer) => timer.leave(token),
        }
    }

    /// A sender was claimed. Either its value is sent, or it has it again and should try.
    pub(crate) fn claimed_send(&self, token: WaitToken, code: u16, slot: &mut Option<T>) {
        if let Self::Rendezvous(channel) = self {
            channel.retract(token, code, slot);
        }
    }

    /// A receiver was claimed. Either here is its value, or it should try.
    #[inline]
    pub(crate) fn claimed_recv(&self, token: WaitToken) -> Option<T> {
        match self {
            Self::Bounded(_) | Self::Unbounded(_) => None,
            Self::Rendezvous(channel) => channel.fetch(token),
            Self::Timer(timer) => {
                timer.leave(token);
                None
            }
        }
    }

    /// A sender was claimed and will not send.
    pub(crate) fn pass_on_send(&self, token: WaitToken, code: u16, slot: &mut Option<T>) {
        match self {
            Self::Bounded(channel) => channel.pass_on_send(),
            Self::Unbounded(_) | Self::Timer(_) => {}
            Self::Rendezvous(channel) => channel.retract(token, code, slot),
        }
    }

    /// A receiver was claimed and will not receive.
    pub(crate) fn pass_on_recv(&self, token: WaitToken) {
        match self {
            Self::Bounded(channel) => channel.pass_on_recv(),
            Self::Unbounded(channel) => channel.pass_on_recv(),
            Self::Rendezvous(channel) => channel.pass_on_recv(token),
            Self::Timer(timer) => timer.leave(token), // each of the others has an alarm of its own
        }
    }

    // ---- whole operations ----

    /// Sends, waiting until there is room.
    #[inline(always)]
    pub(super) fn send(&self, strand: &Strand, value: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        strand.checkpoint();
        strand.charge_channel_op();
        match self.try_send(value) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(value)) => Err(SendTimeoutError::Closed(value)),
            Err(TrySendError::Full(value)) => self.send_slowly(strand, value, deadline),
        }
    }

    #[inline(never)]
    fn send_slowly(&self, strand: &Strand, value: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        if let Self::Bounded(channel) = self {
            wait::spin_until(strand, || channel.can_send());
        }
        let mut slot = Some(value);
        let mut timed_out = false;
        while let Some(value) = slot.take() {
            match self.try_send(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(value)) => return Err(SendTimeoutError::Closed(value)),
                Err(TrySendError::Full(value)) if timed_out => return Err(SendTimeoutError::Timeout(value)),
                Err(TrySendError::Full(value)) => slot = Some(value),
            }
            let token = strand.token();
            if self.enlist_send(token, 0, &mut slot) && token.withdraw() {
                self.leave_send(token, 0, &mut slot);
                continue;
            }
            match wait::wait(strand, token, deadline) {
                End::Claimed(_) => self.claimed_send(token, 0, &mut slot),
                End::TimedOut => {
                    self.leave_send(token, 0, &mut slot);
                    timed_out = true;
                }
                End::Cancelled => {
                    self.leave_send(token, 0, &mut slot);
                    strand.unwind();
                }
            }
        }
        Ok(()) // a receiver took the value
    }

    /// Receives, waiting until there is something.
    #[inline(always)]
    pub(super) fn recv(&self, strand: &Strand, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        strand.checkpoint();
        strand.charge_channel_op();
        match self.try_recv() {
            Ok(value) => Ok(value),
            Err(TryRecvError::Closed) => Err(RecvTimeoutError::Closed),
            Err(TryRecvError::Empty) => self.recv_slowly(strand, deadline),
        }
    }

    /// Inlined for the same reason as [`Strand::wait`]: most receivers wait, and two mispredicted branches cost more
    /// than all of this.
    #[inline(always)]
    fn recv_slowly(&self, strand: &Strand, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let seen = match self {
            Self::Bounded(channel) => wait::spin_until(strand, || channel.can_recv()),
            Self::Unbounded(channel) => wait::spin_until(strand, || channel.can_recv()),
            Self::Rendezvous(_) | Self::Timer(_) => false,
        };
        let mut timed_out = false;
        let mut try_first = seen;
        if !seen && wait::linger(strand) {
            let found = self.try_recv();
            wait::lingered(strand, found.is_ok());
            if let Ok(value) = found {
                return Ok(value);
            }
        }
        loop {
            if try_first {
                match self.try_recv() {
                    Ok(value) => return Ok(value),
                    Err(TryRecvError::Closed) => return Err(RecvTimeoutError::Closed),
                    Err(TryRecvError::Empty) if timed_out => return Err(RecvTimeoutError::Timeout),
                    Err(TryRecvError::Empty) => {}
                }
            }
            try_first = true;
            let token = strand.token();
            if self.enlist_recv(token, 0) && token.withdraw() {
                self.leave_recv(token);
                continue;
            }
            match wait::wait(strand, token, deadline) {
                End::Claimed(_) => {
                    if let Some(value) = self.claimed_recv(token) {
                        return Ok(value);
                    }
                }
                End::TimedOut => {
                    self.leave_recv(token);
                    timed_out = true;
                }
                End::Cancelled => {
                    self.leave_recv(token);
                    strand.unwind();
                }
            }
        }
    }

    // ---- about the channel ----

    /// Lets nothing more be sent. True for the caller that closed it.
    pub(super) fn close(&self) -> bool {
        match self {
            Self::Bounded(channel) => channel.close(),
            Self::Unbounded(channel) => channel.close(),
            Self::Rendezvous(channel) => channel.close(),
            Self::Timer(timer) => timer.close(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Bounded(channel) => channel.is_closed(),
            Self::Unbounded(channel) => channel.is_closed(),
            Self::Rendezvous(channel) => channel.is_closed(),
            Self::Timer(timer) => timer.is_closed(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bounded(channel) => channel.len(),
            Self::Unbounded(channel) => channel.len(),
            Self::Rendezvous(channel) => channel.len(),
            Self::Timer(timer) => timer.len(),
        }
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        match self {
            Self::Bounded(channel) => Some(channel.capacity()),
            Self::Unbounded(_) => None,
            Self::Rendezvous(_) => Some(0),
            Self::Timer(_) => Some(1),
        }
    }
}
