//! A [`Node`] with ports of several types, and its [`Unit`].
//!
//! Room: interface.
//!
//! Compared to a [`Stage`](super::Stage), a message costs one virtual call and two comparisons of types more.

use std::{
    any::{Any, type_name},
    error::Error,
    fmt,
    sync::Arc,
};

use policy_flow::PutResult;

use crate::{
    edge::{AnyEdge, EdgeSetup},
    error::{DeadLetter, NodeError, NodeResult, OnError},
    message::{Header, Message, Payload},
    node::{
        cx::Cx,
        inlet::{Body, Fate, Inlet},
        out::{Out, Outlet},
        schema::PortSpec,
        stage::{add_check, open},
        unit::{Declared, Hook, Unit, dead_name},
    },
};

/// A node with several inputs, or with inputs and outputs of different types.
///
/// ```
/// use bursar::flow::{AnyMessage, Context, Node, NodeResult, Ports};
///
/// /// Multiplies what comes by the newest factor.
/// struct Gain(f64);
///
/// impl Node for Gain {
///     fn ports(&self, ports: &mut Ports) {
///         ports.input::<Vec<f64>>("in").input::<f64>("factor").output::<Vec<f64>>("out");
///     }
///
///     fn on_message(&mut self, port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult {
///         match port {
///             "factor" => self.0 = message.take()?.payload,
///             _ => {
///                 let samples: Vec<f64> = message.take()?.payload;
///                 cx.emit("out", samples.iter().map(|sample| sample * self.0).collect::<Vec<_>>())?;
///             }
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Node: Send + 'static {
    /// Declares its ports. Called once, when the node is added to a graph.
    fn ports(&self, ports: &mut Ports);

    /// Called once, before anything else; producers before consumers.
    fn on_start(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let _ = cx;
        Ok(())
    }

    /// A message came by an input.
    fn on_message(&mut self, port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult;

    /// The cadence of the node, or a time it [asked for](Context::tick_at).
    fn on_tick(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let _ = cx;
        Ok(())
    }

    /// Its [waker](Context::waker) was used.
    fn on_wake(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let _ = cx;
        Ok(())
    }

    /// No more messages will come, and all were handled. Messages emitted here are still delivered.
    fn on_end(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let _ = cx;
        Ok(())
    }

    /// Called once, after everything else; consumers before producers. Messages emitted here are dropped.
    fn on_stop(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let _ = cx;
        Ok(())
    }

    /// Whether it takes another message now. If not, it is asked again after a tick or a wake.
    fn accepts(&self) -> bool {
        true
    }

    /// Whether it has no work in progress that a wake or a tick will complete. [`on_end`](Self::on_end) is called only
    /// then; and after that, the node is over only then. Asked after every turn.
    fn is_done(&self) -> bool {
        true
    }
}

/// The ports of a [`Node`], as it declares them.
#[derive(Default)]
pub struct Ports {
    inputs: Vec<(PortSpec, Box<dyn AnyInlet>)>,
    outputs: Vec<(PortSpec, Box<dyn AnyOutlet>)>,
}

impl Ports {
    /// An input. It must be connected, or the graph is not valid.
    pub fn input<T: Payload>(&mut self, name: &str) -> &mut Self {
        self.inputs.push((PortSpec::new::<T>(name), Box::new(Inlet::<T>::new(name))));
        self
    }

    /// An input that may stay unconnected.
    pub fn optional_input<T: Payload>(&mut self, name: &str) -> &mut Self {
        self.input::<T>(name);
        self.inputs.last_mut().expect("just pushed").0.required = false;
        self
    }

    /// An output.
    pub fn output<T: Payload>(&mut self, name: &str) -> &mut Self {
        self.outputs.push((PortSpec::new::<T>(name), Box::new(Outlet::<T>::new())));
        self
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<_> = self.inputs.iter().map(|(port, _)| &port.name).collect();
        let outputs: Vec<_> = self.outputs.iter().map(|(port, _)| &port.name).collect();
        f.debug_struct("Ports").field("inputs", &inputs).field("outputs", &outputs).finish()
    }
}

/// A message of the type of its port.
pub struct AnyMessage<'a> {
    /// An `Option<Message<T>>`, so that it can be taken.
    slot: &'a mut dyn Any,
    header: Header,
    type_name: &'static str,
}

impl AnyMessage<'_> {
    /// The message.
    ///
    /// # Errors
    /// If the port carries another type.
    pub fn take<T: Payload>(self) -> Result<Message<T>, WrongType> {
        match self.slot.downcast_mut::<Option<Message<T>>>().and_then(Option::take) {
            Some(message) => Ok(message),
            None => Err(WrongType { wanted: type_name::<T>(), is: self.type_name }),
        }
    }

    /// Its header.
    pub fn header(&self) -> Header {
        self.header
    }
}

impl fmt::Debug for AnyMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyMessage({} {}, {} hidden)", self.header.kind, self.header.trace, self.type_name)
    }
}

/// A payload was taken or emitted as something that its port does not carry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrongType {
    /// The type in the node's code.
    pub wanted: &'static str,
    /// The type of the port.
    pub is: &'static str,
}

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the port carries {}, not {}; use the type it was declared with", self.is, self.wanted)
    }
}

impl Error for WrongType {}

/// The outputs of a [`Node`], and the requests that it may make.
pub struct Context<'a> {
    outputs: &'a mut [(PortSpec, Box<dyn AnyOutlet>)],
    cx: &'a mut Cx,
}

impl Context<'_> {
    /// Emits to an output. The message has the trace id and time of the current one.
    ///
    /// # Errors
    /// If there is no such output, or it carries another type.
    pub fn emit<T: Payload>(&mut self, output: &str, payload: T) -> NodeResult {
        self.out(output)?.emit(payload);
        Ok(())
    }

    /// Emits to an output at once, and returns the result: see [`Out::put`].
    ///
    /// # Errors
    /// If there is no such output, or it carries another type.
    pub fn put<T: Payload>(&mut self, output: &str, payload: T) -> Result<PutResult, NodeError> {
        Ok(self.out(output)?.put(payload))
    }

    /// Emits a message with a header of its own.
    ///
    /// # Errors
    /// If there is no such output, or it carries another type.
    pub fn send<T: Payload>(&mut self, output: &str, message: Message<T>) -> NodeResult {
        self.out(output)?.send(message);
        Ok(())
    }

    /// One output, as a [`Stage`](crate::Stage) sees it.
    ///
    /// # Errors
    /// If there is no such output, or it carries another type.
    pub fn out<T: Payload>(&mut self, output: &str) -> Result<Out<'_, T>, NodeError> {
        let Some((spec, outlet)) = self.outputs.iter_mut().find(|(spec, _)| &*spec.name == output) else {
            return Err(NodeError::msg(format!(
                "node `{}` has no output `{output}`; declare it in `ports`",
                self.cx.id
            )));
        };
        match outlet.as_any().downcast_mut::<Outlet<T>>() {
            Some(outlet) => Ok(Out { outlets: std::slice::from_mut(outlet), cx: self.cx }),
            None => Err(WrongType { wanted: type_name::<T>(), is: spec.carries.name }.into()),
        }
    }

    asked_of_a_turn!();
}

/// An outlet without its type.
trait AnyOutlet: Send {
    fn as_any(&mut self) -> &mut dyn Any;
    fn open(&mut self, setup: EdgeSetup) -> Arc<dyn AnyEdge>;
    fn check(&mut self, check: &Arc<dyn Any + Send + Sync>);
    fn roll_back(&mut self, call: u64);
    fn room(&self) -> usize;
    fn has_room(&mut self, hoped: usize) -> bool;
    fn flush(&mut self, cx: &mut Cx) -> bool;
    fn discard(&mut self);
    fn unsent(&self) -> usize;
}

impl<T: Payload> AnyOutlet for Outlet<T> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn open(&mut self, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        open(self, setup)
    }
    fn check(&mut self, check: &Arc<dyn Any + Send + Sync>) {
        add_check(self, check);
    }
    fn roll_back(&mut self, call: u64) {
        Outlet::roll_back(self, call);
    }
    fn room(&self) -> usize {
        Outlet::room(self)
    }
    fn has_room(&mut self, hoped: usize) -> bool {
        Outlet::has_room(self, hoped)
    }
    fn flush(&mut self, cx: &mut Cx) -> bool {
        Outlet::flush(self, cx)
    }
    fn discard(&mut self) {
        Outlet::discard(self);
    }
    fn unsent(&self) -> usize {
        self.outbox.len()
    }
}

/// An inlet without its type.
trait AnyInlet: Send {
    fn attach(&mut self, edge: Arc<dyn AnyEdge>) -> usize;
    fn open(&mut self, setup: EdgeSetup) -> Arc<dyn AnyEdge>;
    fn dead(&mut self) -> &mut dyn AnyOutlet;
    fn dead_port(&self, name: String) -> PortSpec;
    fn unsent(&self) -> usize;
    fn serve(
        &mut self,
        feed: usize,
        budget: u32,
        on_error: &OnError,
        body: &mut dyn AnyBody,
        cx: &mut Cx,
    ) -> (Fate, bool);
}

/// The node, as it is called with a message of any type.
trait AnyBody {
    fn call(&mut self, message: AnyMessage<'_>, cx: &mut Cx) -> NodeResult;
    fn roll_back(&mut self, call: u64);
    fn room(&self) -> usize;
    fn accepts(&self) -> bool;
}

struct Typed<'a>(&'a mut dyn AnyBody);

impl<T: Payload> Body<T> for Typed<'_> {
    fn call(&mut self, message: Message<T>, cx: &mut Cx) -> NodeResult {
        let header = message.header;
        let mut slot = Some(message);
        self.0.call(AnyMessage { slot: &mut slot, header, type_name: type_name::<T>() }, cx)
    }
    fn roll_back(&mut self, call: u64) {
        self.0.roll_back(call);
    }
    fn room(&self) -> usize {
        self.0.room()
    }
    fn accepts(&self) -> bool {
        self.0.accepts()
    }
}

impl<T: Payload> AnyInlet for Inlet<T> {
    fn attach(&mut self, edge: Arc<dyn AnyEdge>) -> usize {
        self.attach_any(edge)
    }
    fn open(&mut self, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        Inlet::open(self, setup)
    }
    fn dead(&mut self) -> &mut dyn AnyOutlet {
        &mut self.dead
    }
    fn dead_port(&self, name: String) -> PortSpec {
        PortSpec::new::<DeadLetter<T>>(name)
    }
    fn unsent(&self) -> usize {
        self.dead.outbox.len()
    }
    fn serve(
        &mut self,
        feed: usize,
        budget: u32,
        on_error: &OnError,
        body: &mut dyn AnyBody,
        cx: &mut Cx,
    ) -> (Fate, bool) {
        Inlet::serve(self, feed, budget, on_error, &mut Typed(body), cx)
    }
}

pub(crate) struct NodeUnit<N: Node> {
    node: N,
    ports: Ports,
}

impl<N: Node> NodeUnit<N> {
    pub(crate) fn new(node: N) -> Self {
        let mut ports = Ports::default();
        node.ports(&mut ports);
        Self { node, ports }
    }

    fn outlet(&mut self, port: usize) -> &mut dyn AnyOutlet {
        let outputs = self.ports.outputs.len();
        match self.ports.outputs.get_mut(port) {
            Some((_, outlet)) => &mut **outlet,
            None => self.ports.inputs[port - outputs].1.dead(),
        }
    }

    fn outlets(&mut self) -> impl Iterator<Item = &mut dyn AnyOutlet> {
        let Ports { inputs, outputs } = &mut self.ports;
        let real = outputs.iter_mut().map(|(_, outlet)| &mut **outlet as &mut dyn AnyOutlet);
        real.chain(inputs.iter_mut().map(|(_, inlet)| inlet.dead()))
    }
}

struct NodeBody<'a, N> {
    node: &'a mut N,
    port: &'a str,
    outputs: &'a mut [(PortSpec, Box<dyn AnyOutlet>)],
}

impl<N: Node> AnyBody for NodeBody<'_, N> {
    fn call(&mut self, message: AnyMessage<'_>, cx: &mut Cx) -> NodeResult {
        self.node.on_message(self.port, message, &mut Context { outputs: self.outputs, cx })
    }
    fn roll_back(&mut self, call: u64) {
        self.outputs.iter_mut().for_each(|(_, outlet)| outlet.roll_back(call));
    }
    fn room(&self) -> usize {
        self.outputs.iter().map(|(_, outlet)| outlet.room()).min().unwrap_or(usize::MAX)
    }
    fn accepts(&self) -> bool {
        self.node.accepts()
    }
}

impl<N: Node> Unit for NodeUnit<N> {
    fn declare(&self, dead: bool) -> Declared {
        let inputs: Vec<PortSpec> = self.ports.inputs.iter().map(|(port, _)| port.clone()).collect();
        let mut outputs: Vec<PortSpec> = self.ports.outputs.iter().map(|(port, _)| port.clone()).collect();
        if dead {
            let dead =
                |(port, inlet): &(PortSpec, Box<dyn AnyInlet>)| inlet.dead_port(dead_name(&port.name, inputs.len()));
            outputs.extend(self.ports.inputs.iter().map(dead));
        }
        Declared { inputs, outputs }
    }

    fn open_output(&mut self, port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        self.outlet(port).open(setup)
    }

    fn open_input(&mut self, port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        self.ports.inputs[port].1.open(setup)
    }

    fn attach_input(&mut self, port: usize, edge: Arc<dyn AnyEdge>) -> usize {
        self.ports.inputs[port].1.attach(edge)
    }

    fn check_output(&mut self, port: usize, check: &Arc<dyn Any + Send + Sync>) {
        self.outlet(port).check(check);
    }

    fn hook(&mut self, hook: Hook, cx: &mut Cx) -> NodeResult {
        let context = &mut Context { outputs: &mut self.ports.outputs, cx };
        match hook {
            Hook::Start => self.node.on_start(context),
            Hook::Tick => self.node.on_tick(context),
            Hook::Wake => self.node.on_wake(context),
            Hook::End => self.node.on_end(context),
            Hook::Stop => self.node.on_stop(context),
        }
    }

    fn serve(&mut self, port: usize, feed: usize, budget: u32, on_error: &OnError, cx: &mut Cx) -> (Fate, bool) {
        let (spec, inlet) = &mut self.ports.inputs[port];
        let mut body = NodeBody { node: &mut self.node, port: &spec.name, outputs: &mut self.ports.outputs };
        inlet.serve(feed, budget, on_error, &mut body, cx)
    }

    fn has_room(&mut self, hoped: usize) -> bool {
        self.outlets().fold(true, |room, outlet| outlet.has_room(hoped) & room)
    }

    fn room(&self) -> usize {
        self.ports.outputs.iter().map(|(_, outlet)| outlet.room()).min().unwrap_or(usize::MAX)
    }

    fn flush(&mut self, cx: &mut Cx) -> bool {
        self.outlets().fold(true, |empty, outlet| outlet.flush(cx) & empty)
    }

    fn roll_back(&mut self, call: u64) {
        self.ports.outputs.iter_mut().for_each(|(_, outlet)| outlet.roll_back(call));
    }

    fn discard(&mut self) {
        self.outlets().for_each(AnyOutlet::discard);
    }

    fn unsent(&self) -> usize {
        let real: usize = self.ports.outputs.iter().map(|(_, outlet)| outlet.unsent()).sum();
        real + self.ports.inputs.iter().map(|(_, inlet)| inlet.unsent()).sum::<usize>()
    }

    fn accepts(&self) -> bool {
        self.node.accepts()
    }

    fn is_done(&self) -> bool {
        self.node.is_done()
    }
}
