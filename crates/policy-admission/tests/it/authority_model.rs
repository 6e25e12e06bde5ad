//! Authority against a slow model: a list of nodes, each with its parent, searched anew for every question.

use policy_admission::{Cap, CapError, CapId, CapSpawn, Delegation, Grant, Ledger, Terms};
use proptest::prelude::*;
use vocab::{Budget, UNLIMITED};

#[derive(Debug, Clone)]
enum Step {
    Grant(CapSpawn, Option<Delegation>),
    Attenuate(usize, CapSpawn, Option<Delegation>),
    Delegate(usize),
    Revoke(usize),
    RevokeByName(usize),
    RevokeDerived(usize, usize),
    Drop(usize),
}

fn terms() -> impl Strategy<Value = CapSpawn> {
    let amount = || prop_oneof![3 => 0..6u64, 1 => Just(UNLIMITED)];
    let weight = prop_oneof![1 => Just(None), 1 => (1..6u32).prop_map(Some)];
    (amount(), amount(), amount(), weight).prop_map(|(tasks, ops, memory, weight)| {
        let terms = CapSpawn::new().max_tasks(tasks).task_budget(Budget::ops(ops).memory(memory));
        weight.map_or(terms, |weight| terms.weight(weight))
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let delegation = || {
        prop_oneof![
            4 => Just(Some(Delegation::Allowed)),
            1 => Just(Some(Delegation::Final)),
            1 => Just(None)
        ]
    };
    // Larger than any number of nodes; taken modulo what there is.
    let node = || 0..1000usize;
    let step = prop_oneof![
        2 => (terms(), delegation()).prop_map(|(terms, delegation)| Step::Grant(terms, delegation)),
        12 => (node(), terms(), delegation()).prop_map(|(at, terms, delegation)| Step::Attenuate(at, terms, delegation)),
        3 => node().prop_map(Step::Delegate),
        1 => node().prop_map(Step::Revoke),
        1 => node().prop_map(Step::RevokeByName),
        2 => (node(), node()).prop_map(|(by, of)| Step::RevokeDerived(by, of)),
        5 => node().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..80)
}

struct Node {
    id: CapId,
    parent: Option<usize>,
    terms: CapSpawn,
    delegation: Delegation,
    revoked: bool,
    handle: Option<Cap<CapSpawn>>,
}

#[derive(Default)]
struct Model(Vec<Node>);

impl Model {
    /// Itself and everything above.
    fn chain(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |&at| self.0[at].parent)
    }

    fn is_within(&self, at: usize, above: usize) -> bool {
        self.chain(at).any(|node| node == above)
    }

    /// Nothing above was revoked, and a handle to it, or to something derived from it, is still alive.
    fn is_alive(&self, at: usize) -> bool {
        let revoked = self.chain(at).any(|node| self.0[node].revoked);
        let kept = (0..self.0.len()).any(|node| self.0[node].handle.is_some() && self.is_within(node, at));
        kept && !revoked
    }

    fn alive_within(&self, above: usize) -> usize {
        (0..self.0.len()).filter(|&node| self.is_within(node, above) && self.is_alive(node)).count()
    }

    fn add(&mut self, parent: Option<usize>, terms: CapSpawn, delegation: Delegation, handle: Cap<CapSpawn>) {
        let id = handle.id();
        assert!(self.0.iter().all(|node| node.id != id), "the name {id} was given twice");
        self.0.push(Node { id, parent, terms, delegation, revoked: false, handle: Some(handle) });
    }

    /// Why nothing may be derived from it, if so.
    fn refusal(&self, at: usize) -> Option<CapError> {
        let Node { id, delegation, .. } = self.0[at];
        if !self.is_alive(at) {
            Some(CapError::Revoked { id })
        } else if delegation == Delegation::Final {
            Some(CapError::NotDelegatable { id })
        } else {
            None
        }
    }

    fn derived(&mut self, at: usize, wish: Option<(CapSpawn, Option<Delegation>)>) {
        let Some(cap) = &self.0[at].handle else { return };
        let outcome = match wish {
            Some((terms, delegation)) => {
                let mut grant = Grant::new(terms);
                if let Some(delegation) = delegation {
                    grant = grant.delegation(delegation);
                }
                cap.attenuate(grant)
            }
            None => cap.delegate(),
        };
        match (outcome, self.refusal(at)) {
            (Err(error), expected) => assert_eq!(Some(error), expected),
            (Ok(cap), None) => {
                let above = self.0[at].terms;
                let (wanted, delegation) = wish.unwrap_or((above, None));
                let (tasks, budget) = (wanted.get_max_tasks(), wanted.get_task_budget());
                let terms = CapSpawn::new()
                    .max_tasks(tasks.min(above.get_max_tasks()))
                    .task_budget(budget.min(&above.get_task_budget()));
                // No weight is no limit.
                let weight = wanted.get_weight().into_iter().chain(above.get_weight()).min();
                let terms = weight.map_or(terms, |weight| terms.weight(weight));
                self.add(Some(at), terms, delegation.unwrap_or(Delegation::Final), cap);
            }
            (Ok(cap), Some(error)) => panic!("{cap:?} was derived in spite of {error}"),
        }
    }

    /// What every holder sees.
    fn check(&self, ledger: &Ledger) {
        assert_eq!(ledger.live(), (0..self.0.len()).filter(|&node| self.is_alive(node)).count());
        for (at, node) in self.0.iter().enumerate() {
            let Some(cap) = &node.handle else { continue };
            let expected = if self.is_alive(at) { Ok(()) } else { Err(CapError::Revoked { id: node.id }) };
            assert_eq!(cap.check(), expected);
            assert_eq!((*cap.terms(), cap.delegation()), (node.terms, node.delegation));
            for above in self.chain(at).skip(1) {
                assert!(cap.terms().is_within(&self.0[above].terms), "{cap:?} is wider than {:?}", self.0[above].terms);
                assert_eq!(self.0[above].delegation, Delegation::Allowed);
            }
        }
    }
}

fn run(steps: Vec<Step>) {
    let ledger = Ledger::with_audit(4);
    let mut model = Model::default();
    let first = ledger.grant(CapSpawn::new());
    model.add(None, CapSpawn::new(), Delegation::Allowed, first);
    for step in steps {
        let at = |node: usize| node % model.0.len();
        match step {
            Step::Grant(terms, delegation) => {
                let mut grant = Grant::new(terms);
                if let Some(delegation) = delegation {
                    grant = grant.delegation(delegation);
                }
                let cap = ledger.grant(grant);
                model.add(None, terms, delegation.unwrap_or(Delegation::Allowed), cap);
            }
            Step::Attenuate(node, terms, delegation) => {
                let node = at(node);
                model.derived(node, Some((terms, delegation)));
            }
            Step::Delegate(node) => {
                let node = at(node);
                model.derived(node, None);
            }
            Step::Revoke(node) => {
                let node = at(node);
                let Some(cap) = &model.0[node].handle else { continue };
                assert_eq!(cap.revoke(), model.alive_within(node));
                model.0[node].revoked = true;
            }
            Step::RevokeByName(node) => {
                let node = at(node);
                let id = model.0[node].id;
                let expected =
                    if model.is_alive(node) { Ok(model.alive_within(node)) } else { Err(CapError::Stale { id }) };
                assert_eq!(ledger.revoke(id), expected);
                model.0[node].revoked = true;
            }
            Step::RevokeDerived(by, of) => {
                let (by, of) = (at(by), at(of));
                let Some(cap) = &model.0[by].handle else { continue };
                let (id, from) = (model.0[of].id, model.0[by].id);
                let outcome = cap.revoke_derived(id);
                if !model.is_alive(of) {
                    assert_eq!(outcome, Err(CapError::Stale { id }));
                } else if by == of || !model.is_within(of, by) {
                    assert_eq!(outcome, Err(CapError::NotDerived { id, from }));
                } else {
                    assert_eq!(outcome, Ok(model.alive_within(of)));
                    model.0[of].revoked = true;
                }
            }
            Step::Drop(node) => {
                let node = at(node);
                model.0[node].handle = None;
            }
        }
        model.check(&ledger);
    }
    model.0.clear();
    assert_eq!(ledger.live(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_derivations_and_revocations_widens_authority(steps in steps()) {
        run(steps);
    }

    #[test]
    fn a_meet_is_the_widest_that_is_within_both(a in terms(), b in terms(), c in terms()) {
        let meet = a.meet(&b);
        prop_assert!(meet.is_within(&a) && meet.is_within(&b));
        prop_assert_eq!(meet, b.meet(&a));
        prop_assert_eq!(c.is_within(&meet), c.is_within(&a) && c.is_within(&b));
    }
}
