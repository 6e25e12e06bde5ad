//! What a task was granted is all it can spend; what it does not spend comes back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use sched_tasks::{
    Answer, Budget, Component, NurseryOptions, OnFailure, Reason, Recharge, Runtime, TaskError, budget_left, channel,
    charge, join, nursery, nursery_with, sleep, yield_now,
};
use test_support::{Dice, for_seeds};

use crate::support::{skipping, until};

/// Which component, and how much of it had been granted.
fn exhausted(error: &TaskError) -> (Component, u64) {
    match error.reason() {
        Reason::BudgetExhausted { component, granted, .. } => (*component, *granted),
        _ => panic!("not a spent budget: {error}"),
    }
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Runs `body` in a task that may spend `budget`.
fn with_budget<T: Send>(budget: Budget, body: impl FnOnce() -> T + Send) -> Result<T, TaskError> {
    nursery_with(NurseryOptions::new().task_budget(budget), |n| n.spawn(body).join())
}

#[test]
fn an_endless_loop_ends_when_its_operations_are_spent() {
    let error = with_budget(Budget::ops(1000), || {
        loop {
            charge(1);
        }
    })
    .unwrap_err();
    assert_eq!(exhausted(&error), (Component::Ops, 1000));
    let text = error.to_string();
    assert!(
        text.contains("OpsBudgetExhausted") && text.contains("1000 granted") && text.contains("budgets.rs"),
        "{text}"
    );
}

#[test]
fn a_task_without_a_budget_is_never_stopped() {
    nursery(|n| n.spawn(|| (0..100_000).for_each(|_| charge(1 << 40))).join()).unwrap();
    assert_eq!(budget_left(), Budget::UNLIMITED);
}

#[test]
fn what_children_do_not_spend_comes_back_to_the_task_that_opened_their_nursery() {
    let budget = Budget::ops(100_000).spawns(100).channel_ops(50);
    let (before, after) = with_budget(budget, || {
        let before = budget_left();
        nursery(|n| {
            for _ in 0..10 {
                n.spawn(|| charge(30));
            }
            Ok(())
        })
        .unwrap();
        (before, budget_left())
    })
    .unwrap();
    assert_eq!(before, budget);
    assert_eq!(after, budget.with_ops(100_000 - 10 * (30 + 1)).spawns(90), "ten spawns cost one operation each");
}

#[test]
fn a_nursery_inside_cannot_spend_more_than_its_owner_has() {
    let spent = AtomicU64::new(0);
    let left = with_budget(Budget::ops(5_000).spawns(1_000), || {
        let outcome =
            nursery_with(NurseryOptions::new().budget(Budget::UNLIMITED).on_failure(OnFailure::WaitAll), |n| {
                for _ in 0..100 {
                    n.spawn(|| {
                        loop {
                            charge(1);
                            spent.fetch_add(1, SeqCst);
                        }
                    });
                }
                Ok(())
            });
        assert_eq!(exhausted(&outcome.unwrap_err()).0, Component::Ops);
        budget_left()
    })
    .unwrap();
    let spent = spent.load(SeqCst);
    assert!((1..=4_900).contains(&spent), "a hundred spawns cost the rest: {spent}");
    assert_eq!(left, Budget::ops(4_900 - spent).spawns(900));
}

#[test]
fn a_fork_bomb_ends_with_its_spawns() {
    fn bomb(born: &AtomicU64) {
        born.fetch_add(1, SeqCst);
        let _ = nursery_with(NurseryOptions::new().task_budget(Budget::UNLIMITED), |n| {
            loop {
                n.spawn(|| bomb(born)).join()?;
            }
            #[expect(unreachable_code, reason = "the closure has a type")]
            Ok(())
        });
    }
    let born = AtomicU64::new(0);
    with_budget(Budget::ops(1 << 30).spawns(500), || bomb(&born)).unwrap();
    assert_eq!(born.load(SeqCst), 501);
}

#[test]
fn a_child_may_not_spawn_unless_it_was_granted_spawns() {
    let outcome = nursery_with(NurseryOptions::new().budget(Budget::ops(100_000).spawns(100)), |n| {
        n.spawn(|| nursery(|m| m.spawn(|| ()).join())).join()
    });
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(exhausted(&error), (Component::Spawns, 0));
    assert!(error.to_string().contains("SpawnBudgetExhausted"), "{error}");
}

#[test]
fn nurseries_of_one_task_inside_each_other_share_their_budget() {
    for on_thread in [true, false] {
        let body = || {
            nursery_with(
                NurseryOptions::new().budget(Budget::ops(1_000_000).spawns(5)).on_failure(OnFailure::WaitAll),
                |n| {
                    n.spawn(|| ()).join()?;
                    let inner = nursery(|m| {
                        m.spawn(|| ()).join()?;
                        Ok(m.pool().unwrap().granted().spawns)
                    })?;
                    assert_eq!(inner, 5);
                    let started = (0..10).map(|_| n.spawn(|| ()).join()).filter(Result::is_ok).count();
                    Ok(started)
                },
            )
        };
        // The last spawns failed, and with them the nursery; the ones before are counted by what is refused.
        let error = if on_thread { body() } else { nursery(|n| n.spawn(body).join()).unwrap() }.unwrap_err();
        assert_eq!(exhausted(&error), (Component::Spawns, 5));
    }
}

#[test]
fn a_pool_that_recharges_is_the_limit_of_all_together() {
    let spent = AtomicU64::new(0);
    let options = NurseryOptions::new()
        .budget(Budget::ops(50_000).spawns(4))
        .task_budget(Budget::ops(1_000))
        .recharge(Recharge::FromPool)
        .on_failure(OnFailure::WaitAll);
    let error = runtime(2)
        .run(|| {
            nursery_with(options, |n| {
                for _ in 0..4 {
                    n.spawn(|| {
                        loop {
                            charge(1);
                            spent.fetch_add(1, SeqCst);
                        }
                    });
                }
                Ok(())
            })
        })
        .unwrap()
        .unwrap_err();
    assert_eq!(exhausted(&error).0, Component::Ops);
    assert_eq!(error.others().len(), 3, "all four were stopped: {error}");
    assert_eq!(spent.load(SeqCst), 50_000);
}

#[test]
fn a_recharged_task_goes_behind_those_that_have_not_spent_theirs() {
    let order = Mutex::new(Vec::new());
    let options = NurseryOptions::new()
        .budget(Budget::ops(1_000_000).spawns(10))
        .task_budget(Budget::ops(10))
        .recharge(Recharge::FromPool);
    runtime(1)
        .run(|| {
            nursery_with(options, |n| {
                for task in 0..3 {
                    let order = &order;
                    n.spawn(move || {
                        for round in 0..3 {
                            charge(10);
                            order.lock().unwrap().push((round, task));
                        }
                    });
                }
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    let rounds: Vec<_> = order.into_inner().unwrap().into_iter().map(|(round, _)| round).collect();
    assert!(rounds.is_sorted(), "each had one share before any had two: {rounds:?}");
}

#[test]
fn a_handler_recharges_cancels_or_ignores() {
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    let options = NurseryOptions::new()
        .budget(Budget::ops(10_000).spawns(3))
        .task_budget(Budget::ops(100))
        .recharge(Recharge::Never)
        .on_failure(OnFailure::WaitAll)
        .on_exhausted(move |exhausted| {
            seen.fetch_add(1, SeqCst);
            match exhausted.task.name.as_deref() {
                Some("good") => Answer::Recharge(Budget::ops(exhausted.missing)),
                Some("bad") => Answer::Cancel,
                _ => Answer::Ignore,
            }
        });
    let error = nursery_with(options, |n| {
        n.task().name("good").spawn(|| (0..500).for_each(|_| charge(1))).join()?;
        assert_eq!(asked.load(SeqCst), 400);
        let bad = n.task().name("bad").spawn(|| charge(101)).join().unwrap_err();
        assert_eq!(exhausted(&bad), (Component::Ops, 100));
        let other = n.task().name("other").spawn(|| charge(101)).join().unwrap_err();
        assert_eq!(exhausted(&other), (Component::Ops, 100));
        Ok(())
    })
    .unwrap_err();
    assert_eq!(error.others().len(), 1);
    assert_eq!(asked.load(SeqCst), 402);
}

#[test]
fn the_question_goes_up_the_tree() {
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    let options = NurseryOptions::new()
        .budget(Budget::ops(10_000).spawns(10))
        .task_budget(Budget::ops(100).spawns(2))
        .on_exhausted(move |exhausted| {
            seen.fetch_add(1, SeqCst);
            assert_eq!(exhausted.component, Component::Ops);
            Answer::Recharge(Budget::ops(500))
        });
    let (left, pool) = nursery_with(options, |n| {
        let left = n.spawn(|| {
            // Its own pool of 99 is not enough for the grandchild.
            nursery_with(NurseryOptions::new().task_budget(Budget::ops(50)), |m| m.spawn(|| charge(400)).join())
                .unwrap();
            budget_left().ops
        });
        let left = left.join()?;
        until(|| n.pool().unwrap().out() == Budget::ZERO);
        Ok((left, n.pool().unwrap()))
    })
    .unwrap();
    assert_eq!(asked.load(SeqCst), 1);
    assert_eq!(left, 100 - 1 + 500 - 400, "what came in through the inner nursery and was not spent is the owner's");
    assert_eq!(
        pool.spent().ops,
        1 + 400,
        "one for the spawn of the grandchild; the child's own was paid by the thread"
    );
}

#[test]
fn an_exhausted_task_waits_for_its_budget_supervisor() {
    let options = NurseryOptions::new()
        .budget(Budget::ops(1_000).spawns(2))
        .task_budget(Budget::ops(100))
        .on_failure(OnFailure::WaitAll);
    let error = nursery_with(options, |n| {
        let supervisor = n.budget_supervisor();
        let task = n.spawn(|| charge(150));
        let exhausted = supervisor.next();
        assert_eq!((exhausted.component, exhausted.granted, exhausted.missing), (Component::Ops, 100, 50));
        assert_eq!(exhausted.task.id, task.label().id);
        assert_eq!(supervisor.answer(exhausted.task.id, Answer::Ignore), Some(Budget::ZERO));
        assert_eq!(supervisor.exhausted().len(), 1, "ignored, it still waits");
        assert!(task.is_exhausted() && !task.is_done());
        assert_eq!(supervisor.answer(exhausted.task.id, Answer::Recharge(Budget::ops(60))), Some(Budget::ops(60)));
        task.join()?;
        assert_eq!(supervisor.answer(exhausted.task.id, Answer::Cancel), None, "it does not wait any more");
        let task = n.spawn(|| charge(150));
        let exhausted = supervisor.next();
        supervisor.answer(exhausted.task.id, Answer::Cancel);
        assert_eq!(self::exhausted(&task.join().unwrap_err()), (Component::Ops, 100));
        Ok(())
    })
    .unwrap_err();
    assert!(error.others().is_empty(), "only the second failed");
}

#[test]
fn when_the_last_budget_supervisor_goes_no_task_waits_any_more() {
    let options = NurseryOptions::new().budget(Budget::ops(1_000).spawns(2)).task_budget(Budget::ops(10));
    let error = nursery_with(options, |n| {
        let supervisor = n.budget_supervisor();
        let task = n.spawn(|| charge(11));
        let _seen = supervisor.next();
        drop(supervisor);
        task.join()
    })
    .unwrap_err();
    assert_eq!(exhausted(&error), (Component::Ops, 10));
}

#[test]
fn a_cancellation_reaches_an_exhausted_task() {
    let dropped = AtomicUsize::new(0);
    let options = NurseryOptions::new().budget(Budget::ops(1_000).spawns(2)).task_budget(Budget::ops(10));
    let error = nursery_with(options, |n| {
        let supervisor = n.budget_supervisor();
        n.spawn(|| {
            struct Count<'a>(&'a AtomicUsize);
            impl Drop for Count<'_> {
                fn drop(&mut self) {
                    self.0.fetch_add(1, SeqCst);
                }
            }
            let _count = Count(&dropped);
            charge(11)
        });
        let _seen = supervisor.next();
        n.cancel();
        Ok(())
    })
    .unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn channel_operations_are_counted_on_both_sides() {
    let (tx, rx) = channel(10);
    let error = with_budget(Budget::ops(1_000).channel_ops(7), || {
        loop {
            tx.send(1).unwrap();
            rx.recv().unwrap();
        }
    })
    .unwrap_err();
    assert_eq!(exhausted(&error), (Component::ChannelOps, 7));
    assert!(error.to_string().contains("ChannelBudgetExhausted"), "{error}");
    assert_eq!(rx.len(), 1, "three rounds, and one message that it could not take back");
}

#[test]
fn a_periodic_budget_is_there_again_in_the_next_period() {
    let period = Duration::from_millis(5);
    let options = NurseryOptions::new().budget(Budget::ops(1_000).spawns(10)).period(period);
    let begun = std::time::Instant::now();
    nursery_with(options, |n| n.spawn(|| (0..50).for_each(|_| charge(100))).join()).unwrap();
    assert!(begun.elapsed() >= 4 * period, "5,000 operations at 1,000 a period took {:?}", begun.elapsed());
}

#[test]
fn more_than_a_period_holds_is_refused_at_once() {
    let options = NurseryOptions::new().budget(Budget::ops(1_000).spawns(10)).period(Duration::from_secs(3600));
    let error = nursery_with(options, |n| n.spawn(|| charge(5_000)).join()).unwrap_err();
    assert_eq!(exhausted(&error).0, Component::Ops);
}

#[test]
fn a_future_keeps_its_budget_from_poll_to_poll() {
    let polls = AtomicU64::new(0);
    let options = NurseryOptions::new().budget(Budget::ops(10_000).spawns(1)).task_budget(Budget::ops(100));
    let error = runtime(2)
        .run(|| {
            nursery_with(options, |n| {
                n.spawn_async(async {
                    loop {
                        charge(1);
                        polls.fetch_add(1, SeqCst);
                        futures_lite::future::yield_now().await;
                    }
                })
                .join()
            })
        })
        .unwrap()
        .unwrap_err();
    assert_eq!(exhausted(&error), (Component::Ops, 100));
    assert_eq!(polls.load(SeqCst), 100);
}

#[test]
fn halves_of_a_join_spend_from_the_same_nursery() {
    fn tree(depth: u32) -> u64 {
        charge(1);
        if depth == 0 {
            return 1;
        }
        let (left, right) = join(|| tree(depth - 1), || tree(depth - 1));
        left + right
    }
    let runtime = runtime(2);
    let options = || NurseryOptions::new().recharge(Recharge::FromPool);
    let leaves = runtime
        .run(|| nursery_with(options().budget(Budget::ops(5_000).spawns(1)), |n| n.spawn(|| tree(10)).join()))
        .unwrap();
    assert_eq!(leaves.unwrap(), 1024);
    let error = runtime
        .run(|| nursery_with(options().budget(Budget::ops(2_000).spawns(1)), |n| n.spawn(|| tree(10)).join()))
        .unwrap()
        .unwrap_err();
    assert_eq!(exhausted(&error).0, Component::Ops);
}

#[test]
fn a_task_that_catches_the_end_of_its_budget_is_stopped_again() {
    let (caught, others) = (AtomicU64::new(0), AtomicU64::new(0));
    let outcome = runtime(1).run(|| {
        nursery_with(NurseryOptions::new().task_budget(Budget::ops(10)).on_failure(OnFailure::WaitAll), |n| {
            n.spawn(|| {
                for _ in 0..5 {
                    let ended = catch_unwind(AssertUnwindSafe(|| charge(11)));
                    assert!(ended.is_err());
                    caught.fetch_add(1, SeqCst);
                }
            });
            n.spawn(|| others.fetch_add(1, SeqCst)); // goes first, though the catcher never gives way
            Ok(())
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(exhausted(&error).0, Component::Ops, "it ends as exhausted, though it returned");
    assert_eq!((caught.load(SeqCst), others.load(SeqCst)), (5, 1));
}

#[test]
fn destructors_run_to_their_end_when_the_budget_is_spent() {
    let done = AtomicU64::new(0);
    let error = with_budget(Budget::ops(100), || {
        struct Slow<'a>(&'a AtomicU64);
        impl Drop for Slow<'_> {
            fn drop(&mut self) {
                (0..1_000).for_each(|_| charge(1));
                yield_now();
                self.0.fetch_add(1, SeqCst);
            }
        }
        let _slow = Slow(&done);
        charge(101);
    })
    .unwrap_err();
    assert_eq!(exhausted(&error), (Component::Ops, 100));
    assert_eq!(done.load(SeqCst), 1);
}

#[test]
fn a_task_that_overflows_forfeits_what_it_had() {
    #[expect(unconditional_recursion, reason = "it is to overflow")]
    fn deeper(n: u64) -> u64 {
        std::hint::black_box([n; 64]);
        deeper(n + 1) + 1
    }
    let runtime = skipping().workers(1).stack_bytes(128 << 10).build().unwrap();
    let left = runtime
        .run(|| {
            with_budget(Budget::ops(100_000).spawns(10), || {
                let outcome = nursery_with(NurseryOptions::new().task_budget(Budget::ops(1_000).spawns(3)), |n| {
                    n.spawn(|| {
                        charge(10);
                        nursery(|m| {
                            m.spawn(|| charge(1));
                            Ok(deeper(0))
                        })
                    })
                    .join()
                });
                assert!(matches!(outcome.unwrap_err().reason(), Reason::StackOverflow { .. }));
                budget_left()
            })
        })
        .unwrap()
        .unwrap();
    assert!((100_000 - 1 - 1_000..100_000 - 1 - 11).contains(&left.ops), "what it had drawn: {left:?}");
    assert_eq!(left.spawns, 10 - 1 - 1);
}

/// A random tree of nurseries, whose tasks count what they really spend.
#[test]
fn whatever_a_tree_of_tasks_does_its_root_pays_exactly_what_was_spent() {
    fn grow(dice: &Dice, depth: u64, spent: &AtomicU64, spawned: &AtomicU64) {
        let pay = |ops| {
            charge(ops);
            spent.fetch_add(ops, SeqCst);
        };
        for _ in 0..dice.below(6) {
            pay(dice.below(2_000));
            match dice.below(4) {
                0 => yield_now(),
                1 => sleep(Duration::from_micros(dice.below(50))),
                _ => {}
            }
        }
        if depth == 0 {
            return;
        }
        let mut options = NurseryOptions::new().on_failure(OnFailure::WaitAll);
        if dice.below(2) == 0 {
            options = options.task_budget(Budget::ops(1 + dice.below(20_000)).spawns(20)).recharge(Recharge::FromPool);
        }
        if dice.below(3) == 0 {
            options = options.budget(Budget::ops(dice.below(100_000)).spawns(dice.below(30)));
        }
        let _ = nursery_with(options, |n| {
            for _ in 0..dice.below(6) {
                match dice.below(4) {
                    0 => {
                        n.spawn_async(async {
                            futures_lite::future::yield_now().await;
                            pay(dice.below(500));
                            futures_lite::future::yield_now().await;
                            pay(dice.below(500));
                        });
                    }
                    1 => {
                        n.spawn(|| join(|| pay(dice.below(500)), || pay(dice.below(500))));
                    }
                    _ => {
                        n.spawn(|| grow(dice, depth - 1, spent, spawned));
                    }
                }
                spawned.fetch_add(1, SeqCst);
                if dice.below(20) == 0 {
                    n.cancel();
                }
            }
            Ok(())
        });
    }
    for_seeds("whatever_a_tree_of_tasks_does_its_root_pays_exactly_what_was_spent", 0..30, |seed| {
        let dice = Dice::new(seed);
        let (spent, spawned) = (AtomicU64::new(0), AtomicU64::new(0));
        let budget = Budget::ops(2_000_000).spawns(2_000);
        let left = runtime(1 + seed as usize % 3)
            .run(|| {
                with_budget(budget, || {
                    grow(&dice, 4, &spent, &spawned);
                    budget_left()
                })
            })
            .unwrap();
        let left = left.unwrap();
        // A spawn costs one operation and one spawn; a refused one may have cost the operation alone.
        let ops = budget.ops - left.ops;
        let (spent, spawned) = (spent.load(SeqCst), spawned.load(SeqCst));
        assert!(budget.spawns - left.spawns <= spawned, "{left}");
        assert!(
            (spent..=spent + spawned + 20_000).contains(&ops),
            "{ops} were charged, {spent} and {spawned} spawns counted"
        );
    });
}
