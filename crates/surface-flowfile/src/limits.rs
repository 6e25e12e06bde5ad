//! Limits of the size of a flow file and of its graph.
//!
//! Room: values.
//!
//! # Invariant
//! Reading any file takes memory in proportion to these limits: no construct of a flow file multiplies.

/// Limits of a flow file. `Limits::default()` is generous; a service that reads untrusted files lowers it.
///
/// ```
/// use surface_flowfile::{Limits, parse_with};
///
/// let limits = Limits { nodes: 1, ..Limits::default() };
/// let text = "edges = ['a -> b']\n[node.a]\nkind = 'stdin'\n[node.b]\nkind = 'print'";
/// let problems = parse_with("a.toml", text.as_bytes(), &limits).unwrap_err();
/// assert!(problems.to_string().contains("more than 1 nodes"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the file.
    pub file_bytes: usize,
    /// Nodes, those of nested graphs, too.
    pub nodes: usize,
    /// Edges, those of nested graphs, too.
    pub edges: usize,
    /// Graphs in graphs.
    pub depth: usize,
    /// Length of the name of a node, without the graphs it is in.
    pub name_bytes: usize,
    /// Messages an edge may hold.
    pub capacity: usize,
}

/// Messages an edge may hold by default.
pub(crate) const CAPACITY: usize = bursar::flow::MAX_CAPACITY;

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, nodes: 100_000, edges: 1_000_000, depth: 16, name_bytes: 128, capacity: CAPACITY }
    }
}
