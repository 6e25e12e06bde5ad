//! Checks a graph: the result is a plan, or a list of all problems.
//!
//! Room: decisions.
//!
//! # Invariant
//! Every plan can run: every edge joins ports of one type, every input is connected, and no cycle of edges can wait for itself.

use std::{any::Any, collections::HashSet, sync::Arc};

use super::{
    Graph, MAX_CAPACITY, Problem, Problems,
    bands::{self, BandEdge},
    flatten::{Flat, FlatEdge, FlatNode},
    order::{self, Arrow},
};
use policy_flow::{Band, Policy};

use crate::{
    message::Control,
    node::schema::{Carried, PortSpec},
};

pub(crate) use super::flatten::Target;

/// A graph that can run.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) nodes: Vec<FlatNode>,
    pub(crate) edges: Vec<PlanEdge>,
    /// Producers before consumers.
    pub(crate) order: Vec<u32>,
    /// The group of each node: nodes in a cycle share one.
    pub(crate) groups: Vec<u32>,
    /// The band in which each node has its own turns.
    pub(crate) bands: Vec<Band>,
}

pub(crate) struct PlanEdge {
    pub(crate) flat: FlatEdge,
    /// Its target does not wait for its end: it closes a cycle, or steers.
    pub(crate) loose: bool,
    pub(crate) priority: i32,
    /// The check of the target for every message.
    pub(crate) check: Option<Arc<dyn Any + Send + Sync>>,
}

/// Checks graphs that were registered together.
///
/// # Errors
/// All problems.
pub(crate) fn plan(graphs: Vec<Graph>) -> Result<Plan, Problems> {
    let name = graphs.first().map_or_else(|| "flow".to_owned(), |graph| graph.name.clone());
    let mut flat = Flat::of(graphs);
    flat.check_exposed();
    let mut problems = std::mem::take(&mut flat.problems);
    if flat.nodes.is_empty() && problems.is_empty() {
        problems.push(Problem::Empty);
    }
    flat.nodes.iter().for_each(|node| check_settings(node, &mut problems));
    check_edges(&flat, &mut problems);
    // With edges missing, inputs would look unconnected.
    if problems.is_empty() {
        check_fed(&flat, &mut problems);
    }
    let arrows: Vec<_> = flat.edges.iter().map(|edge| Arrow { from: edge.from.0, to: edge.to.0 }).collect();
    let steers = |edge: &FlatEdge| edge.to.1 == Target::Control;
    let data: Vec<Arrow> =
        flat.edges.iter().zip(&arrows).filter(|(edge, _)| !steers(edge)).map(|(_, arrow)| *arrow).collect();
    let groups = order::groups(flat.nodes.len(), &data);
    let loose: Vec<bool> = flat
        .edges
        .iter()
        .map(|edge| {
            let inside = groups[edge.from.0 as usize] == groups[edge.to.0 as usize];
            // An edge that coalesces makes its producer wait when its function fails.
            steers(edge) || (inside && matches!(edge.spec.policy, Policy::Drop | Policy::Latest))
        })
        .collect();
    let firm: Vec<Arrow> = arrows.iter().zip(&loose).filter(|(_, loose)| !**loose).map(|(arrow, _)| *arrow).collect();
    let order = order::topological(flat.nodes.len(), &firm).unwrap_or_else(|cycle| {
        let nodes = cycle.iter().map(|node| flat.nodes[*node as usize].id.to_string()).collect();
        problems.push(Problem::Cycle { nodes });
        Vec::new()
    });
    if !problems.is_empty() {
        return Err(Problems { graph: name, list: problems });
    }
    let chosen: Vec<_> = flat.nodes.iter().map(|node| node.spec.band).collect();
    let band_edges: Vec<_> = flat
        .edges
        .iter()
        .map(|edge| BandEdge { from: edge.from.0, to: edge.to.0, priority: edge.spec.priority, steers: steers(edge) })
        .collect();
    let (bands, priorities) = bands::assign(&chosen, &band_edges, &order);
    let nodes = flat.nodes;
    let edges = flat.edges.into_iter().zip(loose).zip(priorities).map(|((flat, loose), priority)| {
        let schema = match flat.to.1 {
            Target::Port(port) => nodes[flat.to.0 as usize].declared.inputs[port].schema.as_ref(),
            Target::Control => None,
        };
        PlanEdge { check: schema.map(|schema| Arc::clone(&schema.check)), flat, loose, priority }
    });
    let edges = edges.collect();
    Ok(Plan { name, nodes, edges, order, groups, bands })
}

fn check_settings(node: &FlatNode, problems: &mut Vec<Problem>) {
    let mut bad = |setting| problems.push(Problem::BadSetting { of: node.id.to_string(), setting });
    if node.spec.batch == Some(0) {
        bad("a batch of 0 messages does nothing; use at least 1");
    }
    if node.spec.tick.is_some_and(|every| every.is_zero()) {
        bad("a tick every 0 ns leaves no time for anything else; use at least 1 ns");
    }
}

fn check_edges(flat: &Flat, problems: &mut Vec<Problem>) {
    let mut seen = HashSet::new();
    for edge in &flat.edges {
        let id = || edge.id.clone();
        if !seen.insert((edge.from, edge.to)) {
            problems.push(Problem::DuplicateEdge { edge: id() });
        }
        if edge.spec.capacity == 0 || edge.spec.capacity > MAX_CAPACITY {
            problems.push(Problem::BadCapacity { edge: id(), capacity: edge.spec.capacity });
        }
        let from = &flat.nodes[edge.from.0 as usize].declared.outputs[edge.from.1];
        let control;
        let to = match edge.to.1 {
            Target::Port(at) => &flat.nodes[edge.to.0 as usize].declared.inputs[at],
            Target::Control => {
                control = PortSpec::new::<Control>("control");
                &control
            }
        };
        if from.carries != to.carries {
            let (from, to) = (from.carries.name, to.carries.name);
            problems.push(Problem::TypeMismatch { edge: id(), from, to });
        } else if let (Some(from), Some(to)) = (&from.schema, &to.schema)
            && from.name != to.name
        {
            let (from, to) = (from.name.to_string(), to.name.to_string());
            problems.push(Problem::SchemaMismatch { edge: id(), from, to });
        }
        if edge.spec.policy == Policy::Coalesce {
            let merges: Option<Carried> = edge.spec.merge.as_ref().map(|(_, carried)| *carried);
            if merges != Some(from.carries) {
                let (carries, merges) = (from.carries.name, merges.map(|carried| carried.name));
                problems.push(Problem::BadCoalesce { edge: id(), carries, merges });
            }
        }
    }
}

fn check_fed(flat: &Flat, problems: &mut Vec<Problem>) {
    let fed: HashSet<(u32, Target)> = flat.edges.iter().map(|edge| edge.to).collect();
    for (index, node) in flat.nodes.iter().enumerate() {
        for (at, port) in node.declared.inputs.iter().enumerate() {
            if port.required && !fed.contains(&(index as u32, Target::Port(at))) {
                let (node, port) = (node.id.to_string(), port.name.to_string());
                problems.push(Problem::UnfedInput { node, port });
            }
        }
    }
}

impl Plan {
    /// The ids of all nodes.
    pub(crate) fn ids(&self) -> Vec<Arc<str>> {
        self.nodes.iter().map(|node| Arc::clone(&node.id)).collect()
    }
}
