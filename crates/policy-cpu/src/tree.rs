//! Entities in the order of their virtual deadlines; the first eligible one is found without looking at the others.
//!
//! Room: decisions. Knows numbers of entities, deadlines and virtual runtimes; knows nothing of weights, CPUs or time.
//!
//! B+ trees in one array of nodes. Leaves hold entities, inner nodes hold children, both in the order of deadlines, and both carry for each entry the smallest
//! virtual runtime below it. So a descent to the first entry with a runtime of at most `V` visits one node a level.
//!
//! # Invariants
//! - Along the leaves deadlines never fall; of equal ones the first that was put in comes first.
//! - The entry of a child carries the smallest deadline and the smallest runtime of that child.
//! - A node that shrinks to [`SPARSE`] entries or fewer is merged with a sibling if both fit into [`FULL_AFTER_MERGE`] entries. So two siblings side by side hold
//!   more than [`SPARSE`] entries: the later one to shrink was merged, or has more, or both have more than [`FULL_AFTER_MERGE`]. So `n` entities need fewer
//!   than `n / 10` nodes and two a level, and every operation takes O(log n) steps.
//! - An entity that runs stays in its place, *hidden*: with a runtime that no limit reaches. So one that comes back within its request moves nothing.
//! - `leaf_of` names the leaf of every entity that is in. Trees that share a pool share it, too, so an entity is in at most one of them: a runnable entity has one owner.
//!
//! # Why an array of wide nodes
//! A node of 64 entries is 24 cache lines, of which a search reads a few, in order. A thousand entities are two levels, where a binary tree has ten, each a cache miss and a
//! mispredicted branch. *Rejected:* two heaps, one of eligible entities: a virtual time that steps back, as it does when an entity with credit joins, makes any
//! number of entities change heaps at once.
//!
//! Checked by `the_tree_agrees_with_a_sorted_list`.

use alloc::vec;
use alloc::vec::Vec;

use crate::node::{Entry, FAN, NONE, Node};
use crate::time::VirtualTime;

const SPARSE: usize = FULL_AFTER_MERGE / 2;
const FULL_AFTER_MERGE: usize = FAN * 3 / 4;
/// Levels: two siblings hold more than 24 entries, so a level has at most a twelfth of the entries below it, and 12^9 is more than a number of an entity can be.
const HEIGHT_MAX: u32 = 9;

/// The nodes of any number of trees, and which leaf each entity is in.
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

    fn fit_together(&self, parent: u32, left: usize) -> bool {
        let parent = &self.nodes[parent as usize];
        let [left, right] = [left, left + 1].map(|place| self.nodes[parent.entries[place].link as usize].len());
        left + right <= FULL_AFTER_MERGE
    }

    /// Moves the entries of the child right of `left` into that child.
    fn merge(&mut self, parent: u32, left: usize) {
        let [into, from] = [left, left + 1].map(|place| self.nodes[parent as usize].entries[place].link);
        let moved = self.nodes[from as usize].clone();
        for &entry in moved.entries() {
            let target = &mut self.nodes[into as usize];
            target.insert(target.len(), entry);
            self.adopt(into, entry.link);
        }
        let gone = self.nodes[parent as usize].remove(left + 1);
        self.release(from);
        let entry = &mut self.nodes[parent as usize].entries[left];
        if gone.runtime.is_before(entry.runtime) {
            entry.runtime = gone.runtime;
        }
    }

    /// Splits the full child at `place` in two.
    fn split_child(&mut self, parent: u32, place: usize) {
        let left = self.nodes[parent as usize].entries[place].link;
        let right = self.take_free();
        let full = self.nodes[left as usize].clone();
        let (kept, moved) = full.entries.split_at(FAN / 2);
        self.nodes[left as usize].len = kept.len() as u32;
        let node = &mut self.nodes[right as usize];
        node.is_leaf = full.is_leaf;
        node.parent = parent;
        for &entry in moved {
            let node = &mut self.nodes[right as usize];
            node.insert(node.len(), entry);
            self.adopt(right, entry.link);
        }
        let least = self.nodes[left as usize].least_runtime();
        let entry = self.entry_of(right);
        let parent = &mut self.nodes[parent as usize];
        parent.entries[place].runtime = least;
        parent.insert(place + 1, entry);
    }

    /// What the parent of a node carries for it.
    fn entry_of(&self, node: u32) -> Entry {
        let child = &self.nodes[node as usize];
        Entry { deadline: child.entries[0].deadline, runtime: child.least_runtime(), link: node }
    }

    /// Tells what `link` of `node` means that it is there now.
    fn adopt(&mut self, node: u32, link: u32) {
        if self.nodes[node as usize].is_leaf {
            self.leaf_of[link as usize] = node;
        } else {
            self.nodes[link as usize].parent = node;
        }
    }

    fn take_free(&mut self) -> u32 {
        let node = self.free;
        assert!(node != NONE, "all {} nodes are in use", self.nodes.len());
        self.free = self.nodes[node as usize].parent;
        self.nodes[node as usize].len = 0;
        node
    }

    fn release(&mut self, node: u32) {
        self.nodes[node as usize].len = 0;
        self.nodes[node as usize].parent = self.free;
        self.free = node;
    }
}

/// How far behind every limit the runtime of a hidden entity is. Twice this is the most that two times are apart.
const FAR: i64 = 1 << 61;

/// Where an entity was seen: a place in its leaf, and the place of each node on the way in the node above it, from the bottom. May be out of date.
#[derive(Clone, Copy)]
pub(crate) struct Hint {
    place: u8,
    way: [u8; HEIGHT_MAX as usize],
}

impl Hint {
    pub(crate) const NONE: Hint = Hint { place: 0, way: [0; HEIGHT_MAX as usize] };
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
        if self.root == NONE {
            self.root = pool.take_free();
            pool.nodes[self.root as usize].is_leaf = true;
            pool.nodes[self.root as usize].parent = NONE;
        } else if pool.nodes[self.root as usize].is_full() {
            self.grow(pool);
        }
        let mut at = self.root;
        for _ in 0..self.height {
            let node = &pool.nodes[at as usize];
            let mut child = node.place_for(deadline).saturating_sub(1);
            if pool.nodes[node.entries[child].link as usize].is_full() {
                pool.split_child(at, child);
                if !deadline.is_before(pool.nodes[at as usize].entries[child + 1].deadline) {
                    child += 1;
                }
            }
            let entry = &mut pool.nodes[at as usize].entries[child];
            if deadline.is_before(entry.deadline) {
                entry.deadline = deadline;
            }
            if runtime.is_before(entry.runtime) {
                entry.runtime = runtime;
            }
            at = entry.link;
        }
        let leaf = &mut pool.nodes[at as usize];
        leaf.insert(leaf.place_for(deadline), Entry { deadline, runtime, link: entity });
        pool.leaf_of[entity as usize] = at;
        self.len += 1;
    }

    /// Removes an entity; whether it was in.
    pub(crate) fn remove(&mut self, pool: &mut Pool, entity: u32) -> bool {
        self.remove_near(pool, entity, &Hint::NONE)
    }

    fn remove_near(&mut self, pool: &mut Pool, entity: u32, hint: &Hint) -> bool {
        let leaf = pool.leaf_of[entity as usize];
        if leaf == NONE {
            return false;
        }
        let place = pool.nodes[leaf as usize].position_of(entity, hint.place);
        self.remove_at(pool, leaf, place, hint);
        true
    }

    /// Removes the entity with the earliest deadline among those whose runtime is at most `limit`.
    pub(crate) fn take_first_within(&mut self, pool: &mut Pool, limit: VirtualTime) -> Option<u32> {
        let (leaf, hint) = self.find_first_within(pool, limit)?;
        let entity = pool.nodes[leaf as usize].entries[usize::from(hint.place)].link;
        self.remove_at(pool, leaf, hint.place.into(), &hint);
        Some(entity)
    }

    /// The same, but the entity stays where it is, with a runtime that no limit reaches, until it is [shown](Self::show) again. Where that was, too.
    pub(crate) fn hide_first_within(&self, pool: &mut Pool, limit: VirtualTime) -> Option<(u32, Hint)> {
        let (leaf, hint) = self.find_first_within(pool, limit)?;
        let entity = self.hide_at(pool, leaf, hint.place.into(), &hint, limit);
        Some((entity, hint))
    }

    /// Hides an entity that is in.
    pub(crate) fn hide(&self, pool: &mut Pool, entity: u32, limit: VirtualTime) -> Hint {
        let leaf = pool.leaf_of[entity as usize];
        let place = pool.nodes[leaf as usize].position_of(entity, 0);
        self.hide_at(pool, leaf, place, &Hint::NONE, limit);
        Hint { place: place as u8, ..Hint::NONE }
    }

    fn hide_at(&self, pool: &mut Pool, leaf: u32, place: usize, hint: &Hint, limit: VirtualTime) -> u32 {
        let entry = &mut pool.nodes[leaf as usize].entries[place];
        let entity = entry.link;
        let mut lost = core::mem::replace(&mut entry.runtime, limit.plus(FAR));
        let mut node = leaf;
        for &hint in &hint.way {
            if node == self.root {
                break;
            }
            let parent = pool.nodes[node as usize].parent;
            let place = pool.nodes[parent as usize].position_of(node, hint);
            let carried = pool.nodes[parent as usize].entries[place].runtime;
            if lost != carried {
                break; // only the smallest of a node stands above it
            }
            let least = pool.nodes[node as usize].least_runtime();
            if least == carried {
                break;
            }
            pool.nodes[parent as usize].entries[place].runtime = least;
            (node, lost) = (parent, carried);
        }
        entity
    }

    /// Lets a hidden entity be found again, with this deadline and runtime, behind those of the same deadline. It stays where it is if it belongs there.
    pub(crate) fn show(&mut self, pool: &mut Pool, entity: u32, key: (VirtualTime, VirtualTime), hint: &Hint) {
        let (deadline, runtime) = key;
        let leaf = pool.leaf_of[entity as usize];
        let node = &mut pool.nodes[leaf as usize];
        let place = node.position_of(entity, hint.place);
        if leaf == self.root && !deadline.is_before(node.entries[place].deadline) {
            node.move_back(place, Entry { deadline, runtime, link: entity });
            return;
        }
        let is_last = place + 1 < node.len() && deadline.is_before(node.entries[place + 1].deadline);
        if node.entries[place].deadline != deadline || !is_last {
            self.remove_at(pool, leaf, place, hint);
            self.insert(pool, entity, deadline, runtime);
            return;
        }
        node.entries[place].runtime = runtime;
        let mut node = leaf;
        for &hint in &hint.way {
            if node == self.root {
                return;
            }
            let parent = pool.nodes[node as usize].parent;
            let place = pool.nodes[parent as usize].position_of(node, hint);
            let entry = &mut pool.nodes[parent as usize].entries[place];
            if !runtime.is_before(entry.runtime) {
                return; // so it is above, too
            }
            entry.runtime = runtime;
            node = parent;
        }
    }

    /// The leaf of the first entity with a runtime of at most `limit`, and the way to it.
    fn find_first_within(&self, pool: &Pool, limit: VirtualTime) -> Option<(u32, Hint)> {
        if self.root == NONE {
            return None;
        }
        let mut hint = Hint::NONE;
        let mut at = self.root;
        for level in (0..self.height as usize).rev() {
            let found = self.position_within(pool, at, limit)?;
            hint.way[level % HEIGHT_MAX as usize] = found as u8;
            at = pool.nodes[at as usize].entries[found].link;
        }
        hint.place = self.position_within(pool, at, limit)? as u8;
        Some((at, hint))
    }

    /// The entity that [`take_first_within`](Self::take_first_within) would remove.
    pub(crate) fn first_within(&self, pool: &Pool, limit: VirtualTime) -> Option<u32> {
        if self.root == NONE {
            return None;
        }
        let mut at = self.root;
        for _ in 0..=self.height {
            at = pool.nodes[at as usize].entries[self.position_within(pool, at, limit)?].link;
        }
        Some(at)
    }

    /// The earliest deadline of all.
    pub(crate) fn first_deadline(&self, pool: &Pool) -> Option<VirtualTime> {
        (self.root != NONE).then(|| pool.nodes[self.root as usize].entries[0].deadline)
    }

    fn position_within(&self, pool: &Pool, node: u32, limit: VirtualTime) -> Option<usize> {
        let found = pool.nodes[node as usize].first_within(limit);
        debug_assert!(found.is_some() || node == self.root, "a parent promised an entity that its child has not");
        found
    }

    /// Removes an entry of a leaf.
    fn remove_at(&mut self, pool: &mut Pool, leaf: u32, place: usize, hint: &Hint) {
        let removed = pool.nodes[leaf as usize].remove(place);
        pool.leaf_of[removed.link as usize] = NONE;
        self.len -= 1;
        // What the entry above `node` may carry and is no longer true: the first deadline, a runtime.
        let (mut node, mut first_changed, mut lost) = (leaf, place == 0, Some(removed.runtime));
        for &hint in &hint.way {
            if node == self.root {
                break;
            }
            let parent = pool.nodes[node as usize].parent;
            let place = pool.nodes[parent as usize].position_of(node, hint);
            let len = pool.nodes[node as usize].len();
            let mut shrunk = false;
            if len == 0 {
                lost = Some(pool.nodes[parent as usize].remove(place).runtime);
                first_changed = place == 0;
                pool.release(node);
                shrunk = true;
            } else {
                let first = pool.nodes[node as usize].entries[0].deadline;
                let carried = pool.nodes[parent as usize].entries[place].runtime;
                // Only the smallest of a node stands above it.
                let least = match lost {
                    Some(runtime) if runtime == carried => pool.nodes[node as usize].least_runtime(),
                    _ => carried,
                };
                let entry = &mut pool.nodes[parent as usize].entries[place];
                if first_changed {
                    entry.deadline = first;
                    first_changed = place == 0;
                }
                lost = (least != carried).then_some(carried);
                entry.runtime = least;
                if len <= SPARSE {
                    let siblings = pool.nodes[parent as usize].len();
                    if place > 0 && pool.fit_together(parent, place - 1) {
                        pool.merge(parent, place - 1);
                        shrunk = true;
                    } else if place + 1 < siblings && pool.fit_together(parent, place) {
                        pool.merge(parent, place);
                        shrunk = true;
                    }
                }
            }
            if !first_changed && lost.is_none() && !shrunk {
                return; // all above is true
            }
            node = parent;
        }
        while self.height > 0 && pool.nodes[self.root as usize].len() == 1 {
            let child = pool.nodes[self.root as usize].entries[0].link;
            pool.release(self.root);
            pool.nodes[child as usize].parent = NONE;
            self.root = child;
            self.height -= 1;
        }
        if pool.nodes[self.root as usize].len() == 0 {
            pool.release(self.root);
            *self = Tree::EMPTY;
        }
    }

    /// Puts a new root above the old one, which is full.
    fn grow(&mut self, pool: &mut Pool) {
        let (old, root) = (self.root, pool.take_free());
        let entry = pool.entry_of(old);
        let node = &mut pool.nodes[root as usize];
        node.is_leaf = false;
        node.parent = NONE;
        node.insert(0, entry);
        pool.nodes[old as usize].parent = root;
        self.root = root;
        self.height += 1;
        assert!(self.height <= HEIGHT_MAX, "a tree of {} entities has {} levels", self.len, self.height);
        pool.split_child(root, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::SplitMix64;

    impl Tree {
        fn check(&self, pool: &Pool) {
            let mut order = Vec::new();
            if self.root != NONE {
                self.check_node(pool, self.root, self.height, &mut order);
            }
            assert_eq!(order.len(), self.len as usize);
            assert!(order.windows(2).all(|pair| !pair[1].is_before(pair[0])), "deadlines never fall");
        }

        fn check_node(&self, pool: &Pool, at: u32, level: u32, order: &mut Vec<VirtualTime>) {
            let node = &pool.nodes[at as usize];
            assert_eq!(node.is_leaf, level == 0);
            for index in 0..node.len() {
                let Entry { deadline, runtime, link } = node.entries[index];
                if level == 0 {
                    assert_eq!(pool.leaf_of[link as usize], at);
                    order.push(deadline);
                    continue;
                }
                let child = &pool.nodes[link as usize];
                assert_eq!(child.parent, at);
                assert!(child.len() > 0, "no child is empty");
                assert_eq!((deadline, runtime), (child.entries[0].deadline, child.least_runtime()));
                self.check_node(pool, link, level - 1, order);
            }
        }
    }

    impl Pool {
        fn used(&self) -> usize {
            let mut free = 0;
            let mut at = self.free;
            while at != NONE {
                free += 1;
                at = self.nodes[at as usize].parent;
            }
            self.nodes.len() - free
        }
    }

    /// The same by looking at everything.
    #[derive(Default)]
    struct List(Vec<(VirtualTime, VirtualTime, u32)>);

    impl List {
        fn insert(&mut self, entity: u32, deadline: VirtualTime, runtime: VirtualTime) {
            let at = self.0.iter().position(|entry| deadline.is_before(entry.0)).unwrap_or(self.0.len());
            self.0.insert(at, (deadline, runtime, entity));
        }

        fn first_within(&self, limit: VirtualTime) -> Option<u32> {
            self.0.iter().find(|entry| !limit.is_before(entry.1)).map(|entry| entry.2)
        }
    }

    #[test]
    fn the_tree_agrees_with_a_sorted_list() {
        for seed in 0..60 {
            let mut dice = SplitMix64::new(seed);
            let mut below = |limit: u64| dice.next_u64() % limit;
            let capacity = [3, 17, 40, 300, 1500][seed as usize % 5];
            let spread = [4, 1000, 1 << 40][seed as usize % 3];
            let start = VirtualTime(if seed % 2 == 0 { u64::MAX - 50 } else { 0 });
            let (mut pool, mut tree) = (Pool::with_capacity(capacity, 1), Tree::EMPTY);
            let mut list = List::default();
            // Phases in which the tree grows, shrinks, and moves along.
            for step in 0..4000_i64 {
                let grow = [80, 50, 20][step as usize / 700 % 3];
                if below(100) < grow {
                    let entity = below(u64::from(capacity)) as u32;
                    if !pool.contains(entity) {
                        let deadline = start.plus(step + below(spread) as i64);
                        let runtime = start.plus(step + below(spread) as i64);
                        tree.insert(&mut pool, entity, deadline, runtime);
                        list.insert(entity, deadline, runtime);
                    }
                } else if !list.0.is_empty() {
                    let at = below(list.0.len() as u64) as usize;
                    let (_, _, entity) = list.0.remove(at);
                    assert!(tree.remove(&mut pool, entity));
                    assert!(!tree.remove(&mut pool, entity), "an entity is removed once");
                }
                let limit = start.plus(step + below(spread) as i64);
                assert_eq!(tree.first_within(&pool, limit), list.first_within(limit), "seed {seed}, step {step}");
                if below(4) == 0 {
                    let taken = tree.take_first_within(&mut pool, limit);
                    assert_eq!(taken, list.first_within(limit), "seed {seed}, step {step}");
                    list.0.retain(|entry| Some(entry.2) != taken);
                }
                if below(4) == 0
                    && let Some((entity, hint)) = tree.hide_first_within(&mut pool, limit)
                {
                    assert_eq!(Some(entity), list.first_within(limit), "seed {seed}, step {step}");
                    let at = list.0.iter().position(|entry| entry.2 == entity).unwrap();
                    let (deadline, ..) = list.0.remove(at);
                    assert_eq!(tree.first_within(&pool, limit), list.first_within(limit), "it is hidden");
                    tree.check(&pool);
                    // Others come and go meanwhile, so that the hint is out of date.
                    if below(2) == 0 && list.0.len() > 1 {
                        let (_, _, other) = list.0.remove(below(list.0.len() as u64) as usize);
                        assert!(tree.remove(&mut pool, other));
                    }
                    let deadline = if below(2) == 0 { deadline } else { deadline.plus(below(spread) as i64) };
                    let runtime = start.plus(step + below(spread) as i64);
                    tree.show(&mut pool, entity, (deadline, runtime), &hint);
                    list.insert(entity, deadline, runtime);
                    tree.check(&pool);
                }
                if step % 64 == 0 {
                    tree.check(&pool);
                }
            }
        }
    }

    #[test]
    fn a_tree_never_runs_out_of_nodes_whatever_is_taken_out_of_it() {
        // The worst found: fill, then leave few in each leaf, then fill the gaps from one side.
        for stride in [2, 3, 5, 7, 12, 16] {
            let capacity = 6_000;
            let (mut pool, mut tree) = (Pool::with_capacity(capacity, 1), Tree::EMPTY);
            for entity in 0..capacity {
                tree.insert(&mut pool, entity, VirtualTime(u64::from(entity)), VirtualTime(0));
            }
            for entity in (0..capacity).filter(|entity| entity % stride != 0) {
                tree.remove(&mut pool, entity);
            }
            tree.check(&pool);
            for entity in (0..capacity).filter(|entity| entity % stride != 0) {
                tree.insert(&mut pool, entity, VirtualTime(0), VirtualTime(0));
            }
            tree.check(&pool);
            for entity in 0..capacity {
                tree.remove(&mut pool, entity);
            }
            assert_eq!((tree.len(), tree.height, pool.used()), (0, 0, 0));
        }
    }
}
