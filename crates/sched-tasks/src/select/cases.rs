//! Receiving and sending, as cases of a [`Select`](super::Select).
//!
//! Room: interface.
//!
//! # Invariant
//! A case that was not completed has its value, and has taken none.
//!
//! # Why it holds
//! Its steps are those of a channel operation that waits, in `channel/core.rs`.

use std::fmt;

use mech_sync::WaitToken;

use super::{Case, Steps};
use crate::channel::{Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};

/// Receiving, as a case; made by [`Receiver::case`].
///
/// ```
/// use bursar::{channel, mpmc::Select};
///
/// let (tx, rx) = channel(1);
/// tx.send(1)?;
/// let mut case = rx.case();
/// assert_eq!(Select::new().with(&mut case).wait(), Some(0));
/// assert_eq!(case.take(), Ok(1));
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[must_use = "a case is completed by a select"]
pub struct RecvCase<'a, T> {
    receiver: &'a Receiver<T>,
    outcome: Option<Result<T, RecvError>>,
}

/// Sending a value, as a case; made by [`Sender::case`].
///
/// ```
/// use bursar::{channel, mpmc::Select};
///
/// let (tx, rx) = channel(1);
/// let mut case = tx.case("hello");
/// assert_eq!(Select::new().with(&mut case).wait(), Some(0));
/// assert_eq!((case.take(), rx.recv()), (Ok(()), Ok("hello")));
/// ```
#[must_use = "a case is completed by a select"]
pub struct SendCase<'a, T> {
    sender: &'a Sender<T>,
    slot: Option<T>,
    outcome: Option<Result<(), SendError<T>>>,
}

impl<T> Receiver<T> {
    /// Receiving from this channel, as a case of a [`Select`](crate::Select).
    pub fn case(&self) -> RecvCase<'_, T> {
        RecvCase { receiver: self, outcome: None }
    }
}

impl<T> Sender<T> {
    /// Sending `value`, as a case of a [`Select`](crate::Select).
    pub fn case(&self, value: T) -> SendCase<'_, T> {
        SendCase { sender: self, slot: Some(value), outcome: None }
    }
}

impl<T> RecvCase<'_, T> {
    /// Whether a select completed it.
    pub fn is_done(&self) -> bool {
        self.outcome.is_some()
    }

    /// What [`Receiver::recv`] would have returned.
    ///
    /// # Panics
    /// If no select completed it.
    pub fn take(&mut self) -> Result<T, RecvError> {
        self.outcome.take().expect("only a completed case has an outcome; ask `is_done`, or the select for its number")
    }
}

impl<T> SendCase<'_, T> {
    /// Whether a select completed it.
    pub fn is_done(&self) -> bool {
        self.outcome.is_some()
    }

    /// What [`Sender::send`] would have returned.
    ///
    /// # Panics
    /// If no select completed it.
    pub fn take(&mut self) -> Result<(), SendError<T>> {
        self.outcome.take().expect("only a completed case has an outcome; ask `is_done`, or the select for its number")
    }

    /// The value, if it was not sent.
    pub fn into_value(self) -> Option<T> {
        match self.outcome {
            Some(Err(SendError(value))) => Some(value),
            _ => self.slot,
        }
    }
}

impl<T> Case for RecvCase<'_, T> {}
impl<T> Case for SendCase<'_, T> {}

impl<T> Steps for RecvCase<'_, T> {
    fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    fn attempt(&mut self) -> bool {
        self.outcome = match self.receiver.core().try_recv() {
            Ok(value) => Some(Ok(value)),
            Err(TryRecvError::Closed) => Some(Err(RecvError)),
            Err(TryRecvError::Empty) => None,
        };
        self.outcome.is_some()
    }

    fn enlist(&mut self, token: WaitToken, code: u16) -> bool {
        self.receiver.core().enlist_recv(token, code)
    }

    fn leave(&mut self, token: WaitToken, _: u16) {
        self.receiver.core().leave_recv(token);
    }

    fn claimed(&mut self, token: WaitToken, _: u16) -> bool {
        self.outcome = self.receiver.core().claimed_recv(token).map(Ok);
        self.outcome.is_some() || self.attempt()
    }
}

impl<T> Steps for SendCase<'_, T> {
    fn is_open(&self) -> bool {
        self.slot.is_some()
    }

    fn attempt(&mut self) -> bool {
        let value = self.slot.take().expect("a case that is not done has its value");
        self.outcome = match self.sender.core().try_send(value) {
            Ok(()) => Some(Ok(())),
            Err(TrySendError::Closed(value)) => Some(Err(SendError(value))),
            Err(TrySendError::Full(value)) => {
                self.slot = Some(value);
                None
            }
        };
        self.outcome.is_some()
    }

    fn enlist(&mut self, token: WaitToken, code: u16) -> bool {
        self.sender.core().enlist_send(token, code, &mut self.slot)
    }

    fn leave(&mut self, token: WaitToken, code: u16) {
        self.sender.core().leave_send(token, code, &mut self.slot);
    }

    fn claimed(&mut self, token: WaitToken, code: u16) -> bool {
        self.sender.core().claimed_send(token, code, &mut self.slot);
        if self.slot.is_none() {
            self.outcome = Some(Ok(()));
            return true;
        }
        self.attempt()
    }
}

impl<T> fmt::Debug for RecvCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SendCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").field("done", &self.is_done()).finish_non_exhaustive()
    }
}
