//! A node and its settings, as a graph takes it.
//!
//! Room: interface.

use std::{fmt, time::Duration};

use policy_flow::Band;

use crate::{
    error::OnError,
    message::Payload,
    node::{
        Node, Schema, Source, Stage,
        general::NodeUnit,
        schema::AnySchema,
        source::SourceUnit,
        stage::StageUnit,
        unit::{Declared, Unit},
    },
};

/// A node and its settings: what [`Graph::add`](crate::Graph::add) takes. The functions that make stock nodes, such as
/// [`map`](crate::map), return it.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{OnError, map};
///
/// let node = map(|text: String| text.len()).on_error(OnError::StopGraph).batch(16);
/// ```
pub struct NodeSpec {
    pub(crate) unit: Box<dyn Unit>,
    pub(crate) tick: Option<Duration>,
    pub(crate) on_error: OnError,
    pub(crate) batch: Option<u32>,
    /// None if the user did not say.
    pub(crate) band: Option<Band>,
    pub(crate) schemas: Vec<(String, AnySchema)>,
}

impl NodeSpec {
    fn new(unit: Box<dyn Unit>) -> Self {
        Self { unit, tick: None, on_error: OnError::default(), batch: None, band: None, schemas: Vec::new() }
    }

    /// A node of one input and outputs of one type.
    pub fn stage(stage: impl Stage) -> Self {
        Self::new(Box::new(StageUnit::new(stage)))
    }

    /// A node without inputs.
    pub fn source(source: impl Source) -> Self {
        Self::new(Box::new(SourceUnit::new(source)))
    }

    /// A node with ports of several types.
    pub fn node(node: impl Node) -> Self {
        Self::new(Box::new(NodeUnit::new(node)))
    }

    /// How often `on_tick` is called. A source with a cadence produces once each tick, and not in between.
    ///
    /// If ticks could not be given in time, because the node waited for room, one is given when there is room. The others are skipped.
    pub fn tick(mut self, every: Duration) -> Self {
        self.tick = Some(every);
        self
    }

    /// The error policy: what is done when one of its functions fails.
    pub fn on_error(mut self, policy: OnError) -> Self {
        self.on_error = policy;
        self
    }

    /// The limit of messages a turn, instead of that of the flow.
    pub fn batch(mut self, messages: u32) -> Self {
        self.batch = Some(messages);
        self
    }

    /// The band in which the node itself has its turns: to produce, to wake, to tick. Its inputs have the bands of their edges.
    ///
    /// By default it is control for a node that feeds only edges of control, and normal for others.
    pub fn band(mut self, band: Band) -> Self {
        self.band = Some(band);
        self
    }

    /// Sets a schema of a port: a check of every message, beyond its type. If both ends of an edge have one, its name must be the same.
    pub fn schema<T: Payload>(mut self, port: impl Into<String>, schema: Schema<T>) -> Self {
        self.schemas.push((port.into(), schema.into()));
        self
    }

    pub(crate) fn declare(&self) -> Declared {
        self.unit.declare(self.on_error.has_dead_letters())
    }
}

impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let declared = self.declare();
        let inputs: Vec<_> = declared.inputs.iter().map(|port| &port.name).collect();
        let outputs: Vec<_> = declared.outputs.iter().map(|port| &port.name).collect();
        f.debug_struct("NodeSpec").field("inputs", &inputs).field("outputs", &outputs).finish_non_exhaustive()
    }
}
