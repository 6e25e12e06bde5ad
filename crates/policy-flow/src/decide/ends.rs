//! How a flow ends: first the sources, then each node when no more input can come.
//!
//! Room: decisions.
//!
//! # Invariant
//! `on_end` of a node comes after its last message, and before the end of the nodes that it feeds. A node in a cycle ends only when the whole cycle is quiet.
//!
//! # Why it holds
//! Nodes that reach each other are one *group* (a strongly connected component). A group may end when all edges into it come from nodes that are over, and no member has anything to do
//! or to wait for. Its members then end one after the other, in the order in which they were started. The group is checked again after each: the others still get
//! what a member emits at its end.
//!
//! # Upstream
//! A node may finish: it takes no more input, and ends as if its inputs had ended. A node that failed takes no more either. A node all of whose edges lead to such nodes
//! finishes, too. So the end travels up to the sources. Edges to `control` count as edges: a node that steers goes on.

use alloc::{collections::VecDeque, vec, vec::Vec};

use super::{Core, EdgeFacts, NodeFacts};
use crate::{
    policy::Band,
    state::{Event, NodeState},
};

#[derive(Debug, Default)]
pub(super) struct Group {
    /// In the order of starting.
    members: Vec<u32>,
    /// The number of things that may still feed it: edges from outside whose source is not over, sources inside, and `kept`.
    open: usize,
    /// Nothing feeds it from outside, so it runs until the flow drains.
    kept: bool,
}

/// The groups, with the number of their feeds.
pub(super) fn groups(nodes: &[NodeFacts], edges: &[EdgeFacts], order: &[u32]) -> Vec<Group> {
    let count = nodes.iter().map(|node| node.group as usize + 1).max().unwrap_or(0);
    let mut groups: Vec<Group> = (0..count).map(|_| Group::default()).collect();
    for &node in order {
        let facts = &nodes[node as usize];
        let group = &mut groups[facts.group as usize];
        group.members.push(node);
        group.open += usize::from(facts.source);
    }
    for edge in edges {
        let (from, to) = (nodes[edge.from as usize].group, nodes[edge.to as usize].group);
        if from != to && !edge.loose {
            groups[to as usize].open += 1;
        }
    }
    for group in &mut groups {
        group.kept = group.open == 0;
        group.open += usize::from(group.kept);
    }
    groups
}

/// Which nodes only steer: all their messages end in inputs called `control`. A flow does not wait for them.
pub(super) fn steering(nodes: usize, edges: &[EdgeFacts], order: &[u32]) -> Vec<bool> {
    let mut outputs = vec![Vec::new(); nodes];
    edges.iter().for_each(|edge| outputs[edge.from as usize].push(edge));
    let mut steering = vec![false; nodes];
    for &node in order.iter().rev() {
        let outputs = &outputs[node as usize];
        steering[node as usize] =
            !outputs.is_empty() && outputs.iter().all(|edge| edge.steers || steering[edge.to as usize]);
    }
    // If there are no other nodes, the flow is about these.
    if steering.iter().all(|steers| *steers) {
        steering.fill(false);
    }
    steering
}

impl Core {
    /// A node has finished or failed: it emits and takes nothing more.
    pub(super) fn over(&mut self, index: u32, event: Event) {
        let node = &mut self.nodes[index as usize];
        if node.state.is_over() {
            return;
        }
        node.moves(event);
        node.blocked = false;
        node.flush = false;
        let counts = !node.steers;
        self.forget_inputs(index);
        let node = &mut self.nodes[index as usize];
        node.steer.iter_mut().for_each(VecDeque::clear);
        self.alive -= usize::from(counts);
        self.to_close.extend_from_slice(&node.inputs);
        let (group, source) = (node.facts.group, node.facts.source);
        if source {
            self.groups[group as usize].open -= 1;
        }
        for at in 0..self.nodes[index as usize].outputs.len() {
            let edge = self.nodes[index as usize].outputs[at];
            let facts = &self.edges[edge as usize].facts;
            let target = self.nodes[facts.to as usize].facts.group;
            if target != group && !facts.loose {
                self.groups[target as usize].open -= 1;
                self.to_check.push_back(target);
            }
        }
        self.to_check.push_back(group);
        if event == Event::Broke {
            self.finish(index); // a node that feeds only this one finishes, too
        }
    }

    /// A node takes no more messages, except control messages.
    pub(super) fn forget_inputs(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        for line in &mut node.ready {
            for edge in line.drain(..) {
                self.edges[edge as usize].queued = false;
            }
        }
        if node.state != NodeState::Ended && node.state != NodeState::Failed {
            for edge in &node.inputs {
                if !self.edges[*edge as usize].facts.steers {
                    self.to_close.push(*edge);
                }
            }
        }
    }

    /// A node takes no more input. So do the nodes that feed only it.
    pub(super) fn finish(&mut self, index: u32) {
        let mut unwanted = vec![index];
        while let Some(index) = unwanted.pop() {
            self.steer(index, Event::InputsEnded);
            for at in 0..self.nodes[index as usize].inputs.len() {
                let edge = self.nodes[index as usize].inputs[at];
                let core = &mut self.edges[edge as usize];
                if core.facts.steers || core::mem::replace(&mut core.unwanted, true) {
                    continue;
                }
                let from = core.facts.from;
                let outputs = &self.nodes[from as usize].outputs;
                if outputs.iter().all(|output| self.edges[*output as usize].unwanted) {
                    unwanted.push(from);
                }
            }
        }
    }

    /// Groups that nothing feeds may end now.
    pub(super) fn release_groups(&mut self) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            if core::mem::take(&mut group.kept) {
                group.open -= 1;
                self.to_check.push_back(index as u32);
            }
        }
    }

    pub(super) fn check_group_of(&mut self, node: u32) {
        let group = self.nodes[node as usize].facts.group;
        if self.groups[group as usize].open == 0 {
            self.to_check.push_back(group);
        }
    }

    /// Ends the nodes that can end.
    pub(super) fn settle_ends(&mut self) {
        while let Some(index) = self.to_check.pop_front() {
            let group = &self.groups[index as usize];
            if group.open > 0 {
                continue;
            }
            let quiet = |node: &u32| {
                let node = &self.nodes[*node as usize];
                // A node that is ending is waited for.
                node.state.is_over() || (node.state != NodeState::Ending && node.is_quiet())
            };
            if !group.members.iter().all(quiet) {
                continue;
            }
            let next = group.members.iter().find(|node| !self.nodes[**node as usize].state.is_over());
            let Some(&next) = next else { continue };
            if self.nodes[next as usize].state == NodeState::Created {
                continue;
            }
            self.nodes[next as usize].moves(Event::InputsEnded);
            self.schedule(next);
            debug_assert!(
                Band::ALL.iter().any(|band| self.nodes[next as usize].can_act(*band)),
                "a node that is to end has its turn"
            );
        }
    }
}
