//! Trees beside a sorted list, and the invariants of every node.
//!
//! Room: tests.

use super::*;
use alloc::vec::Vec;
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

    /// Its entities, in order.
    fn order(&self, pool: &Pool) -> Vec<u32> {
        let mut nodes: Vec<u32> = pool.get(self.root).map(|_| self.root).into_iter().collect();
        for _ in 0..=self.height {
            let links = |&node: &u32| (0..pool.node(node).len()).map(move |at| pool.node(node).link(at));
            nodes = nodes.iter().flat_map(links).collect();
        }
        nodes
    }

    fn check_node(&self, pool: &Pool, at: u32, level: u32, order: &mut Vec<VirtualTime>) {
        let node = pool.node(at);
        assert_eq!(node.is_leaf, level == 0);
        for place in 0..node.len() {
            let (deadline, link) = (node.deadline(place), node.link(place));
            if level == 0 {
                assert_eq!(pool.leaf_of(link), at);
                order.push(deadline);
                continue;
            }
            let child = pool.node(link);
            assert_eq!((child.parent, child.least_runtime()), (at, node.runtime(place)));
            if place > 0 {
                assert!(order.last().is_none_or(|last| !deadline.is_before(*last)), "nothing before it is later");
                let pair = [place - 1, place].map(|place| pool.node(node.link(place)).len());
                assert!(pair[0] > SPARSE || pair[1] > SPARSE, "two sparse siblings: {pair:?}");
            }
            let start = order.len();
            self.check_node(pool, link, level - 1, order);
            assert!(order.len() > start, "no child is empty");
            assert!(place == 0 || !order[start].is_before(deadline), "nothing in it is earlier");
        }
    }
}

/// The same by looking at everything.
#[derive(Default)]
struct List(Vec<(VirtualTime, VirtualTime, u32)>);

impl List {
    fn insert(&mut self, entity: u32, deadline: VirtualTime, runtime: VirtualTime) {
        let at = self.0.partition_point(|entry| !deadline.is_before(entry.0));
        self.0.insert(at, (deadline, runtime, entity));
    }

    fn remove(&mut self, entity: u32) -> VirtualTime {
        let at = self.0.iter().position(|entry| entry.2 == entity).unwrap();
        self.0.remove(at).0
    }

    fn first_within(&self, limit: VirtualTime) -> Option<u32> {
        self.first_within_but(limit, NONE)
    }

    fn first_within_but(&self, limit: VirtualTime, but: u32) -> Option<u32> {
        self.0.iter().find(|entry| entry.2 != but && !limit.is_before(entry.1)).map(|entry| entry.2)
    }
}

#[test]
fn the_tree_agrees_with_a_sorted_list() {
    for seed in 0..60 {
        let mut dice = SplitMix64::new(seed);
        let mut below = |limit: u64| dice.next_u64() % limit;
        let capacity = [3, 17, 80, 300, 3000][seed as usize % 5];
        let spread = [4, 1000, 1 << 40][seed as usize % 3];
        let start = VirtualTime(if seed % 2 == 0 { u64::MAX - 50 } else { 0 });
        let (mut pool, mut tree) = (Pool::with_capacity(capacity, 1), Tree::EMPTY);
        let mut list = List::default();
        // Phases in which the tree grows, shrinks, and moves along.
        for step in 0..6000_i64 {
            let grow = [90, 50, 10][step as usize / 1000 % 3];
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
                assert!(tree.remove(&mut pool, entity, Hint(below(1 << 16))));
                assert!(!tree.remove(&mut pool, entity, Hint::NONE), "an entity is removed once");
            }
            let limit = start.plus(step + below(spread) as i64);
            let first = tree.first_within(&pool, limit).map(|(entity, _)| entity);
            assert_eq!(first, list.first_within(limit), "seed {seed}, step {step}");
            assert_eq!(tree.first_deadline(&pool), list.0.first().map(|entry| entry.0));
            if let Some(but) = first {
                let next = tree.first_within_but(&pool, limit, but);
                assert_eq!(next, list.first_within_but(limit, but), "seed {seed}, step {step}");
            }
            if below(4) == 0 {
                assert_eq!(tree.take_first_within(&mut pool, limit), first);
                list.0.retain(|entry| Some(entry.2) != first);
            }
            if below(2) == 0
                && let Some((entity, hint)) = tree.first_within(&pool, limit)
            {
                let deadline = list.remove(entity);
                // Others come and go meanwhile, so that the hint is out of date.
                if below(2) == 0 && list.0.len() > 1 {
                    let (_, _, other) = list.0.remove(below(list.0.len() as u64) as usize);
                    assert!(tree.remove(&mut pool, other, Hint::NONE));
                }
                let deadline = match below(4) {
                    0 | 1 => deadline,
                    2 => deadline.plus(below(spread) as i64),
                    _ => deadline.plus(-(below(spread) as i64)),
                };
                let runtime = start.plus(step + below(spread) as i64);
                tree.replace(&mut pool, entity, (deadline, runtime), hint);
                list.insert(entity, deadline, runtime);
            }
            if step % 64 == 0 {
                tree.check(&pool);
            }
        }
    }
}

#[test]
fn a_tree_of_three_levels_agrees_with_a_sorted_list_while_it_falls_and_grows() {
    for seed in 0..8 {
        let mut dice = SplitMix64::new(seed);
        let mut below = |limit: u64| dice.next_u64() % limit;
        let capacity = 6_000;
        let (mut pool, mut tree) = (Pool::with_capacity(capacity, 1), Tree::EMPTY);
        let mut list = List::default();
        let mut height_max = 0;
        for (phase, keep) in [6_000, 300, 6_000, 2_000, 4_000, 60, 3_000, 0].into_iter().enumerate() {
            // Some stretches are emptied, others are left: whole leaves go, and nodes side by side become sparse.
            let stretch = 1 + below(400) as usize;
            while list.0.len() > keep {
                let at = below(list.0.len() as u64) as usize;
                for _ in 0..stretch.min(list.0.len() - keep) {
                    let (_, _, entity) = list.0.remove(at.min(list.0.len() - 1));
                    assert!(tree.remove(&mut pool, entity, Hint::NONE));
                }
                tree.check(&pool);
            }
            while list.0.len() < keep {
                let entity = (0..capacity).map(|_| below(u64::from(capacity)) as u32).find(|&it| !pool.contains(it));
                let Some(entity) = entity else { break };
                let [deadline, runtime] = [(); 2].map(|()| VirtualTime(below(20_000)));
                tree.insert(&mut pool, entity, deadline, runtime);
                list.insert(entity, deadline, runtime);
            }
            height_max = height_max.max(tree.height);
            for step in 0..400 {
                let limit = VirtualTime(below(20_000));
                let Some((entity, hint)) = tree.first_within(&pool, limit) else {
                    assert_eq!(list.first_within(limit), None);
                    continue;
                };
                assert_eq!(list.first_within(limit), Some(entity), "seed {seed}, phase {phase}, step {step}");
                let next = tree.first_within_but(&pool, limit, entity);
                assert_eq!(next, list.first_within_but(limit, entity), "seed {seed}, phase {phase}, step {step}");
                let deadline = list.remove(entity).plus(below(3_000) as i64);
                let runtime = VirtualTime(below(20_000));
                tree.replace(&mut pool, entity, (deadline, runtime), hint);
                list.insert(entity, deadline, runtime);
            }
            tree.check(&pool);
            let order: Vec<u32> = list.0.iter().map(|entry| entry.2).collect();
            assert!(tree.order(&pool) == order, "seed {seed}, phase {phase}: in another order");
        }
        assert_eq!((height_max, pool.used()), (2, 0));
    }
}

#[test]
fn a_tree_outlives_the_wrap_around_of_its_deadlines() {
    let count = 300;
    let (mut pool, mut tree) = (Pool::with_capacity(count, 1), Tree::EMPTY);
    let mut list = List::default();
    for entity in 0..count {
        let deadline = VirtualTime(u64::from(entity) << 48);
        tree.insert(&mut pool, entity, deadline, deadline);
        list.insert(entity, deadline, deadline);
    }
    let mut dice = SplitMix64::new(1);
    for step in 0..100_000 {
        let limit = list.0[0].0;
        let (entity, hint) = tree.first_within(&pool, limit).unwrap();
        assert_eq!(Some(entity), list.first_within(limit), "step {step}");
        let deadline = list.remove(entity).plus((1 << 56) + (dice.next_u64() >> 10) as i64);
        tree.replace(&mut pool, entity, (deadline, deadline), hint);
        list.insert(entity, deadline, deadline);
    }
    tree.check(&pool);
}

#[test]
fn a_tree_never_runs_out_of_nodes_whatever_is_taken_out_of_it() {
    // The worst found: fill, then leave few in each leaf, then fill the gaps from one side.
    for stride in [2, 3, 5, 7, 12, 16, 25, 26, 40, 64] {
        let capacity = 30_000;
        let (mut pool, mut tree) = (Pool::with_capacity(capacity, 1), Tree::EMPTY);
        for entity in 0..capacity {
            tree.insert(&mut pool, entity, VirtualTime(u64::from(entity)), VirtualTime(0));
        }
        tree.check(&pool);
        for entity in (0..capacity).filter(|entity| entity % stride != 0) {
            assert!(tree.remove(&mut pool, entity, Hint::NONE));
            if entity % 97 == 0 {
                assert!(pool.used() <= tree.len() as usize / 10 + 2, "{} for {}", pool.used(), tree.len());
            }
        }
        tree.check(&pool);
        for entity in (0..capacity).filter(|entity| entity % stride != 0) {
            tree.insert(&mut pool, entity, VirtualTime(0), VirtualTime(0));
        }
        tree.check(&pool);
        for entity in 0..capacity {
            assert!(tree.remove(&mut pool, entity, Hint::NONE));
        }
        assert_eq!((tree.len(), tree.height, pool.used()), (0, 0, 0));
    }
}
