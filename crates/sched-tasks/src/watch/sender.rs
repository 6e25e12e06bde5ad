//! The end of a watch channel that values go into.
//!
//! Room: interface.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use mech_sync::WaitToken;

use super::{
    Receiver,
    shared::{Shared, discard},
};
use crate::{
    channel::SendError,
    reading::{self, Reading, Source},
    strand::{self, Strand, room},
};

/// The end of a [`watch`](super::channel) channel that values go into. Dropping it closes the channel; to send from several tasks, share it by reference or in an `Arc`.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Makes `value` the newest, and wakes all who wait for a change. Fails, and gives it back, if there is no receiver.
    ///
    /// It waits for no receiver, only for another [change](Self::send_modify) that is being made. A cancelled task unwinds here; then the value was not sent.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// tx.send(2)?;
    /// assert_eq!(*rx.latest(), 2);
    /// drop(rx);
    /// assert_eq!(tx.send(3).unwrap_err().0, 3);
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        strand::with(Strand::begin_try);
        let sending = self.shared.sending.lock();
        if self.shared.receivers() == 0 {
            return Err(SendError(value));
        }
        let before = self.shared.publish(Arc::new(value));
        drop(sending);
        discard(before);
        Ok(())
    }

    /// Makes `value` the newest, whether there is a receiver or not, and returns the one before.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// drop(rx);
    /// assert_eq!(*tx.send_replace(2), 1);
    /// assert_eq!(*tx.subscribe().latest(), 2);
    /// ```
    pub fn send_replace(&self, value: T) -> Arc<T> {
        strand::with(Strand::begin_try);
        let _sending = self.shared.sending.lock();
        self.shared.publish(Arc::new(value))
    }

    /// Changes a copy of the newest value, and makes that the newest, whether there is a receiver or not. Changes are made one after the other, so none is lost; receivers see the old value
    /// until `change` returns. If it panics or unwinds, nothing has changed.
    ///
    /// `change` may wait, but not for this sender: it would wait for itself.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(vec![1]);
    /// tx.send_modify(|list| list.push(2));
    /// assert_eq!(*rx.latest(), [1, 2]);
    /// ```
    pub fn send_modify(&self, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// The same if `change` says that it has changed something; else all stays as it was. Returns what it said.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(7);
    /// let raise = |to: i32| tx.send_if_modified(|level| to > std::mem::replace(level, to));
    /// assert_eq!((raise(5), raise(9)), (false, true));
    /// assert_eq!(*rx.latest(), 9);
    /// ```
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool
    where
        T: Clone,
    {
        strand::with(Strand::begin_try);
        let sending = self.shared.sending.lock();
        let (newest, _) = self.shared.newest();
        let mut next = T::clone(&newest);
        if !change(&mut next) {
            return false;
        }
        let before = self.shared.publish(Arc::new(next));
        drop((sending, newest));
        discard(before);
        true
    }

    /// The newest value. It is shared, not borrowed: a task that holds it blocks no other.
    ///
    /// ```
    /// let (tx, _rx) = bursar::sync::watch::channel(1);
    /// let old = tx.latest();
    /// tx.send(2)?;
    /// assert_eq!((*old, *tx.latest()), (1, 2));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn latest(&self) -> Arc<T> {
        strand::with(Strand::pass_by);
        self.shared.newest().0
    }

    /// One more receiver, which has seen the newest value.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// drop(rx);
    /// let rx = tx.subscribe();
    /// assert!(!rx.has_changed());
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        strand::with(Strand::ensure_room);
        self.shared.add_receiver();
        Receiver::new(self.shared.clone(), self.shared.version())
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// let _two = rx.clone();
    /// assert_eq!(tx.receivers(), 2);
    /// ```
    pub fn receivers(&self) -> usize {
        strand::with(Strand::ensure_room);
        self.shared.receivers()
    }

    /// Whether there is no receiver now. [`subscribe`](Self::subscribe) makes one again.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.receivers() == 0
    }

    /// Waits until there is no receiver: what would be sent is not wanted any more.
    ///
    /// ```
    /// use bursar::{nursery, sync::watch};
    ///
    /// let (tx, rx) = watch::channel(1);
    /// nursery(|n| {
    ///     n.spawn(move || assert_eq!(*rx.latest(), 1));
    ///     tx.closed();
    ///     assert!(tx.is_closed());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn closed(&self) {
        reading::read(&NoReceiver(self), None);
    }

    /// Waits in a future until there is no receiver.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// drop(rx);
    /// bursar::block_on(tx.closed_async());
    /// ```
    pub fn closed_async(&self) -> ClosedFuture<'_, T> {
        ClosedFuture(Reading::new(NoReceiver(self)))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let _room = room::to_drop();
        strand::with(Strand::pass_by_in_drop);
        self.shared.close();
    }
}

/// What a sender waits for.
struct NoReceiver<'a, T>(&'a Sender<T>);

impl<T> Source for NoReceiver<'_, T> {
    type News = ();

    fn look(&self) -> Option<()> {
        (self.0.shared.receivers() == 0).then_some(())
    }

    fn enlist(&self, token: WaitToken, code: u16) -> bool {
        self.0.shared.enlist_leaver(token, code)
    }

    fn leave(&self) {
        self.0.shared.leave_leaver();
    }
}

/// The end of all receivers, to come; made by [`Sender::closed_async`].
#[must_use = "a future does nothing until it is awaited"]
pub struct ClosedFuture<'a, T>(Reading<NoReceiver<'a, T>>);

impl<T> Future for ClosedFuture<'_, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(cx)
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("latest", &self.shared.newest().0).field("receivers", &self.receivers()).finish()
    }
}

impl<T> fmt::Debug for ClosedFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedFuture").field("waiting", &self.0.is_waiting()).finish_non_exhaustive()
    }
}
