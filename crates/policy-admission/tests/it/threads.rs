//! Many threads at once. What they hold is counted a second time here, added after taking and subtracted before giving back, so it
//! is never more than what is really out.

use std::{
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::*},
    },
    thread,
};

use policy_admission::{Cap, CapBudget, CapError, CapSpawn, Delegation, Grant, Lease, Ledger, TaskPermits};
use test_support::Dice;
use vocab::{Budget, UNLIMITED};

const THREADS: u64 = 4;

fn open(max: u64) -> Grant<CapSpawn> {
    Grant::new(CapSpawn::new().max_tasks(max)).delegation(Delegation::Allowed)
}

#[test]
fn threads_that_take_and_give_never_exceed_any_limit() {
    // One root, two in the middle, four leaves; each level could take more than the one above allows.
    const PARENT: [Option<usize>; 7] = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)];
    const LIMIT: [u64; 7] = [7, 5, 5, 3, 4, 3, 4];
    let ledger = Ledger::new();
    let mut caps: Vec<Cap<CapSpawn>> = Vec::new();
    for (parent, limit) in PARENT.into_iter().zip(LIMIT) {
        let cap = match parent {
            Some(parent) => caps[parent].attenuate(open(limit)).unwrap(),
            None => ledger.grant(open(limit)),
        };
        caps.push(cap);
    }
    let leases: Vec<_> = caps.iter().map(|cap| cap.lease()).collect();
    let held: [AtomicU64; 7] = Default::default();
    let chain = |at| std::iter::successors(Some(at), |&at: &usize| PARENT[at]);
    let granted = AtomicU64::new(0);

    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (leases, held, granted) = (&leases, &held, &granted);
            scope.spawn(move || {
                let dice = Dice::new(seed);
                let mut mine: Vec<(usize, TaskPermits)> = Vec::new();
                let give = |(at, permits): (usize, TaskPermits)| {
                    for node in chain(at) {
                        held[node].fetch_sub(permits.count(), SeqCst);
                    }
                    drop(permits);
                };
                for _ in 0..20_000 {
                    let at = dice.below(7) as usize;
                    let want = 1 + dice.below(4);
                    match leases[at].take_tasks(want) {
                        Ok(permits) => {
                            let got = permits.count();
                            assert!((1..=want).contains(&got));
                            granted.fetch_add(got, Relaxed);
                            mine.push((at, permits));
                            for node in chain(at) {
                                let out = held[node].fetch_add(got, SeqCst) + got;
                                assert!(out <= LIMIT[node], "{out} of {} at {node}, seed {seed}", LIMIT[node]);
                            }
                        }
                        Err(CapError::TaskLimitExceeded { limit, in_use }) => assert_eq!(limit, in_use),
                        Err(other) => panic!("{other}, seed {seed}"),
                    }
                    if mine.len() > 1 || dice.below(2) == 0 {
                        mine.drain(..).for_each(give);
                    }
                }
                mine.drain(..).for_each(give);
            });
        }
    });
    assert!(granted.into_inner() > 1_000, "hardly anything was granted");
    for (lease, limit) in leases.iter().zip(LIMIT) {
        assert_eq!((lease.tasks_in_use(), lease.tasks_left()), (0, limit));
    }
    assert_eq!(leases[0].take_tasks(100).unwrap().count(), 7);
}

#[test]
fn threads_that_split_merge_and_drop_permits_give_each_back_once() {
    const LIMIT: u64 = 50;
    let ledger = Ledger::new();
    let root = ledger.grant(open(LIMIT));
    let child = root.attenuate(open(UNLIMITED)).unwrap();
    let lease = child.lease();
    let held = AtomicU64::new(0);
    let bowl = Mutex::new(TaskPermits::empty(&lease)); // through which permits change hands
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (lease, held, bowl) = (&lease, &held, &bowl);
            scope.spawn(move || {
                let dice = Dice::new(seed);
                let mut mine = TaskPermits::empty(lease);
                let give = |permits: TaskPermits| {
                    held.fetch_sub(permits.count(), SeqCst);
                    drop(permits);
                };
                for _ in 0..20_000 {
                    let part = dice.below(mine.count() + 1);
                    match dice.below(4) {
                        0 => {
                            let Ok(permits) = lease.take_tasks(1 + dice.below(20)) else { continue };
                            let out = held.fetch_add(permits.count(), SeqCst) + permits.count();
                            assert!(out <= LIMIT, "{out} of {LIMIT}, seed {seed}");
                            mine.merge(permits);
                        }
                        1 => give(mine.split(part)),
                        2 => bowl.lock().unwrap().merge(mine.split(part)),
                        _ => {
                            let mut bowl = bowl.lock().unwrap();
                            let some = dice.below(bowl.count() + 1);
                            mine.merge(bowl.split(some));
                        }
                    }
                }
                give(mine);
            });
        }
    });
    let rest = bowl.into_inner().unwrap();
    assert_eq!((rest.count(), rest.count()), (held.into_inner(), root.tasks_in_use()));
    drop(rest);
    assert_eq!((child.tasks_in_use(), root.tasks_in_use()), (0, 0));
    assert_eq!(lease.take_tasks(100).unwrap().count(), LIMIT);
}

#[test]
fn no_budget_is_made_or_lost_by_threads_that_draw() {
    let ledger = Ledger::new();
    let limit = Budget::ops(100_000).memory(UNLIMITED - 1).syscalls(9);
    let root = ledger.grant(CapBudget::new().limit(limit));
    let caps: Vec<_> = (0..THREADS).map(|_| root.attenuate(CapBudget::new().limit(limit)).unwrap()).collect();
    let drawn: Vec<Budget> = thread::scope(|scope| {
        let drawers: Vec<_> = caps
            .iter()
            .zip(0..)
            .map(|(cap, seed)| {
                let lease = cap.lease();
                scope.spawn(move || {
                    let dice = Dice::new(seed);
                    let mut all = Budget::ZERO;
                    for _ in 0..5_000 {
                        let want = Budget::ops(dice.below(40)).memory(dice.below(40)).syscalls(dice.below(3));
                        let Ok(drawn) = lease.draw(want) else { continue };
                        all.recharge(&drawn);
                    }
                    all
                })
            })
            .collect();
        drawers.into_iter().map(|drawer| drawer.join().unwrap()).collect()
    });
    let mut total = root.left();
    drawn.iter().for_each(|drawn| total.recharge(drawn));
    assert_eq!(total, limit);
    assert_eq!((root.left().ops, root.left().syscalls), (0, 0)); // they did fight for it
}

#[test]
fn a_use_that_starts_after_a_revocation_is_refused_on_every_thread() {
    for round in 0..50 {
        let ledger = Ledger::new();
        let root = ledger.grant(open(100));
        let middle = root.attenuate(open(50)).unwrap();
        let leaves: Vec<_> = (0..THREADS).map(|_| middle.attenuate(open(50)).unwrap()).collect();
        let revoked = AtomicBool::new(false);
        let started = Barrier::new(THREADS as usize + 1);
        thread::scope(|scope| {
            for leaf in &leaves {
                let lease: Lease<CapSpawn> = leaf.lease();
                let (revoked, started) = (&revoked, &started);
                scope.spawn(move || {
                    let mut uses = 0;
                    loop {
                        let too_late = revoked.load(SeqCst);
                        match lease.take_tasks(1) {
                            Ok(permits) => {
                                assert!(!too_late, "a revoked capability was used, round {round}");
                                drop(permits);
                            }
                            Err(error) => {
                                assert_eq!(error, CapError::Revoked { id: lease.id() });
                                break;
                            }
                        }
                        uses += 1;
                        if uses == 10 {
                            started.wait(); // so that the revocation falls among uses
                        }
                    }
                });
            }
            started.wait();
            assert_eq!(middle.revoke(), 1 + THREADS as usize);
            revoked.store(true, SeqCst);
        });
        assert_eq!((root.tasks_in_use(), middle.tasks_in_use()), (0, 0));
        assert_eq!(root.check(), Ok(()));
    }
}

#[test]
fn what_is_derived_while_its_parent_is_revoked_does_not_escape() {
    for round in 0..200 {
        let ledger = Ledger::with_audit(4);
        let root = ledger.grant(open(100));
        let start = Barrier::new(3);
        let derived: Vec<_> = thread::scope(|scope| {
            let derive = || {
                start.wait();
                let mut derived = Vec::new();
                while let Ok(cap) = root.attenuate(open(3)) {
                    derived.extend(cap.delegate());
                    derived.push(cap);
                }
                derived
            };
            let threads = [scope.spawn(derive), scope.spawn(derive)];
            start.wait();
            thread::yield_now();
            root.revoke();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let escaped = derived.iter().filter(|cap| cap.check().is_ok()).count();
        assert_eq!((escaped, ledger.live()), (0, 0), "round {round}, of {}", derived.len());
    }
}

#[test]
fn threads_that_derive_and_drop_leave_only_the_root() {
    let ledger = Ledger::with_audit(4);
    let root = ledger.grant(open(100));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let child = root.attenuate(open(5)).unwrap();
                    let grandchild = child.delegate().unwrap();
                    drop(child);
                    assert_eq!(grandchild.check(), Ok(()));
                }
            });
        }
    });
    assert_eq!(ledger.live(), 1);
    assert!(ledger.slots() <= 1 + 2 * THREADS as usize, "{}", ledger.slots());
}
