//! A destructor that panics hurts its own task, as far as the language lets us see to that.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use sched_tasks::{
    NurseryOptions, OnFailure, Reason, Runtime, channel, fiber_local, join, nursery, nursery_with, oneshot, run, sleep,
    unbounded, yield_now,
};
use test_support::{output_alone, text};

use crate::support::{spin_until, until};

/// Panics when it is dropped.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor panics, on purpose");
    }
}

/// A task that is cancelled while it waits, and holds what `make` makes.
fn cancelled_with<T>(make: impl Fn() -> T + Sync) {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let begun = AtomicBool::new(false);
    let outcome = runtime.nursery(|n| {
        n.spawn(|| {
            let _held = make();
            begun.store(true, SeqCst);
            sleep(Duration::from_secs(3600));
        });
        until(|| begun.load(SeqCst));
        n.cancel();
        Ok(())
    });
    assert!(outcome.is_err());
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

/// Runs in a process of its own, which is to come through it.
fn comes_through(test: &str, body: impl FnOnce()) {
    match output_alone(test) {
        None => body(),
        Some(output) => {
            let said = text(&output.stderr) + &text(&output.stdout);
            assert!(output.status.success(), "{:?}: {said}", output.status);
            assert!(said.contains("a destructor panics, on purpose"), "it happened, and was told: {said}");
        }
    }
}

#[test]
fn what_a_task_captured_that_may_not_start_fails_that_task_and_not_its_spawner() {
    let went_on = AtomicBool::new(false);
    let verdict = nursery(|n| {
        n.close();
        let (closure, future) = (Bomb, Bomb);
        let refused = [n.spawn(move || _ = &closure).join(), n.spawn_async(async move { _ = &future }).join()];
        for outcome in refused {
            assert!(matches!(outcome.unwrap_err().reason(), Reason::Panicked { .. }));
        }
        went_on.store(true, SeqCst);
        Ok(())
    });
    assert!(went_on.load(SeqCst));
    let error = verdict.unwrap_err();
    assert!(matches!(error.reason(), Reason::NurseryNotActive { .. }), "{error}");
    let others: Vec<_> = error.others().iter().map(|other| matches!(other.reason(), Reason::Panicked { .. })).collect();
    assert_eq!(others, [true, true]);
}

#[test]
fn a_result_that_panics_when_it_is_dropped_fails_its_task_and_not_the_one_that_drops_the_handle() {
    let went_on = AtomicBool::new(false);
    let verdict = nursery(|n| {
        let (closure, future) = (n.spawn(|| Bomb), n.spawn_async(async { Bomb }));
        until(|| closure.is_done() && future.is_done());
        drop((closure, future));
        went_on.store(true, SeqCst);
        Ok(())
    });
    assert!(went_on.load(SeqCst));
    let error = verdict.unwrap_err();
    assert!(matches!(error.reason(), Reason::Panicked { .. }), "{error}");
    assert!(error.to_string().contains("contained.rs"), "it names the task: {error}");
    assert_eq!(error.others().len(), 1);
}

#[test]
fn who_is_cancelled_while_it_drops_a_result_that_waits_ends_as_cancelled() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            sleep(Duration::from_secs(3600));
        }
    }
    let outcome = nursery_with(NurseryOptions::new().timeout(Duration::from_millis(20)), |n| {
        n.spawn(|| {
            let result = n.spawn(|| Waits);
            until(|| result.is_done());
            drop(result);
        });
        Ok(())
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error.reason(), Reason::DeadlineExceeded { .. }), "{error}");
}

#[test]
fn what_a_channel_still_holds_may_panic_when_a_cancelled_task_drops_it() {
    comes_through("contained::what_a_channel_still_holds_may_panic_when_a_cancelled_task_drops_it", || {
        cancelled_with(|| {
            let (tx, rx) = channel(4);
            (0..3).for_each(|_| tx.send(Bomb).unwrap());
            (tx, rx)
        });
        cancelled_with(|| {
            let (tx, rx) = unbounded();
            (0..3).for_each(|_| tx.send(Bomb).unwrap());
            (tx, rx)
        });
        cancelled_with(|| {
            let (tx, rx) = oneshot::channel();
            tx.send(Bomb).unwrap();
            rx
        });
    });
}

#[test]
fn a_result_that_was_not_taken_may_panic_when_a_cancelled_task_drops_its_handle() {
    comes_through("contained::a_result_that_was_not_taken_may_panic_when_a_cancelled_task_drops_its_handle", || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let begun = AtomicBool::new(false);
        let outcome = runtime.nursery(|n| {
            n.spawn(|| {
                let held = n.spawn(|| Bomb);
                until(|| held.is_done());
                begun.store(true, SeqCst);
                sleep(Duration::from_secs(3600));
                drop(held);
            });
            until(|| begun.load(SeqCst));
            n.cancel();
            Ok(())
        });
        assert!(outcome.is_err());
        assert_eq!(runtime.run(|| 1).unwrap(), 1);
    });
}

#[test]
fn what_a_join_leaves_behind_may_panic_when_the_other_half_did() {
    comes_through("contained::what_a_join_leaves_behind_may_panic_when_the_other_half_did", || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let said = runtime.run(|| {
            let second = Bomb;
            let unrun = catch_unwind(AssertUnwindSafe(|| join(|| panic!("the first"), move || drop(second))));
            *unrun.unwrap_err().downcast::<&str>().unwrap()
        });
        assert_eq!(said.unwrap(), "the first");
        // The same with results of halves that different workers ran.
        let runtime = Runtime::builder().workers(2).build().unwrap();
        for fails in [1, 2] {
            let stolen = AtomicBool::new(false);
            let half = |number| match fails == number {
                true => panic!("half {number}"),
                false => Bomb,
            };
            let error = runtime.run(|| {
                let first = || {
                    spin_until(|| stolen.load(SeqCst));
                    half(1)
                };
                let second = || {
                    stolen.store(true, SeqCst);
                    half(2)
                };
                join(first, second);
            });
            let said = error.unwrap_err().to_string();
            assert!(said.contains(&format!("half {fails}")), "{said}");
        }
    });
}

#[test]
fn the_value_of_a_body_may_panic_when_it_is_dropped_because_a_child_failed() {
    let outcome = run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            let failed: Result<(), _> =
                n.try_spawn(|| Err("the disk is full".parse::<u32>().unwrap_err().into())).join();
            assert!(failed.is_err());
            Ok(Bomb)
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(error.to_string().contains("invalid digit"), "{error}");
    assert!(error.others().iter().any(|other| other.is_panic()), "{error}");
}

fiber_local! { static LOCAL_BOMB: Bomb = Bomb; }

#[test]
fn what_a_cancelled_task_leaves_to_the_runtime_may_panic_when_it_is_dropped() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    // Captures that never ran, a value of the task, a future that waits, a result that is not wanted.
    for round in 0..4 {
        let begun = AtomicBool::new(false);
        let outcome = runtime.nursery(|n| {
            match round {
                0 => {
                    let bomb = Bomb;
                    n.spawn(|| {
                        let unrun = n.spawn(move || drop(bomb));
                        begun.store(true, SeqCst);
                        n.cancel();
                        drop(unrun);
                    });
                }
                1 => drop(n.spawn(|| {
                    LOCAL_BOMB.with(|_| ());
                    begun.store(true, SeqCst);
                    sleep(Duration::from_secs(3600));
                })),
                2 => drop(n.spawn_async(async {
                    let _bomb = Bomb;
                    begun.store(true, SeqCst);
                    std::future::pending::<()>().await;
                })),
                _ => drop(n.spawn(|| {
                    begun.store(true, SeqCst);
                    sched_tasks::shield(yield_now);
                    Bomb
                })),
            }
            until(|| begun.load(SeqCst));
            n.cancel();
            Ok(())
        });
        assert!(outcome.is_err());
        assert_eq!(runtime.run(|| 1).unwrap(), 1);
    }
    assert_eq!(runtime.stats().total().restarts, 0);
}

#[test]
fn a_destructor_that_panics_while_its_task_unwinds_ends_the_process_as_the_language_has_it() {
    let test = "contained::a_destructor_that_panics_while_its_task_unwinds_ends_the_process_as_the_language_has_it";
    match output_alone(test) {
        None => cancelled_with(|| Bomb),
        Some(output) => {
            let said = text(&output.stderr);
            assert!(!output.status.success());
            assert!(said.contains("panic in a destructor during cleanup"), "{said}");
        }
    }
    let _ = nursery(|_| Ok(()));
}
