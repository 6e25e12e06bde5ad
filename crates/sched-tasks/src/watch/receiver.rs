//! The end of a watch channel at which the newest value is seen.
//!
//! Room: interface.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use mech_sync::WaitToken;

use super::shared::Shared;
use crate::{
    channel::{RecvError, RecvTimeoutError},
    kernel::clock,
    reading::{self, Reading, Source},
    select,
    strand::{self, Strand, room},
};

/// The end of a [`watch`](super::channel) channel at which the newest value is seen. A clone of it has seen what this one has seen.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that was seen last. Tasks that share a receiver share what was seen.
    seen: AtomicU64,
}

impl<T> Receiver<T> {
    /// A receiver that is counted already.
    pub(super) fn new(shared: Arc<Shared<T>>, seen: u64) -> Self {
        Self { shared, seen: AtomicU64::new(seen) }
    }

    /// The newest value, whether it was seen or not; it counts as seen only when [`changed`](Self::changed) returns it. It is shared, not borrowed: a task that holds it blocks no other.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel("red");
    /// tx.send("green")?;
    /// assert_eq!(*rx.latest(), "green");
    /// assert!(rx.has_changed()); // not seen yet
    /// # Ok::<(), bursar::mpmc::SendError<&str>>(())
    /// ```
    pub fn latest(&self) -> Arc<T> {
        strand::with(take_turn);
        self.shared.newest().0
    }

    /// Whether there is a value that was not seen.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// assert!(!rx.has_changed()); // the first value counts as seen
    /// tx.send(2)?;
    /// assert!(rx.has_changed());
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn has_changed(&self) -> bool {
        strand::with(take_turn);
        self.shared.version() > self.seen.load(Relaxed)
    }

    /// Marks the newest value as seen, and returns it.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// tx.send(2)?;
    /// assert_eq!((*rx.mark_seen(), rx.has_changed()), (2, false));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn mark_seen(&self) -> Arc<T> {
        strand::with(take_turn);
        self.see_newest()
    }

    /// Waits for a value that was not seen, and returns the newest, which is seen then. Fails if there is none and the sender is gone.
    ///
    /// A cancelled task unwinds here, and has not seen it then.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// tx.send(2)?;
    /// tx.send(3)?;
    /// assert_eq!(rx.changed().as_deref(), Ok(&3));
    /// drop(tx);
    /// assert!(rx.changed().is_err());
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn changed(&self) -> Result<Arc<T>, RecvError> {
        reading::read(&Changes(self), None).expect("without a deadline a wait ends with news")
    }

    /// The same, waiting up to `time`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::{mpmc::RecvTimeoutError, sync::watch};
    ///
    /// let (_tx, rx) = watch::channel(1);
    /// assert_eq!(rx.changed_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn changed_timeout(&self, time: Duration) -> Result<Arc<T>, RecvTimeoutError> {
        match reading::read(&Changes(self), Some(clock::due(time))) {
            Some(news) => news.map_err(RecvTimeoutError::from),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    /// The same in a future. If the future is dropped before it is done, nothing was seen.
    ///
    /// ```
    /// use bursar::{nursery, sync::watch};
    ///
    /// let (tx, rx) = watch::channel(1);
    /// nursery(|n| {
    ///     let next = n.spawn_async(async move { rx.changed_async().await });
    ///     tx.send(2)?;
    ///     assert_eq!(*next.join()??, 2);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn changed_async(&self) -> ChangedFuture<'_, T> {
        ChangedFuture(Reading::new(Changes(self)))
    }

    /// A change, as a case of a [`Select`](crate::Select); [`select!`](crate::select!) makes it of `recv(receiver)`.
    ///
    /// ```
    /// use bursar::{select, sync::watch};
    ///
    /// let (tx, rx) = watch::channel(1);
    /// tx.send(2)?;
    /// select! {
    ///     value = recv(rx) => assert_eq!(*value?, 2),
    ///     default => unreachable!("it has changed"),
    /// }
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn case(&self) -> ChangedCase<'_, T> {
        ChangedCase(reading::Case::new(Changes(self)))
    }

    /// Waits until the newest value is as `condition` wants it, and returns it; it is seen then, and so are those that were not. It looks at the newest value first, seen or not. Fails if the sender is gone and the
    /// last value is not so.
    ///
    /// ```
    /// use bursar::{nursery, sync::watch};
    ///
    /// let (tx, rx) = watch::channel(0);
    /// nursery(|n| {
    ///     let full = n.spawn(move || rx.wait_for(|percent| *percent == 100).map(|percent| *percent));
    ///     for percent in (0..=100).step_by(10) {
    ///         tx.send_modify(|now| *now = percent);
    ///     }
    ///     assert_eq!(full.join()??, 100);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn wait_for(&self, mut condition: impl FnMut(&T) -> bool) -> Result<Arc<T>, RecvError> {
        let mut value = reading::read(&Newest(self), None).expect("there is always a newest value");
        while !condition(&value) {
            value = self.changed()?;
        }
        Ok(value)
    }

    /// The same in a future.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// tx.send(2)?;
    /// assert_eq!(bursar::block_on(rx.wait_for_async(|value| *value > 1)).as_deref(), Ok(&2));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub async fn wait_for_async(&self, mut condition: impl FnMut(&T) -> bool) -> Result<Arc<T>, RecvError> {
        let mut newest = Reading::new(Newest(self));
        let mut value = poll_fn(|cx| newest.poll(cx)).await;
        while !condition(&value) {
            value = self.changed_async().await?;
        }
        Ok(value)
    }

    /// Whether the sender is gone. The last value can still be read.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::watch::channel(1);
    /// drop(tx);
    /// assert!(rx.is_closed() && *rx.latest() == 1);
    /// ```
    pub fn is_closed(&self) -> bool {
        strand::with(Strand::ensure_room);
        self.shared.is_closed()
    }

    fn see_newest(&self) -> Arc<T> {
        let (newest, version) = self.shared.newest();
        self.see(version);
        newest
    }

    /// Tasks that share a receiver may come in any order; what was seen stays seen.
    fn see(&self, version: u64) {
        self.seen.fetch_max(version, Relaxed);
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.add_receiver();
        Self { shared: self.shared.clone(), seen: AtomicU64::new(self.seen.load(Relaxed)) }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let _room = room::to_drop();
        strand::with(Strand::pass_by_in_drop);
        self.shared.remove_receiver();
    }
}

/// What a receiver waits for.
struct Changes<'a, T>(&'a Receiver<T>);

impl<T> Source for Changes<'_, T> {
    type News = Result<Arc<T>, RecvError>;

    fn look(&self) -> Option<Self::News> {
        let newer = self.0.shared.newer_than(self.0.seen.load(Relaxed))?;
        Some(newer.map(|(value, version)| {
            self.0.see(version);
            value
        }))
    }

    fn enlist(&self, token: WaitToken, code: u16) -> bool {
        self.0.shared.enlist_reader(self.0.seen.load(Relaxed), token, code)
    }

    fn leave(&self) {
        self.0.shared.leave_reader();
    }
}

/// What a receiver looks at first that waits for a condition: there is always something.
struct Newest<'a, T>(&'a Receiver<T>);

impl<T> Source for Newest<'_, T> {
    type News = Arc<T>;

    fn look(&self) -> Option<Arc<T>> {
        Some(self.0.see_newest())
    }

    fn enlist(&self, _: WaitToken, _: u16) -> bool {
        true
    }

    fn leave(&self) {}
}

/// At the entry of a look that is never waited for, but may be in a loop.
fn take_turn(strand: &Strand) {
    strand.take_turn();
    strand.interleave();
}

/// A change to come; made by [`Receiver::changed_async`]. Polled again, it is for the next one.
#[must_use = "a future does nothing until it is awaited"]
pub struct ChangedFuture<'a, T>(Reading<Changes<'a, T>>);

impl<T> Future for ChangedFuture<'_, T> {
    type Output = Result<Arc<T>, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx)
    }
}

/// A change, as a case; made by [`Receiver::case`].
#[must_use = "a case is completed by a select"]
pub struct ChangedCase<'a, T>(reading::Case<Changes<'a, T>>);

impl<T> ChangedCase<'_, T> {
    /// Whether a select completed it.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// What [`Receiver::changed`] would have returned.
    ///
    /// # Panics
    /// If no select completed it.
    pub fn take(&mut self) -> Result<Arc<T>, RecvError> {
        self.0.take()
    }
}

impl<T> select::Case for ChangedCase<'_, T> {}
reading::steps_of_inner!(ChangedCase);

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("latest", &self.shared.newest().0).field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for ChangedFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangedFuture").field("waiting", &self.0.is_waiting()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ChangedCase<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangedCase").field("done", &self.is_done()).finish_non_exhaustive()
    }
}
