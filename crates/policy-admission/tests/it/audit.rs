//! What the log remembers.

use std::sync::Arc;

use policy_admission::{AuditEvent, CapError, CapErrorKind, CapSpawn, Delegation, Grant, Kind, Ledger};

#[test]
fn the_log_tells_who_got_what_from_whom_in_order() {
    let ledger = Ledger::new();
    let root = ledger.grant(CapSpawn::new().max_tasks(1));
    let tenant = root.attenuate(Grant::new(CapSpawn::new()).label("plugin-7").delegation(Delegation::Allowed)).unwrap();
    let guest = tenant.delegate().unwrap();
    let lease = guest.lease();
    let _permits = lease.take_tasks(1).unwrap();
    lease.take_tasks(1).unwrap_err();
    guest.delegate().unwrap_err();
    tenant.revoke();
    assert!(!lease.is_alive() && !guest.is_alive() && root.is_alive()); // to look is no use
    lease.check().unwrap_err();
    ledger.revoke(guest.id()).unwrap_err();
    ledger.refuse(CapError::NoBudgetCapability, Some(&Arc::from("plugin-8")));

    let text: Vec<_> = ledger.audit().iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "0: granted, CapSpawn 0v1",
            "1: attenuated, CapSpawn 1v1 of 0v1, for plugin-7",
            "2: delegated, CapSpawn 2v1 of 1v1, for plugin-7",
            "3: refused TaskLimitExceeded, CapSpawn 2v1 of 1v1, for plugin-7",
            "4: refused NotDelegatable, CapSpawn 2v1 of 1v1, for plugin-7",
            "5: revoked (2 in all), CapSpawn 1v1 of 0v1, for plugin-7",
            "6: refused Revoked, CapSpawn 2v1 of 1v1, for plugin-7",
            "7: refused Stale 2v1",
            "8: refused NoBudgetCapability, CapBudget, for plugin-8",
        ]
    );
    let record = &ledger.audit()[1];
    assert_eq!((record.kind, record.id, record.parent), (Some(Kind::Spawn), Some(tenant.id()), Some(root.id())));
    let totals = ledger.audit_totals();
    assert_eq!((totals.granted, totals.attenuated, totals.delegated, totals.revoked), (1, 1, 1, 1));
    assert_eq!(totals.refusals(), 5);
}

#[test]
fn a_flood_of_refusals_is_counted_exactly_and_hides_no_grant() {
    let ledger = Ledger::with_audit(8);
    let root = ledger.grant(CapSpawn::new());
    let none = root.attenuate(CapSpawn::new().max_tasks(0)).unwrap();
    let lease = none.lease();
    for _ in 0..10_000 {
        lease.take_tasks(1).unwrap_err();
    }
    none.delegate().unwrap_err();
    let totals = ledger.audit_totals();
    assert_eq!(totals.refused(CapErrorKind::TaskLimitExceeded), 10_000);
    assert_eq!((totals.refused(CapErrorKind::NotDelegatable), totals.refusals()), (1, 10_001));
    let audit = ledger.audit();
    let sequence: Vec<_> = audit.iter().map(|record| record.sequence).collect();
    assert_eq!(sequence, [0, 1, 9_999, 10_000, 10_001, 10_002]);
    assert_eq!((audit[0].event, audit[1].event), (AuditEvent::Granted, AuditEvent::Attenuated));
}

#[test]
fn the_log_never_holds_more_than_its_capacity() {
    for capacity in [0, 1, 2, 3, 10] {
        let ledger = Ledger::with_audit(capacity);
        let root = ledger.grant(CapSpawn::new().max_tasks(0));
        let lease = root.lease();
        for _ in 0..20 {
            drop(root.delegate().unwrap());
            lease.take_tasks(1).unwrap_err();
        }
        assert_eq!(ledger.audit().len(), capacity);
        assert_eq!((ledger.audit_totals().delegated, ledger.audit_totals().refusals()), (20, 20), "{capacity}");
    }
}

#[test]
fn a_use_that_succeeds_is_not_written_down() {
    let ledger = Ledger::new();
    let lease = ledger.grant(CapSpawn::new().max_tasks(3)).lease();
    for _ in 0..100 {
        lease.check().unwrap();
        drop(lease.take_tasks(3).unwrap());
    }
    assert_eq!(ledger.audit().len(), 1);
}

#[test]
fn counts_are_exact_when_many_threads_are_refused() {
    let ledger = Ledger::with_audit(16);
    let lease = ledger.grant(CapSpawn::new().max_tasks(0)).lease();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5_000).for_each(|_| assert!(lease.take_tasks(1).is_err())));
        }
    });
    assert_eq!(ledger.audit_totals().refused(CapErrorKind::TaskLimitExceeded), 20_000);
    assert_eq!(ledger.audit().len(), 9);
}
