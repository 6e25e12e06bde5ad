//! Where to send messages for an actor.
//!
//! Room: interface.

use std::{fmt, sync::Arc, time::Duration};

use sched_tasks::{RecvTimeoutError, SendTimeoutError, Sender, TrySendError, now, oneshot};

use crate::{
    clock::due,
    error::{AskError, Refusal, Undelivered},
};

/// Where to send messages for an actor. Cheap to clone, and good for all incarnations of a supervised actor.
///
/// Messages of one sender are handled in the order in which they were sent.
pub struct Address<M> {
    actor: Arc<str>,
    sender: Sender<M>,
}

impl<M> Address<M> {
    pub(crate) fn new(actor: Arc<str>, sender: Sender<M>) -> Self {
        Self { actor, sender }
    }

    /// The name of the actor.
    pub fn name(&self) -> &str {
        &self.actor
    }

    /// Sends `message`, and waits for room while the mailbox is full. Comes back with it if the actor is gone for good.
    ///
    /// An actor that sends to itself, or in a ring, can wait for ever: use [`try_send`](Self::try_send) there.
    pub fn send(&self, message: M) -> Result<(), Undelivered<M>> {
        self.sender.send(message).map_err(|error| self.undelivered(Refusal::Gone, error.0))
    }

    /// Sends `message` if there is room now.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::{actor::{self, Refusal}, nursery, sleep};
    ///
    /// nursery(|n| {
    ///     let slow = actor::spawn_bounded(n, "slow", 1, actor::from_fn(|_: u32, _| {
    ///         sleep(Duration::from_secs(3600));
    ///         Ok(())
    ///     }));
    ///     slow.send(1)?; // it begins with this one
    ///     slow.send(2)?; // and this one fills the mailbox
    ///     let refused = slow.try_send(3).unwrap_err();
    ///     assert_eq!((refused.why(), refused.into_message()), (Refusal::Full { capacity: 1 }, 3));
    ///     n.dismiss();
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn try_send(&self, message: M) -> Result<(), Undelivered<M>> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(message) => {
                self.undelivered(Refusal::Full { capacity: self.sender.capacity().unwrap_or(usize::MAX) }, message)
            }
            TrySendError::Closed(message) => self.undelivered(Refusal::Gone, message),
        })
    }

    /// Sends `message`, and waits up to `time` for room.
    pub fn send_timeout(&self, message: M, time: Duration) -> Result<(), Undelivered<M>> {
        self.sender.send_timeout(message, time).map_err(|error| match error {
            SendTimeoutError::Timeout(message) => self.undelivered(Refusal::TimedOut { after: time }, message),
            SendTimeoutError::Closed(message) => self.undelivered(Refusal::Gone, message),
        })
    }

    /// Sends `message` from a future.
    pub async fn send_async(&self, message: M) -> Result<(), Undelivered<M>> {
        self.sender.send_async(message).await.map_err(|error| self.undelivered(Refusal::Gone, error.0))
    }

    /// Asks: sends the message that `question` makes, with a place for the answer in it, and waits for the answer.
    ///
    /// If the actor fails on the question, or is gone before it came to it, that is an error: the caller does not wait
    /// for an actor that is gone.
    ///
    /// ```
    /// use bursar::{actor, nursery, sync::oneshot};
    ///
    /// struct Square(u64, oneshot::Sender<u64>);
    ///
    /// nursery(|n| {
    ///     let squares = actor::spawn(n, "squares", actor::from_fn(|Square(x, reply), _| {
    ///         let _ = reply.send(x * x); // the caller may have timed out
    ///         Ok(())
    ///     }));
    ///     assert_eq!(squares.ask(|reply| Square(12, reply))?, 144);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn ask<R: Send>(&self, question: impl FnOnce(oneshot::Sender<R>) -> M) -> Result<R, AskError> {
        let (reply, answer) = oneshot::channel();
        self.send(question(reply)).map_err(|_| self.gone())?;
        answer.recv().map_err(|_| self.no_answer())
    }

    /// Asks, and waits up to `time` for the answer; the time to get into the mailbox counts.
    pub fn ask_timeout<R: Send>(
        &self,
        question: impl FnOnce(oneshot::Sender<R>) -> M,
        time: Duration,
    ) -> Result<R, AskError> {
        let until = due(time);
        let (reply, mut answer) = oneshot::channel();
        let timed_out = || AskError::TimedOut { actor: self.actor.clone(), after: time };
        self.send_timeout(question(reply), time)
            .map_err(|error| if error.is_gone() { self.gone() } else { timed_out() })?;
        answer.recv_timeout(until.saturating_duration_since(now())).map_err(|error| match error {
            RecvTimeoutError::Timeout => timed_out(),
            RecvTimeoutError::Closed => self.no_answer(),
        })
    }

    /// Asks from a future; bound it with [`timeout`](sched_tasks::timeout).
    pub async fn ask_async<R: Send>(&self, question: impl FnOnce(oneshot::Sender<R>) -> M) -> Result<R, AskError> {
        let (reply, answer) = oneshot::channel();
        self.send_async(question(reply)).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.no_answer())
    }

    /// Whether the actor is gone for good, or finishes what it has and will be.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.sender.len()
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn undelivered(&self, why: Refusal, message: M) -> Undelivered<M> {
        Undelivered { actor: self.actor.clone(), why, message }
    }

    fn gone(&self) -> AskError {
        AskError::Gone { actor: self.actor.clone() }
    }

    fn no_answer(&self) -> AskError {
        AskError::NoAnswer { actor: self.actor.clone() }
    }
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), sender: self.sender.clone() }
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("actor", &self.actor).field("mailbox", &self.sender).finish()
    }
}
