//! Counting use, one thread.

use policy_admission::{
    CapBudget, CapChannel, CapError, CapExecutor, CapSpawn, ChannelLimit, Delegation, ExecutorLimit, Grant, Ledger,
};
use vocab::{Budget, Component, UNLIMITED};

#[test]
fn the_limit_above_binds_the_sum_of_what_is_below() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapSpawn::new().max_tasks(10));
    let [a, b] = [8, 8].map(|max| root.attenuate(CapSpawn::new().max_tasks(max)).unwrap());
    let [a, b] = [&a, &b].map(|cap| cap.lease());
    let of_a = a.take_tasks(20).unwrap();
    assert_eq!(of_a.count(), 8);
    assert_eq!(a.take_tasks(1).unwrap_err(), CapError::TaskLimitExceeded { limit: 8, in_use: 8 });
    assert_eq!(b.tasks_left(), 2);
    let of_b = b.take_tasks(20).unwrap();
    assert_eq!(of_b.count(), 2);
    assert_eq!(b.take_tasks(1).unwrap_err(), CapError::TaskLimitExceeded { limit: 10, in_use: 10 });
    assert_eq!((b.tasks_in_use(), root.tasks_in_use()), (2, 10)); // what was refused above is not held below
    drop(of_a);
    assert_eq!((a.tasks_in_use(), b.tasks_in_use(), root.tasks_in_use()), (0, 2, 2));
    drop(of_b);
    assert_eq!((a.tasks_in_use(), b.tasks_in_use(), root.tasks_in_use()), (0, 0, 0));
}

#[test]
fn without_a_limit_everything_wanted_is_there() {
    let ledger = Ledger::new();
    let lease = ledger.grant(CapSpawn::new()).lease();
    let mut permits = lease.take_tasks(u64::MAX).unwrap();
    permits.merge(lease.take_tasks(u64::MAX).unwrap());
    assert_eq!((permits.count(), permits.split(3).count(), permits.count()), (u64::MAX, 3, u64::MAX - 3));
    drop(permits);
    assert_eq!((lease.tasks_left(), lease.tasks_in_use(), lease.batch()), (UNLIMITED, 0, 64));
    let lease = ledger.grant(CapBudget::new()).lease();
    assert_eq!(lease.draw(Budget::UNLIMITED), Ok(Budget::UNLIMITED));
    assert_eq!(lease.draw(Budget::UNLIMITED), Ok(Budget::UNLIMITED));
    assert_eq!(lease.left(), Budget::UNLIMITED);
}

#[test]
fn a_batch_is_never_more_than_a_64th_of_what_is_left_unless_it_is_one() {
    let ledger = Ledger::new();
    for (max, batch) in [(0, 1), (1, 1), (127, 1), (128, 2), (640, 10), (4096, 64), (1_000_000, 64)] {
        let cap = ledger.grant(CapSpawn::new().max_tasks(max));
        assert_eq!(cap.lease().batch(), batch, "{max}");
    }
}

#[test]
fn a_capability_for_no_task_gives_none() {
    let ledger = Ledger::new();
    let lease = ledger.grant(CapSpawn::new().max_tasks(0)).lease();
    assert_eq!(lease.take_tasks(1).unwrap_err(), CapError::TaskLimitExceeded { limit: 0, in_use: 0 });
    assert_eq!(lease.take_tasks(0).unwrap().count(), 0);
}

#[test]
fn a_request_above_the_limit_is_clamped() {
    let ledger = Ledger::new();
    let cap = ledger.grant(CapSpawn::new().task_budget(Budget::ops(10).memory(20)));
    let lease = cap.lease();
    assert_eq!(lease.clamp(Budget::ops(11).memory(5).spawns(1)), Budget::ops(10).memory(5));
}

#[test]
fn a_draw_gives_what_is_left_of_each_component() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapBudget::new().limit(Budget::ops(100).memory(50)));
    let child = root.attenuate(CapBudget::new().limit(Budget::ops(70).memory(UNLIMITED))).unwrap();
    let [root_lease, lease] = [&root, &child].map(|cap| cap.lease());
    assert_eq!(lease.draw(Budget::ops(60).memory(60).spawns(1)), Ok(Budget::ops(60).memory(50)));
    assert_eq!((lease.left(), root.left()), (Budget::ops(10), Budget::ops(40)));
    assert_eq!(
        lease.draw(Budget::ZERO.memory(7).syscalls(1)),
        Err(CapError::BudgetLimitExceeded { component: Component::Memory, wanted: 7, limit: 50 })
    );
    assert_eq!(lease.draw(Budget::ZERO), Ok(Budget::ZERO));
    assert_eq!(root_lease.draw(Budget::UNLIMITED), Ok(Budget::ops(40)));
    assert_eq!((lease.left(), child.left()), (Budget::ZERO, Budget::ZERO));
}

#[test]
fn what_was_drawn_is_spent_of_those_above_also_when_the_one_below_is_gone() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapBudget::new().limit(Budget::ops(100)));
    for left in [70, 40, 10] {
        let child = root.attenuate(CapBudget::new().limit(Budget::ops(30))).unwrap();
        assert_eq!(child.lease().draw(Budget::UNLIMITED), Ok(Budget::ops(30)));
        drop(child);
        assert_eq!(root.left(), Budget::ops(left));
    }
    let child = root.attenuate(CapBudget::new().limit(Budget::ops(30))).unwrap();
    child.revoke();
    assert_eq!(child.lease().draw(Budget::ops(1)), Err(CapError::Revoked { id: child.id() }));
    assert_eq!(root.left(), Budget::ops(10)); // what was refused is not spent
}

#[test]
fn a_channel_is_refused_by_count_and_by_size() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapChannel::new().max_channels(2).max_buffer(16));
    let child = root.attenuate(CapChannel::new().max_buffer(8)).unwrap();
    let [root, child] = [&root, &child].map(|cap| cap.lease());
    let refused = |what, limit, in_use, wanted| CapError::ChannelLimitExceeded { what, limit, in_use, wanted };
    assert_eq!(child.open_channel(9).unwrap_err(), refused(ChannelLimit::Buffer, 8, 0, 9));
    assert_eq!(root.open_channel(u64::MAX).unwrap_err(), refused(ChannelLimit::Buffer, 16, 0, u64::MAX));
    let permits = [root.open_channel(16).unwrap(), child.open_channel(8).unwrap()];
    assert_eq!(child.open_channel(1).unwrap_err(), refused(ChannelLimit::Channels, 2, 2, 1));
    assert_eq!((child.channels_in_use(), root.channels_in_use()), (1, 2));
    drop(permits);
    assert_eq!((child.channels_in_use(), root.channels_in_use()), (0, 0));
    drop(child.open_channel(0).unwrap());
}

#[test]
fn a_permit_outlives_a_revocation_and_is_counted_until_it_is_dropped() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapChannel::new().max_channels(1));
    let child = root.delegate().unwrap();
    let [root, child] = [&root, &child].map(|cap| cap.lease());
    let permit = child.open_channel(1).unwrap();
    ledger.revoke(child.id()).unwrap();
    assert_eq!(child.open_channel(1).unwrap_err(), CapError::Revoked { id: child.id() });
    assert!(root.open_channel(1).is_err());
    drop(child);
    drop(permit);
    assert!(root.open_channel(1).is_ok());
}

#[test]
fn an_executor_gets_all_its_threads_or_none() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapExecutor::new().max_workers(4).max_blocking_threads(8));
    let child = root.attenuate(Grant::new(CapExecutor::new().max_workers(3)).delegation(Delegation::Final)).unwrap();
    let [root, child] = [&root, &child].map(|cap| cap.lease());
    let refused = |what, limit, in_use, wanted| CapError::ExecutorLimitExceeded { what, limit, in_use, wanted };
    let first = root.open_executor(2, 2).unwrap();
    assert_eq!(child.open_executor(3, 0).unwrap_err(), refused(ExecutorLimit::Workers, 4, 2, 3));
    assert_eq!(child.open_executor(1, 7).unwrap_err(), refused(ExecutorLimit::BlockingThreads, 8, 2, 7));
    assert_eq!((child.threads_in_use(), root.threads_in_use()), ((0, 0), (2, 2))); // nothing stayed taken
    let second = child.open_executor(2, 6).unwrap();
    assert_eq!((child.threads_in_use(), root.threads_in_use()), ((2, 6), (4, 8)));
    drop((first, second));
    assert_eq!((child.threads_in_use(), root.threads_in_use()), ((0, 0), (0, 0)));
}

#[test]
fn a_ledger_vouches_for_its_own_capabilities_only() {
    let (ours, theirs) = (Ledger::new(), Ledger::new());
    let derived = ours.grant(CapSpawn::new()).attenuate(CapSpawn::new().max_tasks(1)).unwrap();
    assert_eq!(ours.vouch(&derived.lease()), Ok(()));
    assert_eq!(ours.vouch(&theirs.grant(CapSpawn::new()).lease()), Err(CapError::Foreign));
    assert_eq!(ours.audit_totals().refusals(), 1);
}
