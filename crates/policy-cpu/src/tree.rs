//! Entities in the order of their virtual deadlines; the first eligible one is found without looking at the others.
//!
//! Room: decisions. Knows numbers of entities, deadlines and virtual runtimes; knows nothing of weights, CPUs or time.
//!
//! B+ trees of wide nodes, in a pool. Leaves hold entities, inner nodes hold children, both in the order of deadlines. For each child stands the smallest virtual runtime
//! below it, so a descent to the first entity with a runtime of at most `V` visits one node a level. A thousand entities are two levels.
//!
//! # Invariants
//! - Along the leaves deadlines never fall; of equal ones the first that was put in comes first.
//! - The runtime that stands for a child is the smallest in it, exactly.
//! - The deadline that stands for a child is a *separator*: nothing in the child is earlier, nothing before the child is later. So it need not change when the first
//!   entity of a child leaves, or when an earlier one joins the first child, whose separator means nothing. It never becomes so old that a comparison would
//!   wrap around: it lies between two deadlines that are in the tree.
//! - Every operation takes O(log n) steps: nodes are kept filled by `src/pool.rs`.
//!
//! # An entity that runs
//! It stays in its place, with the key it was picked by, and gets its new key when it is put back. So a pick changes nothing, and an entity that comes back within its
//! request moves nothing: one change of a tree for a pick and a put. Who looks at the tree meanwhile names the entity that runs, to look past it.
//!
//! # Rejected
//! - Nodes of 14 or 16 entries, of which every search compares all: a thousand entities are three levels then, and a pick took a quarter longer.
//! - The smallest runtimes of each block, beside those of each node: fewer comparisons, but each waits for the last, and every move writes more.
//! - Two heaps, one of eligible entities: a virtual time that steps back, as it does when an entity with credit joins, makes any number of entities change heaps at once.
//!
//! Checked by `the_tree_agrees_with_a_sorted_list`.

use crate::node::{Entry, NONE, Node};
use crate::pool::{HEIGHT_MAX, Pool, SPARSE};
use crate::time::VirtualTime;

/// Where an entity was seen: its place in its leaf, and the place of each node on the way in the node above it. A byte each, the leaf's the lowest. May be out of date.
#[derive(Clone, Copy)]
pub(crate) struct Hint(u64);

impl Hint {
    pub(crate) const NONE: Hint = Hint(0);

    const fn place(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// The same from the next level on.
    const fn above(self) -> Hint {
        Hint(self.0 >> 8)
    }

    /// The same with one more level below. More than eight are forgotten.
    const fn below(self, place: usize) -> Hint {
        Hint(self.0 << 8 | place as u64)
    }
}

/// Entities by deadline. See the head of the file. Every operation is given the pool that the tree lives in.
#[derive(Clone)]
pub(crate) struct Tree {
    /// [`NONE`] if it is empty.
    root: u32,
    len: u32,
    /// Levels of inner nodes above the leaves.
    height: u32,
}

impl Tree {
    pub(crate) const EMPTY: Tree = Tree { root: NONE, len: 0, height: 0 };

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Adds an entity that is not in.
    pub(crate) fn insert(&mut self, pool: &mut Pool, entity: u32, deadline: VirtualTime, runtime: VirtualTime) {
        assert!(!pool.contains(entity), "entity {entity} is queued already");
        if pool.get(self.root).is_none_or(Node::is_full) {
            self.grow(pool);
        }
        let mut at = self.root;
        for _ in 0..self.height {
            let node = pool.node(at);
            let mut child = node.child_for(deadline);
            if pool.node(node.link(child)).is_full() {
                child = pool.split_child(at, child, deadline);
            }
            let node = pool.node_mut(at);
            if runtime.is_before(node.runtime(child)) {
                node.set_runtime(child, runtime);
            }
            at = node.link(child);
        }
        let leaf = pool.node_mut(at);
        leaf.insert(leaf.place_for(deadline), Entry { deadline, runtime, link: entity });
        pool.set_leaf_of(entity, at);
        self.len += 1;
    }

    /// Removes an entity; whether it was in.
    pub(crate) fn remove(&mut self, pool: &mut Pool, entity: u32, hint: Hint) -> bool {
        let leaf = pool.leaf_of(entity);
        if leaf == NONE {
            return false;
        }
        let place = pool.node(leaf).position_of(entity, hint.place());
        self.remove_at(pool, leaf, place, hint);
        true
    }

    /// Removes the entity with the earliest deadline among those whose runtime is at most `limit`.
    pub(crate) fn take_first_within(&mut self, pool: &mut Pool, limit: VirtualTime) -> Option<u32> {
        let (leaf, hint) = self.find_first_within(pool, limit)?;
        let entity = pool.node(leaf).link(hint.place());
        self.remove_at(pool, leaf, hint.place(), hint);
        Some(entity)
    }

    /// Gives an entity that is in another deadline and runtime, behind those of the same deadline. It stays in its leaf if it belongs there.
    pub(crate) fn replace(&mut self, pool: &mut Pool, entity: u32, key: (VirtualTime, VirtualTime), hint: Hint) {
        let (deadline, runtime) = key;
        let leaf = pool.leaf_of(entity);
        let node = pool.node(leaf);
        let place = node.position_of(entity, hint.place());
        let (old, parent) = (node.runtime(place), node.parent);
        let mut stays = !deadline.is_before(node.deadline(place));
        if leaf != self.root {
            let above = pool.node(parent);
            let next = above.position_of(leaf, hint.above().place()) + 1;
            stays &= next < above.len() && deadline.is_before(above.deadline(next));
        }
        if stays {
            pool.node_mut(leaf).move_back(place, Entry { deadline, runtime, link: entity });
            self.lift(pool, leaf, hint.above(), (old, runtime));
        } else {
            self.remove_at(pool, leaf, place, hint);
            self.insert(pool, entity, deadline, runtime);
        }
    }

    /// Corrects what stands for a node and for those above it: one runtime in it was `old` and is `new`, or is gone if both are the same.
    #[inline]
    fn lift(&self, pool: &mut Pool, mut node: u32, mut hint: Hint, (mut old, mut new): (VirtualTime, VirtualTime)) {
        while node != self.root {
            let parent = pool.node(node).parent;
            let above = pool.node(parent);
            let place = above.position_of(node, hint.place());
            let carried = above.runtime(place);
            if !new.is_before(carried) {
                if old != carried {
                    return; // only the smallest of a node stands for it
                }
                new = pool.node(node).least_runtime();
                if new == carried {
                    return;
                }
            }
            pool.node_mut(parent).set_runtime(place, new);
            old = carried;
            (node, hint) = (parent, hint.above());
        }
    }

    /// The leaf of the first entity with a runtime of at most `limit`, and the way to it.
    #[inline]
    fn find_first_within(&self, pool: &Pool, limit: VirtualTime) -> Option<(u32, Hint)> {
        let mut at = self.root;
        let mut node = pool.get(at)?;
        let mut found = node.first_within(limit);
        if found >= node.len() {
            return None;
        }
        let mut hint = Hint::NONE;
        for _ in 0..self.height {
            hint = hint.below(found);
            at = node.link(found);
            node = pool.node(at);
            found = node.first_within(limit);
            debug_assert!(found < node.len(), "a parent promised an entity that its child has not");
        }
        Some((at, hint.below(found)))
    }

    /// The entity with the earliest deadline among those whose runtime is at most `limit`, and where it is.
    #[inline]
    pub(crate) fn first_within(&self, pool: &Pool, limit: VirtualTime) -> Option<(u32, Hint)> {
        let (leaf, hint) = self.find_first_within(pool, limit)?;
        Some((pool.node(leaf).link(hint.place()), hint))
    }

    /// The same as if one entity were not in.
    pub(crate) fn first_within_but(&self, pool: &Pool, limit: VirtualTime, but: u32) -> Option<u32> {
        let (mut at, mut hint) = self.find_first_within(pool, limit)?;
        let found = pool.node(at).link(hint.place());
        if found != but {
            return Some(found);
        }
        // Behind it in its leaf; else behind its leaf in the node above; and so on.
        let mut place = hint.place();
        for level in 0..=self.height {
            if let Some(next) = pool.node(at).first_within_after(limit, place) {
                let mut link = pool.node(at).link(next);
                for _ in 0..level {
                    link = pool.node(link).link(pool.node(link).first_within(limit));
                }
                return Some(link);
            }
            if at == self.root {
                break;
            }
            let parent = pool.node(at).parent;
            hint = hint.above();
            (at, place) = (parent, pool.node(parent).position_of(at, hint.place()));
        }
        None
    }

    /// The earliest deadline of all.
    pub(crate) fn first_deadline(&self, pool: &Pool) -> Option<VirtualTime> {
        let mut node = pool.get(self.root)?;
        for _ in 0..self.height {
            node = pool.node(node.link(0));
        }
        Some(node.deadline(0))
    }

    /// Removes an entry of a leaf.
    fn remove_at(&mut self, pool: &mut Pool, leaf: u32, place: usize, hint: Hint) {
        let node = pool.node_mut(leaf);
        let (entity, lost) = (node.link(place), node.runtime(place));
        node.remove(place);
        let len = node.len();
        pool.set_leaf_of(entity, NONE);
        self.len -= 1;
        if len > 0 {
            self.lift(pool, leaf, hint.above(), (lost, lost));
        }
        if len == SPARSE || len == 0 {
            self.shrink(pool, leaf, hint.above());
        }
    }

    /// Merges a node that became sparse, and removes one that became empty; so with those above it.
    #[cold]
    fn shrink(&mut self, pool: &mut Pool, mut node: u32, mut hint: Hint) {
        while node != self.root {
            let parent = pool.node(node).parent;
            let place = pool.node(parent).position_of(node, hint.place());
            hint = hint.above();
            if pool.node(node).len() == 0 {
                let carried = pool.node(parent).runtime(place);
                pool.node_mut(parent).remove(place);
                pool.release(node);
                if pool.node(parent).len() > 0 {
                    self.lift(pool, parent, hint, (carried, carried));
                }
            } else if !pool.merge_sparse(parent, place) {
                return;
            }
            node = parent;
        }
        while self.height > 0 && pool.node(self.root).len() == 1 {
            let child = pool.node(self.root).link(0);
            pool.release(self.root);
            pool.node_mut(child).parent = NONE;
            self.root = child;
            self.height -= 1;
        }
        if pool.node(self.root).len() == 0 {
            pool.release(self.root);
            *self = Tree::EMPTY;
        }
    }

    /// Makes room in the root: a leaf, if there is none; else a new root above the old one, which is full.
    #[cold]
    fn grow(&mut self, pool: &mut Pool) {
        let (old, root) = (self.root, pool.take_free());
        self.root = root;
        let node = pool.node_mut(root);
        node.parent = NONE;
        node.is_leaf = old == NONE;
        if old == NONE {
            return;
        }
        let runtime = pool.node(old).least_runtime();
        let node = pool.node_mut(root);
        node.insert(0, Entry { deadline: VirtualTime(0), runtime, link: old });
        pool.node_mut(old).parent = root;
        self.height += 1;
        assert!(self.height <= HEIGHT_MAX, "a tree of {} entities has {} levels", self.len, self.height);
        pool.split_child(root, 0, VirtualTime(0));
    }
}

#[cfg(test)]
mod tests;
