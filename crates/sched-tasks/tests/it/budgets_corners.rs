//! Corners of budgets: where one could be made, lost, evaded or waited for in vain.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use sched_tasks::{
    Answer, Budget, CapError, CapSpawn, Component, Explore, Ledger, NurseryOptions, OnFailure, Reason, Recharge,
    Runtime, TaskError, budget_left, channel, charge, join, now, nursery, nursery_with, sleep, yield_now,
};

use crate::support::until;

const SECOND: Duration = Duration::from_secs(1);

fn spent_component(error: &TaskError) -> Component {
    match error.reason() {
        Reason::BudgetExhausted { component, .. } => *component,
        _ => panic!("not a spent budget: {error}"),
    }
}

/// Runs `body` in a task that may spend `budget`, on a seeded runtime: a wait without end is a deadlock.
fn with_budget<T: Send>(budget: Budget, body: impl Fn() -> T + Send + Sync) -> Result<T, TaskError> {
    let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
    let outcome = runtime.run(|| nursery_with(NurseryOptions::new().task_budget(budget), |n| n.spawn(&body).join()));
    outcome.expect("a failure stays inside")
}

#[test]
fn of_as_many_spawns_as_there_are_none_is_refused() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..20 {
        let options = NurseryOptions::new().budget(Budget::UNLIMITED.spawns(1_010)).on_failure(OnFailure::WaitAll);
        let outcome = runtime.nursery_with(options, |n| {
            for _ in 0..10 {
                n.spawn(move || (0..100).for_each(|_| drop(n.spawn(|| ())))); // also while the owner spawns
            }
            Ok(())
        });
        outcome.unwrap();
    }
}

#[test]
fn what_an_owner_paid_for_ahead_is_neither_spent_nor_lost() {
    let options = NurseryOptions::new().budget(Budget::UNLIMITED.spawns(100_000));
    nursery_with(options, |n| {
        n.spawn(|| ()).join()?;
        let pool = n.pool().expect("it has one");
        assert_eq!((pool.spent().spawns, pool.left().spawns), (1, 99_999));
        nursery(|inside| {
            inside.spawn(|| ()).join()?; // the same account
            assert_eq!(inside.pool().expect("it has one").spent().spawns, 2);
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn a_task_without_a_budget_may_charge_any_amount_any_number_of_times() {
    nursery(|n| {
        n.spawn(|| (0..4).for_each(|_| charge(u64::MAX))).join()?;
        n.spawn(|| (0..4).for_each(|_| charge(1 << 63))).join()
    })
    .unwrap();
    (0..4).for_each(|_| charge(u64::MAX)); // nor is a thread ever stopped
    assert_eq!(budget_left(), Budget::UNLIMITED);
}

#[test]
fn a_task_with_a_budget_cannot_pay_any_amount() {
    for pool in [Budget::ops(1_000), Budget::UNLIMITED] {
        let options = NurseryOptions::new().budget(pool.spawns(1)).task_budget(Budget::ops(500));
        let error = nursery_with(options, |n| n.spawn(|| charge(u64::MAX)).join()).unwrap_err();
        assert_eq!(spent_component(&error), Component::Ops);
    }
    // Where there is no limit there is one charge after the other.
    let options = NurseryOptions::new().budget(Budget::UNLIMITED);
    nursery_with(options, |n| n.spawn(|| (0..4).for_each(|_| charge(u64::MAX))).join()).unwrap();
}

#[test]
fn a_future_that_is_cancelled_between_two_polls_gives_back_what_it_had() {
    let budget = Budget::ops(10_000).spawns(10);
    let left = with_budget(budget, || {
        let cancelled = nursery(|n| {
            n.spawn_async(async {
                charge(30);
                std::future::pending::<()>().await;
            });
            n.spawn(|| n.cancel());
            Ok(())
        });
        assert!(cancelled.unwrap_err().is_cancelled());
        budget_left()
    })
    .unwrap();
    // It may have been cancelled before it was polled at all.
    assert!([9_998, 9_968].contains(&left.ops) && left.spawns == 8, "{left}");
}

#[test]
fn a_period_inside_a_task_gives_no_more_than_the_task_has() {
    let budget = Budget::ops(1_000).spawns(10);
    let spent = AtomicU64::new(0);
    let left = with_budget(budget, || {
        spent.store(0, SeqCst);
        let options = NurseryOptions::new().budget(Budget::ops(100).spawns(1)).period(SECOND);
        let begun = now();
        let inside = nursery_with(options, |n| {
            n.spawn(|| {
                loop {
                    charge(10);
                    spent.fetch_add(10, SeqCst);
                }
            })
            .join()
        });
        let inside: Result<(), _> = inside;
        assert_eq!(spent_component(&inside.unwrap_err()), Component::Ops);
        assert!(now() - begun >= 8 * SECOND, "a hundred a second, not all at once: {:?}", now() - begun);
        budget_left()
    })
    .unwrap();
    let spent = spent.into_inner();
    assert!((900..=999).contains(&spent), "{spent}");
    assert_eq!(left.ops, 999 - spent, "one for the spawn");
}

#[test]
fn a_period_inside_a_nursery_of_the_same_owner_gives_no_more_than_that_has() {
    let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
    let outer = runtime.run(|| {
        nursery_with(NurseryOptions::new().budget(Budget::ops(1_000).spawns(10)), |n| {
            let options = NurseryOptions::new().budget(Budget::ops(100).spawns(1)).period(SECOND);
            let inside: Result<(), _> = nursery_with(options, |m| {
                m.spawn(|| {
                    loop {
                        charge(10)
                    }
                })
                .join()
            });
            assert_eq!(spent_component(&inside.unwrap_err()), Component::Ops);
            Ok(n.pool().unwrap())
        })
    });
    let pool = outer.unwrap().unwrap();
    assert_eq!((pool.granted().ops, pool.out().ops, pool.left().ops), (1_000, 0, 0));
}

#[test]
fn a_period_may_be_of_any_length() {
    for period in [Duration::ZERO, Duration::from_nanos(1), SECOND * 3600 * 24 * 365, Duration::MAX] {
        let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
        let options = NurseryOptions::new().budget(Budget::ops(100).spawns(10)).period(period);
        let outcome = runtime.run(|| nursery_with(options, |n| n.spawn(|| (0..50).for_each(|_| charge(10))).join()));
        outcome.unwrap().unwrap_or_else(|error| panic!("a period of {period:?}: {error}"));
    }
}

#[test]
fn a_handler_that_spends_itself_is_not_asked_about_itself() {
    let asked = Arc::new(AtomicU64::new(0));
    let (tx, rx) = channel(1);
    let handler = {
        let asked = asked.clone();
        move |_: &_| {
            asked.fetch_add(1, SeqCst);
            let _ = tx.send(()); // costs the one that has nothing left
            Answer::Cancel
        }
    };
    let options = NurseryOptions::new().task_budget(Budget::ops(10)).on_exhausted(handler);
    let error: Result<(), _> = nursery_with(options, |n| {
        n.spawn(|| {
            loop {
                charge(1)
            }
        })
        .join()
    });
    assert_eq!(spent_component(&error.unwrap_err()), Component::Ops);
    assert_eq!((asked.load(SeqCst), rx.len()), (1, 0));
}

#[test]
fn a_handler_that_panics_fails_its_task_and_loses_nothing() {
    let left = with_budget(Budget::ops(10_000).spawns(10), || {
        let options = NurseryOptions::new().task_budget(Budget::ops(10)).on_exhausted(|_| panic!("no idea"));
        let error = nursery_with(options, |n| n.spawn(|| charge(11)).join()).unwrap_err();
        assert!(error.is_panic(), "{error}");
        budget_left()
    });
    assert_eq!(left.unwrap(), Budget::ops(9_999).spawns(9));
}

#[test]
fn a_handler_of_nurseries_that_share_a_budget_is_asked_once() {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let options = NurseryOptions::new().budget(Budget::ops(10).spawns(1)).on_exhausted(move |_| {
        count.fetch_add(1, SeqCst);
        Answer::Ignore
    });
    let outcome = nursery_with(options, |_| nursery(|inside| inside.spawn(|| charge(11)).join()));
    assert_eq!(spent_component(&outcome.unwrap_err()), Component::Ops);
    assert_eq!(asked.load(SeqCst), 1);
}

#[test]
fn halves_of_a_join_do_not_get_round_the_limit_of_their_task() {
    let spent = AtomicU64::new(0);
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let error = runtime.run(|| {
        nursery_with(NurseryOptions::new().task_budget(Budget::ops(100)), |n| {
            n.spawn(|| {
                for _ in 0..50 {
                    let begun = AtomicBool::new(false);
                    let first = || {
                        for _ in 0..1_000 {
                            if begun.load(SeqCst) {
                                break; // another worker took the other half
                            }
                            thread::yield_now();
                        }
                    };
                    join(first, || {
                        begun.store(true, SeqCst);
                        charge(50);
                        spent.fetch_add(50, SeqCst);
                    });
                }
            })
            .join()
        })
    });
    assert_eq!(spent_component(&error.unwrap().unwrap_err()), Component::Ops);
    assert_eq!(spent.into_inner(), 100);
}

#[test]
fn halves_of_an_owner_may_do_what_it_may_itself() {
    let program = || {
        let options = NurseryOptions::new().budget(Budget::ops(10_000).spawns(10)).task_budget(Budget::ops(10));
        nursery_with(options, |_| {
            let inside = || nursery(|n| n.spawn(|| charge(5)).join());
            let (one, other) = join(inside, inside);
            one.and(other)
        })
    };
    Explore::new().workers(3).preempt_one_in(2).run(0..50, program);
}

#[test]
fn a_task_pays_for_what_it_spawns_into_a_nursery_that_only_counts() {
    let ran = AtomicU64::new(0);
    let outcome = nursery_with(NurseryOptions::new().spawn_limit(100).on_failure(OnFailure::WaitAll), |n| {
        let options = NurseryOptions::new().task_budget(Budget::ops(1_000).spawns(3));
        nursery_with(options, |inside| {
            inside.spawn(|| (0..5).for_each(|_| drop(n.spawn(|| ran.fetch_add(1, SeqCst))))).join()
        })
    });
    assert_eq!(spent_component(&outcome.unwrap_err()), Component::Spawns);
    assert_eq!(ran.into_inner(), 3);
}

#[test]
fn a_spawn_that_the_capability_refuses_does_not_count_against_the_limit() {
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(1));
    let options = NurseryOptions::new().spawn_limit(3).capability(&cap).on_failure(OnFailure::WaitAll);
    let _ = nursery_with(options, |n| {
        let (tx, rx) = channel::<()>(0);
        let first = n.spawn(move || {
            let _ = rx.recv();
        });
        for _ in 0..5 {
            let error = n.spawn(|| ()).join().unwrap_err();
            let refused = matches!(error.reason(), Reason::NotAllowed(CapError::TaskLimitExceeded { .. }));
            assert!(refused, "{error}");
        }
        drop(tx);
        first.join()?;
        until(|| cap.tasks_in_use() == 0);
        n.spawn(|| ()).join().expect("the second of three");
        until(|| cap.tasks_in_use() == 0);
        n.spawn(|| ()).join().expect("the third of three");
        until(|| cap.tasks_in_use() == 0);
        assert_eq!(spent_component(&n.spawn(|| ()).join().unwrap_err()), Component::Spawns);
        Ok(())
    });
}

#[test]
fn deep_nests_of_nurseries_cost_what_they_are_deep() {
    fn deeper(levels: u64) {
        charge(1);
        if levels > 0 {
            let options = NurseryOptions::new().task_budget(Budget::UNLIMITED).recharge(Recharge::FromPool);
            nursery_with(options, |n| n.spawn(move || deeper(levels - 1)).join()).unwrap();
        }
    }
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let options = NurseryOptions::new().task_budget(Budget::ops(1 << 40).spawns(1 << 30));
    let left = runtime.run(|| {
        nursery_with(options, |n| {
            let deep = || {
                deeper(2_000);
                budget_left()
            };
            n.spawn(deep).join()
        })
    });
    assert_eq!(left.unwrap().unwrap(), Budget::ops((1 << 40) - 4_001).spawns((1 << 30) - 2_000));
}

#[test]
fn a_waiting_task_that_is_recharged_and_cancelled_at_once_loses_nothing() {
    let program = || {
        let options = NurseryOptions::new().task_budget(Budget::ops(10_000).spawns(10));
        nursery_with(options, |n| {
            let outside = || {
                let options = NurseryOptions::new().task_budget(Budget::ops(10));
                let paid = AtomicU64::new(0);
                let _ = nursery_with(options, |n| {
                    let supervisor = n.budget_supervisor();
                    n.spawn(|| {
                        charge(25);
                        paid.fetch_add(25, SeqCst);
                    });
                    n.spawn(|| n.cancel());
                    let exhausted = supervisor.next();
                    supervisor.answer(exhausted.task.id, Answer::Recharge(Budget::ops(100)));
                    Ok(())
                });
                // It may have paid, and been cancelled before it could say so.
                let (left, paid) = (budget_left().ops, paid.into_inner());
                assert!(left == 9_998 - 25 || (left == 9_998 && paid == 0), "{left} are left, {paid} were paid");
            };
            n.spawn(outside).join()
        })
    };
    Explore::new().workers(3).preempt_one_in(2).run(0..500, program);
}

#[test]
fn a_cancelled_task_does_not_wait_for_a_period() {
    let runtime = Runtime::builder().workers(2).seeded(3).build().unwrap();
    let waited = runtime.run(|| {
        let begun = now();
        let options = NurseryOptions::new().budget(Budget::ops(10).spawns(5)).period(3600 * SECOND);
        let _ = nursery_with(options, |n| {
            n.spawn(|| (0..10).for_each(|_| charge(10)));
            sleep(SECOND);
            n.cancel();
            yield_now();
            Ok(())
        });
        now() - begun
    });
    assert!(waited.unwrap() < 2 * SECOND);
}

#[test]
fn an_owner_does_not_wait_for_the_budget_supervisor_that_it_is_itself() {
    let error = with_budget(Budget::ops(100).spawns(5), || {
        nursery(|n| {
            let _supervisor = n.budget_supervisor();
            charge(200);
            Ok(())
        })
    });
    assert_eq!(spent_component(&error.unwrap_err()), Component::Ops);
}

/// A fiber runs task after task, and the next one may have no budget: what the last one had is not its limit.
#[test]
fn a_task_without_a_budget_is_not_held_to_what_the_last_one_had() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().task_budget(Budget::ops(10)), |n| n.spawn(|| ()).join())?;
        nursery(|n| {
            n.spawn(|| {
                // Counted, but not paid for; and a loop that is only noted at its end.
                charge(1_000);
                nursery_with(NurseryOptions::new().spawn_limit(2), |m| m.spawn(|| 7).join())
            })
            .join()?
        })
    });
    assert_eq!(outcome.unwrap().unwrap(), 7);
}

#[test]
fn halves_that_wait_for_one_another_keep_no_shares() {
    fn leaves(depth: u32) {
        match depth {
            0 => (0..200).for_each(|_| charge(1)),
            _ => _ = join(|| leaves(depth - 1), || leaves(depth - 1)),
        }
    }
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..5 {
        let options = NurseryOptions::new().budget(Budget::ops(400_000).spawns(10));
        let spent = runtime.nursery_with(options, |n| {
            n.spawn(|| leaves(10)).join()?;
            Ok(n.pool().expect("it has one").spent().ops)
        });
        let spent = spent.unwrap();
        assert!((204_800..=400_000).contains(&spent), "{spent}");
    }
}
