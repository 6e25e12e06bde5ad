//! A harness for one node: to test it without a graph, without threads, and in virtual time.
//!
//! Room: interface. Knows ports and payloads; knows nothing of turns, ticks and error policies.
//!
//! # Invariant
//! The node is called by the loop, the decisions and the error policy of a real flow. Only the clock is moved by hand, and output stays on its edge until it is taken.
//!
//! # Why it holds
//! The harness makes no call of the node. It puts messages on edges, takes them from edges, and lets [`Single`] run until nothing more can happen now.

mod events;

use std::{any::Any, collections::VecDeque, fmt, sync::Arc, task::Waker, time::Duration};

use policy_flow::{NodeState, Policy};

use crate::{
    drive::{host::NurseryHost, single::Single, work::MAX_TICKS_AT_ONE_TIME},
    edge::{AnyEdge, Edge, EdgeSetup},
    error::{NodeError, NodeResult},
    in_flight::InFlight,
    message::{Message, Payload, Time, TraceId},
    node::{
        NodeSpec, Produced,
        cx::Cx,
        schema::{AnySchema, Check, PortSpec},
    },
    observe::Observer,
};
use events::{Errors, WAKE_TIMEOUT, WakeFlag};

/// More messages than any test sends.
const UNLIMITED: usize = 1 << 30;

/// A source that fails so often in a row does not work.
const MAX_FAILURES: u32 = 1000;

/// Runs one node without a graph, in virtual time, with the loop and the decisions of a real flow.
///
/// Messages that are sent are handled at once, if the node accepts them. Those of several inputs that have to wait are served in turn. Time stands still until
/// [`advance`](Self::advance); a source produces only when it is [asked](Self::produce), or at the ticks of its cadence; and a node that was woken has its `on_wake` called by
/// [`woken`](Self::woken) or [`wake`](Self::wake).
///
/// ```
/// use bursar::flow::{Harness, map};
///
/// let mut node = Harness::new(map(|x: i32| x + 1));
/// node.send("in", 1)?;
/// node.send("in", 2)?;
/// assert_eq!(node.take::<i32>("out"), [2, 3]);
/// assert!(node.send("in", "three").is_err()); // the port carries i32
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub struct Harness {
    flow: Single,
    is_source: bool,
    inputs: Vec<Input>,
    outputs: Vec<(PortSpec, Arc<dyn AnyEdge>)>,
    /// Trace ids that were given to messages.
    traces: u64,
    wakes: Arc<WakeFlag>,
    errors: Arc<Errors>,
    seen_errors: Vec<String>,
}

struct Input {
    port: PortSpec,
    edge: Arc<dyn AnyEdge>,
    schema: Option<AnySchema>,
}

impl Harness {
    /// A node that has been started.
    pub fn new(node: impl Into<NodeSpec>) -> Self {
        let spec = node.into();
        let declared = spec.declare();
        let NodeSpec { mut unit, tick, on_error, schemas, .. } = spec;
        let schema_of = |port: &PortSpec| {
            schemas.iter().find(|(name, _)| **name == *port.name).map(|(_, schema)| schema.clone()).inspect(|schema| {
                assert!(schema.of == port.carries, "a schema of `{}` is for {}", port.name, schema.of.name);
            })
        };
        let mut inputs = Vec::new();
        for (index, port) in declared.inputs.into_iter().enumerate() {
            let edge = unit.open_input(index, setup(index));
            inputs.push(Input { schema: schema_of(&port), port, edge });
        }
        let mut outputs = Vec::new();
        for (index, port) in declared.outputs.into_iter().enumerate() {
            let edge = unit.open_output(index, setup(inputs.len() + index));
            if let Some(schema) = schema_of(&port) {
                unit.check_output(index, &schema.check);
            }
            outputs.push((port, edge));
        }
        let wakes = Arc::<WakeFlag>::default();
        let errors = Arc::<Errors>::default();
        let task_errors = Arc::clone(&errors);
        let host = NurseryHost::on_thread("node".into(), Arc::new(move |error| task_errors.push(error.to_string())));
        let mut cx = Cx::new("node".into(), 0, Waker::from(Arc::clone(&wakes)), Box::new(host));
        cx.observer = Some(Arc::clone(&errors) as Arc<dyn Observer>);
        let is_source = unit.is_source();
        let edges_in: Vec<_> = inputs.iter().map(|input| Arc::clone(&input.edge)).collect();
        let edges_out: Vec<_> = outputs.iter().map(|(_, edge)| Arc::clone(edge)).collect();
        let flow = Single::start((unit, cx), tick, on_error, &edges_in, &edges_out);
        let mut harness = Self { flow, is_source, inputs, outputs, traces: 0, wakes, errors, seen_errors: Vec::new() };
        harness.run();
        harness
    }

    /// Lets every output hold so many messages that were not [taken](Self::take). When one is full, the node waits, as in a flow.
    ///
    /// # Panics
    /// If it is 0.
    pub fn output_capacity(self, messages: usize) -> Self {
        for (_, edge) in &self.outputs {
            edge.set_capacity(messages);
        }
        // What the node knows of the room is no longer true.
        self.flow.cell().unit.has_room(usize::MAX);
        self
    }

    /// Sends a message to an input. It is handled at once, unless the node does not accept it, has no room for output, or
    /// backs off after an error.
    ///
    /// # Errors
    /// If there is no such input, it carries another type, its schema refuses the payload, or the node has ended. Errors of the
    /// *node* are in [`errors`](Self::errors).
    pub fn send<T: Payload>(&mut self, input: &str, payload: T) -> NodeResult {
        self.send_message(input, Message::new(payload))
    }

    /// Sends a message with a header of its own. One without a trace id gets one.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_message<T: Payload>(&mut self, input: &str, mut message: Message<T>) -> NodeResult {
        let Some(index) = self.inputs.iter().position(|known| &*known.port.name == input) else {
            let known = self.inputs.iter().map(|known| &*known.port.name);
            return Err(NodeError::msg(format!("the node has no input `{input}`; it has: {}", list(known))));
        };
        let Input { port, edge, schema } = &self.inputs[index];
        let Some(edge) = typed::<T>(edge) else {
            return Err(NodeError::msg(format!(
                "input `{input}` carries {}, not {}; send that",
                port.carries.name,
                std::any::type_name::<T>()
            )));
        };
        if !self.flow.takes_input() {
            return Err(NodeError::msg(format!("input `{input}` has ended: the node was ended or stopped")));
        }
        if let Some(check) = schema.as_ref().and_then(|schema| schema.check.downcast_ref::<Check<T>>()) {
            check(&message.payload).map_err(NodeError::msg)?;
        }
        if message.header.trace == TraceId::NONE {
            self.traces += 1;
            message.header.trace = TraceId(self.traces);
            message.header.at = self.now();
        }
        let (refused, is_news) = {
            let mut queue = edge.queue();
            (queue.put(message).1.is_some(), queue.signal_filled())
        };
        if refused {
            return Err(NodeError::msg(format!(
                "{UNLIMITED} messages wait at input `{input}`; let the node handle some"
            )));
        }
        if is_news {
            self.flow.filled(index);
        }
        self.run();
        Ok(())
    }

    /// Takes the messages that were emitted at an output since the last time. That makes room for more.
    ///
    /// # Panics
    /// If there is no such output, or it carries another type.
    #[track_caller]
    pub fn take<T: Payload>(&mut self, output: &str) -> Vec<T> {
        self.take_messages(output).into_iter().map(|message| message.payload).collect()
    }

    /// As [`take`](Self::take), with the headers.
    ///
    /// # Panics
    /// If there is no such output, or it carries another type.
    #[track_caller]
    pub fn take_messages<T: Payload>(&mut self, output: &str) -> Vec<Message<T>> {
        let Some(index) = self.outputs.iter().position(|(port, _)| &*port.name == output) else {
            let known = self.outputs.iter().map(|(port, _)| &*port.name);
            panic!("the node has no output `{output}`; it has: {}", list(known));
        };
        let (port, edge) = &self.outputs[index];
        let Some(edge) = typed::<T>(edge) else {
            panic!("output `{output}` carries {}, not {}", port.carries.name, std::any::type_name::<T>());
        };
        let mut taken = VecDeque::new();
        let settled = {
            let mut queue = edge.queue();
            queue.take(usize::MAX, &mut taken);
            queue.settle(&mut VecDeque::new())
        };
        if settled.roomy {
            self.flow.roomy(index);
        }
        self.run();
        taken.into()
    }

    /// Collects at least `count` messages of an output, or all until the node has ended, of a node that is woken from outside. Asks it, if it is a source, and waits for its
    /// waker. Waits in real time; virtual time stands still.
    ///
    /// # Panics
    /// As [`take`](Self::take) and [`woken`](Self::woken); and if a source does nothing but fail.
    #[track_caller]
    pub fn collect<T: Payload>(&mut self, output: &str, count: usize) -> Vec<T> {
        let mut got = Vec::new();
        let mut failed = 0;
        loop {
            got.extend(self.take(output));
            if got.len() >= count || self.is_ended() {
                return got;
            }
            let produced = if self.is_source { self.produce() } else { Ok(Produced::Idle) };
            let new = self.take(output);
            match produced {
                Ok(Produced::Idle) if new.is_empty() => self.woken(),
                Ok(_) => failed = 0,
                Err(error) => {
                    failed += 1;
                    assert!(failed < MAX_FAILURES, "the source failed {failed} times in a row: {error}");
                }
            }
            got.extend(new);
        }
    }

    /// Advances time. Ticks that fall due, and messages that are tried again after an error, come in their order, each at its time.
    ///
    /// # Panics
    /// If the node asks for ticks at the same time without end. All calls that let the node run panic then.
    #[track_caller]
    pub fn advance(&mut self, by: Duration) {
        self.run_until(self.now() + by);
    }

    /// Calls `on_tick` as soon as the node has room for output, whether a tick is due or not. A source with a cadence produces once after it.
    #[track_caller]
    pub fn tick(&mut self) {
        self.flow.tick();
        self.run();
    }

    /// Calls `on_wake` as soon as the node has room for output, whether its waker was used or not.
    #[track_caller]
    pub fn wake(&mut self) {
        self.wakes.clear();
        self.flow.wake();
        self.run();
    }

    /// Waits until the node's waker is used, then calls `on_wake`. Waits in real time; virtual time stands still.
    ///
    /// # Panics
    /// If the waker is not used within 20 seconds.
    #[track_caller]
    pub fn woken(&mut self) {
        assert!(self.wakes.wait(), "the node was not woken within {WAKE_TIMEOUT:?}; did it give its waker to a task?");
        self.flow.wake();
        self.run();
    }

    /// Whether the node's waker was used since the last wake.
    pub fn is_woken(&self) -> bool {
        self.wakes.is_set()
    }

    /// Asks a source for messages once, if there is room.
    ///
    /// # Errors
    /// The error of the source, as a text.
    ///
    /// # Panics
    /// If the node is not a source.
    #[track_caller]
    pub fn produce(&mut self) -> Result<Produced, NodeError> {
        assert!(self.is_source, "the node has inputs, so it is not asked to produce; send it something");
        let answer = self.flow.produce();
        self.run();
        let has_ended = self.flow.state() != NodeState::Running;
        answer.unwrap_or(Ok(if has_ended { Produced::End } else { Produced::More }))
    }

    /// Ends the input. `on_end` is called when all messages are handled and the node is done, now or later; after that
    /// the node is over when it is done once more: see [`is_ended`](Self::is_ended).
    pub fn end(&mut self) {
        self.flow.end();
        self.run();
    }

    /// Whether the node is over: `on_end` was called and nothing is left, the source ended its stream, or it was stopped.
    pub fn is_ended(&self) -> bool {
        self.flow.state().is_over()
    }

    /// Calls `on_stop`, and ends the tasks that the node started.
    pub fn stop(&mut self) {
        if !self.is_stopped() {
            self.flow.stop();
        }
    }

    /// Whether it was stopped, by [`stop`](Self::stop) or by its error policy.
    pub fn is_stopped(&self) -> bool {
        self.flow.state() == NodeState::Stopped
    }

    /// Whether the node takes another message now.
    pub fn accepts(&self) -> bool {
        self.flow.cell().unit.accepts()
    }

    /// How many messages wait to be handled.
    pub fn waiting(&self) -> usize {
        self.inputs.iter().map(|input| input.edge.state().depth).sum()
    }

    /// Whether the node asked for the whole graph to stop. Here it is only noted.
    pub fn asked_for_shutdown(&self) -> bool {
        self.flow.asked_for_shutdown()
    }

    /// All errors of the node so far.
    pub fn errors(&mut self) -> &[String] {
        self.errors.copy_to(&mut self.seen_errors);
        &self.seen_errors
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.flow.now()
    }

    /// Gives the node all turns that it can have now.
    #[track_caller]
    fn run(&mut self) {
        self.run_until(self.now());
    }

    #[track_caller]
    fn run_until(&mut self, time: Time) {
        assert!(
            self.flow.run_until(time),
            "the node asked {MAX_TICKS_AT_ONE_TIME} times for a tick at {}; ask for a later one",
            self.now()
        );
        if self.flow.has_failed() {
            self.stop();
        }
    }
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("now", &self.now())
            .field("state", &self.flow.state())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

fn setup(index: usize) -> EdgeSetup {
    EdgeSetup {
        index: index as u32,
        id: "harness".into(),
        capacity: UNLIMITED,
        policy: Policy::Block,
        merge: None,
        taken: InFlight::default(),
    }
}

fn typed<T: Payload>(edge: &Arc<dyn AnyEdge>) -> Option<Arc<Edge<T>>> {
    let edge: Arc<dyn Any + Send + Sync> = Arc::clone(edge).into_any();
    edge.downcast().ok()
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
