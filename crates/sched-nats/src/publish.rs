//! The node that sends to a broker.
//!
//! Room: interface.
//!
//! # Invariant
//! A message that the node took is in flight until the broker has acknowledged it. When the credit is used up the node takes no more, so the edge before it fills, and its policy decides.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use sched_flow::{Message, NodeError, NodeResult, NodeSpec, Out, Payload, Stage};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::drive::engine::Engine;
use crate::drive::send::{SendTask, Shared, Work};
use crate::edge::{Edge, number};
use crate::pack::Item;

/// A node that sends each message to a broker, from where [`subscribe`](crate::subscribe) takes it in another process. `encode` makes its bytes.
///
/// The edge before it decides what happens when the broker is slow or away: a Block edge holds up the producer, others drop, replace or merge as their policy says. What the node took is not lost while
/// the broker keeps its files: it is sent again until the broker acknowledges it, in order. When its input has ended, and all is with the broker, the end is sent too, and ends the node at the other side.
///
/// ```no_run
/// use bursar::flow::{Flow, Graph, from_iter, nats};
///
/// let edge = nats::Edge::new("nats://127.0.0.1/numbers".parse()?);
/// let mut graph = Graph::new("count");
/// let numbers = graph.add("numbers", from_iter(0..1_000_u64));
/// let send = graph.add("send", nats::publish(edge, |number: &u64| number.to_le_bytes().to_vec()));
/// graph.connect(&numbers, &send);
/// Flow::new(graph)?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn publish<T: Payload>(edge: Edge, encode: impl FnMut(&T) -> Vec<u8> + Send + 'static) -> NodeSpec {
    let publish = Publish {
        edge,
        encode,
        of: std::marker::PhantomData,
        link: None,
        shared: Arc::new(Shared::new()),
        held: 0,
        ended: false,
    };
    NodeSpec::stage(publish)
}

struct Publish<T, F> {
    edge: Edge,
    encode: F,
    of: std::marker::PhantomData<fn(T)>,
    link: Option<(UnboundedSender<Work>, Arc<Engine>)>,
    shared: Arc<Shared>,
    /// Messages in the window, as of the last call.
    held: u64,
    ended: bool,
}

impl<T: Payload, F: FnMut(&T) -> Vec<u8> + Send + 'static> Stage for Publish<T, F> {
    type In = T;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_start(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        let engine = Engine::shared()?;
        let (sender, work) = unbounded_channel();
        let task = SendTask {
            edge: self.edge.clone(),
            session: number(),
            work,
            shared: Arc::clone(&self.shared),
            in_flight: out.in_flight().clone(),
            waker: out.waker(),
        };
        engine.spawn(task.run());
        self.link = Some((sender, engine));
        Ok(())
    }

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, ()>) -> NodeResult {
        let item = Item::new(message.header, (self.encode)(&message.payload));
        let (bytes, largest) = (item.bytes.len() as u64, self.shared.largest.load(SeqCst));
        if bytes > largest {
            return Err(NodeError::msg(format!(
                "a message of {bytes} bytes does not go over {}, which takes {largest}; raise `max_payload` of the broker",
                self.edge.address().broker()
            )));
        }
        let (sender, _) = self.link.as_ref().ok_or_else(|| NodeError::msg("the node has not started"))?;
        let size = item.size() as u64;
        out.in_flight().add(1);
        self.shared.bytes.fetch_add(size, SeqCst);
        if sender.send(Work::Item(item)).is_err() {
            out.in_flight().remove(1);
            return Err(self.failed().unwrap_or_else(|| NodeError::msg("the connection has ended")).for_good());
        }
        self.held = out.in_flight().held();
        Ok(())
    }

    fn on_wake(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.held = out.in_flight().held();
        self.failed().map_or(Ok(()), |error| Err(error.for_good()))
    }

    fn on_end(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.ended = true;
        if let Some((sender, _)) = &self.link {
            let _ = sender.send(Work::End); // a task that has ended needs no end
        }
        Ok(())
    }

    fn on_stop(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.link = None;
        Ok(())
    }

    fn accepts(&self) -> bool {
        let (messages, bytes) = self.edge.credit();
        let is_connected = self.shared.connected.load(SeqCst);
        is_connected && self.held < messages && self.shared.bytes.load(SeqCst) < bytes
    }

    fn is_done(&self) -> bool {
        !self.ended || self.shared.state().is_over
    }
}

impl<T, F> Publish<T, F> {
    /// Why the task has ended, said once.
    fn failed(&self) -> Option<NodeError> {
        self.shared.state().failure.take().map(NodeError::from)
    }
}
