//! A graph, as users build it: nodes, edges, graphs inside graphs.
//!
//! Room: interface.
//!
//! Nothing here fails: `check` finds all problems at once.

mod bands;
pub(crate) mod check;
mod flatten;
mod order;
mod problem;

use std::{any::Any, fmt, sync::Arc};

pub use problem::{Problem, Problems};

use policy_flow::{Band, Policy};

use crate::{
    edge::Merge,
    error::NodeError,
    message::Payload,
    node::{NodeSpec, schema::Carried},
};

/// The default capacity of an edge.
pub const DEFAULT_CAPACITY: usize = 1024;
/// The largest capacity of an edge.
pub const MAX_CAPACITY: usize = 1 << 24;

/// A graph of nodes and edges; also a part of a larger one.
///
/// ```
/// use bursar::flow::{Flow, Graph, Policy, from_iter, map, sink};
///
/// let (tx, rx) = std::sync::mpsc::channel();
/// let mut graph = Graph::new("squares");
/// let numbers = graph.add("numbers", from_iter(1..=3));
/// let square = graph.add("square", map(|n: i32| n * n));
/// let out = graph.add("out", sink(move |n: i32| tx.send(n).unwrap()));
/// graph.connect(numbers.out("out"), square.input("in")).capacity(256);
/// graph.connect(&square, &out); // the same, for the ports `out` and `in`
/// Flow::new(graph)?.run()?;
/// assert_eq!(rx.iter().collect::<Vec<_>>(), [1, 4, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Graph {
    pub(crate) name: String,
    pub(crate) nodes: Vec<(Arc<str>, Entry)>,
    pub(crate) edges: Vec<EdgeSpec>,
    pub(crate) exposed_inputs: Vec<(String, InPort)>,
    pub(crate) exposed_outputs: Vec<(String, OutPort)>,
}

pub(crate) enum Entry {
    Node(Box<NodeSpec>),
    /// A node whose name is a path.
    Placed(Box<NodeSpec>),
    Graph(Graph),
}

pub(crate) struct EdgeSpec {
    pub(crate) from: OutPort,
    pub(crate) to: InPort,
    pub(crate) capacity: usize,
    pub(crate) policy: Policy,
    /// The merge function, and the type of its payloads.
    pub(crate) merge: Option<(Arc<dyn Any + Send + Sync>, Carried)>,
    /// None if the user did not choose: then `bands` does.
    pub(crate) priority: Option<i32>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: Vec::new(),
            edges: Vec::new(),
            exposed_inputs: Vec::new(),
            exposed_outputs: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a node. Two with the same name are a [problem](Problem::DuplicateNode), which is reported when the flow is built.
    pub fn add(&mut self, name: impl Into<String>, node: impl Into<NodeSpec>) -> NodeRef {
        self.enter(name.into(), Entry::Node(Box::new(node.into())))
    }

    /// Adds a graph as a node. Its ports are those it [exposes](Self::expose_input), and its nodes are called `name/node`.
    ///
    /// ```
    /// use bursar::flow::{Flow, Graph, from_iter, map, sink};
    ///
    /// let mut twice = Graph::new("twice");
    /// let first = twice.add("first", map(|n: i32| n + 1));
    /// let second = twice.add("second", map(|n: i32| n + 1));
    /// twice.connect(&first, &second);
    /// twice.expose_input("in", &first);
    /// twice.expose_output("out", &second);
    ///
    /// let mut graph = Graph::new("whole");
    /// let numbers = graph.add("numbers", from_iter([1, 2]));
    /// let twice = graph.add_graph("twice", twice);
    /// let out = graph.add("out", sink(|n: i32| assert!(n > 2)));
    /// graph.connect(&numbers, &twice);
    /// graph.connect(&twice, &out);
    /// let flow = Flow::new(graph)?;
    /// assert_eq!(flow.handle().stats().edges[0].id, "twice/first:out->twice/second:in");
    /// flow.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_graph(&mut self, name: impl Into<String>, graph: Graph) -> NodeRef {
        self.enter(name.into(), Entry::Graph(graph))
    }

    /// Adds a node by its path: `denoise/fir` has the name of a node `fir` in an inner graph `denoise`. For graphs that are flat already, as those read from a file: their
    /// edges join nodes of any depth, without exposed ports.
    ///
    /// ```
    /// use bursar::flow::{Flow, Graph, from_iter, sink};
    ///
    /// let mut graph = Graph::new("whole");
    /// let numbers = graph.add("numbers", from_iter([1, 2]));
    /// let out = graph.add_at("deep/down/out", sink(|_: i32| ()));
    /// graph.connect(&numbers, &out);
    /// let flow = Flow::new(graph)?;
    /// assert_eq!(flow.handle().stats().edges[0].id, "numbers:out->deep/down/out:in");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_at(&mut self, path: impl Into<String>, node: impl Into<NodeSpec>) -> NodeRef {
        self.enter(path.into(), Entry::Placed(Box::new(node.into())))
    }

    fn enter(&mut self, name: String, entry: Entry) -> NodeRef {
        let name: Arc<str> = name.into();
        self.nodes.push((Arc::clone(&name), entry));
        NodeRef { name }
    }

    /// Connects an output with an input. By default an edge has a capacity of 1024 and blocks.
    pub fn connect(&mut self, from: impl Into<OutPort>, to: impl Into<InPort>) -> Connect<'_> {
        self.edges.push(EdgeSpec {
            from: from.into(),
            to: to.into(),
            capacity: DEFAULT_CAPACITY,
            policy: Policy::Block,
            merge: None,
            priority: None,
        });
        Connect { edge: self.edges.last_mut().expect("just pushed") }
    }

    /// Makes an input of a node an input of this graph.
    pub fn expose_input(&mut self, name: impl Into<String>, port: impl Into<InPort>) {
        self.exposed_inputs.push((name.into(), port.into()));
    }

    /// Makes an output of a node an output of this graph.
    pub fn expose_output(&mut self, name: impl Into<String>, port: impl Into<OutPort>) {
        self.exposed_outputs.push((name.into(), port.into()));
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(|(name, _)| name).collect();
        let edges: Vec<_> = self.edges.iter().map(|edge| format!("{}->{}", edge.from, edge.to)).collect();
        f.debug_struct("Graph").field("name", &self.name).field("nodes", &nodes).field("edges", &edges).finish()
    }
}

/// A node of a graph, to name its ports. As a port it is `out` or `in`.
#[derive(Debug, Clone)]
pub struct NodeRef {
    name: Arc<str>,
}

impl NodeRef {
    /// An output.
    pub fn out(&self, port: impl Into<String>) -> OutPort {
        OutPort { node: Arc::clone(&self.name), port: port.into() }
    }

    /// An input.
    pub fn input(&self, port: impl Into<String>) -> InPort {
        InPort { node: Arc::clone(&self.name), port: port.into() }
    }

    /// The input `control`, which every node has.
    pub fn control(&self) -> InPort {
        self.input("control")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

macro_rules! port {
    ($(#[$doc:meta])* $name:ident, $default:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            pub(crate) node: Arc<str>,
            pub(crate) port: String,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{}", self.node, self.port)
            }
        }

        impl From<&NodeRef> for $name {
            fn from(node: &NodeRef) -> Self {
                $name { node: Arc::clone(&node.name), port: $default.to_owned() }
            }
        }

        impl From<&str> for $name {
            /// `node:port`, or only the node.
            fn from(text: &str) -> Self {
                let (node, port) = text.split_once(':').unwrap_or((text, $default));
                $name { node: node.into(), port: port.to_owned() }
            }
        }
    };
}

port! {
    /// An output of a node: where an edge begins.
    OutPort, "out"
}
port! {
    /// An input of a node: where an edge ends.
    InPort, "in"
}

/// A new edge, to change its settings.
#[derive(Debug)]
pub struct Connect<'g> {
    edge: &'g mut EdgeSpec,
}

impl fmt::Debug for EdgeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{} {} {}", self.from, self.to, self.policy, self.capacity)
    }
}

impl Connect<'_> {
    /// Sets how many messages may wait.
    pub fn capacity(self, messages: usize) -> Self {
        self.edge.capacity = messages;
        self
    }

    /// Sets what is done when it is full. [`Policy::Coalesce`] needs a function: use [`coalesce`](Self::coalesce).
    pub fn policy(self, policy: Policy) -> Self {
        self.edge.policy = policy;
        self
    }

    /// Sets its priority, and so its band: see [`Band::of`]. By default an edge to an input called `control` is in the control band, and so is one to a node that feeds only edges of
    /// control; others are normal.
    pub fn priority(self, priority: i32) -> Self {
        self.edge.priority = Some(priority);
        self
    }

    /// Puts it into the control band: its messages get through under any load. A node that feeds only such edges is in that band, too, and so is a node that feeds only this one. So a control message is in the control band
    /// from where it enters the flow.
    pub fn control(self) -> Self {
        self.priority(Band::CONTROL_FROM)
    }

    /// Sets a merge function: when the edge is full, a new message is merged into the newest one that waits, in place. A function that fails must leave the waiting message as it was. Then neither is lost: the producer waits, as on a
    /// Block edge. A panic is a failure, but its changes stay. No lock is held while the function runs, and nothing is copied.
    ///
    /// ```
    /// # use bursar::flow::{Graph, NodeError, from_iter, sink};
    /// # let mut graph = Graph::new("sums");
    /// # let numbers = graph.add("numbers", from_iter(1..=3));
    /// # let out = graph.add("out", sink(|_: i32| ()));
    /// graph.connect(&numbers, &out).capacity(1).coalesce(|waiting: &mut i32, new: &i32| {
    ///     *waiting = waiting.checked_add(*new).ok_or(NodeError::msg("too much for 32 bits"))?;
    ///     Ok(())
    /// });
    /// ```
    pub fn coalesce<T: Payload>(
        self,
        merge: impl Fn(&mut T, &T) -> Result<(), NodeError> + Send + Sync + 'static,
    ) -> Self {
        let merge: Merge<T> = Arc::new(merge);
        self.edge.merge = Some((Arc::new(merge), Carried::of::<T>()));
        self.policy(Policy::Coalesce)
    }
}
