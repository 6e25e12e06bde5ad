//! Nurseries wait, borrow, fail and cancel.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use sched_tasks::{
    NurseryOptions, OnFailure, Reason, Runtime, TaskError, join, nursery, nursery_with, run, sleep, yield_now,
};

#[test]
fn a_task_borrows_from_around_its_nursery() {
    let words = ["alpha".to_string(), "beta".to_string()];
    let lengths: Vec<usize> = run(|| {
        nursery(|n| {
            let tasks: Vec<_> = words.iter().map(|w| n.spawn(|| w.len())).collect();
            tasks.into_iter().map(|t| t.join()).collect()
        })
    })
    .unwrap()
    .unwrap();
    assert_eq!(lengths, [5, 4]);
}

#[test]
fn a_nursery_on_a_plain_thread_waits_for_its_tasks() {
    let count = AtomicU64::new(0);
    nursery(|n| {
        for _ in 0..1000 {
            n.spawn(|| count.fetch_add(1, SeqCst));
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(count.load(SeqCst), 1000);
}

#[test]
fn a_panic_is_the_tasks_failure_with_message_and_place() {
    let error = nursery(|n| {
        n.task().name("doomed").spawn(|| panic!("on purpose"));
        Ok(())
    })
    .unwrap_err();
    let Reason::Panicked { message, location } = error.reason() else { panic!("{error}") };
    assert_eq!(&**message, "on purpose");
    assert!(location.as_ref().unwrap().contains("nurseries.rs"));
    assert_eq!(error.task().unwrap().name.as_deref(), Some("doomed"));
}

#[test]
fn a_cancelled_tree_with_a_blocked_innermost_child_ends() {
    let begun = Instant::now();
    let outcome = run(|| {
        nursery(|n| {
            n.spawn(|| {
                nursery(|n| {
                    n.spawn(|| {
                        nursery(|n| {
                            n.spawn(|| sleep(Duration::from_secs(3600)));
                            Ok(())
                        })
                    });
                    Ok(())
                })
            });
            yield_now();
            n.cancel();
            Ok(())
        })
    })
    .unwrap();
    assert!(outcome.unwrap_err().is_cancelled());
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn yields_alternate() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    runtime
        .run(|| {
            nursery(|n| {
                for name in ["a", "b", "c"] {
                    let order = &order;
                    n.spawn(move || {
                        for _ in 0..3 {
                            order.lock().unwrap().push(name);
                            yield_now();
                        }
                    });
                }
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    let order = order.into_inner().unwrap();
    for round in order.chunks(3) {
        let mut names = round.to_vec();
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c"], "in {order:?}");
    }
}

#[test]
fn a_stack_overflow_fails_its_task_and_every_other_finishes() {
    #[allow(unconditional_recursion)]
    fn forever(n: u64) -> u64 {
        std::hint::black_box(forever(std::hint::black_box(n + 1)) + 1)
    }
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let finished = AtomicU64::new(0);
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            for i in 0..100 {
                if i == 50 {
                    n.task().name("deep").survives_overflow().spawn(|| forever(0));
                }
                n.spawn(|| {
                    yield_now();
                    finished.fetch_add(1, SeqCst);
                });
            }
            Ok(())
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(matches!(error.reason(), Reason::StackOverflow { .. }), "{error}");
    assert_eq!(finished.load(SeqCst), 100);
    assert_eq!(runtime.stats().total().overflows, 1);
}

#[test]
fn join_runs_both_halves() {
    fn fib(n: u32) -> u32 {
        if n < 2 {
            return n;
        }
        let (a, b) = join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    assert_eq!(run(|| fib(20)).unwrap(), 6765);
}

#[test]
fn a_future_and_a_fiber_share_a_nursery() {
    let sum = nursery(|n| {
        let a = n.spawn(|| 1);
        let b = n.spawn_async(async { 2 });
        let c = n.spawn_async(async move { a.await.unwrap() + b.await.unwrap() });
        c.join()
    });
    assert_eq!(sum.unwrap(), 3);
}

#[test]
fn every_builder_has_every_spawn() {
    let fails = || Err::<u32, _>(TaskError::msg("no ink"));
    nursery_with(NurseryOptions::new(), |n| {
        assert_eq!(n.task().name("a").spawn(|| 1).join()?, 1);
        assert_eq!(n.task().name("a").try_spawn(|| Ok(2)).join()?, 2);
        assert_eq!(n.task().name("a").spawn_async(async { 3 }).join()?, 3);
        assert_eq!(n.task().name("a").try_spawn_async(async { Ok(4) }).join()?, 4);
        assert_eq!(n.task().name("a").on_thread().spawn(|| 5).join()?, 5);
        assert_eq!(n.task().name("a").on_thread().try_spawn(|| Ok(6)).join()?, 6);
        assert_eq!(n.task().name("a").survives_overflow().spawn(|| 7).join()?, 7);
        assert_eq!(n.task().name("a").survives_overflow().try_spawn(|| Ok(8)).join()?, 8);
        assert_eq!(n.task().name("a").survives_overflow().spawn_async(async { 9 }).join()?, 9);
        assert_eq!(n.task().name("a").survives_overflow().try_spawn_async(async { Ok(10) }).join()?, 10);
        Ok(())
    })
    .unwrap();
    // An `Err` of those that try fails the nursery, and says whose it is.
    let named = [
        nursery(|n| {
            n.task().name("fiber").try_spawn(fails);
            Ok(())
        }),
        nursery(|n| {
            n.task().name("future").try_spawn_async(async move { fails() });
            Ok(())
        }),
        nursery(|n| {
            n.task().name("thread").on_thread().try_spawn(fails);
            Ok(())
        }),
        nursery(|n| {
            n.task().name("owned").survives_overflow().try_spawn_async(async move { fails() });
            Ok(())
        }),
    ]
    .map(|outcome| outcome.unwrap_err().task().and_then(|task| task.name.clone()).unwrap());
    assert_eq!(named.each_ref().map(|name| &**name), ["fiber", "future", "thread", "owned"]);
}
