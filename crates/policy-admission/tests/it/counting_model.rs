//! Counters against a slow model that adds up, for every question, what is held of a capability and of everything below it.
//!
//! The model keeps its own numbers of what each value of permits should hold; permits are taken, split, merged and dropped in any order.

use policy_admission::{Cap, CapBudget, CapError, CapSpawn, Delegation, Grant, Lease, Ledger, TaskPermits};
use proptest::prelude::*;
use vocab::{Budget, Component, UNLIMITED};

#[derive(Debug, Clone)]
enum Step {
    Derive { of: usize, tasks: u64, budget: Budget },
    Take { at: usize, want: u64 },
    Split { at: usize, which: usize, at_most: u64 },
    Merge { at: usize, which: usize },
    Drop { at: usize, which: usize },
    Draw { at: usize, want: Budget },
    Revoke { at: usize },
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..20u64, 1 => Just(UNLIMITED - 1), 2 => Just(UNLIMITED)]
}

fn budget() -> impl Strategy<Value = Budget> {
    [amount(), amount(), amount(), amount(), amount()].prop_map(|[ops, memory, spawns, channel_ops, syscalls]| Budget {
        ops,
        memory,
        spawns,
        channel_ops,
        syscalls,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..1000usize;
    let step = prop_oneof![
        3 => (node(), amount(), budget()).prop_map(|(of, tasks, budget)| Step::Derive { of, tasks, budget }),
        6 => (node(), amount()).prop_map(|(at, want)| Step::Take { at, want }),
        3 => (node(), node(), amount()).prop_map(|(at, which, at_most)| Step::Split { at, which, at_most }),
        2 => (node(), node()).prop_map(|(at, which)| Step::Merge { at, which }),
        3 => (node(), node()).prop_map(|(at, which)| Step::Drop { at, which }),
        5 => (node(), budget()).prop_map(|(at, want)| Step::Draw { at, want }),
        1 => node().prop_map(|at| Step::Revoke { at }),
    ];
    prop::collection::vec(step, 1..80)
}

struct Node {
    parent: Option<usize>,
    spawn: (Cap<CapSpawn>, Lease<CapSpawn>),
    budget: (Cap<CapBudget>, Lease<CapBudget>),
    revoked: bool,
    /// Taken through this very lease, and how many each should be.
    permits: Vec<(TaskPermits, u64)>,
    /// For good.
    drawn: Budget,
}

impl Node {
    fn tasks(&self) -> u64 {
        self.permits.iter().map(|(_, count)| count).sum()
    }
}

struct Model {
    nodes: Vec<Node>,
}

impl Model {
    fn new(tasks: u64, budget: Budget) -> Self {
        let ledger = Ledger::with_audit(4);
        let spawn = ledger.grant(CapSpawn::new().max_tasks(tasks));
        let budget = ledger.grant(CapBudget::new().limit(budget));
        let mut model = Self { nodes: Vec::new() };
        model.add(None, spawn, budget);
        model
    }

    fn add(&mut self, parent: Option<usize>, spawn: Cap<CapSpawn>, budget: Cap<CapBudget>) {
        let leases = (spawn.lease(), budget.lease());
        let (spawn, budget) = ((spawn, leases.0), (budget, leases.1));
        self.nodes.push(Node { parent, spawn, budget, revoked: false, permits: Vec::new(), drawn: Budget::ZERO });
    }

    fn chain(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |&at| self.nodes[at].parent)
    }

    fn within(&self, above: usize) -> impl Iterator<Item = &Node> {
        (0..self.nodes.len()).filter(move |&at| self.chain(at).any(|node| node == above)).map(|at| &self.nodes[at])
    }

    fn is_revoked(&self, at: usize) -> bool {
        self.chain(at).any(|node| self.nodes[node].revoked)
    }

    /// What is left of `limit` where `held` is in use; an unlimited one never gets less.
    fn left(limit: u64, held: impl Iterator<Item = u64>) -> u64 {
        if limit == UNLIMITED { UNLIMITED } else { limit - held.sum::<u64>() }
    }

    fn tasks_left(&self, at: usize) -> u64 {
        let left = |node: usize| {
            let limit = self.nodes[node].spawn.0.terms().get_max_tasks();
            Self::left(limit, self.within(node).map(Node::tasks))
        };
        self.chain(at).map(left).min().unwrap()
    }

    fn budget_left(&self, at: usize, component: Component) -> u64 {
        let left = |node: usize| {
            let limit = self.nodes[node].budget.0.terms().get_limit()[component];
            Self::left(limit, self.within(node).map(|node| node.drawn[component]))
        };
        self.chain(at).map(left).min().unwrap()
    }

    fn take(&mut self, at: usize, want: u64) {
        let left = self.tasks_left(at);
        let outcome = self.nodes[at].spawn.1.take_tasks(want);
        let id = self.nodes[at].spawn.0.id();
        if self.is_revoked(at) {
            assert_eq!(outcome.unwrap_err(), CapError::Revoked { id });
        } else if left == 0 && want > 0 {
            assert!(
                matches!(outcome, Err(CapError::TaskLimitExceeded { limit, in_use }) if limit == in_use),
                "{outcome:?}"
            );
        } else {
            self.nodes[at].permits.push((outcome.unwrap(), want.min(left)));
        }
    }

    fn draw(&mut self, at: usize, want: Budget) {
        let mut expected = Budget::ZERO;
        for component in Component::ALL {
            let left = self.budget_left(at, component);
            expected.set(component, left.min(want[component]));
        }
        let outcome = self.nodes[at].budget.1.draw(want);
        if self.is_revoked(at) {
            assert_eq!(outcome, Err(CapError::Revoked { id: self.nodes[at].budget.0.id() }));
        } else if expected == Budget::ZERO && want != Budget::ZERO {
            let first = Component::ALL.into_iter().find(|&component| want[component] > 0);
            assert!(
                matches!(outcome, Err(CapError::BudgetLimitExceeded { component, .. }) if Some(component) == first),
                "{outcome:?}"
            );
        } else {
            assert_eq!(outcome, Ok(expected));
            self.nodes[at].drawn.recharge(&expected); // not counted, so it may exceed a number; it is not asked for
        }
    }

    /// No counter is over its limit or off what is held; and of each limit, held and left together are all of it.
    fn check(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            for (permits, count) in &node.permits {
                assert_eq!((permits.count(), permits.lease().id()), (*count, node.spawn.0.id()));
            }
            let limit = node.spawn.0.terms().get_max_tasks();
            // Without a limit nothing is counted; the sum of what is held below may be more than a number holds.
            let held = if limit == UNLIMITED { 0 } else { self.within(at).map(Node::tasks).sum() };
            assert_eq!(node.spawn.0.tasks_in_use(), held);
            assert!(held <= limit);
            assert_eq!(node.spawn.1.tasks_left(), self.tasks_left(at));
            for component in Component::ALL {
                assert_eq!(node.budget.0.left()[component], self.budget_left(at, component));
            }
            assert_eq!(node.budget.0.left(), node.budget.1.left());
        }
    }

    /// Some permits of a node, taken out; `None` if it has none.
    fn pick(&mut self, at: usize, which: usize) -> Option<(TaskPermits, u64)> {
        let permits = &mut self.nodes[at].permits;
        (!permits.is_empty()).then(|| permits.swap_remove(which % permits.len()))
    }
}

fn run(tasks: u64, budget: Budget, steps: Vec<Step>) {
    let mut model = Model::new(tasks, budget);
    for step in steps {
        let count = model.nodes.len();
        match step {
            Step::Derive { of, tasks, budget } => {
                let of = of % count;
                if model.is_revoked(of) {
                    continue;
                }
                let spawn = Grant::new(CapSpawn::new().max_tasks(tasks)).delegation(Delegation::Allowed);
                let budget = Grant::new(CapBudget::new().limit(budget)).delegation(Delegation::Allowed);
                let node = &model.nodes[of];
                let derived = (node.spawn.0.attenuate(spawn).unwrap(), node.budget.0.attenuate(budget).unwrap());
                model.add(Some(of), derived.0, derived.1);
            }
            Step::Take { at, want } => model.take(at % count, want),
            Step::Split { at, which, at_most } => {
                let Some((mut permits, all)) = model.pick(at % count, which) else { continue };
                let amount = at_most.min(all);
                let part = permits.split(amount);
                model.nodes[at % count].permits.extend([(permits, all - amount), (part, amount)]);
            }
            Step::Merge { at, which } => {
                let Some((other, more)) = model.pick(at % count, which) else { continue };
                let (mut permits, some) =
                    model.pick(at % count, which).unwrap_or_else(|| (TaskPermits::empty(other.lease()), 0));
                permits.merge(other);
                model.nodes[at % count].permits.push((permits, some.saturating_add(more)));
            }
            Step::Drop { at, which } => drop(model.pick(at % count, which)),
            Step::Draw { at, want } => model.draw(at % count, want),
            Step::Revoke { at } => {
                let node = &mut model.nodes[at % count];
                node.spawn.0.revoke();
                node.budget.0.revoke();
                node.revoked = true;
            }
        }
        model.check();
    }
    model.nodes.iter_mut().for_each(|node| node.permits.clear());
    model.check();
    for node in &model.nodes {
        assert_eq!(node.spawn.0.tasks_in_use(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counters_follow_the_model_and_return_to_zero(tasks in amount(), budget in budget(), steps in steps()) {
        run(tasks, budget, steps);
    }
}
