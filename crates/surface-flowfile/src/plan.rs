//! A checked flow file: nodes with their settings, and edges between their ports. Nested graphs are flattened.
//!
//! Room: values.
//!
//! # Invariant
//! Of a parsed plan: ids are unique; every edge joins an output to an input that exist; every input that needs messages gets some;
//! every circle has an edge that breaks it; with parts, every node is in one, and an edge between two of them goes over a broker.

use std::path::PathBuf;

use bursar::flow::Band;

use crate::action::Action;
use crate::kinds::Kind;
use crate::over::Over;

/// A checked graph.
///
/// ```
/// let plan = surface_flowfile::parse("x.toml", r#"
///     edges = ["count -> even -> show"]
///     [node.count]
///     kind = "numbers"
///     to = 10
///     [node.even]
///     kind = "sample"
///     every = 2
///     [node.show]
///     kind = "print"
/// "#)?;
/// assert_eq!(plan.edge_id(&plan.edges[0]), "count:out->even:in");
/// # Ok::<(), surface_flowfile::Problems>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, or the file name without its extension.
    pub name: String,
    /// Paths and commands are relative to this folder.
    pub base: PathBuf,
    /// What `[flow]` says.
    pub settings: Settings,
    /// In the order of the file, those of nested graphs after those of the graph they are in.
    pub nodes: Vec<Node>,
    /// In the order of the file, those of nested graphs first.
    pub edges: Vec<Edge>,
    /// What processes run, each its own. Without any, one process runs everything.
    pub parts: Vec<Part>,
}

/// The nodes that one process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As it is written: `[part.NAME]`.
    pub name: String,
    /// Indices of its nodes.
    pub nodes: Vec<usize>,
}

impl Plan {
    /// `imu:out->filter:in`; the same in every run.
    pub fn edge_id(&self, edge: &Edge) -> String {
        let name = |node: usize| self.nodes.get(node).map_or("?", |node| node.id.as_str());
        format!("{}:{}->{}:{}", name(edge.from), edge.output, name(edge.to), edge.input)
    }
}

/// What `[flow]` says; `None` is the default of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How often nodes are called without a message.
    pub tick_ms: Option<u64>,
    /// Messages a node handles in one turn.
    pub batch: Option<u32>,
    /// How long a stop waits for queued messages.
    pub drain_ms: Option<u64>,
    /// 1: one thread.
    pub workers: Option<usize>,
    /// Turns of the bands control, high and normal in a cycle.
    pub shares: Option<[u32; 3]>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, after those of the graphs it is in: `denoise/fir`.
    pub id: String,
    /// Its entry in the table of kinds.
    pub kind: &'static Kind,
    /// What it does.
    pub action: Action,
    /// What happens to a message that fails.
    pub on_error: OnError,
    /// How often it is called without a message.
    pub tick_ms: Option<u64>,
    /// Messages it handles in one turn.
    pub batch: Option<u32>,
    /// The band of its own turns. `None`: control if it feeds only control; else normal.
    pub band: Option<Band>,
}

impl Node {
    /// Its inputs, without `control`.
    pub fn inputs(&self) -> Vec<String> {
        self.kind.inputs.iter().map(|port| port.name.to_owned()).collect()
    }

    /// Its outputs, those of dead letters last.
    pub fn outputs(&self) -> Vec<String> {
        let mut outputs: Vec<String> = match &self.action {
            Action::Router(routes) => {
                let mut names: Vec<String> = Vec::with_capacity(routes.len() + 1);
                for name in routes.iter().map(|route| route.to.as_str()).chain([ELSE]) {
                    if !names.iter().any(|known| known == name) {
                        names.push(name.to_owned());
                    }
                }
                names
            }
            Action::Splitter { outputs } => (0..*outputs).map(|nth| nth.to_string()).collect(),
            _ => self.kind.outputs.iter().map(|port| port.name.to_owned()).collect(),
        };
        outputs.extend(self.dead_outputs());
        outputs
    }
}

impl Node {
    /// Whether it has this input; makes no list.
    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.kind.inputs.iter().any(|port| port.name == name)
    }

    /// Whether it has this output; makes no list.
    pub(crate) fn has_output(&self, name: &str) -> bool {
        let own = match &self.action {
            Action::Router(routes) => name == ELSE || routes.iter().any(|route| route.to == name),
            Action::Splitter { outputs } => {
                name.parse().is_ok_and(|nth: usize| nth < *outputs && nth.to_string() == name)
            }
            _ => self.kind.outputs.iter().any(|port| port.name == name),
        };
        own || self.dead_outputs().iter().any(|dead| dead == name)
    }

    /// Outputs of dead letters: one for each input; of a source, one for lines that cannot be read.
    pub(crate) fn dead_outputs(&self) -> Vec<String> {
        match self.kind.inputs {
            _ if !self.on_error.has_dead_letters() => Vec::new(),
            [] if !self.action.reads_lines() => Vec::new(),
            [] | [_] => vec![DEAD.to_owned()],
            inputs => inputs.iter().map(|port| format!("{DEAD}-{}", port.name)).collect(),
        }
    }
}

/// The input every node has.
pub const CONTROL: &str = "control";
/// The output of dead letters; with several inputs, `dead-left` and so on.
pub const DEAD: &str = "dead";
/// The output of messages that match no route.
pub const ELSE: &str = "else";

/// What happens to a message that fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It is dropped and counted.
    #[default]
    Skip,
    /// It is retried.
    Retry {
        /// How often.
        times: u32,
        /// The first pause; each is twice the one before.
        first_ms: u64,
        /// What happens then.
        then: Box<OnError>,
    },
    /// The node stops.
    StopNode,
    /// The whole graph stops.
    Stop,
    /// It leaves by the output `dead`.
    DeadLetter,
}

impl OnError {
    /// Whether messages may leave by the output `dead`.
    pub fn has_dead_letters(&self) -> bool {
        match self {
            Self::DeadLetter => true,
            Self::Retry { then, .. } => then.has_dead_letters(),
            _ => false,
        }
    }
}

/// An edge between two ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Index of the node that emits.
    pub from: usize,
    /// Its output.
    pub output: String,
    /// Index of the node that receives.
    pub to: usize,
    /// Its input.
    pub input: String,
    /// Messages it holds.
    pub capacity: usize,
    /// What happens when it is full.
    pub policy: Policy,
    /// 100 and more is control, 10 and more is high. `None`: control if it leads to an input `control` or to a node that feeds only control; else normal.
    pub priority: Option<i32>,
    /// The broker and the subject it goes over, if it does.
    pub over: Option<Over>,
}

impl Edge {
    /// Whether it is in the band of control messages.
    pub fn is_control(&self) -> bool {
        self.priority.map_or(self.input == CONTROL, |priority| priority >= PRIORITY_CONTROL)
    }

    /// Whether a circle through it cannot deadlock: it never blocks its producer, or it leads to a `control` input. An edge that coalesces blocks when two messages cannot be merged.
    pub fn breaks_circles(&self) -> bool {
        matches!(self.policy, Policy::Drop | Policy::Latest) || self.input == CONTROL
    }
}

/// The least priority of the control band.
pub const PRIORITY_CONTROL: i32 = 100;
/// The least priority of the high band.
pub const PRIORITY_HIGH: i32 = 10;
/// Messages an edge holds if its file does not say.
pub const CAPACITY: usize = 1024;

/// What happens when an edge is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Its producer waits: nothing is lost.
    #[default]
    Block,
    /// The new message is dropped.
    Drop,
    /// The oldest message is dropped.
    Latest,
    /// The new message is merged into the newest in the queue.
    Coalesce(Coalesce),
}

/// How two messages become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalesce {
    /// The later one.
    #[default]
    Last,
    /// Numbers are added.
    Sum,
    /// Both in a list.
    List,
    /// Objects are merged; of two fields with the same name the later wins.
    Merge,
}

impl Policy {
    /// `block`, `drop`, `latest`, `coalesce sum`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Drop => "drop",
            Self::Latest => "latest",
            Self::Coalesce(Coalesce::Last) => "coalesce last",
            Self::Coalesce(Coalesce::Sum) => "coalesce sum",
            Self::Coalesce(Coalesce::List) => "coalesce list",
            Self::Coalesce(Coalesce::Merge) => "coalesce merge",
        }
    }
}
