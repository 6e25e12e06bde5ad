//! Whatever is drawn, spent, recharged and returned, in whatever order, in a whole tree of pools: the sum is always what was granted.

use proptest::prelude::*;
use sched_tasks::{Budget, Component, Pool, Settlement};

/// A pool with those who hold something of it: tasks by their meters, nurseries inside by their own pools.
struct Node {
    pool: Pool,
    parent: Option<usize>,
    open: bool,
}

/// What a task drew and has left.
struct Meter {
    node: usize,
    drawn: Budget,
    left: Budget,
}

#[derive(Debug, Clone)]
enum Step {
    Open(usize, Budget),
    Close(usize),
    Draw(usize, Budget),
    Spend(usize, Budget),
    Settle(usize),
    Charge(usize, Budget),
    Refund(usize, Budget),
    /// From outside, at any depth.
    Recharge(usize, Budget),
    /// From a pool further out, through those between, to a task.
    HandDown(usize, usize, Budget),
    Replenish(usize, Budget),
}

struct Tree {
    nodes: Vec<Node>,
    meters: Vec<Meter>,
    granted: Budget,
}

impl Tree {
    fn new(budget: Budget) -> Self {
        let root = Node { pool: Pool::new(budget), parent: None, open: true };
        Self { nodes: vec![root], meters: Vec::new(), granted: budget }
    }

    fn open_node(&self, index: usize) -> Option<usize> {
        let open: Vec<_> = (0..self.nodes.len()).filter(|node| self.nodes[*node].open).collect();
        open.get(index % open.len().max(1)).copied()
    }

    fn ancestors(&self, node: usize) -> Vec<usize> {
        std::iter::successors(Some(node), |node| self.nodes[*node].parent).collect()
    }

    fn add(&mut self, amount: &Budget) {
        self.granted.recharge(amount);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Open(at, budget) => {
                let Some(parent) = self.open_node(*at) else { return };
                let pool = Pool::new(self.nodes[parent].pool.draw(budget));
                self.nodes.push(Node { pool, parent: Some(parent), open: true });
            }
            Step::Close(at) => {
                let Some(node) = self.open_node(*at) else { return };
                let Some(parent) = self.nodes[node].parent else { return };
                let busy = self.meters.iter().any(|meter| meter.node == node)
                    || self.nodes.iter().any(|inner| inner.open && inner.parent == Some(node));
                if !busy {
                    let settlement = self.nodes[node].pool.close(false);
                    self.nodes[parent].pool.settle(&settlement);
                    self.nodes[node].open = false;
                }
            }
            Step::Draw(at, budget) => {
                let Some(node) = self.open_node(*at) else { return };
                let drawn = self.nodes[node].pool.draw(budget);
                self.meters.push(Meter { node, drawn, left: drawn });
            }
            Step::Spend(at, cost) => {
                let meters = self.meters.len().max(1);
                let Some(meter) = self.meters.get_mut(at % meters) else { return };
                let before = meter.left;
                if meter.left.charge(cost).is_err() {
                    assert_eq!(meter.left, before, "a charge takes all or nothing");
                }
            }
            Step::Settle(at) => {
                if self.meters.is_empty() {
                    return;
                }
                let meter = self.meters.swap_remove(at % self.meters.len());
                let spent = meter.drawn.saturating_sub(&meter.left);
                self.nodes[meter.node].pool.settle(&Settlement { left: meter.left, spent });
            }
            Step::Charge(at, cost) => {
                let Some(node) = self.open_node(*at) else { return };
                let before = self.nodes[node].pool;
                if self.nodes[node].pool.charge(cost).is_err() {
                    assert_eq!(self.nodes[node].pool, before, "a charge takes all or nothing");
                }
            }
            Step::Refund(at, cost) => {
                let Some(node) = self.open_node(*at) else { return };
                self.nodes[node].pool.refund(cost);
            }
            Step::Recharge(at, amount) => {
                let Some(node) = self.open_node(*at) else { return };
                for around in self.ancestors(node).into_iter().skip(1) {
                    self.nodes[around].pool.pass_down(amount);
                }
                self.nodes[node].pool.recharge(amount);
                self.add(amount);
            }
            Step::HandDown(at, giver, amount) => {
                let meters = self.meters.len().max(1);
                let Some(node) = self.meters.get(at % meters).map(|meter| meter.node) else { return };
                let around = self.ancestors(node);
                let giver = giver % around.len();
                let drawn = self.nodes[around[giver]].pool.draw(amount);
                for between in &around[..giver] {
                    self.nodes[*between].pool.pass_down(&drawn);
                }
                let meter = &mut self.meters[at % meters];
                meter.drawn.recharge(&drawn);
                meter.left.recharge(&drawn);
            }
            Step::Replenish(at, budget) => {
                let Some(node) = self.open_node(*at).filter(|node| self.nodes[*node].parent.is_none()) else { return };
                let before = self.nodes[node].pool.granted();
                self.nodes[node].pool.replenish(budget);
                let more = self.nodes[node].pool.granted().saturating_sub(&before);
                self.add(&more);
            }
        }
        self.check();
    }

    /// Everything that was ever granted is left or spent somewhere, once.
    fn check(&self) {
        for component in Component::ALL {
            let pools = self.nodes.iter().filter(|node| node.open);
            let in_pools: u64 = pools.map(|node| node.pool.left()[component] + node.pool.spent()[component]).sum();
            let on_meters: u64 = self.meters.iter().map(|meter| meter.drawn[component]).sum();
            assert_eq!(in_pools + on_meters, self.granted[component], "{component}");
        }
    }
}

fn budget(most: u64) -> impl Strategy<Value = Budget> {
    let amount = move || prop_oneof![Just(0), 0..=most];
    (amount(), amount(), amount(), amount(), amount()).prop_map(|(ops, memory, spawns, channel_ops, syscalls)| Budget {
        ops,
        memory,
        spawns,
        channel_ops,
        syscalls,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..64_usize;
    prop_oneof![
        (at(), budget(5_000)).prop_map(|(at, budget)| Step::Open(at, budget)),
        at().prop_map(Step::Close),
        (at(), budget(1_000)).prop_map(|(at, budget)| Step::Draw(at, budget)),
        (at(), budget(400)).prop_map(|(at, cost)| Step::Spend(at, cost)),
        at().prop_map(Step::Settle),
        (at(), budget(300)).prop_map(|(at, cost)| Step::Charge(at, cost)),
        (at(), budget(300)).prop_map(|(at, cost)| Step::Refund(at, cost)),
        (at(), budget(500)).prop_map(|(at, amount)| Step::Recharge(at, amount)),
        (at(), at(), budget(500)).prop_map(|(at, giver, amount)| Step::HandDown(at, giver, amount)),
        (at(), budget(3_000)).prop_map(|(at, budget)| Step::Replenish(at, budget)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_makes_or_loses_budget(grant in budget(20_000), steps in prop::collection::vec(step(), 1..120)) {
        let mut tree = Tree::new(grant);
        for step in &steps {
            tree.step(step);
        }
        // In the end all comes back to the root.
        while !tree.meters.is_empty() {
            tree.step(&Step::Settle(0));
        }
        for _ in 0..tree.nodes.len() {
            (0..64).for_each(|at| tree.step(&Step::Close(at)));
        }
        let root = tree.nodes[0].pool;
        prop_assert_eq!(root.out(), Budget::ZERO);
        for component in Component::ALL {
            prop_assert_eq!(root.left()[component] + root.spent()[component], tree.granted[component]);
        }
    }
}
