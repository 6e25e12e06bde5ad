//! Names with `/` become graphs in graphs, and edges between them go through exposed ports.
//!
//! Room: surface.
//!
//! # Invariant
//! Ids in the flow are those of the plan: a node `a/b` is node `b` of graph `a`, and an edge is called by its two real ends.
//!
//! # Why it holds
//! An edge is made in the innermost graph that holds both its ends. On the way from an end up to there each graph exposes the port, under
//! a name that says which: `b:out`. The scheduler follows exposed ports to real ones.

use std::collections::{BTreeMap, HashSet};

use bursar::flow::{Connect, Graph, InPort, NodeSpec, OutPort, Policy};

use super::coalesce::merge;
use crate::plan::{self, Edge};

/// A port of a node by its whole name.
pub(crate) struct Port {
    graphs: Vec<String>,
    node: String,
    port: String,
}

impl Port {
    pub(crate) fn new(id: &str, port: &str) -> Self {
        let mut graphs: Vec<String> = id.split('/').map(str::to_owned).collect();
        let node = graphs.pop().unwrap_or_default();
        Self { graphs, node, port: port.to_owned() }
    }

    /// As it is called in the graph that is `depth` graphs deep: `node:port`, or `graph:rest:port`.
    fn seen_at(&self, depth: usize) -> String {
        match self.graphs.get(depth) {
            None => format!("{}:{}", self.node, self.port),
            Some(graph) => format!("{graph}:{}", self.exposed_by(depth + 1)),
        }
    }

    /// As the graph at `depth` exposes it.
    fn exposed_by(&self, depth: usize) -> String {
        let mut name = self.graphs[depth..].join("/");
        if !name.is_empty() {
            name.push('/');
        }
        format!("{name}{}:{}", self.node, self.port)
    }
}

pub(crate) struct Tree {
    graph: Graph,
    inner: BTreeMap<String, Tree>,
    /// Inner graphs in the order they came.
    order: Vec<String>,
    exposed: HashSet<(bool, String)>,
    shims: HashSet<String>,
}

impl Tree {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            graph: Graph::new(name),
            inner: BTreeMap::new(),
            order: Vec::new(),
            exposed: HashSet::new(),
            shims: HashSet::new(),
        }
    }

    fn at(&mut self, graphs: &[String]) -> &mut Tree {
        let mut tree = self;
        for name in graphs {
            if !tree.inner.contains_key(name) {
                tree.order.push(name.clone());
            }
            tree = tree.inner.entry(name.clone()).or_insert_with(|| Tree::new(name));
        }
        tree
    }

    pub(crate) fn add(&mut self, id: &str, spec: NodeSpec) {
        let Port { graphs, node, .. } = Port::new(id, "");
        self.at(&graphs).graph.add(node, spec);
    }

    /// Adds a shim, if it is not there; whether it was added.
    pub(crate) fn add_once(&mut self, id: &str, spec: impl FnOnce() -> NodeSpec) -> bool {
        let new = self.shims.insert(id.to_owned());
        if new {
            self.add(id, spec());
        }
        new
    }

    /// An edge of the plan.
    pub(crate) fn connect(&mut self, from: &Port, to: &Port, edge: &Edge) {
        let mut connect = self.edge(from, to).capacity(edge.capacity);
        if let Some(priority) = edge.priority {
            connect = connect.priority(priority);
        }
        let _ = match edge.policy {
            plan::Policy::Block => connect,
            plan::Policy::Drop => connect.policy(Policy::Drop),
            plan::Policy::Latest => connect.policy(Policy::Latest),
            plan::Policy::Coalesce(how) => connect.coalesce(move |queued, new| merge(how, queued, new)),
        };
    }

    /// An edge to a shim.
    pub(crate) fn join(&mut self, from: &Port, to: &Port) {
        self.edge(from, to);
    }

    /// An edge from a shim to the input `control`.
    pub(crate) fn steer(&mut self, from: &Port, to: &Port) {
        self.edge(from, to).control();
    }

    fn edge(&mut self, from: &Port, to: &Port) -> Connect<'_> {
        let common = from.graphs.iter().zip(&to.graphs).take_while(|(a, b)| a == b).count();
        for depth in common + 1..=from.graphs.len() {
            let (name, inside) = (from.exposed_by(depth), from.seen_at(depth));
            let tree = self.at(&from.graphs[..depth]);
            if tree.exposed.insert((false, name.clone())) {
                tree.graph.expose_output(name, OutPort::from(inside.as_str()));
            }
        }
        for depth in common + 1..=to.graphs.len() {
            let (name, inside) = (to.exposed_by(depth), to.seen_at(depth));
            let tree = self.at(&to.graphs[..depth]);
            if tree.exposed.insert((true, name.clone())) {
                tree.graph.expose_input(name, InPort::from(inside.as_str()));
            }
        }
        let (start, end) = (from.seen_at(common), to.seen_at(common));
        let tree = self.at(&from.graphs[..common]);
        tree.graph.connect(OutPort::from(start.as_str()), InPort::from(end.as_str()))
    }

    pub(crate) fn finish(self) -> Graph {
        let Tree { mut graph, mut inner, order, .. } = self;
        for name in order {
            if let Some(tree) = inner.remove(&name) {
                graph.add_graph(name, tree.finish());
            }
        }
        graph
    }
}
