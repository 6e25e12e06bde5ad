//! Nodes of any number of trees: which are free, which leaf each entity is in, and how one node becomes two and two become one.
//!
//! Room: decisions. Knows nodes and what they link to; knows nothing of roots.
//!
//! # Invariants
//! - `leaf_of` names the leaf of every entity that is in a tree of the pool. So an entity is in at most one of them: a runnable entity has one owner.
//! - No two siblings side by side are sparse. A node that becomes [`SPARSE`] is merged with one that is; what was merged, or split, is not sparse. Where two inner nodes
//!   are merged, children become siblings that were not: these are looked at, too.
//!
//! # Why the nodes suffice
//! Two siblings hold [`SPARSE`] entries and two more, which is 26. So a level with `n` entries below it has at most `n / 13` nodes and one for each parent, and the number
//! of parents is bounded in the same way. A tree of `n` entities has at most `n / 10 + 2` nodes, and each level a twelfth of the one below. Checked by
//! `a_tree_never_runs_out_of_nodes_whatever_is_taken_out_of_it`.

use alloc::vec;
use alloc::vec::Vec;

use crate::node::{Entry, FAN, NONE, Node};
use crate::time::VirtualTime;

/// A node with so many entries is sparse, and one with fewer.
pub(crate) const SPARSE: usize = FAN * 3 / 8;
/// 12^9 is more than a number of an entity can be.
pub(crate) const HEIGHT_MAX: u32 = 9;

/// See the head of the file.
#[derive(Clone)]
pub(crate) struct Pool {
    nodes: Vec<Node>,
    free: u32,
    /// By entity: the leaf it is in, or [`NONE`].
    leaf_of: Vec<u32>,
}

impl Pool {
    /// For entities numbered below `entities`, in so many trees. Allocates here, and never again.
    pub(crate) fn with_capacity(entities: u32, trees: u32) -> Self {
        let slack = 2 * trees.min(entities) as usize + 2 * HEIGHT_MAX as usize;
        let mut nodes = vec![Node::EMPTY; entities as usize / 10 + slack];
        let count = nodes.len();
        for (index, node) in nodes.iter_mut().enumerate() {
            node.parent = if index + 1 < count { index as u32 + 1 } else { NONE };
        }
        Pool { nodes, free: 0, leaf_of: vec![NONE; entities as usize] }
    }

    /// Makes room for entities numbered below `entities`, in so many trees. Allocates; what is in stays in.
    pub(crate) fn grow(&mut self, entities: u32, trees: u32) {
        let larger = Pool::with_capacity(entities, trees);
        let old = self.nodes.len() as u32;
        self.leaf_of.resize(entities.max(self.leaf_of.len() as u32) as usize, NONE);
        if larger.nodes.len() <= self.nodes.len() {
            return;
        }
        self.nodes.extend_from_slice(&larger.nodes[self.nodes.len()..]); // each names the next as free
        let last = self.nodes.len() - 1;
        self.nodes[last].parent = self.free;
        self.free = old;
    }

    /// Whether an entity is in a tree.
    pub(crate) fn contains(&self, entity: u32) -> bool {
        self.leaf_of[entity as usize] != NONE
    }

    /// The leaf that an entity is in, or [`NONE`].
    pub(crate) fn leaf_of(&self, entity: u32) -> u32 {
        self.leaf_of[entity as usize]
    }

    pub(crate) fn set_leaf_of(&mut self, entity: u32, leaf: u32) {
        self.leaf_of[entity as usize] = leaf;
    }

    /// A node, or none for [`NONE`].
    pub(crate) fn get(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)
    }

    pub(crate) fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    pub(crate) fn node_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    /// Merges the child at `place` with those beside it, as long as both are sparse. Returns whether it did.
    pub(crate) fn merge_sparse(&mut self, parent: u32, place: usize) -> bool {
        let (mut place, before) = (place, self.node(parent).len());
        while self.is_sparse(parent, place) {
            if place > 0 && self.is_sparse(parent, place - 1) {
                place -= 1;
            } else if place + 1 >= self.node(parent).len() || !self.is_sparse(parent, place + 1) {
                break;
            }
            self.merge(parent, place);
        }
        self.node(parent).len() < before
    }

    fn is_sparse(&self, parent: u32, place: usize) -> bool {
        self.node(self.node(parent).link(place)).len() <= SPARSE
    }

    /// Moves the entries of the child behind `left` into that child.
    fn merge(&mut self, parent: u32, left: usize) {
        let above = self.node(parent);
        let [into, from] = [above.link(left), above.link(left + 1)];
        let (separator, least) = (above.deadline(left + 1), above.runtime(left + 1));
        let [target, source] = self.two([into, from]);
        let (start, is_leaf) = (target.len(), target.is_leaf);
        if !is_leaf {
            source.set_deadline(0, separator); // it is the first of its node no more
        }
        source.move_tail(0, target);
        self.adopt_from(into, start);
        self.release(from);
        let above = self.node_mut(parent);
        above.remove(left + 1);
        if least.is_before(above.runtime(left)) {
            above.set_runtime(left, least);
        }
        if !is_leaf {
            self.merge_sparse(into, start - 1); // as deep as the tree is
        }
    }

    /// Splits the full child at `place` in two. Returns in which of them a deadline goes.
    #[cold]
    pub(crate) fn split_child(&mut self, parent: u32, place: usize, deadline: VirtualTime) -> usize {
        let left = self.node(parent).link(place);
        let right = self.take_free();
        let [full, node] = self.two([left, right]);
        node.is_leaf = full.is_leaf;
        node.parent = parent;
        full.move_tail(FAN / 2, node);
        let least = full.least_runtime();
        let entry = Entry { deadline: node.deadline(0), runtime: node.least_runtime(), link: right };
        self.adopt_from(right, 0);
        let above = self.node_mut(parent);
        above.set_runtime(place, least);
        above.insert(place + 1, entry);
        place + usize::from(!deadline.is_before(entry.deadline))
    }

    fn two(&mut self, nodes: [u32; 2]) -> [&mut Node; 2] {
        self.nodes.get_disjoint_mut(nodes.map(|node| node as usize)).expect("two nodes of the pool")
    }

    /// Tells what the links of `node` from `start` on mean that they are there now.
    fn adopt_from(&mut self, node: u32, start: usize) {
        let (len, is_leaf) = (self.node(node).len(), self.node(node).is_leaf);
        for at in start..len {
            let link = self.node(node).link(at);
            if is_leaf {
                self.leaf_of[link as usize] = node;
            } else {
                self.node_mut(link).parent = node;
            }
        }
    }

    pub(crate) fn take_free(&mut self) -> u32 {
        let node = self.free;
        assert!(node != NONE, "all {} nodes are in use", self.nodes.len());
        self.free = self.node(node).parent;
        self.node_mut(node).clear();
        node
    }

    pub(crate) fn release(&mut self, node: u32) {
        let free = self.free;
        self.node_mut(node).clear();
        self.node_mut(node).parent = free;
        self.free = node;
    }

    /// How many nodes are in use.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        let free = core::iter::successors(self.get(self.free), |node| self.get(node.parent)).count();
        self.nodes.len() - free
    }
}
