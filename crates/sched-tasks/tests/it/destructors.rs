//! Whatever a task owns is dropped once, in the task's name, and may block while it is.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use sched_tasks::{
    Budget, NurseryOptions, OnFailure, Reason, Recharge, Runtime, current_task, fiber_local, is_cancelled, join,
    nursery, nursery_with, shield, sleep, yield_now,
};

use crate::support::{spin_until, until};

/// Runs a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn on_workers(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

#[test]
fn a_fiber_local_does_not_outlive_its_task() {
    fiber_local! { static SEEN: Cell<u32> = Cell::new(0); }
    let runtime = on_workers(1);
    for _ in 0..3 {
        let seen = runtime.run(|| SEEN.with(|seen| seen.replace(7))).unwrap();
        assert_eq!(seen, 0, "a value of an earlier task");
    }
}

#[test]
fn captures_of_a_task_that_never_started_may_block_when_dropped() {
    let runtime = on_workers(1);
    let (dropped, ran, names) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
    for _ in 0..100 {
        let outcome = runtime.run(|| {
            nursery(|n| {
                nursery(|short| {
                    short.spawn(|| ()).join() // so that the fiber ran something of a nursery that is gone
                })?;
                for _ in 0..3 {
                    let guard = OnDrop(|| {
                        names.lock().unwrap().push(current_task().and_then(|task| task.name));
                        sleep(Duration::from_micros(10));
                        yield_now();
                        dropped.fetch_add(1, SeqCst);
                    });
                    n.task().name("unstarted").spawn(|| {
                        ran.fetch_add(1, SeqCst);
                        drop(guard);
                    });
                }
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap().unwrap_err().is_cancelled());
    }
    assert_eq!((ran.load(SeqCst), dropped.load(SeqCst)), (0, 300));
    let names = names.into_inner().unwrap();
    assert!(names.iter().all(|name| name.as_deref() == Some("unstarted")), "{names:?}");
}

#[test]
fn a_result_that_is_not_wanted_may_block_when_dropped() {
    let runtime = on_workers(1);
    let dropped = AtomicU64::new(0);
    for _ in 0..20 {
        let outcome = runtime.run(|| {
            nursery(|n| {
                for _ in 0..3 {
                    n.spawn(|| {
                        OnDrop(|| {
                            sleep(Duration::from_micros(10));
                            dropped.fetch_add(1, SeqCst);
                        })
                    });
                }
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
        // The next task on the same stack is cancelled as usual.
        let outcome = runtime.run(|| {
            nursery(|n| {
                let blocked = AtomicU64::new(0);
                nursery(|inner| {
                    for _ in 0..4 {
                        inner.spawn(|| {
                            blocked.fetch_add(1, SeqCst);
                            sleep(Duration::from_secs(3600));
                        });
                    }
                    until(|| blocked.load(SeqCst) == 4);
                    inner.dismiss();
                    Ok(())
                })?;
                n.spawn(|| ()).join()
            })
        });
        outcome.unwrap().unwrap();
    }
    assert_eq!(dropped.load(SeqCst), 60);
}

#[test]
fn a_cancelled_future_may_block_when_dropped() {
    let runtime = on_workers(2);
    let dropped = AtomicU64::new(0);
    for _ in 0..50 {
        let polled = AtomicBool::new(false);
        let outcome = runtime.nursery(|n| {
            n.spawn_async(async {
                let _guard = OnDrop(|| {
                    sleep(Duration::from_micros(10));
                    dropped.fetch_add(1, SeqCst);
                });
                polled.store(true, SeqCst);
                std::future::pending::<()>().await;
            });
            until(|| polled.load(SeqCst));
            n.dismiss();
            Ok(())
        });
        outcome.unwrap();
        runtime.nursery(|n| n.spawn(yield_now).join()).unwrap();
    }
    assert_eq!(dropped.load(SeqCst), 50);
}

#[test]
fn a_destructor_may_block_while_a_cancelled_join_unwinds() {
    let dropped = AtomicU64::new(0);
    let stolen = AtomicBool::new(false);
    let outcome = on_workers(2).run(|| {
        nursery(|n| {
            n.spawn(|| {
                let _guard = OnDrop(|| {
                    sleep(Duration::from_micros(10));
                    yield_now();
                    dropped.fetch_add(1, SeqCst);
                });
                join(
                    || spin_until(|| stolen.load(SeqCst)),
                    || {
                        stolen.store(true, SeqCst);
                        n.cancel(); // here, and not by the body: that may be bound to the very worker this runs on
                        yield_now(); // unwinds on the thief, and then in the joiner
                    },
                )
            });
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_destructor_may_block_while_a_panic_leaves_a_cancelled_nursery() {
    let dropped = AtomicU64::new(0);
    let outcome = on_workers(1).run(|| {
        nursery(|n| {
            let _guard = OnDrop(|| {
                sleep(Duration::from_micros(10));
                yield_now();
                dropped.fetch_add(1, SeqCst);
            });
            n.cancel();
            let _ = nursery(|_| -> Result<(), _> { panic!("on purpose") });
            Ok(())
        })
    });
    let error = outcome.unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_task_that_once_caught_a_panic_is_cancelled_beside_one_that_unwinds() {
    let (ready, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let outcome = on_workers(1).run(|| {
        nursery(|n| {
            n.spawn(|| {
                let _waits = OnDrop(|| until(|| ended.load(SeqCst)));
                ready.fetch_add(1, SeqCst);
                sleep(Duration::from_secs(3600));
            });
            until(|| ready.load(SeqCst) == 1); // it is the first to be told, and unwinds when the other is
            n.spawn(|| {
                let _ended = OnDrop(|| ended.store(true, SeqCst));
                let _ = catch_unwind(|| panic!("on purpose, and caught"));
                ready.fetch_add(1, SeqCst);
                sleep(Duration::from_secs(3600));
            });
            until(|| ready.load(SeqCst) == 2);
            yield_now();
            n.dismiss();
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_caught_panic_does_not_swallow_a_later_cancellation() {
    let outcome = on_workers(1).run(|| {
        let after = AtomicBool::new(false);
        let outcome = nursery(|n| {
            let _ = catch_unwind(|| panic!("on purpose, and caught"));
            n.cancel();
            // Cancellation is an unwinding too: caught once, it comes again at the next checkpoint.
            assert!(catch_unwind(AssertUnwindSafe(yield_now)).is_err());
            assert!(is_cancelled());
            yield_now();
            after.store(true, SeqCst);
            Ok(())
        });
        assert!(!after.load(SeqCst));
        outcome
    });
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
}

#[test]
fn both_halves_of_a_join_are_shielded() {
    let both = AtomicU64::new(0);
    let outcome = on_workers(2).run(|| {
        nursery(|n| {
            let stolen = AtomicBool::new(false);
            let ((), ()) = shield(|| {
                join(
                    || {
                        spin_until(|| stolen.load(SeqCst));
                        n.cancel();
                        yield_now();
                        both.fetch_add(1, SeqCst);
                    },
                    || {
                        stolen.store(true, SeqCst);
                        spin_until(is_cancelled);
                        yield_now();
                        both.fetch_add(1, SeqCst);
                    },
                )
            });
            yield_now();
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
    assert_eq!(both.load(SeqCst), 2, "a half was interrupted inside the shield");
}

#[test]
fn a_panic_in_a_destructor_of_what_never_ran_is_a_failure() {
    let outcome = on_workers(1).run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            let guard = OnDrop(|| panic!("in a destructor"));
            n.spawn(move || drop(guard));
            n.cancel();
            Ok(())
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(matches!(error.reason(), Reason::Panicked { .. }), "{error}");
}

#[test]
fn what_a_task_captured_that_could_not_begin_is_dropped() {
    let captured = Arc::new(());
    let without_budget = NurseryOptions::new().task_budget(Budget::ops(0)).recharge(Recharge::Never);
    let outcome = nursery_with(without_budget, |n| {
        let captured = captured.clone();
        n.spawn(move || drop(captured)).join()
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::BudgetExhausted { .. }));
    assert_eq!(Arc::strong_count(&captured), 1);

    // One worker begins the task, which stands still; the other waits a little, and cancels it.
    let outcome = on_workers(2).run(|| {
        nursery(|n| {
            let of_task = captured.clone();
            n.pauser().pause();
            n.spawn(move || drop(of_task));
            std::thread::sleep(Duration::from_millis(50)); // if it has not begun by then it is cancelled before, which is right as well
            n.cancel();
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&captured), 1);
}

/// In each way a cancellation unwinds: a fiber, a thread task, the body of a nursery, a deadline, a sibling that failed.
#[test]
fn a_nursery_in_a_destructor_that_runs_because_of_a_cancellation_is_not_cancelled() {
    let clean_up = || {
        let sum: u64 = nursery(|n| (0..3).map(|number| n.spawn(move || number).join()).sum()).unwrap();
        assert_eq!(sum, 3);
        nursery(|n| n.spawn(|| nursery(|n| n.spawn(yield_now).join())).join()).unwrap().unwrap();
    };
    let cleaned = AtomicU64::new(0);
    let guard = || {
        OnDrop(|| {
            clean_up();
            cleaned.fetch_add(1, SeqCst);
        })
    };
    let wait = || loop {
        sleep(Duration::from_secs(60));
    };
    let runtime = on_workers(2);
    let begun = &AtomicU64::new(0);
    let outcome = runtime.run(|| {
        nursery(|n| {
            let body = move || {
                let _guard = guard();
                begun.fetch_add(1, SeqCst);
                wait();
            };
            n.spawn(body);
            n.task().on_thread().spawn(body);
            n.spawn(move || {
                let _ = nursery_with(NurseryOptions::new().timeout(Duration::from_millis(1)), |_| {
                    let _guard = guard();
                    wait();
                    Ok(())
                });
                begun.fetch_add(1, SeqCst);
            });
            while begun.load(SeqCst) < 3 {
                sleep(Duration::from_millis(1));
            }
            n.try_spawn(|| Err::<(), _>(sched_tasks::TaskError::msg("the last one")));
            wait();
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().to_string().contains("the last one"));
    assert_eq!(cleaned.load(SeqCst), 3);
}

/// Panics when it is dropped.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("fragile");
    }
}

#[test]
fn the_value_of_a_first_half_may_panic_when_it_is_dropped_although_the_second_unwinds() {
    let runtime = on_workers(1);
    let failed = runtime.nursery(|n| n.spawn(|| drop(join(|| Fragile, || -> () { panic!("second") }))).join());
    assert!(failed.unwrap_err().to_string().contains("second"));
    let cancelled = runtime.nursery(|n| {
        let canceller = n.canceller();
        let second = move || {
            canceller.cancel();
            yield_now();
        };
        n.spawn(move || drop(join(|| Fragile, second))).join()
    });
    assert!(cancelled.unwrap_err().is_cancelled());
    // With values of its own the task runs both halves itself.
    fiber_local!(
        static OWN: Cell<u32> = Cell::new(0);
    );
    let alone = runtime.nursery(|n| {
        n.spawn(|| {
            OWN.with(|own| own.set(1));
            drop(join(|| Fragile, || -> () { panic!("second") }));
        })
        .join()
    });
    assert!(alone.unwrap_err().to_string().contains("second"));
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}
