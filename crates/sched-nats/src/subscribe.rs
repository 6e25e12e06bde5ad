//! The node that receives from a broker.
//!
//! Room: interface.
//!
//! # Invariant
//! Each message is emitted once in the life of this process, in order. The broker hears of it when the next node has finished with it.
//!
//! # Why it holds
//! A pack is emitted whole, in one call, and then its end is told to the task that receives, with the number of all messages emitted so far. The edge counts what its consumer has finished in the same order.
//! A message that cannot be decoded is not emitted, fails, and counts as finished.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sched_flow::{Header, Message, NodeError, NodeResult, NodeSpec, Out, Payload, Produced, Source};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, error::TryRecvError, unbounded_channel};

use crate::drive::engine::Engine;
use crate::drive::receive::{Arrived, ReceiveTask, State, Stop};
use crate::edge::{Edge, number};
use crate::pack::Item;

/// How long a flow that ends waits for the last acknowledgements.
const LAST: Duration = Duration::from_secs(5);

/// A source of the messages that [`publish`](crate::publish) sent in another process. `decode` makes them of their bytes. It ends when the sender has ended and all was emitted.
///
/// The edge after it must block: the sender's edge is where messages are dropped or merged. A message is acknowledged to the broker when the next node has handled it and no longer
/// [holds](sched_flow::InFlight) it. If this process dies before, the message is given to the next one, which counts it as [redelivered](sched_flow::LinkStats::redelivered).
///
/// ```no_run
/// use bursar::flow::{Flow, Graph, nats, sink};
///
/// let edge = nats::Edge::new("nats://127.0.0.1/numbers".parse()?);
/// let mut graph = Graph::new("show");
/// let numbers = graph.add("numbers", nats::subscribe(edge, |bytes| Ok(u64::from_le_bytes(bytes.try_into()?))));
/// let show = graph.add("show", sink(|number: u64| println!("{number}")));
/// graph.connect(&numbers, &show);
/// Flow::new(graph)?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn subscribe<T: Payload>(
    edge: Edge,
    decode: impl FnMut(&[u8]) -> Result<T, NodeError> + Send + 'static,
) -> NodeSpec {
    NodeSpec::source(Subscribe {
        edge,
        decode,
        link: None,
        raw: VecDeque::new(),
        ready: Vec::new(),
        bad: VecDeque::new(),
        emitted: 0,
        open: false,
    })
}

/// What the node holds of its task.
struct Link {
    packs: UnboundedReceiver<Arrived>,
    emitted: UnboundedSender<u64>,
    state: Arc<Mutex<State>>,
    stop: Stop,
    _engine: Arc<Engine>,
}

struct Subscribe<T, F> {
    edge: Edge,
    decode: F,
    link: Option<Link>,
    /// Messages of the current pack that are not decoded.
    raw: VecDeque<Item>,
    /// Those that are, and not emitted.
    ready: Vec<Message<T>>,
    /// Those that cannot be.
    bad: VecDeque<NodeError>,
    emitted: u64,
    /// A pack was begun, and its end not told.
    open: bool,
}

impl<T: Payload, F: FnMut(&[u8]) -> Result<T, NodeError> + Send + 'static> Source for Subscribe<T, F> {
    type Out = T;

    fn on_start(&mut self, out: &mut Out<'_, T>) -> NodeResult {
        let engine = Engine::shared()?;
        let (to_node, packs) = unbounded_channel();
        let (emitted, from_node) = unbounded_channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let progress = Arc::new(Notify::new());
        let tells = Arc::clone(&progress);
        let state = Arc::<Mutex<State>>::default();
        let task = ReceiveTask {
            edge: self.edge.clone(),
            id: number(),
            packs: to_node,
            emitted: from_node,
            receipts: Arc::new(out.receipts(move || tells.notify_one())?),
            progress,
            stop: stopped,
            state: Arc::clone(&state),
            in_flight: out.in_flight().clone(),
            waker: out.waker(),
        };
        engine.spawn(task.run());
        self.link = Some(Link { packs, emitted, state, stop, _engine: engine });
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, T>) -> Result<Produced, NodeError> {
        if let Some(error) = self.bad.pop_front() {
            return Err(error);
        }
        let Some(link) = &mut self.link else { return Ok(Produced::End) };
        if !self.open {
            match link.packs.try_recv() {
                Ok(Arrived::Pack(items)) => {
                    self.raw = items.into();
                    self.open = true;
                }
                Ok(Arrived::End) => {
                    let _ = link.emitted.send(self.emitted);
                    return Ok(Produced::End);
                }
                Err(TryRecvError::Empty) => return Ok(Produced::Idle),
                Err(TryRecvError::Disconnected) => {
                    let failure = link.state.lock().unwrap_or_else(PoisonError::into_inner).failure.take();
                    return Err(failure
                        .map_or_else(|| NodeError::msg("the connection has ended"), NodeError::from)
                        .for_good());
                }
            }
        }
        // Decoded first, and emitted then: a call that fails takes back what it emitted.
        while let Some(item) = self.raw.pop_front() {
            match (self.decode)(&item.bytes) {
                Ok(payload) => {
                    let header = Header { trace: item.trace, at: out.now(), kind: item.kind };
                    self.ready.push(Message { header, payload });
                }
                Err(error) => self.bad.push_back(error.with_record(item.bytes)),
            }
        }
        self.emitted += self.ready.len() as u64;
        self.ready.drain(..).for_each(|message| out.send(message));
        self.open = false;
        let _ = link.emitted.send(self.emitted); // a task that has ended acknowledges nothing
        Ok(Produced::More)
    }

    fn on_stop(&mut self, _out: &mut Out<'_, T>) -> NodeResult {
        let Some(link) = self.link.take() else { return Ok(()) };
        let (tell, mut told) = sched_tasks::oneshot::channel();
        let answer = move || {
            let _ = tell.send(());
        };
        if link.stop.send(Box::new(answer)).is_ok() {
            // Blocks this task only. What is not acknowledged in time comes again.
            let _ = told.recv_timeout(LAST);
        }
        // What was handled counts only if the broker took the acknowledgements.
        let failure = link.state.lock().unwrap_or_else(PoisonError::into_inner).failure.take();
        failure.map_or(Ok(()), |error| Err(NodeError::from(error).for_good()))
    }
}
