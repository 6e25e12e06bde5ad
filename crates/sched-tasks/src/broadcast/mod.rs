//! A channel in which every receiver gets every value.
//!
//! Room: interface.
//!
//! | file | one idea |
//! |---|---|
//! | `ring` | which values are kept, and which of them a receiver has not read |
//! | `sender`, `receiver` | both ends |
//! | `error` | errors, one of which counts what was missed |

mod error;
mod receiver;
mod ring;
mod sender;

use std::sync::Arc;

use self::ring::Shared;
pub use self::{
    error::{RecvError, RecvTimeoutError, TryRecvError},
    receiver::{BroadcastCase, BroadcastFuture, Receiver},
    sender::Sender,
};
use crate::{
    error::TaskError,
    strand::{self, rights},
};

/// A channel in which every receiver gets every value that is sent after it was made. It keeps the last `capacity` values for receivers that have not read them.
///
/// Sending never waits: a full channel drops its oldest value. A receiver that had not read it gets [`Lagged`](RecvError::Lagged) once, with the number of values it has missed, and goes on with
/// the oldest that is kept. For a channel whose senders wait, see [`channel`](crate::channel()).
///
/// A value is cloned for each receiver but the last. The channel closes when all senders are gone: receivers get what they have not read, and then [`Closed`](RecvError::Closed).
///
/// ```
/// use bursar::{nursery, sync::broadcast};
///
/// let (tx, first) = broadcast::channel(16);
/// let second = tx.subscribe();
/// let sums = nursery(|n| {
///     let sum = |rx: broadcast::Receiver<u64>| move || rx.iter().sum::<u64>();
///     let (one, two) = (n.spawn(sum(first)), n.spawn(sum(second)));
///     for value in 1..=10 {
///         tx.send(value)?;
///     }
///     drop(tx);
///     Ok((one.join()?, two.join()?))
/// })?;
/// assert_eq!(sums, (55, 55));
/// # Ok::<(), bursar::TaskError>(())
/// ```
///
/// # Panics
/// If `capacity` is 0. Otherwise as [`channel`](crate::channel()): only if a capability refuses it, and [`try_channel`] returns that error instead.
pub fn channel<T: Clone + Send + Sync>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    try_channel(capacity).unwrap_or_else(|error| strand::current().fail(error))
}

/// A channel as by [`channel`], if the capabilities of the caller's nursery allow it.
///
/// ```
/// let (tx, rx) = bursar::sync::broadcast::try_channel(4)?;
/// assert_eq!(tx.send("hello"), Ok(1));
/// assert_eq!(rx.recv(), Ok("hello"));
/// # Ok::<(), bursar::TaskError>(())
/// ```
///
/// # Panics
/// If `capacity` is 0.
pub fn try_channel<T: Clone + Send + Sync>(capacity: usize) -> Result<(Sender<T>, Receiver<T>), TaskError> {
    assert!(capacity > 0, "a broadcast channel keeps at least one value; ask for a capacity of 1 or more");
    let permits = strand::with(|strand| {
        strand.ensure_room();
        rights::permit_channel(strand, capacity as u64)
    })?;
    let shared = Arc::new(Shared::new(capacity, permits));
    Ok((Sender::new(shared.clone()), Receiver::new(shared, 0)))
}
