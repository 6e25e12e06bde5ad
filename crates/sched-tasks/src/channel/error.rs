//! Errors of channels. A value that could not be sent comes back.
//!
//! Room: values.

use std::{error::Error, fmt};

/// The channel is closed; the value comes back.
///
/// ```
/// let (tx, rx) = bursar::channel(1);
/// drop(rx);
/// assert_eq!(tx.send("hello").unwrap_err().0, "hello");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why [`Sender::try_send`](super::Sender::try_send) did not send.
///
/// ```
/// use bursar::{channel, mpmc::TrySendError};
///
/// let (tx, _rx) = channel(1);
/// tx.try_send(1)?;
/// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
/// # Ok::<(), TrySendError<i32>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room now, or no receiver waits (capacity 0).
    Full(T),
    /// No receiver is left, or the channel was closed.
    Closed(T),
}

/// Why [`Sender::send_timeout`](super::Sender::send_timeout) did not send.
///
/// ```
/// use std::time::Duration;
/// use bursar::{channel, mpmc::SendTimeoutError};
///
/// let (tx, _rx) = channel(0);
/// assert_eq!(tx.send_timeout(1, Duration::from_millis(1)), Err(SendTimeoutError::Timeout(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room in time.
    Timeout(T),
    /// No receiver is left, or the channel was closed.
    Closed(T),
}

/// The channel is closed, and empty.
///
/// ```
/// use bursar::{channel, mpmc::RecvError};
///
/// let (tx, rx) = channel(1);
/// tx.send(1)?;
/// drop(tx);
/// assert_eq!(rx.recv(), Ok(1)); // what was sent still arrives
/// assert_eq!(rx.recv(), Err(RecvError));
/// # Ok::<(), bursar::mpmc::SendError<i32>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvError;

/// Why [`Receiver::try_recv`](super::Receiver::try_recv) has no value.
///
/// ```
/// use bursar::{channel, mpmc::TryRecvError};
///
/// let (tx, rx) = channel::<u32>(1);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
/// drop(tx);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is nothing now.
    Empty,
    /// There is nothing, and nothing will come.
    Closed,
}

/// Why [`Receiver::recv_timeout`](super::Receiver::recv_timeout) has no value.
///
/// ```
/// use std::time::Duration;
/// use bursar::{channel, mpmc::RecvTimeoutError};
///
/// let (_tx, rx) = channel::<u32>(1);
/// assert_eq!(rx.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// Nothing came in time.
    Timeout,
    /// There is nothing, and nothing will come.
    Closed,
}

impl<T> SendError<T> {
    /// The value that was not sent.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// The value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> SendTimeoutError<T> {
    /// The value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(value) | Self::Closed(value) => value,
        }
    }
}

const NO_RECEIVER: &str =
    "the channel is closed: every receiver is gone or `close` was called; the value is in the error";
const NO_SENDER: &str = "the channel is closed and empty: every sender is gone or `close` was called";

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_RECEIVER)
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the channel is full; use `send` to wait for room, or ask for more capacity"),
            Self::Closed(_) => f.write_str(NO_RECEIVER),
        }
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout(_) => f.write_str("the channel stayed full until time was up; the value is in the error"),
            Self::Closed(_) => f.write_str(NO_RECEIVER),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_SENDER)
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the channel is empty; use `recv` to wait for a value"),
            Self::Closed => f.write_str(NO_SENDER),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("nothing was sent before time was up"),
            Self::Closed => f.write_str(NO_SENDER),
        }
    }
}

// By hand: an error can be shown whatever the value is.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "Timeout(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> Error for SendError<T> {}
impl<T> Error for TrySendError<T> {}
impl<T> Error for SendTimeoutError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
impl Error for RecvTimeoutError {}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> Self {
        Self::Closed
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> Self {
        Self::Closed
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(SendError(value): SendError<T>) -> Self {
        Self::Closed(value)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(SendError(value): SendError<T>) -> Self {
        Self::Closed(value)
    }
}
