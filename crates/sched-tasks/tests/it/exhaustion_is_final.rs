//! Exhaustion is final, and who was joined has given its permit back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use sched_tasks::{
    Budget, CapSpawn, Component, Ledger, NurseryOptions, OnFailure, Reason, Recharge, Runtime, Task, TaskError,
    block_on, channel, charge, checkpoint, join, nursery, nursery_with, recharge, sleep, unblock, yield_now,
};
use test_support::{output_alone, text};

use crate::{destructors::OnDrop, support::spin_until};

fn caught<R>(what: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(what)).is_err()
}

fn is_exhausted(error: &TaskError) -> bool {
    matches!(error.reason(), Reason::BudgetExhausted { component: Component::Ops, granted: 1_000, .. })
}

fn limited() -> NurseryOptions {
    NurseryOptions::new().task_budget(Budget::ops(1_000).channel_ops(100).syscalls(100).spawns(100))
}

/// How a task with the usual limit ends.
fn ends<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, TaskError> {
    nursery_with(limited(), |n| n.spawn(body).join())
}

#[test]
fn who_catches_its_exhaustion_does_not_go_on() {
    let rounds = AtomicU64::new(0);
    let verdict = nursery_with(limited(), |n| {
        n.spawn(|| {
            for _ in 0..10_000 {
                if !caught(|| charge(600)) {
                    rounds.fetch_add(1, SeqCst);
                }
                if !caught(|| charge(1)) {
                    rounds.fetch_add(1_000, SeqCst);
                }
            }
            "all is well"
        })
        .join()
    });
    assert_eq!(rounds.load(SeqCst), 1_001, "600 and 1 were paid, the second 600 were refused, and nothing after");
    let error = verdict.unwrap_err();
    assert!(is_exhausted(&error), "{error}");
}

/// Panics, and spends so much while that unwinds. It is caught.
fn panic_and_spend(ops: u64) {
    assert!(caught(|| {
        let _spends = OnDrop(|| charge(ops));
        panic!("caught here");
    }));
}

#[test]
fn what_a_destructor_spends_during_a_panic_is_paid_after_it() {
    let rounds = AtomicU64::new(0);
    let verdict = ends(|| {
        for _ in 0..100 {
            panic_and_spend(600);
            charge(1);
            rounds.fetch_add(1, SeqCst);
        }
    });
    assert_eq!(rounds.load(SeqCst), 1, "the second round owes 201, which is refused");
    let error = verdict.unwrap_err();
    assert!(is_exhausted(&error), "{error}");
}

#[test]
fn a_destructor_that_only_ends_its_task_owes_too() {
    let error = ends(|| panic_and_spend(5_000)).unwrap_err();
    assert!(is_exhausted(&error), "{error}");
}

#[test]
fn what_a_destructor_spends_during_a_panic_comes_out_of_the_pool() {
    let options = NurseryOptions::new()
        .budget(Budget::ops(100_000).spawns(9))
        .task_budget(Budget::ops(1_000))
        .recharge(Recharge::FromPool);
    let spent = nursery_with(options, |n| {
        let before = n.pool().expect("it has one").left().ops;
        n.spawn(|| {
            panic_and_spend(5_000);
            charge(1);
        })
        .join()?;
        Ok(before - n.pool().expect("it has one").left().ops)
    });
    assert_eq!(spent.unwrap(), 5_001);
}

/// Charges that a destructor makes, by way of another strand.
fn ends_as_exhausted(test: &str, spends: impl Fn() + Send + Sync) {
    let Some(output) = output_alone(&format!("exhaustion_is_final::{test}")) else {
        let verdict = ends(|| {
            assert!(caught(|| {
                let _spends = OnDrop(&spends);
                panic!("caught below");
            }));
        });
        assert!(is_exhausted(&verdict.unwrap_err()));
        return;
    };
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
}

#[test]
fn a_destructor_that_unblocks_during_a_panic_is_not_stopped_by_a_budget() {
    ends_as_exhausted("a_destructor_that_unblocks_during_a_panic_is_not_stopped_by_a_budget", || {
        unblock(|| (0..5_000).for_each(|_| charge(1)));
    });
}

#[test]
fn a_destructor_that_joins_during_a_panic_is_not_stopped_by_a_budget() {
    let test = "exhaustion_is_final::a_destructor_that_joins_during_a_panic_is_not_stopped_by_a_budget";
    let Some(output) = output_alone(test) else {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let options = NurseryOptions::new().budget(Budget::ops(5_000).spawns(10));
        let verdict = runtime.nursery_with(options, |n| {
            n.spawn(|| {
                assert!(caught(|| {
                    let _spends = OnDrop(|| {
                        let (begun, both) = (AtomicU64::new(0), AtomicU64::new(2));
                        let half = || {
                            begun.fetch_add(1, SeqCst);
                            spin_until(|| begun.load(SeqCst) == both.load(SeqCst)); // the other is stolen
                            (0..20_000).for_each(|_| charge(1));
                        };
                        join(half, half);
                    });
                    panic!("caught below");
                }));
            })
            .join()
        });
        assert!(matches!(verdict.unwrap_err().reason(), Reason::BudgetExhausted { .. }));
        return;
    };
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
}

/// Spends whatever it can when it is dropped.
struct Spends<'a>(&'a AtomicU64);

impl Drop for Spends<'_> {
    fn drop(&mut self) {
        for _ in 0..50_000 {
            charge(1);
            self.0.fetch_add(1, SeqCst);
        }
    }
}

#[test]
fn what_is_dropped_for_a_task_is_paid_like_the_task() {
    let charged = AtomicU64::new(0);
    let check = |what: &str, verdict: Result<(), TaskError>| {
        assert!(charged.swap(0, SeqCst) <= 2_000, "{what}");
        assert!(is_exhausted(&verdict.unwrap_err()), "{what}");
    };
    // On the only worker, so that the handle is dropped before its task begins: else the result is the owner's, who drops it and has no limit.
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let of_fiber = runtime.run(|| {
        nursery_with(limited(), |n| {
            drop(n.spawn(|| Spends(&charged)));
            Ok(())
        })
    });
    check("a result that is not taken", of_fiber.unwrap());
    let of_future = runtime.run(|| {
        nursery_with(limited(), |n| {
            drop(n.spawn_async(async { Spends(&charged) }));
            Ok(())
        })
    });
    check("the result of a future that is not taken", of_future.unwrap());
    let never_ran = runtime.run(|| {
        nursery_with(limited(), |n| {
            let captured = Spends(&charged);
            n.spawn(move || _ = &captured);
            n.dismiss();
            Ok(())
        })
    });
    check("captures of a task that never ran", never_ran.unwrap());
}

#[test]
fn the_limit_of_a_task_holds_whatever_the_nurseries_around_have() {
    for around in [1_000, 20_000, 1_000_000] {
        let charged = AtomicU64::new(0);
        let outer = NurseryOptions::new().on_failure(OnFailure::WaitAll).task_budget(Budget::ops(around).spawns(5));
        let verdict = nursery_with(outer, |n| {
            n.spawn(|| {
                let inner = NurseryOptions::new().on_failure(OnFailure::WaitAll).task_budget(Budget::ops(100));
                nursery_with(inner, |m| {
                    m.spawn(|| {
                        loop {
                            charge(1);
                            charged.fetch_add(1, SeqCst);
                        }
                    })
                    .join()
                })
            })
            .join()?
        });
        assert_eq!(charged.load(SeqCst), 100, "around it there are {around}");
        let error: TaskError = verdict.unwrap_err();
        assert!(matches!(error.reason(), Reason::BudgetExhausted { granted: 100, .. }), "{error}");
    }
}

#[test]
fn after_exhaustion_every_operation_fails_again() {
    let verdict = nursery_with(limited(), |n| {
        let (tx, rx) = channel::<u8>(4);
        tx.send(1)?;
        n.spawn(move || {
            assert!(caught(|| charge(5_000)));
            assert!(caught(checkpoint), "checkpoint");
            assert!(caught(|| charge(1)), "charge");
            assert!(caught(yield_now), "yield");
            assert!(caught(|| tx.send(2)), "send");
            assert!(caught(|| rx.recv()), "recv");
            assert!(caught(|| rx.try_recv()), "try_recv");
            assert!(caught(|| sleep(std::time::Duration::from_millis(1))), "sleep");
            assert!(caught(|| unblock(|| ())), "unblock");
            assert!(caught(|| block_on(rx.recv_async())), "recv_async");
            assert!(caught(|| nursery(|m| m.spawn(|| ()).join())), "nursery");
            assert!(caught(|| recharge(Budget::ops(1))), "recharge");
        })
        .join()
    });
    let error = verdict.unwrap_err();
    assert!(is_exhausted(&error), "{error}");
}

#[test]
fn a_sleep_that_is_over_at_once_does_not_outrun_an_exhaustion() {
    let verdict = nursery_with(limited(), |n| {
        n.spawn(|| {
            assert!(caught(|| charge(5_000)));
            let slept = (0..20_000).filter(|_| !caught(|| sleep(std::time::Duration::ZERO))).count();
            assert_eq!(slept, 0, "sleeps of a task that has nothing left");
        })
        .join()
    });
    let error = verdict.unwrap_err();
    assert!(is_exhausted(&error), "{error}");
}

#[test]
fn a_future_that_catches_its_exhaustion_does_not_go_on_in_its_next_poll() {
    let went_on = AtomicU64::new(0);
    let verdict = nursery_with(limited(), |n| {
        n.spawn_async(async {
            assert!(caught(|| charge(5_000)));
            futures_lite::future::yield_now().await;
            went_on.fetch_add(u64::from(!caught(|| charge(1))), SeqCst);
        })
        .join()
    });
    let error = verdict.unwrap_err();
    assert!(is_exhausted(&error), "{error}");
    assert_eq!(went_on.load(SeqCst), 0);
}

#[test]
fn one_that_spent_a_nurserys_budget_has_its_own_again() {
    let left = nursery_with(limited(), |n| {
        n.spawn(|| {
            let inner = NurseryOptions::new().budget(Budget::ops(100));
            assert!(caught(|| nursery_with(inner, |_| {
                assert!(caught(|| charge(500)));
                assert!(caught(|| charge(1)), "here it is final");
                charge(1);
                Ok(())
            })));
            charge(800); // what it had beside
            sched_tasks::budget_left().ops
        })
        .join()
    })
    .unwrap();
    assert!((1..=200).contains(&left), "{left}");
}

#[test]
fn a_body_that_catches_its_exhaustion_does_not_end_well() {
    let error = nursery_with(limited(), |n| {
        n.try_spawn(|| {
            nursery(|_| {
                assert!(caught(|| charge(5_000)));
                Ok("all is well")
            })
        })
        .join()
    })
    .unwrap_err();
    assert!(matches!(error.reason(), Reason::BudgetExhausted { component: Component::Ops, .. }), "{error}");
}

#[test]
fn the_next_task_on_the_same_stack_is_not_the_one_that_was_exhausted() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let done = runtime
        .nursery_with(limited().on_failure(OnFailure::WaitAll), |n| {
            let mut done = 0;
            for _ in 0..20 {
                assert!(n.spawn(|| caught(|| charge(5_000))).join().is_err());
                done += u32::from(n.spawn(|| charge(900)).join().is_ok());
            }
            assert_eq!(done, 20);
            let pool = n.pool().unwrap();
            assert_eq!(pool.granted(), Budget::UNLIMITED);
            Ok(())
        })
        .unwrap_err();
    assert!(is_exhausted(&done), "{done}");
}

#[test]
fn what_an_exhausted_task_did_not_spend_goes_back() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let options = NurseryOptions::new()
        .budget(Budget::ops(10_000).channel_ops(50).spawns(10))
        .task_budget(Budget::ops(1_000).channel_ops(40))
        .on_failure(OnFailure::WaitAll);
    let mut seen = None;
    let _ = runtime.nursery_with(options, |n| {
        let failed = n.spawn(|| {
            charge(300);
            assert!(caught(|| charge(5_000)));
            assert!(caught(|| charge(1)));
        });
        assert!(failed.join().is_err());
        crate::support::until(|| n.pool().unwrap().out() == Budget::ZERO);
        seen = n.pool();
        Ok(())
    });
    let pool = seen.unwrap();
    assert_eq!((pool.left().channel_ops, pool.spent().channel_ops), (50, 0));
    assert_eq!(pool.spent().ops, 300, "what was refused was not paid: {pool:?}");
}

#[test]
fn a_swallowed_cancellation_comes_again_and_what_the_task_returns_is_kept() {
    let mut kept = None;
    let verdict = nursery(|n| {
        let (ready, is_ready) = channel::<()>(1);
        let task = n.spawn(move || {
            let _ = ready.send(());
            let mut times = 0;
            while times < 3 {
                times += u32::from(caught(checkpoint));
            }
            times
        });
        is_ready.recv()?;
        n.cancel();
        kept = Some(sched_tasks::shield(|| task.join()));
        Ok(())
    });
    assert!(verdict.unwrap_err().is_cancelled(), "the nursery says that it was cancelled");
    assert_eq!(kept.unwrap().unwrap(), 3);
}

/// Spawns and joins one task after the other, by each way to hear of an end.
fn in_sequence(spawn: impl for<'s, 'e> Fn(&'s sched_tasks::Nursery<'s, 'e>) -> Task<'s, ()>, hear: fn(Task<'_, ()>)) {
    for _ in 0..300 {
        let cap = Ledger::new().grant(CapSpawn::new().max_tasks(1));
        nursery_with(NurseryOptions::new().capability(&cap), |n| {
            for _ in 0..5 {
                hear(spawn(n));
            }
            Ok(())
        })
        .unwrap();
    }
}

fn joined(task: Task<'_, ()>) {
    task.join().unwrap();
}

fn awaited(task: Task<'_, ()>) {
    block_on(task).unwrap();
}

fn looked_at(task: Task<'_, ()>) {
    crate::support::spin_until(|| task.is_done());
    task.join().unwrap();
}

fn selected(task: Task<'_, ()>) {
    let other = futures::future::pending();
    block_on(futures::future::select(task, other)).factor_first().0.unwrap();
}

#[test]
fn a_task_that_was_joined_has_given_its_permit_back() {
    for hear in [joined, awaited, looked_at, selected] {
        in_sequence(|n| n.spawn(|| ()), hear);
        in_sequence(|n| n.spawn_async(async {}), hear);
        in_sequence(|n| n.spawn_async(futures_lite::future::yield_now()), hear);
    }
}

#[test]
fn a_nursery_that_ended_has_given_its_permits_back() {
    for _ in 0..300 {
        let cap = Ledger::new().grant(CapSpawn::new().max_tasks(2));
        nursery_with(NurseryOptions::new().capability(&cap), |n| {
            n.try_spawn(|| {
                for _ in 0..5 {
                    nursery(|m| {
                        m.spawn(|| ());
                        Ok(())
                    })?;
                }
                Ok(())
            })
            .join()?;
            n.try_spawn(|| nursery(|m| m.spawn(|| ()).join())).join()
        })
        .unwrap();
    }
}

#[test]
fn a_cancelled_task_that_was_joined_has_given_its_permit_back() {
    for _ in 0..100 {
        let cap = Ledger::new().grant(CapSpawn::new().max_tasks(1));
        for _ in 0..3 {
            let cancelled = nursery_with(NurseryOptions::new().capability(&cap), |n| {
                let task = n.spawn(|| sleep(std::time::Duration::from_secs(3_600)));
                n.cancel();
                sched_tasks::shield(|| task.join())
            });
            assert!(cancelled.unwrap_err().is_cancelled());
            assert_eq!(cap.tasks_in_use(), 0);
        }
    }
}
