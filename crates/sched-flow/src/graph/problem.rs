//! Problems of a graph, and how to fix them.
//!
//! Room: values.

use std::{error::Error, fmt};

use super::MAX_CAPACITY;

/// A problem of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Two nodes have one name.
    DuplicateNode {
        /// The name.
        node: String,
    },
    /// A name is empty, or has characters that ids are made with.
    BadName {
        /// The name.
        name: String,
    },
    /// An edge, or an exposed port, names a node that does not exist.
    UnknownNode {
        /// The edge or port that names it.
        by: String,
        /// The name.
        node: String,
        /// A node with a similar name.
        similar: Option<String>,
    },
    /// An edge names a port that its node does not have.
    UnknownPort {
        /// The edge or port that names it.
        by: String,
        /// The node.
        node: String,
        /// The port.
        port: String,
        /// True if it was to be an input.
        input: bool,
        /// The ports it has on that side.
        has: Vec<String>,
    },
    /// A node declares two ports of one name on one side.
    DuplicatePort {
        /// The node.
        node: String,
        /// The port.
        port: String,
    },
    /// The capacity of an edge is zero or too large.
    BadCapacity {
        /// The edge.
        edge: String,
        /// The capacity.
        capacity: usize,
    },
    /// Two edges connect the same ports.
    DuplicateEdge {
        /// The edge.
        edge: String,
    },
    /// A graph exposes a port twice.
    DuplicateExposure {
        /// The graph.
        graph: String,
        /// The port.
        port: String,
    },
    /// The ports of an edge carry different types.
    TypeMismatch {
        /// The edge.
        edge: String,
        /// What comes out.
        from: &'static str,
        /// What goes in.
        to: &'static str,
    },
    /// The ports of an edge have different schemas.
    SchemaMismatch {
        /// The edge.
        edge: String,
        /// What comes out.
        from: String,
        /// What goes in.
        to: String,
    },
    /// A schema was given to a port that does not exist, or that carries another type.
    BadSchema {
        /// The node.
        node: String,
        /// The port.
        port: String,
        /// The schema.
        schema: String,
    },
    /// An edge coalesces without a function, or with one for another type.
    BadCoalesce {
        /// The edge.
        edge: String,
        /// What its payloads are.
        carries: &'static str,
        /// What the function merges, if there is one.
        merges: Option<&'static str>,
    },
    /// An input that is not connected.
    UnfedInput {
        /// The node.
        node: String,
        /// The port.
        port: String,
    },
    /// A cycle of edges that all block or coalesce: it could wait for itself. An edge that coalesces blocks when its function fails.
    Cycle {
        /// Its nodes.
        nodes: Vec<String>,
    },
    /// A node has a setting that makes no sense.
    BadSetting {
        /// The node, or the flow.
        of: String,
        /// The setting, and why it is wrong.
        setting: &'static str,
    },
    /// Graphs inside graphs, too many levels of them.
    TooDeep {
        /// The graph at which it stops.
        graph: String,
        /// The limit of levels.
        limit: usize,
    },
    /// There is no node at all.
    Empty,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::DuplicateNode { node } => write!(f, "there are two nodes called `{node}`; rename one"),
            Problem::BadName { name } if name == "control" => {
                write!(f, "`{name}` is no name for a port: every node has an input that is called so; rename it")
            }
            Problem::BadName { name } => {
                write!(f, "`{name}` is no name: it must not be empty nor have `:`, `/`, `->` or white space in it")
            }
            Problem::UnknownNode { by, node, similar } => {
                write!(f, "{by}: there is no node `{node}`; ")?;
                match similar {
                    Some(similar) => write!(f, "did you mean `{similar}`?"),
                    None => f.write_str("add it, or name another"),
                }
            }
            Problem::UnknownPort { by, node, port, input, has } => {
                let side = if *input { "input" } else { "output" };
                write!(f, "{by}: node `{node}` has no {side} `{port}`; ")?;
                match has.as_slice() {
                    [] => write!(f, "it has no {side}s"),
                    has => write!(f, "it has `{}`", has.join("`, `")),
                }
            }
            Problem::DuplicatePort { node, port } => {
                write!(f, "node `{node}` declares the port `{port}` twice; rename one")
            }
            Problem::BadCapacity { edge, capacity } => {
                write!(f, "{edge}: a capacity of {capacity} is not possible; use 1 to {MAX_CAPACITY}")
            }
            Problem::DuplicateEdge { edge } => write!(f, "{edge}: this edge exists twice; remove one"),
            Problem::DuplicateExposure { graph, port } => {
                write!(f, "graph `{graph}` exposes `{port}` twice; rename one")
            }
            Problem::TypeMismatch { edge, from, to } => {
                write!(f, "{edge}: `{from}` comes out and `{to}` goes in; put a `map` between them")
            }
            Problem::SchemaMismatch { edge, from, to } => {
                write!(f, "{edge}: schema `{from}` comes out and `{to}` goes in; put a `map` between them")
            }
            Problem::BadSchema { node, port, schema } => {
                write!(f, "node `{node}`: schema `{schema}` does not fit its port `{port}`; name a port of that type")
            }
            Problem::BadCoalesce { edge, carries, merges: Some(merges) } => {
                write!(f, "{edge}: carries `{carries}`, but its function merges `{merges}`")
            }
            Problem::BadCoalesce { edge, carries, merges: None } => {
                write!(f, "{edge}: there is no function that merges `{carries}`; give one with `coalesce`")
            }
            Problem::UnfedInput { node, port } => {
                write!(f, "nothing feeds the input `{port}` of node `{node}`; connect it, or remove the node")
            }
            Problem::Cycle { nodes } => write!(
                f,
                "the edges of the cycle {} -> {} all block or coalesce, so it could wait for itself; \
                 give one of them the policy drop or latest",
                nodes.join(" -> "),
                nodes[0]
            ),
            Problem::BadSetting { of, setting } => write!(f, "`{of}`: {setting}"),
            Problem::TooDeep { graph, limit } => {
                write!(f, "graph `{graph}` is nested deeper than {limit} levels; remove some")
            }
            Problem::Empty => f.write_str("the graph has no nodes; add some"),
        }
    }
}

/// All problems of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    pub(crate) graph: String,
    pub(crate) list: Vec<Problem>,
}

impl Problems {
    /// All of them, in the order of the graph.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list.as_slice() {
            [one] => write!(f, "graph `{}` cannot run: {one}", self.graph),
            all => {
                write!(f, "graph `{}` cannot run, {} problems:", self.graph, all.len())?;
                all.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl Error for Problems {}
