//! A channel that keeps only the newest value.
//!
//! Room: interface.
//!
//! # Invariants
//! 1. A reader sees whole values, each later than the one before, and the last one for certain. It never waits for a sender, and holds no lock while it uses what it has read.
//! 2. No change that a sender makes is made to a value that is not the newest.
//!
//! # Why they hold
//! 1. A value is never changed: it is shared (`Arc`), and a sender puts another one in its place, with a higher version, under the lock of the channel. A reader keeps the version that it saw
//!    last.
//! 2. Senders take turns: each has `sending` while it makes the next value out of the newest.

mod receiver;
mod sender;
mod shared;

pub use self::{
    receiver::{ChangedCase, ChangedFuture, Receiver},
    sender::{ClosedFuture, Sender},
};

use std::sync::Arc;

use self::shared::Shared;
use crate::{
    error::TaskError,
    strand::{self, rights},
};

/// A channel that keeps only the newest value, which is `initial` at first. For settings, states and progress: every receiver sees the last value, and may miss those before.
///
/// ```
/// use bursar::{nursery, sync::watch};
///
/// let (level, seen) = watch::channel(1);
/// nursery(|n| {
///     let watches = n.spawn(move || {
///         let mut last = *seen.mark_seen();
///         while let Ok(level) = seen.changed() {
///             assert!(*level > last); // some may be missed
///             last = *level;
///         }
///         last // the sender is gone
///     });
///     for next in 2..=5 {
///         level.send(next)?;
///     }
///     drop(level);
///     assert_eq!(watches.join()?, 5); // the last one is not
///     Ok(())
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
///
/// # Panics
/// As [`channel`](crate::channel()): only if a capability refuses it. [`try_channel`] returns the error instead.
pub fn channel<T: Send + Sync>(initial: T) -> (Sender<T>, Receiver<T>) {
    try_channel(initial).unwrap_or_else(|error| strand::current().fail(error))
}

/// A channel as by [`channel`], if the capabilities of the caller's nursery allow it: it counts as one for a single value.
///
/// ```
/// let (tx, rx) = bursar::sync::watch::try_channel("on")?;
/// assert_eq!((*tx.latest(), *rx.latest()), ("on", "on"));
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn try_channel<T: Send + Sync>(initial: T) -> Result<(Sender<T>, Receiver<T>), TaskError> {
    let permits = strand::with(|strand| {
        strand.ensure_room();
        rights::permit_channel(strand, 1)
    })?;
    let shared = Arc::new(Shared::new(initial, permits));
    Ok((Sender::new(shared.clone()), Receiver::new(shared, 0)))
}
