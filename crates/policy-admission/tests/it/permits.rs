//! What a holder can do with permits.

use std::panic::{AssertUnwindSafe, catch_unwind};

use policy_admission::{CapSpawn, Lease, Ledger, TaskPermits};

fn lease(max: u64) -> Lease<CapSpawn> {
    Ledger::new().grant(CapSpawn::new().max_tasks(max)).lease()
}

/// What a panic said.
fn panic_of(act: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(act)).expect_err("it did not panic");
    *payload.downcast::<String>().expect("a panic with values in its message")
}

#[test]
fn splitting_and_merging_change_no_counter_and_dropping_does() {
    let lease = lease(10);
    let mut permits = lease.take_tasks(7).unwrap();
    let mut part = permits.split(3);
    assert_eq!((permits.count(), part.count(), lease.tasks_in_use()), (4, 3, 7));
    part.merge(permits.split(4));
    assert_eq!((permits.count(), part.count(), lease.tasks_in_use()), (0, 7, 7));
    drop(permits);
    assert_eq!(lease.tasks_in_use(), 7);
    drop(part.split(5));
    assert_eq!((part.count(), lease.tasks_in_use()), (2, 2));
    drop(part);
    assert_eq!((lease.tasks_in_use(), lease.tasks_left()), (0, 10));
}

#[test]
fn no_permits_are_no_use_and_need_no_live_capability() {
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(3));
    let lease = cap.lease();
    let some = lease.take_tasks(2).unwrap();
    cap.revoke();
    let mut permits = TaskPermits::empty(&lease);
    assert_eq!((permits.count(), permits.lease().id()), (0, cap.id()));
    permits.merge(some); // what runs may be kept in order after a revocation too
    assert_eq!((permits.count(), cap.tasks_in_use()), (2, 2));
    drop(permits);
    assert_eq!(cap.tasks_in_use(), 0);
}

#[test]
fn splitting_off_more_than_there_are_panics_and_changes_nothing() {
    let lease = lease(10);
    let mut permits = lease.take_tasks(2).unwrap();
    let message = panic_of(|| drop(permits.split(3)));
    assert!(message.contains("3 permits") && message.contains("there are 2"), "{message}");
    assert_eq!((permits.count(), lease.tasks_in_use()), (2, 2));
}

#[test]
fn permits_of_another_capability_are_not_merged_but_given_back() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapSpawn::new().max_tasks(10));
    let child = root.delegate().unwrap();
    // The same name, and another ledger's.
    let foreign = Ledger::new().grant(CapSpawn::new().max_tasks(10));
    assert_eq!(foreign.id(), root.id());
    let mut permits = root.lease().take_tasks(2).unwrap();
    for other in [&child, &foreign] {
        let theirs = other.lease().take_tasks(3).unwrap();
        let message = panic_of(|| permits.merge(theirs));
        assert!(message.contains(&format!("{} cannot be merged", other.id())), "{message}");
        assert_eq!((permits.count(), root.tasks_in_use(), other.tasks_in_use()), (2, 2, 0));
    }
}

#[test]
fn leases_of_one_capability_give_permits_that_merge() {
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(10));
    let mut permits = cap.lease().take_tasks(2).unwrap();
    permits.merge(cap.lease().clone().take_tasks(3).unwrap());
    assert_eq!((permits.count(), cap.tasks_in_use()), (5, 5));
}

#[test]
fn a_holder_that_panics_gives_its_permits_back() {
    let lease = lease(4);
    let message = panic_of(|| {
        let _permits = lease.take_tasks(4).unwrap();
        panic!("{} are out", lease.tasks_in_use());
    });
    assert_eq!((&*message, lease.tasks_in_use()), ("4 are out", 0));
}

#[test]
fn permits_that_are_leaked_stay_counted() {
    let lease = lease(4);
    std::mem::forget(lease.take_tasks(3).unwrap());
    assert_eq!((lease.tasks_in_use(), lease.take_tasks(4).unwrap().count()), (3, 1));
}
