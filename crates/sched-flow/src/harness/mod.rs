//! One node, driven by hand: to test a node without a graph, threads or a clock.
//!
//! Room: drive. The only effects are those of the node itself, and the thread of the tasks that it starts.
//!
//! # Invariant
//! The node is called as a flow calls it: through the same [`Unit`], with the same room, error policy and order of calls. Only time is
//! told by hand, and what comes out lies in edges until it is taken.
//!
//! # Why it holds
//! [`Harness::pump`] is the one place that serves messages. It is called after everything that may let the node go on: a message, a
//! tick, a wake, a take that made room.

mod told;

use std::{any::Any, collections::VecDeque, fmt, sync::Arc, task::Waker, time::Duration};

use policy_flow::Policy;

use crate::{
    drive::{
        cell::{pause_after, stops},
        host::NurseryHost,
    },
    edge::{AnyEdge, Edge, EdgeSetup},
    error::{NodeError, NodeResult, OnError},
    message::{Message, Payload, Time, TraceId},
    node::{
        NodeSpec, Produced,
        cx::Cx,
        inlet::Fate,
        schema::{AnySchema, Check, PortSpec},
        unit::{Hook, Unit, call_hook, note},
    },
    observe::Observer,
};
use told::{Bell, Errors, WAKE_LIMIT};

/// As many as anybody will send in a test.
const PLENTY: usize = 1 << 30;

/// A node that asks so often for a tick at the same time will do so for ever.
const MOST_AT_ONE_TIME: u32 = 10_000;
/// A source that fails so often in a row will not work.
const MOST_FAILURES: u32 = 1000;

/// Drives one node without a graph, in virtual time.
///
/// Messages that are sent are handled at once, if the node accepts them. Time stands still until it is told to
/// [advance](Self::advance).
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
    unit: Box<dyn Unit>,
    cx: Cx,
    on_error: OnError,
    cadence: Option<Duration>,
    /// When the cadence comes next.
    next_tick: Option<Time>,
    /// When the node asked for a tick.
    asked: Option<Time>,
    /// After a failure: it is not served before.
    rest: Option<Time>,
    /// How often in a row a tick, or the end, failed.
    failed: u32,
    inputs: Vec<Input>,
    outputs: Vec<(PortSpec, Arc<dyn AnyEdge>)>,
    /// The inputs of what waits, in the order in which it was sent.
    waiting: VecDeque<usize>,
    traces: u64,
    state: State,
    shutdown: bool,
    bell: Arc<Bell>,
    errors: Arc<Errors>,
    told: Vec<String>,
}

struct Input {
    port: PortSpec,
    edge: Arc<dyn AnyEdge>,
    schema: Option<AnySchema>,
}

/// Where the node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum State {
    Running,
    /// No more input comes; something is still under way.
    Ending,
    /// `on_end` was called, and something is under way again.
    Closing,
    Ended,
    Stopped,
}

impl Harness {
    /// A node that has been started.
    pub fn new(node: impl Into<NodeSpec>) -> Self {
        let spec = node.into();
        let declared = spec.declare();
        let NodeSpec { mut unit, tick, on_error, schemas, .. } = spec;
        let mut outputs = Vec::new();
        for (place, port) in declared.outputs.into_iter().enumerate() {
            let edge = unit.open_output(place, setup(place));
            if let Some((_, schema)) = schemas.iter().find(|(name, _)| **name == *port.name) {
                assert!(schema.of == port.carries, "a schema of `{}` is for {}", port.name, schema.of.name);
                unit.check_output(place, &schema.check);
            }
            outputs.push((port, edge));
        }
        let open = |(place, port): (usize, PortSpec)| {
            let edge = unit.open_input(place, setup(place));
            let schema = schemas.iter().find(|(name, _)| **name == *port.name).map(|(_, schema)| schema.clone());
            Input { port, edge, schema }
        };
        let inputs = declared.inputs.into_iter().enumerate().map(open).collect();
        let bell = Arc::<Bell>::default();
        let errors = Arc::<Errors>::default();
        let tell = Arc::clone(&errors);
        let host = NurseryHost::on_thread("node".into(), Arc::new(move |error| tell.push(error.to_string())));
        let mut cx = Cx::new("node".into(), 0, Waker::from(Arc::clone(&bell)), Box::new(host));
        cx.observer = Some(Arc::clone(&errors) as Arc<dyn Observer>);
        let mut harness = Self {
            unit,
            cx,
            on_error,
            cadence: tick,
            next_tick: tick.map(|every| Time::START + every),
            asked: None,
            rest: None,
            failed: 0,
            inputs,
            outputs,
            waiting: VecDeque::new(),
            traces: 0,
            state: State::Running,
            shutdown: false,
            bell,
            errors,
            told: Vec::new(),
        };
        harness.call(Hook::Start);
        harness
    }

    /// Lets every output hold so many messages that nobody [took](Self::take). When one is full, the node waits, as in a flow.
    ///
    /// # Panics
    /// If it is 0.
    pub fn output_capacity(self, messages: usize) -> Self {
        for (_, edge) in &self.outputs {
            edge.set_capacity(messages);
        }
        self
    }

    /// Sends a message to an input. It is handled at once, unless the node does not accept it, has no room for what comes of it, or
    /// rests after an error.
    ///
    /// # Errors
    /// If there is no such input, it carries another type, its schema refuses the payload, or the node has ended. That the
    /// *node* failed is told by [`errors`](Self::errors).
    pub fn send<T: Payload>(&mut self, input: &str, payload: T) -> NodeResult {
        self.send_message(input, Message::new(payload))
    }

    /// Sends a message with a header of its own. One without a trace id gets one.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_message<T: Payload>(&mut self, input: &str, mut message: Message<T>) -> NodeResult {
        let Some(place) = self.inputs.iter().position(|known| &*known.port.name == input) else {
            let known = self.inputs.iter().map(|known| &*known.port.name);
            return Err(NodeError::msg(format!("the node has no input `{input}`; it has: {}", list(known))));
        };
        let Input { port, edge, schema } = &self.inputs[place];
        let Some(edge) = typed::<T>(edge) else {
            return Err(NodeError::msg(format!(
                "input `{input}` carries {}, not {}; send that",
                port.carries.name,
                std::any::type_name::<T>()
            )));
        };
        if self.state != State::Running {
            return Err(NodeError::msg(format!("input `{input}` is over: the node was told to end, or stopped")));
        }
        if let Some(check) = schema.as_ref().and_then(|schema| schema.check.downcast_ref::<Check<T>>()) {
            check(&message.payload).map_err(NodeError::msg)?;
        }
        if message.header.trace == TraceId::NONE {
            self.traces += 1;
            message.header.trace = TraceId(self.traces);
            message.header.at = self.cx.now;
        }
        let (_, refused) = edge.queue().put(message);
        if refused.is_some() {
            return Err(NodeError::msg(format!("{PLENTY} messages wait at input `{input}`; let the node handle some")));
        }
        self.waiting.push_back(place);
        self.pump();
        Ok(())
    }

    /// What was emitted at an output since the last time. That makes room for more.
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
        let Some((port, edge)) = self.outputs.iter().find(|(port, _)| &*port.name == output) else {
            let known = self.outputs.iter().map(|(port, _)| &*port.name);
            panic!("the node has no output `{output}`; it has: {}", list(known));
        };
        let Some(edge) = typed::<T>(edge) else {
            panic!("output `{output}` carries {}, not {}", port.carries.name, std::any::type_name::<T>());
        };
        let mut hand = VecDeque::new();
        {
            let mut queue = edge.queue();
            queue.take(usize::MAX, &mut hand);
            let _ = queue.settle(&mut VecDeque::new());
        }
        self.pump();
        hand.into()
    }

    /// What was emitted at an output, of a node that is woken from outside: asks it if it is a source, and waits for its waker, until at least
    /// so many messages came or it has ended. Waits in real time; virtual time stands still.
    ///
    /// # Panics
    /// As [`take`](Self::take) and [`woken`](Self::woken); and if a source does nothing but fail.
    #[track_caller]
    pub fn collect<T: Payload>(&mut self, output: &str, count: usize) -> Vec<T> {
        let mut got = Vec::new();
        let mut failed = 0;
        loop {
            got.extend(self.take(output));
            if got.len() >= count || self.is_ended() || self.is_stopped() {
                return got;
            }
            let produced = if self.unit.is_source() { self.produce() } else { Ok(Produced::Idle) };
            let new = self.take(output);
            match produced {
                Ok(Produced::Idle) if new.is_empty() => self.woken(),
                Ok(_) => failed = 0,
                Err(error) => {
                    failed += 1;
                    assert!(failed < MOST_FAILURES, "the source failed {failed} times in a row: {error}");
                }
            }
            got.extend(new);
        }
    }

    /// Lets time go on. Ticks that fall due, and messages that rest after an error, come in their order, each at its time.
    ///
    /// # Panics
    /// If the node asks again and again for a tick at the same time: time would stand still.
    #[track_caller]
    pub fn advance(&mut self, by: Duration) {
        let until = self.cx.now + by;
        let mut standing = 0;
        loop {
            let due = [self.asked, self.next_tick, self.rest].into_iter().flatten().min();
            let Some(due) = due.filter(|due| *due <= until && self.state < State::Closing) else { break };
            standing = if due > self.cx.now { 0 } else { standing + 1 };
            assert!(
                standing < MOST_AT_ONE_TIME,
                "the node asked {standing} times for a tick at {due}; ask for a later one"
            );
            self.cx.now = due.max(self.cx.now);
            if self.rest.is_some_and(|rest| rest <= due) {
                self.rest = None;
                self.pump();
            } else {
                self.tick_now(due);
            }
        }
        self.cx.now = until;
    }

    fn tick_now(&mut self, due: Time) {
        if self.asked.is_some_and(|asked| asked <= due) {
            self.asked = None;
        }
        let cadence = self.next_tick.is_some_and(|next| next <= due);
        if cadence {
            self.next_tick = self.cadence.map(|every| due + every.max(Duration::from_nanos(1)));
        }
        self.call(Hook::Tick);
        if cadence && self.unit.is_source() {
            let _ = self.produce();
        }
    }

    /// Calls `on_tick` now, whether one is due or not.
    pub fn tick(&mut self) {
        self.call(Hook::Tick);
    }

    /// Calls `on_wake` now, whether somebody woke the node or not.
    pub fn wake(&mut self) {
        self.bell.silence();
        self.call(Hook::Wake);
    }

    /// Waits until somebody uses the node's waker, then calls `on_wake`. Waits in real time; virtual time stands still.
    ///
    /// # Panics
    /// If nobody does within 20 seconds.
    #[track_caller]
    pub fn woken(&mut self) {
        assert!(self.bell.wait(), "nobody woke the node within {WAKE_LIMIT:?}; did it hand its waker to anybody?");
        self.call(Hook::Wake);
    }

    /// Whether somebody used the node's waker since the last wake.
    pub fn is_woken(&self) -> bool {
        *self.bell.rung()
    }

    /// Asks a source for messages once, if there is room.
    ///
    /// # Errors
    /// What the source failed with.
    ///
    /// # Panics
    /// If the node is not a source.
    #[track_caller]
    pub fn produce(&mut self) -> Result<Produced, NodeError> {
        assert!(self.unit.is_source(), "the node has inputs, so it is not asked to produce; send it something");
        if self.state >= State::Ended {
            return Ok(Produced::End);
        }
        if !self.unit.flush(&mut self.cx) || !self.unit.has_room(usize::MAX) {
            return Ok(Produced::More);
        }
        let result = self.unit.produce(1, &mut self.cx);
        if let Err(error) = &result
            && error.is_of_record()
            && self.on_error.buries()
        {
            self.unit.bury(error, &mut self.cx);
        }
        if let Ok(Produced::End) = result {
            self.state = State::Ended;
        }
        self.settle();
        if let Err(error) = &result {
            note(error, &mut self.cx);
            self.errors.copy_to(&mut self.told);
            if self.stops_at(NodeError::msg(error.to_string())) {
                self.stop();
            }
        }
        result
    }

    /// Says that no more input comes. `on_end` is called when all that came is handled and the node says that it is
    /// done, now or later; after that the node is over when it says so once more: see [`is_ended`](Self::is_ended).
    pub fn end(&mut self) {
        if self.state == State::Running {
            self.state = State::Ending;
        }
        self.pump();
    }

    /// Whether `on_end` was called and nothing is left, or the source said that that was all.
    pub fn is_ended(&self) -> bool {
        self.state >= State::Ended
    }

    /// Calls `on_stop`, and ends the tasks that the node started.
    pub fn stop(&mut self) {
        if self.state != State::Stopped {
            self.call(Hook::Stop);
            self.state = State::Stopped;
            self.unit.discard();
            self.cx.host.end();
            self.errors.copy_to(&mut self.told);
        }
    }

    /// Whether it was stopped, by hand or by its error policy.
    pub fn is_stopped(&self) -> bool {
        self.state == State::Stopped
    }

    /// Whether the node takes another message now.
    pub fn accepts(&self) -> bool {
        self.unit.accepts()
    }

    /// How many messages wait to be handled.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the node asked for the whole graph to stop.
    pub fn asked_for_shutdown(&self) -> bool {
        self.shutdown
    }

    /// Everything the node failed with, so far.
    pub fn errors(&mut self) -> &[String] {
        self.errors.copy_to(&mut self.told);
        &self.told
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.cx.now
    }

    fn call(&mut self, hook: Hook) {
        if self.state != State::Stopped {
            // What it failed with is noted there.
            let result = call_hook(&mut *self.unit, hook, &mut self.cx);
            if let Err(error) = &result
                && error.is_of_record()
                && self.on_error.buries()
            {
                self.unit.bury(error, &mut self.cx);
            }
            self.settle();
            if result.is_ok() && matches!(hook, Hook::Tick | Hook::End) {
                self.failed = 0;
            }
            if hook != Hook::Stop
                && let Err(error) = result
                && !self.tries_again(hook, &error)
                && self.stops_at(error)
            {
                return self.stop();
            }
            self.pump();
        }
    }

    /// Whether a tick or the end is tried again; then it rests until that.
    fn tries_again(&mut self, hook: Hook, error: &NodeError) -> bool {
        let pause = pause_after(&self.on_error, hook, error, self.failed).filter(|_| !self.unit.is_source());
        let Some(pause) = pause else { return false };
        self.failed += 1;
        let until = self.cx.now + pause;
        self.rest = Some(until);
        if hook == Hook::Tick {
            self.asked = self.asked.into_iter().chain([until]).min();
        } else {
            self.state = State::Ending; // it is told again
        }
        true
    }

    /// Whether the policy stops the node where there is no message to try again.
    fn stops_at(&self, error: NodeError) -> bool {
        matches!(stops(&self.on_error, error), Fate::StopNode | Fate::StopGraph(_))
    }

    /// Takes over what a call asked for, and sends what it emitted.
    fn settle(&mut self) {
        self.unit.flush(&mut self.cx);
        let log = &mut self.cx.log;
        self.shutdown |= log.shutdown;
        self.asked = self.asked.into_iter().chain(log.tick_at).min();
        if log.finish && self.state == State::Running {
            // What waits is for nobody.
            self.state = if self.unit.is_source() { State::Ended } else { State::Ending };
            self.waiting.clear();
        }
        log.clear();
    }

    /// Lets the node handle what waits, as far as it can.
    fn pump(&mut self) {
        while self.state < State::Closing && self.rest.is_none() {
            // Both are asked: each may have something to say.
            if !self.unit.flush(&mut self.cx) || !self.unit.has_room(usize::MAX) {
                break;
            }
            let Some(place) = self.waiting.front().copied() else { break };
            if !self.unit.accepts() {
                break;
            }
            let edge = Arc::clone(&self.inputs[place].edge);
            let before = edge.state().depth;
            let (fate, _) = self.unit.serve(place, 0, 1, &self.on_error, &mut self.cx);
            if edge.state().depth < before {
                self.waiting.pop_front();
            }
            self.settle();
            match fate {
                Fate::Continue => {}
                Fate::Rest(until) => self.rest = Some(until),
                Fate::StopNode | Fate::StopGraph(_) => return self.stop(),
            }
        }
        let drained = self.waiting.is_empty() && self.unit.unsent() == 0 && self.unit.is_done();
        if self.state == State::Closing && drained {
            self.state = State::Ended;
        }
        if self.state == State::Ending && drained && self.rest.is_none() {
            self.state = State::Closing;
            self.call(Hook::End);
        }
        self.errors.copy_to(&mut self.told);
    }
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("now", &self.cx.now)
            .field("state", &self.state)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

fn setup(place: usize) -> EdgeSetup {
    EdgeSetup { index: place as u32, id: "harness".into(), capacity: PLENTY, policy: Policy::Block, merge: None }
}

fn typed<T: Payload>(edge: &Arc<dyn AnyEdge>) -> Option<Arc<Edge<T>>> {
    let edge: Arc<dyn Any + Send + Sync> = Arc::clone(edge).into_any();
    edge.downcast().ok()
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
