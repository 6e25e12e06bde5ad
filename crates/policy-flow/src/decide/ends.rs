//! How a flow comes to its end: sources end, and nodes after them, when nothing more can come.
//!
//! Room: decisions.
//!
//! # Invariant
//! A node's `on_end` comes after its last message, and before the end of whoever it feeds. A node in a circle ends only when the whole circle is quiet.
//!
//! # Why it holds
//! Nodes that reach each other are one *group*. A group may end when all edges into it come from nodes that are over, and no member has anything to do
//! or to wait for. Its members then end one after the other, in the order they were started, and the group is looked at anew after each: what one says
//! at its end, the others still hear.
//!
//! # The other way
//! A node that wants no more says so, and ends as if its inputs had. One that failed takes no more either. A node all of whose edges lead to such nodes has nothing left to do it for, and is
//! one of them: so the end comes to the sources. Edges to `control` count as edges: a node that steers goes on.

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
    /// What may still feed it: edges from outside whose source is not over, sources inside, and whoever keeps it open.
    open: usize,
    /// Nothing feeds it from outside, so it goes on until the flow is drained.
    kept: bool,
}

/// The groups, with what feeds them.
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

/// Which nodes only steer: all their messages end in inputs called `control`. They keep no flow alive.
pub(super) fn steering(nodes: usize, edges: &[EdgeFacts], order: &[u32]) -> Vec<bool> {
    let mut outputs = vec![Vec::new(); nodes];
    edges.iter().for_each(|edge| outputs[edge.from as usize].push(edge));
    let mut steering = vec![false; nodes];
    for &node in order.iter().rev() {
        let outputs = &outputs[node as usize];
        steering[node as usize] =
            !outputs.is_empty() && outputs.iter().all(|edge| edge.steers || steering[edge.to as usize]);
    }
    // If there is nothing else, they are what the flow is for.
    if steering.iter().all(|steers| *steers) {
        steering.fill(false);
    }
    steering
}

impl Core {
    /// A node has finished or failed: nothing comes from it any more, and nothing is taken.
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
            self.finish(index); // what feeds only this node feeds nothing
        }
    }

    /// A node takes no more messages, other than those that steer it.
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

    /// A node wants no more, or can take no more; neither does what feeds only it.
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

    /// Groups that nothing feeds are no longer kept.
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

    /// Ends whoever can end.
    pub(super) fn settle_ends(&mut self) {
        while let Some(index) = self.to_check.pop_front() {
            let group = &self.groups[index as usize];
            if group.open > 0 {
                continue;
            }
            let quiet = |node: &u32| {
                let node = &self.nodes[*node as usize];
                // One that is ending is waited for.
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
            self.place(next);
            debug_assert!(
                Band::ALL.iter().any(|band| self.nodes[next as usize].can_act(*band)),
                "a node that is to end has its turn"
            );
        }
    }
}
