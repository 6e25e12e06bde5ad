//! No task spawns, recharges itself or opens a channel without authority, and profiles say how much of it every task has.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
};

use sched_tasks::{
    Budget, BuildError, CapBudget, CapChannel, CapError, CapExecutor, CapSpawn, Component, Delegation, Grant, Ledger,
    NurseryOptions, OnFailure, Profile, Reason, RunError, Runtime, Sovereign, TaskError, budget_left, channel, charge,
    nursery, nursery_with, recharge, try_channel, try_unbounded, unbounded, yield_now,
};
use test_support::{Dice, for_seeds};

use crate::support::until;

fn refusal(error: &TaskError) -> CapError {
    match error.reason() {
        Reason::NotAllowed(refusal) => *refusal,
        _ => panic!("not a refusal: {error}"),
    }
}

fn sovereign() -> Profile {
    Profile::Sovereign(Sovereign::new(Budget::UNLIMITED, Budget::UNLIMITED))
}

#[test]
fn as_many_tasks_as_the_capability_allows_run_at_one_time() {
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(3));
    let (stop, wait) = channel::<()>(1);
    let error = nursery_with(NurseryOptions::new().capability(&cap).on_failure(OnFailure::WaitAll), |n| {
        let first = n.spawn(|| ());
        first.join()?;
        until(|| cap.tasks_in_use() == 0);
        let held: Vec<_> = (0..3).map(|_| n.spawn(|| wait.recv())).collect();
        assert_eq!(cap.tasks_in_use(), 3);
        let refused = n.spawn(|| ()).join().unwrap_err();
        assert_eq!(refusal(&refused), CapError::TaskLimitExceeded { limit: 3, in_use: 3 });
        assert_eq!(refused.reason().name(), "TaskLimitExceeded");
        stop.send(())?;
        until(|| cap.tasks_in_use() == 2);
        n.spawn(|| ()).join()?;
        drop(stop);
        held.into_iter().try_for_each(|task| task.join().map(drop))
    })
    .unwrap_err();
    assert!(matches!(refusal(&error), CapError::TaskLimitExceeded { .. }));
    assert_eq!(cap.tasks_in_use(), 0);
}

#[test]
fn what_is_derived_counts_for_those_above_it() {
    let ledger = Ledger::new();
    let team = ledger.grant(CapSpawn::new().max_tasks(4));
    let member = || team.attenuate(CapSpawn::new().max_tasks(3)).unwrap();
    let (one, two) = (member(), member());
    let hold = |cap: &_, tasks: usize, then: &dyn Fn()| {
        let (stop, wait) = channel::<()>(1);
        nursery_with(NurseryOptions::new().capability(cap), |n| {
            let held: Vec<_> = (0..tasks).map(|_| n.spawn(|| wait.recv())).collect();
            then();
            drop(stop);
            held.into_iter().try_for_each(|task| task.join().map(drop))
        })
    };
    hold(&one, 3, &|| {
        assert_eq!(team.tasks_in_use(), 3);
        hold(&two, 1, &|| ()).unwrap();
        let error = hold(&two, 2, &|| ()).unwrap_err();
        assert_eq!(refusal(&error), CapError::TaskLimitExceeded { limit: 4, in_use: 4 });
    })
    .unwrap();
    assert_eq!((team.tasks_in_use(), one.tasks_in_use(), two.tasks_in_use()), (0, 0, 0));
}

#[test]
fn a_revoked_capability_starts_nothing_more_whatever_was_paid_ahead() {
    let root = Ledger::new().grant(CapSpawn::new());
    let tenant =
        root.attenuate(Grant::new(CapSpawn::new().max_tasks(1_000_000)).delegation(Delegation::Allowed)).unwrap();
    let guest = tenant.delegate().unwrap();
    let ran = AtomicU64::new(0);
    let error = nursery_with(NurseryOptions::new().capability(&guest).on_failure(OnFailure::WaitAll), |n| {
        n.spawn(|| ran.fetch_add(1, SeqCst)).join()?;
        tenant.revoke(); // the one above
        let refused = n.spawn(|| ran.fetch_add(1, SeqCst)).join().unwrap_err();
        assert_eq!(refusal(&refused), CapError::Revoked { id: guest.id() });
        Ok(())
    })
    .unwrap_err();
    assert!(matches!(refusal(&error), CapError::Revoked { .. }));
    assert_eq!(ran.load(SeqCst), 1);
}

#[test]
fn a_budget_above_the_limit_is_cut_down_to_it() {
    let cap = Ledger::new().grant(CapSpawn::new().task_budget(Budget::ops(500).channel_ops(7)));
    let options = NurseryOptions::new().capability(&cap).task_budget(Budget::ops(1_000_000).channel_ops(3).syscalls(9));
    let got = nursery_with(options, |n| n.spawn(budget_left).join()).unwrap();
    assert_eq!(got, Budget::ops(500).channel_ops(3));
}

#[test]
fn nurseries_inside_have_the_authority_of_those_around_them() {
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(2));
    let error = nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.spawn(|| {
            nursery(|m| {
                m.spawn(|| nursery(|o| o.spawn(|| ()).join())).join()? // the third at one time
            })
        })
        .join()?
    })
    .unwrap_err();
    assert_eq!(refusal(&error), CapError::TaskLimitExceeded { limit: 2, in_use: 2 });
}

#[test]
fn a_holder_of_a_budget_capability_recharges_itself_up_to_its_limit() {
    let reserve = Ledger::new().grant(CapBudget::new().limit(Budget::ops(500)));
    let spent = AtomicU64::new(0);
    let options = NurseryOptions::new().task_budget(Budget::ops(100).spawns(5)).capability(&reserve);
    let error = nursery_with(options, |n| {
        n.spawn(|| {
            // Inside another nursery, so that the amount passes through its pool.
            nursery(|m| {
                m.spawn(|| {
                    loop {
                        charge(1);
                        spent.fetch_add(1, SeqCst);
                    }
                })
                .join()
            })
        })
        .join()
    })
    .unwrap()
    .unwrap_err();
    assert!(matches!(error.reason(), Reason::BudgetExhausted { component: Component::Ops, .. }), "{error}");
    let spent = spent.load(SeqCst);
    assert!((585..600).contains(&spent), "all but the spawn, and what its parent keeps while it waits: {spent}");
    assert_eq!(reserve.left().ops, 0);
}

#[test]
fn without_a_budget_capability_no_task_recharges_itself() {
    let refused = nursery_with(NurseryOptions::new().task_budget(Budget::ops(100)), |n| {
        n.spawn(|| recharge(Budget::ops(1)).unwrap_err()).join()
    });
    let refused = refused.unwrap();
    assert_eq!(refusal(&refused), CapError::NoBudgetCapability);
    assert_eq!(refused.reason().name(), "NoBudgetCapability");
}

#[test]
fn channels_are_counted_and_measured() {
    let cap = Ledger::new().grant(CapChannel::new().max_channels(2).max_buffer(10));
    let error = nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.spawn(|| {
            let first = try_channel::<u8>(10).unwrap();
            let _second = channel::<u8>(0);
            assert!(matches!(
                refusal(&try_channel::<u8>(1).unwrap_err()),
                CapError::ChannelLimitExceeded { limit: 2, in_use: 2, .. }
            ));
            drop(first);
            let _third = channel::<u8>(1);
        })
        .join()?;
        n.spawn(|| {
            assert!(matches!(
                refusal(&try_channel::<u8>(11).unwrap_err()),
                CapError::ChannelLimitExceeded { limit: 10, wanted: 11, .. }
            ));
            assert!(try_unbounded::<u8>().is_err());
            unbounded::<u8>(); // ends the task
        })
        .join()
    })
    .unwrap_err();
    assert_eq!(error.reason().name(), "ChannelLimitExceeded");
    assert!(error.to_string().contains("max_buffer"), "{error}");
}

#[test]
fn in_core_there_is_no_scheduler() {
    let error = Runtime::builder().profile(Profile::Core).build().unwrap_err();
    assert!(matches!(error, BuildError::NoScheduler { profile: Profile::Core }));
    assert!(error.to_string().contains(":core") && error.to_string().contains("Profile::Service"), "{error}");
}

#[test]
fn in_service_and_cluster_every_task_gets_the_defaults() {
    for (profile, pool, spawns) in [(Profile::Service, 100_000, 100), (Profile::Cluster, 1_000_000, 1_000)] {
        let runtime = Runtime::builder().workers(1).profile(profile).build().unwrap();
        let root = runtime.run(budget_left).unwrap();
        assert_eq!((root.ops, root.spawns), (pool, spawns), "{profile}");
        let child = runtime.nursery(|n| n.spawn(budget_left).join()).unwrap();
        assert_eq!(child, Budget::ops(10_000).memory(1 << 20).channel_ops(100).syscalls(10), "{profile}");
        let started = runtime.run(|| {
            nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
                (0..2 * spawns).map(|_| n.spawn(|| ()).join()).filter(Result::is_ok).for_each(drop);
                Ok(())
            })
        });
        let error = started.unwrap().unwrap_err();
        assert!(
            matches!(error.reason(), Reason::BudgetExhausted { component: Component::Spawns, granted, .. } if *granted == spawns)
        );
    }
}

#[test]
fn in_sovereign_nothing_runs_that_was_not_granted_by_name() {
    let ledger = Ledger::new();
    let build = || Runtime::builder().workers(1).blocking_threads(1).profile(sovereign());
    assert!(matches!(build().build().unwrap_err(), BuildError::NoLedger { .. }));
    let error = build().ledger(&ledger).build().unwrap_err();
    assert!(matches!(error, BuildError::NotAllowed(CapError::NoExecutorCapability)), "{error}");
    let threads = ledger.grant(CapExecutor::new().max_workers(1).max_blocking_threads(1));
    let runtime = build().ledger(&ledger).executor(&threads).build().unwrap();
    let error = build().ledger(&ledger).executor(&threads).build().unwrap_err();
    assert!(matches!(error, BuildError::NotAllowed(CapError::ExecutorLimitExceeded { limit: 1, .. })), "{error}");

    let RunError::Task(error) = runtime.run(|| ()).unwrap_err() else { panic!("it got as far as a task") };
    assert_eq!(refusal(&error), CapError::NoSpawnCapability);
    let spawn = ledger.grant(CapSpawn::new());
    let with_spawn = || NurseryOptions::new().capability(&spawn);
    let refused = runtime.run_with(with_spawn(), || {
        nursery(|n| n.spawn(|| ()).join()).unwrap();
        refusal(&try_channel::<u8>(1).unwrap_err())
    });
    assert_eq!(refused.unwrap(), CapError::NoChannelCapability);
    let channels = ledger.grant(CapChannel::new());
    runtime.run_with(with_spawn().capability(&channels), || drop(channel::<u8>(1))).unwrap();
    assert!(ledger.audit_totals().refusals() >= 4, "{:?}", ledger.audit_totals());
}

#[test]
fn self_granted_authority_is_none() {
    let ledger = Ledger::new();
    let threads = ledger.grant(CapExecutor::new());
    let runtime =
        Runtime::builder().workers(1).profile(sovereign()).ledger(&ledger).executor(&threads).build().unwrap();
    let forged = Ledger::new().grant(CapSpawn::new());
    let RunError::Task(error) = runtime.run_with(NurseryOptions::new().capability(&forged), || ()).unwrap_err() else {
        panic!("it got as far as a task")
    };
    assert_eq!(refusal(&error), CapError::Foreign);
}

#[test]
fn a_sovereign_decides_pool_child_and_interval() {
    let ledger = Ledger::new();
    let (threads, spawn) = (ledger.grant(CapExecutor::new()), ledger.grant(CapSpawn::new()));
    let own = Sovereign::new(Budget::ops(700).spawns(3), Budget::ops(50)).yield_interval(NonZeroU32::new(7).unwrap());
    let runtime = Runtime::builder()
        .workers(1)
        .profile(Profile::Sovereign(own))
        .ledger(&ledger)
        .executor(&threads)
        .build()
        .unwrap();
    let child = runtime.nursery_with(NurseryOptions::new().capability(&spawn), |n| n.spawn(budget_left).join());
    assert_eq!(child.unwrap(), Budget::ops(50));
}

/// Many nurseries under one capability, on several workers: never more tasks than allowed, and in the end none counted.
#[test]
fn a_limit_holds_for_all_nurseries_together() {
    for_seeds("a_limit_holds_for_all_nurseries_together", 0..8, |seed| {
        let dice = Dice::new(seed);
        let limit = [1, 5, 100, 5_000][seed as usize % 4];
        let cap = Ledger::new().grant(CapSpawn::new().max_tasks(limit));
        let (running, most, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let tenants = || {
            nursery(|n| {
                for _ in 0..8 {
                    n.spawn(|| {
                        for _ in 0..dice.below(5) {
                            let options = NurseryOptions::new().capability(&cap).on_failure(OnFailure::WaitAll);
                            let _ = nursery_with(options, |m| {
                                for _ in 0..dice.below(300) {
                                    let task = m.spawn(|| {
                                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                                        if dice.below(3) == 0 {
                                            yield_now();
                                        }
                                        running.fetch_sub(1, SeqCst);
                                    });
                                    if dice.below(10) == 0 && task.join().is_err() {
                                        refused.fetch_add(1, SeqCst);
                                    }
                                }
                                Ok(())
                            });
                        }
                    });
                }
                Ok(())
            })
        };
        runtime.run(tenants).unwrap().unwrap();
        assert!(most.into_inner() as u64 <= limit);
        assert_eq!(cap.tasks_in_use(), 0);
        if limit == 1 {
            assert!(refused.into_inner() > 0, "it was never tight");
        }
    });
}

/// Each task opens a nursery of its own, and all have the same limit: none takes from its siblings what it does not need.
#[test]
fn an_honest_tree_under_one_capability_finishes() {
    fn tree(depth: u32) -> u64 {
        charge(10);
        if depth == 0 {
            return 1;
        }
        let branches = nursery(|n| {
            let both = [n.spawn(|| tree(depth - 1)), n.spawn(|| tree(depth - 1))];
            both.into_iter().map(|task| task.join()).sum()
        });
        branches.unwrap()
    }
    let each = Budget::ops(1_000_000).spawns(1_000);
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(1_000).task_budget(each));
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..50 {
        let leaves =
            runtime.run(|| nursery_with(NurseryOptions::new().capability(&cap), |n| n.spawn(|| tree(4)).join()));
        assert_eq!(leaves.unwrap().unwrap(), 16);
        let pool = each.spawns(1_001);
        let options = NurseryOptions::new().budget(pool).capability(&cap);
        let leaves = runtime.run(|| nursery_with(options, |n| n.spawn(|| tree(4)).join()));
        assert_eq!(leaves.unwrap().unwrap(), 16, "also with a pool that is no larger than a task may spend");
    }
}

/// An explicit budget is a limit: the nursery around it has plenty, and gives it nothing by itself.
#[test]
fn a_set_budget_is_not_filled_up_from_around() {
    let spent = AtomicU64::new(0);
    let error = nursery_with(
        NurseryOptions::new().budget(Budget::ops(1_000_000).spawns(100)).task_budget(Budget::UNLIMITED),
        |n| {
            n.spawn(|| {
                nursery_with(NurseryOptions::new().name("tenant").budget(Budget::ops(500).spawns(1)), |m| {
                    m.spawn(|| {
                        loop {
                            charge(1);
                            spent.fetch_add(1, SeqCst);
                        }
                    })
                    .join()
                })
            })
            .join()
        },
    )
    .unwrap()
    .unwrap_err();
    assert!(matches!(error.reason(), Reason::BudgetExhausted { component: Component::Ops, .. }), "{error}");
    assert!(spent.load(SeqCst) <= 500);
}
