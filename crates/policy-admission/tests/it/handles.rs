//! What a holder can do with a handle, and what ends it.

use policy_admission::{
    Cap, CapBudget, CapChannel, CapError, CapExecutor, CapId, CapSpawn, Delegation, Grant, Lease, Ledger, TaskPermits,
    Terms,
};
use vocab::Budget;

fn tasks(max: u64) -> CapSpawn {
    CapSpawn::new().max_tasks(max)
}

/// May be passed on.
fn open(max: u64) -> Grant<CapSpawn> {
    Grant::new(tasks(max)).delegation(Delegation::Allowed)
}

#[test]
fn what_is_derived_is_the_narrower_of_both_in_every_component() {
    let ledger = Ledger::new();
    let root = ledger.grant(tasks(10).task_budget(Budget::ops(5).memory(100)));
    let child = root.attenuate(tasks(20).task_budget(Budget::ops(50).memory(7).spawns(9))).unwrap();
    assert_eq!(*child.terms(), tasks(10).task_budget(Budget::ops(5).memory(7)));
    assert!(child.terms().is_within(root.terms()) && !root.terms().is_within(child.terms()));

    let budget = ledger.grant(CapBudget::new().limit(Budget::ops(3).syscalls(1)));
    let child = budget.attenuate(CapBudget::new().limit(Budget::ops(9))).unwrap();
    assert_eq!(child.terms().get_limit(), Budget::ops(3));

    let channels = ledger.grant(CapChannel::new().max_channels(3));
    let child = channels.attenuate(CapChannel::new().max_buffer(8)).unwrap();
    assert_eq!(*child.terms(), CapChannel::new().max_channels(3).max_buffer(8));

    let executor = ledger.grant(CapExecutor::new().max_workers(3));
    let child = executor.attenuate(CapExecutor::new().max_workers(4).max_blocking_threads(8)).unwrap();
    assert_eq!(*child.terms(), CapExecutor::new().max_workers(3).max_blocking_threads(8));
}

#[test]
fn nothing_can_be_derived_from_a_final_capability() {
    let ledger = Ledger::new();
    let root = ledger.grant(tasks(10));
    let last = root.delegate().unwrap();
    assert_eq!((last.terms(), last.delegation()), (root.terms(), Delegation::Final));
    let refused = CapError::NotDelegatable { id: last.id() };
    assert_eq!(last.delegate().unwrap_err(), refused);
    assert_eq!(last.attenuate(open(1)).unwrap_err(), refused);
    // It may be used all the same.
    assert_eq!(last.lease().take_tasks(1).unwrap().count(), 1);
    let sealed = ledger.grant(open(1).delegation(Delegation::Final));
    assert!(matches!(sealed.delegate(), Err(CapError::NotDelegatable { .. })));
}

#[test]
fn a_revoked_capability_reaches_everything_derived() {
    let ledger = Ledger::new();
    let root = ledger.grant(tasks(10));
    let child = root.attenuate(open(8)).unwrap();
    let grandchildren: Vec<_> = (0..3).map(|_| child.attenuate(open(2)).unwrap()).collect();
    let leaf = grandchildren[1].delegate().unwrap();
    let sibling = root.delegate().unwrap();
    let lease = leaf.lease();

    assert_eq!(child.revoke(), 5);
    for cap in grandchildren.iter().chain([&child, &leaf]) {
        assert_eq!(cap.check(), Err(CapError::Revoked { id: cap.id() }));
        assert_eq!(cap.delegate().unwrap_err(), CapError::Revoked { id: cap.id() });
        assert_eq!(cap.lease().take_tasks(1).unwrap_err(), CapError::Revoked { id: cap.id() });
    }
    assert_eq!(lease.take_tasks(1).unwrap_err(), CapError::Revoked { id: leaf.id() });
    assert_eq!((root.check(), sibling.check()), (Ok(()), Ok(())));
    assert_eq!(child.revoke(), 0); // again changes nothing
    assert_eq!(ledger.live(), 2);
}

#[test]
fn a_holder_can_revoke_by_name_what_it_derived_and_nothing_else() {
    let ledger = Ledger::new();
    let root = ledger.grant(tasks(10));
    let (mine, other) = (root.attenuate(open(5)).unwrap(), root.attenuate(open(5)).unwrap());
    let below = mine.attenuate(open(5)).unwrap();
    let deeper = below.delegate().unwrap();
    let not_mine = |id| Err(CapError::NotDerived { id, from: mine.id() });
    assert_eq!(mine.revoke_derived(other.id()), not_mine(other.id()));
    assert_eq!(mine.revoke_derived(root.id()), not_mine(root.id()));
    assert_eq!(mine.revoke_derived(mine.id()), not_mine(mine.id()));
    assert_eq!(mine.revoke_derived(deeper.id()), Ok(1));
    assert_eq!(mine.revoke_derived(deeper.id()), Err(CapError::Stale { id: deeper.id() }));
    assert_eq!((below.check(), deeper.check().is_err()), (Ok(()), true));
    // One that is revoked itself revokes nothing any more, also where its slot has a new occupant.
    drop((deeper, below));
    mine.revoke();
    let next = root.attenuate(open(1)).unwrap();
    assert_eq!(next.id().to_bits() as u32, mine.id().to_bits() as u32);
    let below_next = next.delegate().unwrap();
    assert!(mine.revoke_derived(below_next.id()).is_err());
    assert_eq!(below_next.check(), Ok(()));
}

#[test]
fn a_stale_name_is_refused_after_its_slot_is_used_again() {
    let ledger = Ledger::new();
    let first = ledger.grant(tasks(1));
    let old = first.id();
    drop(first);
    assert_eq!(ledger.revoke(old), Err(CapError::Stale { id: old }));
    let second = ledger.grant(tasks(1));
    assert_eq!((ledger.slots(), second.id() == old), (1, false)); // the same slot
    assert_eq!(ledger.revoke(old), Err(CapError::Stale { id: old }));
    assert_eq!(second.check(), Ok(()));
    // A handle that outlived its revocation does not come back to life with the next occupant.
    assert_eq!(ledger.revoke(second.id()), Ok(1));
    let third = ledger.grant(tasks(1));
    assert_eq!((ledger.slots(), second.check().is_err(), third.check()), (1, true, Ok(())));
    drop(second);
    assert_eq!((third.check(), ledger.live()), (Ok(()), 1));
}

#[test]
fn a_made_up_name_is_refused() {
    let ledger = Ledger::new();
    let _root = ledger.grant(tasks(1));
    for bits in [0, 1, 7, u64::MAX, 2 << 32, u64::from(u32::MAX)] {
        let id = CapId::from_bits(bits);
        assert_eq!(ledger.revoke(id), Err(CapError::Stale { id }));
    }
    assert_eq!(ledger.live(), 1);
}

#[test]
fn dropping_a_parent_leaves_its_children_and_their_limits() {
    let ledger = Ledger::new();
    let root = ledger.grant(tasks(3));
    let (a, b) = (root.delegate().unwrap(), root.delegate().unwrap());
    let root_id = root.id();
    drop(root);
    let permits = [&a, &b].map(|cap| cap.lease().take_tasks(2).unwrap());
    assert_eq!(permits.each_ref().map(|permits| permits.count()), [2, 1]);
    assert_eq!(b.lease().take_tasks(1).unwrap_err(), CapError::TaskLimitExceeded { limit: 3, in_use: 3 });
    // It has no handle, but its name still reaches what was derived from it.
    assert_eq!(ledger.live(), 3);
    assert_eq!(ledger.revoke(root_id), Ok(3));
    assert!(a.check().is_err() && b.check().is_err());
}

#[test]
fn a_million_derived_and_dropped_leave_no_trace() {
    let ledger = Ledger::new();
    let root = ledger.grant(tasks(10));
    for _ in 0..1_000_000 {
        drop(root.attenuate(tasks(1)).unwrap());
    }
    assert_eq!((ledger.live(), ledger.slots()), (1, 2));
    assert!(ledger.audit().len() <= Ledger::AUDIT_CAPACITY);
}

/// So deep that recursion would end the test's stack.
fn chain(ledger: &Ledger, depth: usize) -> (Cap<CapSpawn>, Cap<CapSpawn>) {
    let root = ledger.grant(tasks(5));
    let mut leaf = root.attenuate(open(5)).unwrap();
    for _ in 1..depth {
        leaf = leaf.attenuate(open(5)).unwrap();
    }
    (root, leaf)
}

#[test]
fn a_chain_of_any_depth_is_revoked_and_dropped_without_recursion() {
    let ledger = Ledger::new();
    let (root, leaf) = chain(&ledger, 200_000);
    let permits = leaf.lease().take_tasks(9).unwrap();
    assert_eq!((permits.count(), root.tasks_in_use()), (5, 5));
    assert_eq!(root.revoke(), 200_001);
    assert!(leaf.check().is_err());
    assert_eq!(ledger.live(), 0);
    drop(leaf);
    drop(permits);
    assert_eq!(root.tasks_in_use(), 0);

    let (root, leaf) = chain(&ledger, 200_000);
    drop(root);
    drop(leaf); // the whole chain goes with it
    assert_eq!((ledger.live(), ledger.slots()), (0, 200_001));
}

#[test]
fn a_lease_keeps_its_capability_after_the_handle_is_dropped() {
    let ledger = Ledger::new();
    let cap = ledger.grant(tasks(2));
    let lease = cap.lease();
    let id = cap.id();
    drop(cap);
    let permits = lease.take_tasks(1).unwrap();
    assert_eq!((permits.count(), ledger.live()), (1, 1));
    assert_eq!(ledger.revoke(id), Ok(1));
    assert!(lease.take_tasks(1).is_err());
    drop((lease, permits));
    assert_eq!(ledger.live(), 0);
}

#[test]
fn permits_keep_their_capability_after_handle_and_lease_are_dropped() {
    let ledger = Ledger::new();
    let root = ledger.grant(tasks(5));
    let child = root.attenuate(tasks(2)).unwrap();
    let permits = child.lease().take_tasks(2).unwrap();
    drop(child);
    assert_eq!((ledger.live(), root.tasks_in_use()), (2, 2));
    assert_eq!(permits.lease().take_tasks(1).unwrap_err(), CapError::TaskLimitExceeded { limit: 2, in_use: 2 });
    drop(permits);
    assert_eq!((ledger.live(), root.tasks_in_use()), (1, 0));
}

#[test]
fn a_lease_of_a_revoked_capability_is_made_and_gives_nothing() {
    let ledger = Ledger::new();
    let cap = ledger.grant(tasks(2));
    cap.revoke();
    let lease = cap.lease();
    assert_eq!((lease.is_alive(), ledger.audit_totals().refusals()), (false, 0)); // to make one is no use
    let revoked = CapError::Revoked { id: cap.id() };
    assert_eq!(lease.check(), Err(revoked));
    assert_eq!(lease.take_tasks(1).unwrap_err(), revoked);
    assert_eq!(lease.take_tasks(0).unwrap_err(), revoked);
    assert_eq!(ledger.audit_totals().refusals(), 3);
}

#[test]
fn handles_can_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<(Cap<CapSpawn>, Cap<CapBudget>, Lease<CapChannel>, Lease<CapExecutor>, TaskPermits, Ledger)>();
}

#[test]
fn a_long_label_is_cut_at_a_whole_letter() {
    let ledger = Ledger::new();
    let cap = ledger.grant(Grant::new(tasks(1)).label("ä".repeat(1000) + "."));
    assert_eq!(cap.label().map(|label| &**label), Some(&*"ä".repeat(64)));
    let cap = ledger.grant(Grant::new(tasks(1)).label("x".to_owned() + &"ä".repeat(1000)));
    assert_eq!(cap.label().unwrap().len(), 127);
}
