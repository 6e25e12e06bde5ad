//! Channels of tasks as ends of a graph.
//!
//! Room: interface.
//!
//! # Invariant
//! A channel is never polled in a loop: it wakes the node that waits for it. A value that was received is emitted. A value that is to be sent is
//! in the channel, or held, and then the node takes no more.
//!
//! # Why it holds
//! To wait is a future of the channel, which is polled with the waker of the node. The future owns its end of the channel while it waits, and returns it.

use std::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context as Poller, Poll, Waker},
};

use sched_tasks::{Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};

use crate::{
    error::{NodeError, NodeResult},
    message::{Message, Payload},
    node::{NodeSpec, Out, Produced, Source, Stage},
};

/// The limit of values that a source takes from its channel in one call.
const MAX_AT_ONCE: usize = 64;

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Waits, and returns its end of the channel.
type Receiving<T> = Waiting<(Receiver<T>, Result<T, RecvError>)>;
type Sending<T> = Waiting<(Sender<T>, Result<(), SendError<T>>)>;

/// The receiving end of a channel, without blocking.
pub(super) enum Inflow<T> {
    Open(Receiver<T>),
    Waiting(Receiving<T>),
    Closed,
}

impl<T: Send + 'static> Inflow<T> {
    /// The next value, or None if the channel is closed. If it is pending, the waker will be woken.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Option<T>> {
        loop {
            match mem::replace(self, Inflow::Closed) {
                Inflow::Closed => return Poll::Ready(None),
                Inflow::Open(receiver) => match receiver.try_recv() {
                    Ok(value) => {
                        *self = Inflow::Open(receiver);
                        return Poll::Ready(Some(value));
                    }
                    Err(TryRecvError::Closed) => return Poll::Ready(None),
                    Err(TryRecvError::Empty) => {
                        *self = Inflow::Waiting(Box::pin(async move {
                            let value = receiver.recv_async().await;
                            (receiver, value)
                        }));
                    }
                },
                Inflow::Waiting(mut waiting) => match waiting.as_mut().poll(&mut Poller::from_waker(waker)) {
                    Poll::Pending => {
                        *self = Inflow::Waiting(waiting);
                        return Poll::Pending;
                    }
                    Poll::Ready((_, Err(RecvError))) => return Poll::Ready(None),
                    Poll::Ready((receiver, Ok(value))) => {
                        *self = Inflow::Open(receiver);
                        return Poll::Ready(Some(value));
                    }
                },
            }
        }
    }
}

/// Emits all values of a channel. Ends when the channel is closed, or its last sender is dropped.
///
/// Nothing is polled: the channel wakes the node. When the graph is full the channel fills, and its senders wait.
///
/// ```
/// use bursar::flow::{Harness, from_channel};
///
/// let (tx, rx) = bursar::channel(8);
/// let mut node = Harness::new(from_channel(rx));
/// tx.send("hello").unwrap();
/// node.produce()?;
/// assert_eq!(node.take::<&str>("out"), ["hello"]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn from_channel<T: Payload>(receiver: Receiver<T>) -> NodeSpec {
    NodeSpec::source(FromChannel(Inflow::Open(receiver)))
}

struct FromChannel<T>(Inflow<T>);

impl<T: Payload> Source for FromChannel<T> {
    type Out = T;

    fn produce(&mut self, out: &mut Out<'_, T>) -> Result<Produced, NodeError> {
        let waker = out.waker();
        for _ in 0..MAX_AT_ONCE.min(out.room()) {
            match self.0.poll(&waker) {
                Poll::Ready(Some(value)) => out.emit(value),
                Poll::Ready(None) => return Ok(Produced::End),
                Poll::Pending => return Ok(Produced::Idle),
            }
        }
        Ok(Produced::More)
    }
}

/// The sending end of a channel, without blocking. Holds at most one value.
pub(super) enum Outflow<T> {
    Open(Sender<T>),
    Waiting(Sending<T>),
    Closed,
}

/// The error of a channel without a receiver.
fn no_receiver() -> NodeError {
    NodeError::msg("the channel has no receiver any more; keep one, or end the flow")
}

impl<T: Send + 'static> Outflow<T> {
    /// Sends it, or holds it until there is room and the waker is woken.
    pub(super) fn send(&mut self, value: T, waker: &Waker) -> NodeResult {
        match self {
            Outflow::Open(sender) => match sender.try_send(value) {
                Ok(()) => Ok(()),
                Err(TrySendError::Closed(_)) => {
                    *self = Outflow::Closed;
                    Err(no_receiver())
                }
                Err(TrySendError::Full(value)) => {
                    let sender = sender.clone();
                    *self = Outflow::Waiting(Box::pin(async move {
                        let sent = sender.send_async(value).await;
                        (sender, sent)
                    }));
                    self.poll(waker)
                }
            },
            Outflow::Waiting(_) => Err(NodeError::msg("a message came while another was held; ask `accepts` first")),
            Outflow::Closed => Err(no_receiver()),
        }
    }

    /// Checks whether the held value was sent.
    pub(super) fn poll(&mut self, waker: &Waker) -> NodeResult {
        if let Outflow::Waiting(waiting) = self
            && let Poll::Ready((sender, sent)) = waiting.as_mut().poll(&mut Poller::from_waker(waker))
        {
            if sent.is_err() {
                *self = Outflow::Closed;
                return Err(no_receiver());
            }
            *self = Outflow::Open(sender);
        }
        Ok(())
    }

    /// How many messages wait for room: one, or none.
    pub(super) fn held(&self) -> usize {
        usize::from(!self.is_free())
    }

    /// Whether nothing is held.
    pub(super) fn is_free(&self) -> bool {
        !matches!(self, Outflow::Waiting(_))
    }
}

/// Sends everything into a channel. While the channel is full the node takes nothing, so the edges before it fill. Without a receiver, every
/// message is an error of the node.
///
/// The channel is closed when the flow is over, if the node has the only sender.
///
/// ```
/// use bursar::flow::{Harness, to_channel};
///
/// let (tx, rx) = bursar::channel(8);
/// let mut node = Harness::new(to_channel(tx));
/// node.send("in", "hello")?;
/// assert_eq!(rx.recv(), Ok("hello"));
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn to_channel<T: Payload>(sender: Sender<T>) -> NodeSpec {
    NodeSpec::stage(ToChannel(Outflow::Open(sender)))
}

struct ToChannel<T>(Outflow<T>);

impl<T: Payload> Stage for ToChannel<T> {
    type In = T;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, ()>) -> NodeResult {
        let sent = self.0.send(message.payload, &out.waker());
        out.in_flight().set(self.0.held());
        sent
    }

    fn on_wake(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        let sent = self.0.poll(&out.waker());
        out.in_flight().set(self.0.held());
        sent
    }

    fn on_stop(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.0 = Outflow::Closed;
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.0.is_free()
    }

    fn is_done(&self) -> bool {
        self.0.is_free()
    }
}
