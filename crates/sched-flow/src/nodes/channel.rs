//! Channels of tasks as ends of a graph.
//!
//! # Invariant
//! Nobody looks at a channel in vain: a node that waits for one is woken by it. A value that was received is emitted; one that was sent is
//! in the channel, or held, and then the node takes no more.
//!
//! # Why it holds
//! Waiting is a future of the channel, polled with the node's waker. It owns its end of the channel while it waits, and gives it back.

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

/// A source looks at its channel so often before others have a turn.
const MOST_AT_ONCE: usize = 64;

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Waits, and gives its end of the channel back.
type Receiving<T> = Waiting<(Receiver<T>, Result<T, RecvError>)>;
type Sending<T> = Waiting<(Sender<T>, Result<(), SendError<T>>)>;

/// The receiving end of a channel, for somebody who must not wait.
pub(super) enum Inflow<T> {
    Open(Receiver<T>),
    Waiting(Receiving<T>),
    Closed,
}

impl<T: Send + 'static> Inflow<T> {
    /// The next value, or None if the channel is over. Pending: the waker will be woken.
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

/// Everything that comes out of a channel. Ends when the channel is closed, or its last sender is gone.
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
        for _ in 0..MOST_AT_ONCE.min(out.room()) {
            match self.0.poll(&waker) {
                Poll::Ready(Some(value)) => out.emit(value),
                Poll::Ready(None) => return Ok(Produced::End),
                Poll::Pending => return Ok(Produced::Idle),
            }
        }
        Ok(Produced::More)
    }
}

/// The sending end of a channel, for somebody who must not wait. Holds at most one value.
pub(super) enum Outflow<T> {
    Open(Sender<T>),
    Waiting(Sending<T>),
    Closed,
}

/// What is said of a channel that nobody reads.
fn nobody() -> NodeError {
    NodeError::msg("nobody receives from the channel any more; keep its receiver, or end the flow")
}

impl<T: Send + 'static> Outflow<T> {
    /// Sends it, or holds it until there is room and the waker is woken.
    pub(super) fn send(&mut self, value: T, waker: &Waker) -> NodeResult {
        match self {
            Outflow::Open(sender) => match sender.try_send(value) {
                Ok(()) => Ok(()),
                Err(TrySendError::Closed(_)) => {
                    *self = Outflow::Closed;
                    Err(nobody())
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
            Outflow::Closed => Err(nobody()),
        }
    }

    /// Looks whether what is held was sent.
    pub(super) fn poll(&mut self, waker: &Waker) -> NodeResult {
        if let Outflow::Waiting(waiting) = self
            && let Poll::Ready((sender, sent)) = waiting.as_mut().poll(&mut Poller::from_waker(waker))
        {
            if sent.is_err() {
                *self = Outflow::Closed;
                return Err(nobody());
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

/// Sends everything into a channel. While the channel is full the node takes nothing, so the edges before it fill. If nobody receives any more, every
/// message is an error of the node.
///
/// The channel is closed when the flow is over, as far as the node has the only sender.
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
        out.custody().set(self.0.held());
        sent
    }

    fn on_wake(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        let sent = self.0.poll(&out.waker());
        out.custody().set(self.0.held());
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
