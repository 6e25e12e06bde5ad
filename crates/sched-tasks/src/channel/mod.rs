//! Channels: values from many senders to many receivers, fibers, threads and futures alike.
//!
//! Room: interface.
//!
//! | file | one idea |
//! |---|---|
//! | `core` | how an operation tries, enlists, waits, and never loses a value |
//! | `bounded` | a lock-free ring and two queues of waiters |
//! | `unbounded` | a queue that grows |
//! | `rendezvous` | no buffer: sender and receiver meet |
//! | `timer` | time is the sender |
//! | `future` | the same for futures |

mod bounded;
pub(crate) mod core;
mod error;
mod future;
mod rendezvous;
mod timer;
mod unbounded;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
    time::{Duration, Instant},
};

use self::core::Core;
pub use self::{
    error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError},
    future::{RecvFuture, SendFuture},
};
use policy_admission::ChannelPermit;

use crate::{
    error::TaskError,
    kernel::clock,
    strand::panics,
    strand::rights,
    strand::room::{self, LentGuard, in_own_frame},
    strand::{self, Strand},
};

/// A channel that holds up to `capacity` values. With capacity 0 a sender waits for a receiver to take its value.
///
/// Values come out in the order they went in. Both ends can be cloned; each value goes to one receiver. The channel closes when all of one end are dropped, or by `close`:
/// from then on sending fails, and receiving fails when everything that was sent has been received.
///
/// ```
/// use bursar::{channel, nursery};
///
/// let sum = nursery(|n| {
///     let (tx, rx) = channel(64);
///     n.try_spawn(move || {
///         for i in 0..10 {
///             tx.send(i)?; // waits while 64 are on their way
///         }
///         Ok(())
///     });
///     n.spawn_async(async move {
///         let mut sum = 0;
///         while let Ok(i) = rx.recv_async().await {
///             sum += i;
///         }
///         sum
///     })
///     .join()
/// })?;
/// assert_eq!(sum, 45);
/// # Ok::<(), bursar::TaskError>(())
/// ```
///
/// # Panics
/// Only if a capability refuses it: the nursery may not open another channel, or not one so large. Then this call unwinds, and the task, or the block of the nursery, ends with
/// [`Reason::NotAllowed`](crate::Reason::NotAllowed), which names the limit. Where there is neither (a plain thread in a [`Confinement`](crate::Confinement)) it is a panic that says the same. [`try_channel`] returns
/// the error instead. A program without capabilities is never refused; the memory for `capacity` values is taken at once, as by `Vec::with_capacity`.
///
/// ```
/// use bursar::{NurseryOptions, Reason, capability::{CapChannel, Ledger}, channel, mpmc::try_channel, nursery_with};
///
/// let none = Ledger::new().grant(CapChannel::new().max_channels(0));
/// let options = || NurseryOptions::new().capability(&none);
/// let refused = nursery_with(options(), |n| n.spawn(|| drop(channel::<u8>(4))).join()).unwrap_err();
/// assert!(matches!(refused.reason(), Reason::NotAllowed(_)));
/// nursery_with(options(), |n| n.spawn(|| assert!(try_channel::<u8>(4).is_err())).join())?; // the task goes on
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    try_channel(capacity).unwrap_or_else(|error| strand::current().fail(error))
}

/// A channel as by [`channel`], if the capabilities of the caller's nursery allow it.
pub fn try_channel<T: Send>(capacity: usize) -> Result<(Sender<T>, Receiver<T>), TaskError> {
    let permits = strand::with(|strand| {
        strand.ensure_room();
        rights::permit_channel(strand, capacity as u64)
    })?;
    Ok(ends(Core::bounded(capacity), permits))
}

/// A channel that takes as many values as there is memory for: sending never waits for a receiver. A sender that never
/// stops yields now and then, as with every operation.
///
/// ```
/// let (tx, rx) = bursar::unbounded();
/// for i in 0..1000 {
///     tx.send(i)?;
/// }
/// drop(tx);
/// assert_eq!(rx.iter().sum::<i32>(), 499_500);
/// # Ok::<(), bursar::mpmc::SendError<i32>>(())
/// ```
///
/// # Panics
/// As [`channel`]: only if a capability refuses it. [`try_unbounded`] returns the error instead.
pub fn unbounded<T: Send>() -> (Sender<T>, Receiver<T>) {
    try_unbounded().unwrap_or_else(|error| strand::current().fail(error))
}

/// A channel as by [`unbounded`], if the capabilities of the caller's nursery allow it.
pub fn try_unbounded<T: Send>() -> Result<(Sender<T>, Receiver<T>), TaskError> {
    let permits = strand::with(|strand| {
        strand.ensure_room();
        rights::permit_channel(strand, u64::MAX)
    })?;
    Ok(ends(Core::unbounded(), permits))
}

/// A channel that has one value at `due`, the time itself, and then one in every `period`, if there is one.
pub(crate) fn timer(due: Instant, period: Option<Duration>) -> Receiver<Instant> {
    strand::with(Strand::ensure_room);
    in_own_frame(|| make_timer(due, period))
}

/// Its frame is large: a channel is made on it.
fn make_timer(due: Instant, period: Option<Duration>) -> Receiver<Instant> {
    let (tx, rx) = ends(Core::timer(due, period, |at| at), Vec::new());
    tx.shared.senders.fetch_add(1, Relaxed); // time, which is never dropped
    rx
}

fn ends<T>(core: Core<T>, permits: Vec<ChannelPermit>) -> (Sender<T>, Receiver<T>) {
    let (senders, receivers) = (AtomicUsize::new(1), AtomicUsize::new(1));
    let shared = Arc::new(Shared { core, senders, receivers, _permits: permits });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

struct Shared<T> {
    core: Core<T>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// It is counted as open until both ends are gone.
    _permits: Vec<ChannelPermit>,
}

/// The end of a channel that values go into. Made by [`channel`] and [`unbounded`].
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The end of a channel that values come out of. Made by [`channel`] and [`unbounded`].
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    #[inline]
    pub(crate) fn core(&self) -> &Core<T> {
        &self.shared.core
    }

    /// Sends `value`, and waits for room if there is none. A closed channel gives it back.
    ///
    /// A cancelled task unwinds here; then the value was not sent.
    ///
    /// ```
    /// let (tx, rx) = bursar::channel(1);
    /// tx.send(7)?;
    /// assert_eq!(rx.recv()?, 7);
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        strand::with(|strand| self.core().send(strand, value, None)).map_err(|error| SendError(error.into_inner()))
    }

    /// Sends `value` if there is room now: if a receiver waits for it, in a channel of capacity 0.
    ///
    /// ```
    /// use bursar::{channel, mpmc::TrySendError};
    ///
    /// let (tx, _rx) = channel(1);
    /// assert_eq!(tx.try_send(1), Ok(()));
    /// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        strand::with(Strand::begin_try);
        self.core().try_send(value)
    }

    /// As `try_send`, for messages of the runtime itself: no task is charged.
    pub(crate) fn put(&self, value: T) -> bool {
        self.core().try_send(value).is_ok()
    }

    /// Sends `value`, and waits up to `time` for room.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (tx, rx) = bursar::channel(1);
    /// assert!(tx.send_timeout(1, Duration::from_millis(1)).is_ok());
    /// assert!(tx.send_timeout(2, Duration::from_millis(1)).is_err()); // no task receives
    /// # drop(rx);
    /// ```
    pub fn send_timeout(&self, value: T, time: Duration) -> Result<(), SendTimeoutError<T>> {
        strand::with(|strand| self.core().send(strand, value, Some(clock::due(time))))
    }

    /// Sends `value` from a future. If the future is dropped before it is done, the value is dropped with it; only without a buffer a receiver may have taken
    /// it just before.
    ///
    /// ```
    /// use bursar::{channel, nursery};
    ///
    /// nursery(|n| {
    ///     let (tx, rx) = channel(0);
    ///     n.spawn_async(async move { tx.send_async("hello").await });
    ///     assert_eq!(rx.recv()?, "hello");
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn send_async(&self, value: T) -> SendFuture<'_, T> {
        SendFuture::new(self.core(), value)
    }
}

impl<T> Receiver<T> {
    #[inline]
    pub(crate) fn core(&self) -> &Core<T> {
        &self.shared.core
    }

    /// One more sender; if there was none left, one to a closed channel.
    pub(crate) fn sender(&self) -> Sender<T> {
        self.shared.senders.fetch_add(1, Relaxed);
        Sender { shared: self.shared.clone() }
    }

    /// Takes the oldest value, and waits for one if there is none. Fails when the channel is closed and empty.
    ///
    /// A cancelled task unwinds here, but never with a value taken.
    ///
    /// ```
    /// let (tx, rx) = bursar::channel(2);
    /// tx.send(1)?;
    /// drop(tx);
    /// assert_eq!(rx.recv(), Ok(1));
    /// assert!(rx.recv().is_err());
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.core().recv(&strand::current(), None).map_err(|_| RecvError)
    }

    /// Takes the oldest value if there is one now.
    ///
    /// ```
    /// use bursar::{channel, mpmc::TryRecvError};
    ///
    /// let (tx, rx) = channel(1);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1)?;
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        strand::with(Strand::begin_try);
        self.core().try_recv()
    }

    /// Takes the oldest value, and waits up to `time` for one.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (tx, rx) = bursar::channel(1);
    /// assert!(rx.recv_timeout(Duration::from_millis(1)).is_err());
    /// tx.send(1)?;
    /// assert_eq!(rx.recv_timeout(Duration::from_millis(1)), Ok(1));
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        strand::with(|strand| self.core().recv(strand, Some(clock::due(time))))
    }

    /// Takes the oldest value in a future. If the future is dropped before it is done, no value was taken.
    ///
    /// ```
    /// use bursar::{channel, nursery};
    ///
    /// nursery(|n| {
    ///     let (tx, rx) = channel(1);
    ///     let echo = n.spawn_async(async move { rx.recv_async().await });
    ///     tx.send(5)?;
    ///     assert_eq!(echo.join()?, Ok(5));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture::new(self.core())
    }

    /// Takes values until the channel is closed and empty, waiting for each.
    ///
    /// ```
    /// let (tx, rx) = bursar::channel(3);
    /// for word in ["a", "b", "c"] {
    ///     tx.send(word)?;
    /// }
    /// tx.close();
    /// assert_eq!(rx.iter().collect::<String>(), "abc");
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// Takes values as long as there are any now.
    ///
    /// ```
    /// let (tx, rx) = bursar::channel(3);
    /// tx.send(1)?;
    /// tx.send(2)?;
    /// assert_eq!(rx.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }
}

macro_rules! both_ends {
    ($end:ident, $count:ident) => {
        impl<T> $end<T> {
            /// Closes the channel: sending fails from now on, and receiving when it is empty. True for the caller that
            /// closed it first.
            ///
            /// ```
            /// let (tx, rx) = bursar::channel(1);
            /// tx.send(1)?;
            /// assert!(rx.close());
            /// assert!(tx.send(2).is_err());
            /// assert_eq!((rx.recv(), rx.recv()), (Ok(1), Err(bursar::mpmc::RecvError)));
            /// # Ok::<(), bursar::TaskError>(())
            /// ```
            pub fn close(&self) -> bool {
                strand::with(Strand::pass_by);
                self.core().close()
            }

            fn close_in_drop(&self) -> Option<LentGuard> {
                let room = room::to_drop();
                strand::with(Strand::pass_by_in_drop);
                self.core().close();
                room
            }

            /// Whether nothing can be sent any more.
            ///
            /// ```
            /// let (tx, rx) = bursar::channel::<u8>(1);
            /// assert!(!tx.is_closed());
            /// drop(rx);
            /// assert!(tx.is_closed());
            /// ```
            pub fn is_closed(&self) -> bool {
                strand::with(Strand::ensure_room);
                self.core().is_closed()
            }

            /// How many values are in the channel.
            ///
            /// ```
            /// let (tx, rx) = bursar::channel(2);
            /// tx.send(1)?;
            /// assert_eq!((tx.len(), rx.is_empty()), (1, false));
            /// # Ok::<(), bursar::TaskError>(())
            /// ```
            pub fn len(&self) -> usize {
                strand::with(Strand::ensure_room);
                self.core().len()
            }

            /// Whether no value is in the channel.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// How many values fit. None if there is no limit.
            ///
            /// ```
            /// assert_eq!(bursar::channel::<u8>(2).0.capacity(), Some(2));
            /// assert_eq!(bursar::unbounded::<u8>().0.capacity(), None);
            /// ```
            pub fn capacity(&self) -> Option<usize> {
                self.core().capacity()
            }
        }

        impl<T> Clone for $end<T> {
            fn clone(&self) -> Self {
                self.shared.$count.fetch_add(1, Relaxed);
                Self { shared: self.shared.clone() }
            }
        }

        impl<T> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($end))
                    .field("len", &self.len())
                    .field("capacity", &self.capacity())
                    .field("closed", &self.is_closed())
                    .finish()
            }
        }
    };
}

both_ends!(Sender, senders);
both_ends!(Receiver, receivers);

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, AcqRel) == 1 {
            self.close_in_drop();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.receivers.fetch_sub(1, AcqRel) == 1 {
            let _room = self.close_in_drop();
            panics::drop_each(std::iter::from_fn(|| self.core().try_recv().ok()));
        }
    }
}

/// Values as they come; made by [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T>(&'a Receiver<T>);

/// Values as they come; made by `into_iter` on a [`Receiver`].
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}
