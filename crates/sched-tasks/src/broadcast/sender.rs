//! The end of a broadcast channel that values go into.
//!
//! Room: interface.

use std::{fmt, sync::Arc};

use super::{Receiver, ring::Shared};
use crate::{
    channel::SendError,
    strand::{self, Strand, panics, room},
};

/// The end of a [`broadcast`](super::channel) channel that values go into.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Sends `value` to all receivers, and says how many there are. Fails, and gives it back, if there is none. Never waits: if the channel is full, its oldest value is dropped.
    ///
    /// A cancelled task may unwind here, at the end of its turn; then the value was not sent.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::broadcast::channel(2);
    /// assert_eq!(tx.send("hello"), Ok(1));
    /// drop(rx);
    /// assert_eq!(tx.send("no receiver").unwrap_err().0, "no receiver");
    /// ```
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        strand::with(Strand::begin_try);
        match self.shared.send(Arc::new(value)) {
            Ok((receivers, dropped)) => {
                panics::drop_contained(dropped); // not under the lock: it may have a destructor
                Ok(receivers)
            }
            Err(value) => Err(SendError(Arc::into_inner(value).expect("what was not sent has one owner"))),
        }
    }

    /// One more receiver, for what is sent from now on.
    ///
    /// ```
    /// let (tx, first) = bursar::sync::broadcast::channel(4);
    /// tx.send(1)?;
    /// let second = tx.subscribe();
    /// tx.send(2)?;
    /// assert_eq!((first.recv(), first.recv(), second.recv()), (Ok(1), Ok(2), Ok(2)));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        strand::with(Strand::ensure_room);
        Receiver::new(self.shared.clone(), self.shared.add_receiver())
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (tx, _rx) = bursar::sync::broadcast::channel::<u32>(2);
    /// let _two = tx.subscribe();
    /// assert_eq!(tx.receivers(), 2);
    /// ```
    pub fn receivers(&self) -> usize {
        strand::with(Strand::ensure_room);
        self.shared.receivers()
    }

    /// How many values are kept for receivers that have not read them.
    ///
    /// ```
    /// assert_eq!(bursar::sync::broadcast::channel::<u32>(2).0.capacity(), 2);
    /// ```
    pub fn capacity(&self) -> usize {
        self.shared.capacity()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.add_sender();
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let _room = room::to_drop();
        strand::with(Strand::pass_by_in_drop);
        self.shared.remove_sender();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("receivers", &self.receivers()).field("capacity", &self.capacity()).finish()
    }
}
