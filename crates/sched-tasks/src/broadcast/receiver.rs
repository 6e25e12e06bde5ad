//! The end of a broadcast channel that values come out of.
//!
//! Room: interface.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mech_sync::WaitToken;

use super::{
    error::{RecvError, RecvTimeoutError, TryRecvError},
    ring::{Cursor, Shared},
};
use crate::{
    kernel::clock,
    reading::{self, Reading, Source},
    select,
    strand::{self, Strand, panics, room},
};

/// The end of a [`broadcast`](super::channel) channel that values come out of. Tasks that share one share what was read: each value goes to one of them.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    cursor: Cursor,
}

impl<T> Receiver<T> {
    /// A receiver that is counted already.
    pub(super) fn new(shared: Arc<Shared<T>>, next: u64) -> Self {
        Self { shared, cursor: Cursor::new(next) }
    }

    /// One more receiver, for what is sent from now on.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::broadcast::channel(4);
    /// tx.send(1)?;
    /// let late = rx.resubscribe();
    /// assert_eq!((rx.len(), late.len()), (1, 0));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn resubscribe(&self) -> Receiver<T> {
        strand::with(Strand::ensure_room);
        Receiver::new(self.shared.clone(), self.shared.add_receiver())
    }

    /// How many values are there for this receiver.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::broadcast::channel(2);
    /// for value in 0..5 {
    ///     tx.send(value)?;
    /// }
    /// assert_eq!(rx.len(), 2); // it has missed three
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn len(&self) -> usize {
        strand::with(Strand::ensure_room);
        self.shared.len(&self.cursor)
    }

    /// Whether no value is there for this receiver.
    ///
    /// ```
    /// assert!(bursar::sync::broadcast::channel::<u32>(2).1.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every sender is gone. What was not read can still be received.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::broadcast::channel::<u32>(2);
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        strand::with(Strand::ensure_room);
        self.shared.is_closed()
    }
}

impl<T: Clone> Receiver<T> {
    /// Takes the next value, and waits for one if there is none. Fails once if this receiver has missed values, and for ever when the channel is closed and everything was read.
    ///
    /// A cancelled task unwinds here, but never with a value taken.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::broadcast::channel(2);
    /// tx.send(1)?;
    /// drop(tx);
    /// assert_eq!(rx.recv(), Ok(1));
    /// assert!(rx.recv().is_err());
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn recv(&self) -> Result<T, RecvError> {
        reading::read(&News(self), None).expect("without a deadline a wait ends with news").map(own)
    }

    /// Takes the next value if there is one now.
    ///
    /// ```
    /// use bursar::sync::broadcast::{self, TryRecvError};
    ///
    /// let (tx, rx) = broadcast::channel(2);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1)?;
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        Ok(own(reading::try_read(&News(self)).ok_or(TryRecvError::Empty)??))
    }

    /// Takes the next value, and waits up to `time` for one.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (tx, rx) = bursar::sync::broadcast::channel(2);
    /// assert!(rx.recv_timeout(Duration::from_millis(1)).is_err());
    /// tx.send(1)?;
    /// assert_eq!(rx.recv_timeout(Duration::from_millis(1)), Ok(1));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        Ok(own(reading::read(&News(self), Some(clock::due(time))).ok_or(RecvTimeoutError::Timeout)??))
    }

    /// Takes the next value in a future. If the future is dropped before it is done, no value was taken.
    ///
    /// ```
    /// use bursar::{nursery, sync::broadcast};
    ///
    /// let (tx, rx) = broadcast::channel(2);
    /// nursery(|n| {
    ///     let echo = n.spawn_async(async move { rx.recv_async().await });
    ///     tx.send(5)?;
    ///     assert_eq!(echo.join()?, Ok(5));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn recv_async(&self) -> BroadcastFuture<'_, T> {
        BroadcastFuture(Reading::new(News(self)))
    }

    /// Receiving, as a case of a [`Select`](crate::Select); [`select!`](crate::select!) makes it of `recv(receiver)`.
    ///
    /// ```
    /// use bursar::{select, sync::broadcast};
    ///
    /// let (tx, rx) = broadcast::channel(2);
    /// tx.send(2)?;
    /// select! {
    ///     value = recv(rx) => assert_eq!(value, Ok(2)),
    ///     default => unreachable!("it was sent"),
    /// }
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn case(&self) -> BroadcastCase<'_, T> {
        BroadcastCase(reading::Case::new(News(self)))
    }

    /// Takes values until the channel is closed and everything was read, waiting for each. Values that this receiver has missed are passed over in silence.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::broadcast::channel(2);
    /// for value in 1..=5 {
    ///     tx.send(value)?;
    /// }
    /// drop(tx);
    /// assert_eq!(rx.iter().collect::<Vec<_>>(), [4, 5]);
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| {
            loop {
                match self.recv() {
                    Ok(value) => return Some(value),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }
}

/// The value itself for the last who reads it, a clone for all others.
fn own<T: Clone>(value: Arc<T>) -> T {
    Arc::unwrap_or_clone(value)
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let _room = room::to_drop();
        strand::with(Strand::pass_by_in_drop);
        panics::drop_each(self.shared.remove_receiver(&self.cursor).into_iter());
    }
}

/// What a receiver waits for.
struct News<'a, T>(&'a Receiver<T>);

impl<T> Source for News<'_, T> {
    type News = Result<Arc<T>, RecvError>;

    fn look(&self) -> Option<Self::News> {
        self.0.shared.recv(&self.0.cursor)
    }

    fn enlist(&self, token: WaitToken, code: u16) -> bool {
        self.0.shared.enlist(&self.0.cursor, token, code)
    }

    fn leave(&self) {
        self.0.shared.leave();
    }
}

/// A value to come; made by [`Receiver::recv_async`]. Polled again, it is for the next value.
#[must_use = "a future does nothing until it is awaited"]
pub struct BroadcastFuture<'a, T>(Reading<News<'a, T>>);

impl<T: Clone> Future for BroadcastFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx).map(|news| news.map(own))
    }
}

/// Receiving, as a case; made by [`Receiver::case`].
#[must_use = "a case is completed by a select"]
pub struct BroadcastCase<'a, T>(reading::Case<News<'a, T>>);

impl<T: Clone> BroadcastCase<'_, T> {
    /// Whether a select completed it.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// What [`Receiver::recv`] would have returned.
    ///
    /// # Panics
    /// If no select completed it.
    pub fn take(&mut self) -> Result<T, RecvError> {
        self.0.take().map(own)
    }
}

impl<T> select::Case for BroadcastCase<'_, T> {}
reading::steps_of_inner!(BroadcastCase);

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for BroadcastFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastFuture").field("waiting", &self.0.is_waiting()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for BroadcastCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastCase").field("done", &self.0.is_done()).finish_non_exhaustive()
    }
}
