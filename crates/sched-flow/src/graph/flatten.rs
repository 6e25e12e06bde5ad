//! Graphs inside graphs become one list of nodes and one list of edges.
//!
//! Room: decisions.
//!
//! # Invariant
//! Every node has one id, `outer/inner/node`, and every edge joins two real ports. An exposed port is only another name, followed until a
//! real one is reached.

use std::{collections::HashMap, sync::Arc};

use super::{EdgeSpec, Entry, Graph, Problem};
use crate::node::{NodeSpec, unit::Declared};

/// The limit of levels of nested graphs.
const MAX_LEVELS: usize = 64;
/// The input that every node has.
pub(crate) const CONTROL: &str = "control";

pub(crate) struct FlatNode {
    pub(crate) id: Arc<str>,
    pub(crate) spec: Box<NodeSpec>,
    pub(crate) declared: Declared,
}

/// Where an edge ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Port(usize),
    Control,
}

pub(crate) struct FlatEdge {
    pub(crate) id: String,
    pub(crate) from: (u32, usize),
    pub(crate) to: (u32, Target),
    pub(crate) spec: EdgeSpec,
}

#[derive(Default)]
pub(crate) struct Flat {
    pub(crate) nodes: Vec<FlatNode>,
    pub(crate) edges: Vec<FlatEdge>,
    pub(crate) problems: Vec<Problem>,
    by_id: HashMap<Arc<str>, u32>,
    /// Exposed ports: from the id of the graph and the port to the port inside.
    inputs: HashMap<(String, String), (String, String)>,
    outputs: HashMap<(String, String), (String, String)>,
    /// The graphs, by id, with the names of their nodes.
    graphs: HashMap<String, Vec<String>>,
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains("->") && !name.contains(|c: char| c == ':' || c == '/' || c.is_whitespace())
}

fn below(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
}

impl Flat {
    pub(crate) fn of(graphs: Vec<Graph>) -> Self {
        let mut flat = Flat::default();
        let mut edges = Vec::new();
        // Several graphs are one: their nodes stand side by side.
        for graph in graphs {
            flat.enter(String::new(), graph, 0, &mut edges);
        }
        for (prefix, edge) in edges {
            flat.join(&prefix, edge);
        }
        flat
    }

    /// Adds the nodes of a graph and of the graphs inside. Keeps the edges for later, when all ports are known.
    fn enter(&mut self, prefix: String, graph: Graph, level: usize, edges: &mut Vec<(String, EdgeSpec)>) {
        if level > MAX_LEVELS {
            self.problems.push(Problem::TooDeep { graph: prefix, limit: MAX_LEVELS });
            return;
        }
        for (name, entry) in graph.nodes {
            let fits = match &entry {
                Entry::Placed(_) => name.split('/').all(is_name),
                Entry::Node(_) | Entry::Graph(_) => is_name(&name),
            };
            if !fits {
                self.problems.push(Problem::BadName { name: name.to_string() });
                if name.is_empty() {
                    continue; // it would be the graph around it
                }
            }
            let id = below(&prefix, &name);
            if self.by_id.contains_key(id.as_str()) || self.graphs.contains_key(&id) {
                self.problems.push(Problem::DuplicateNode { node: id });
                continue;
            }
            let (around, own) = id.rsplit_once('/').unwrap_or(("", &id));
            self.graphs.entry(around.to_owned()).or_default().push(own.to_owned());
            match entry {
                Entry::Node(spec) => self.enter_node(id.into(), spec),
                Entry::Placed(spec) => {
                    self.enter_around(&prefix, &id);
                    self.enter_node(id.into(), spec);
                }
                Entry::Graph(inner) => {
                    self.graphs.entry(id.clone()).or_default();
                    self.enter(id, inner, level + 1, edges);
                }
            }
        }
        let exposed = graph.exposed_inputs.into_iter().map(|(name, port)| (name, port.node, port.port));
        for (name, node, port) in exposed {
            let inside = (below(&prefix, &node), port);
            if self.inputs.insert((prefix.clone(), name.clone()), inside).is_some() {
                self.problems.push(Problem::DuplicateExposure { graph: prefix.clone(), port: name });
            }
        }
        let exposed = graph.exposed_outputs.into_iter().map(|(name, port)| (name, port.node, port.port));
        for (name, node, port) in exposed {
            let inside = (below(&prefix, &node), port);
            if self.outputs.insert((prefix.clone(), name.clone()), inside).is_some() {
                self.problems.push(Problem::DuplicateExposure { graph: prefix.clone(), port: name });
            }
        }
        edges.extend(graph.edges.into_iter().map(|edge| (prefix.clone(), edge)));
    }

    /// Adds the graphs that the path of a node names. None of them may be a node.
    fn enter_around(&mut self, prefix: &str, id: &str) {
        for (at, _) in id.match_indices('/').filter(|(at, _)| *at > prefix.len()) {
            let graph = &id[..at];
            if self.by_id.contains_key(graph) {
                self.problems.push(Problem::DuplicateNode { node: graph.to_owned() });
            } else if !self.graphs.contains_key(graph) {
                self.graphs.insert(graph.to_owned(), Vec::new());
            }
        }
    }

    fn enter_node(&mut self, id: Arc<str>, spec: Box<NodeSpec>) {
        let mut declared = spec.declare();
        for ports in [&declared.inputs, &declared.outputs] {
            for (at, port) in ports.iter().enumerate() {
                if !is_name(&port.name) || &*port.name == CONTROL {
                    self.problems.push(Problem::BadName { name: port.name.to_string() });
                }
                if ports[..at].iter().any(|other| other.name == port.name) {
                    self.problems.push(Problem::DuplicatePort { node: id.to_string(), port: port.name.to_string() });
                }
            }
        }
        for (name, schema) in &spec.schemas {
            let ports = declared.inputs.iter_mut().chain(&mut declared.outputs);
            match ports.into_iter().find(|port| *port.name == **name && port.carries == schema.of) {
                Some(port) => port.schema = Some(schema.clone()),
                None => {
                    let (node, port, schema) = (id.to_string(), name.clone(), schema.name.to_string());
                    self.problems.push(Problem::BadSchema { node, port, schema });
                }
            }
        }
        self.by_id.insert(Arc::clone(&id), self.nodes.len() as u32);
        self.nodes.push(FlatNode { id, spec, declared });
    }

    /// The real node and port of a name.
    fn resolve(&mut self, by: &str, input: bool, node: String, port: String) -> Option<(u32, Target)> {
        let (mut node, mut port) = (node, port);
        // Each step leads one level deeper, so it ends.
        loop {
            if let Some(&index) = self.by_id.get(node.as_str()) {
                let declared = &self.nodes[index as usize].declared;
                let ports = if input { &declared.inputs } else { &declared.outputs };
                if input && port == CONTROL {
                    return Some((index, Target::Control));
                }
                if let Some(at) = ports.iter().position(|spec| *spec.name == *port) {
                    return Some((index, Target::Port(at)));
                }
                let has = ports.iter().map(|spec| spec.name.to_string()).collect();
                self.problems.push(Problem::UnknownPort { by: by.to_owned(), node, port, input, has });
                return None;
            }
            if !self.graphs.contains_key(&node) || node.is_empty() {
                let (prefix, name) = node.rsplit_once('/').unwrap_or(("", &node));
                let similar = self.graphs.get(prefix).and_then(|names| similar(name, names));
                self.problems.push(Problem::UnknownNode { by: by.to_owned(), node: node.clone(), similar });
                return None;
            }
            let ports = if input { &self.inputs } else { &self.outputs };
            match ports.get(&(node.clone(), port.clone())) {
                Some((inner, inner_port)) => (node, port) = (inner.clone(), inner_port.clone()),
                None => {
                    let mut has: Vec<_> =
                        ports.keys().filter(|(graph, _)| *graph == node).map(|(_, port)| port.clone()).collect();
                    has.sort();
                    self.problems.push(Problem::UnknownPort { by: by.to_owned(), node, port, input, has });
                    return None;
                }
            }
        }
    }

    fn join(&mut self, prefix: &str, spec: EdgeSpec) {
        let by = format!("{}:{}->{}:{}", spec.from.node, spec.from.port, spec.to.node, spec.to.port);
        let from = self.resolve(&by, false, below(prefix, &spec.from.node), spec.from.port.clone());
        let to = self.resolve(&by, true, below(prefix, &spec.to.node), spec.to.port.clone());
        let (Some((source, Target::Port(output))), Some((target, input))) = (from, to) else { return };
        let (from, to) = (&self.nodes[source as usize], &self.nodes[target as usize]);
        let to_port = match input {
            Target::Port(at) => &*to.declared.inputs[at].name,
            Target::Control => CONTROL,
        };
        let id = format!("{}:{}->{}:{to_port}", from.id, from.declared.outputs[output].name, to.id);
        self.edges.push(FlatEdge { id, from: (source, output), to: (target, input), spec });
    }

    /// Exposed ports that lead nowhere.
    pub(crate) fn check_exposed(&mut self) {
        for input in [true, false] {
            let ports = if input { &self.inputs } else { &self.outputs };
            let mut list: Vec<_> = ports.iter().map(|(from, to)| (from.clone(), to.clone())).collect();
            list.sort();
            for ((graph, name), (node, port)) in list {
                let by = format!("graph `{graph}` exposes `{name}`");
                self.resolve(&by, input, node, port);
            }
        }
    }
}

/// The name that is most similar to a word, if one is.
fn similar(word: &str, names: &[String]) -> Option<String> {
    let best = names.iter().map(|name| (strsim::levenshtein(word, name), name)).min()?;
    (best.0 <= 1 + word.len() / 4).then(|| best.1.clone())
}
