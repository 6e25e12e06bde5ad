//! Errors of broadcast channels: they count what a receiver has missed.
//!
//! Room: values.

use std::{error::Error, fmt};

/// Why [`Receiver::recv`](super::Receiver::recv) has no value.
///
/// ```
/// use bursar::sync::broadcast::{self, RecvError};
///
/// let (tx, rx) = broadcast::channel(2);
/// for value in 1..=5 {
///     tx.send(value)?;
/// }
/// drop(tx);
/// assert_eq!(rx.recv(), Err(RecvError::Lagged(3))); // 1, 2 and 3 are gone
/// assert_eq!((rx.recv(), rx.recv()), (Ok(4), Ok(5)));
/// assert_eq!(rx.recv(), Err(RecvError::Closed));
/// # Ok::<(), bursar::mpmc::SendError<i32>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecvError {
    /// So many values were dropped before this receiver read them. It goes on with the oldest that is kept.
    Lagged(u64),
    /// Everything was read, and nothing will come.
    Closed,
}

/// Why [`Receiver::try_recv`](super::Receiver::try_recv) has no value.
///
/// ```
/// use bursar::sync::broadcast::{self, TryRecvError};
///
/// let (tx, rx) = broadcast::channel::<u32>(2);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
/// drop(tx);
/// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is nothing now.
    Empty,
    /// So many values were dropped before this receiver read them. It goes on with the oldest that is kept.
    Lagged(u64),
    /// Everything was read, and nothing will come.
    Closed,
}

/// Why [`Receiver::recv_timeout`](super::Receiver::recv_timeout) has no value.
///
/// ```
/// use std::time::Duration;
/// use bursar::sync::broadcast::{self, RecvTimeoutError};
///
/// let (_tx, rx) = broadcast::channel::<u32>(2);
/// assert_eq!(rx.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// Nothing came in time.
    Timeout,
    /// So many values were dropped before this receiver read them. It goes on with the oldest that is kept.
    Lagged(u64),
    /// Everything was read, and nothing will come.
    Closed,
}

impl From<RecvError> for TryRecvError {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Lagged(missed) => Self::Lagged(missed),
            RecvError::Closed => Self::Closed,
        }
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Lagged(missed) => Self::Lagged(missed),
            RecvError::Closed => Self::Closed,
        }
    }
}

fn lagged(f: &mut fmt::Formatter<'_>, missed: u64) -> fmt::Result {
    write!(f, "the receiver was too slow and has missed {missed} values; receive more often, or ask for more capacity")
}

const CLOSED: &str = "the channel is closed and everything in it was read: every sender is gone";

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lagged(missed) => lagged(f, *missed),
            Self::Closed => f.write_str(CLOSED),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no value now; use `recv` to wait for one"),
            Self::Lagged(missed) => lagged(f, *missed),
            Self::Closed => f.write_str(CLOSED),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("nothing was sent before time was up"),
            Self::Lagged(missed) => lagged(f, *missed),
            Self::Closed => f.write_str(CLOSED),
        }
    }
}

impl Error for RecvError {}
impl Error for TryRecvError {}
impl Error for RecvTimeoutError {}
