//! Tasks that have a thread to themselves: they may block it, and are tasks for all the rest.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use sched_tasks::{
    Budget, CapSpawn, Ledger, NurseryOptions, OnFailure, Reason, Runtime, TaskState, channel, checkpoint, current_task,
    current_worker, fiber_local, is_cancelled, nursery, nursery_with, run, shield, sleep, unblock, yield_now,
};

/// Far longer than anything takes that is not stuck.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_thread_task_borrows_returns_a_value_and_knows_who_it_is() {
    let words = ["borrowed".to_owned()];
    let (length, worker, name) = nursery(|n| {
        let task = n.task().name("reader").on_thread().spawn(|| {
            let name = current_task().and_then(|label| label.name);
            (words[0].len(), current_worker(), name)
        });
        task.join()
    })
    .unwrap();
    assert_eq!((length, worker, name.as_deref()), (8, None, Some("reader")));
}

#[test]
fn it_may_block_its_thread_while_the_only_worker_runs_others() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let sum = runtime.run(|| {
        nursery(|n| {
            let (tx, rx) = mpsc::channel(); // of the standard library: it blocks the thread
            let blocked = n.task().on_thread().spawn(move || rx.iter().sum::<u32>());
            for i in 0..10 {
                let tx = tx.clone();
                n.spawn(move || tx.send(i).unwrap());
            }
            drop(tx);
            blocked.join()
        })
    });
    assert_eq!(sum.unwrap().unwrap(), 45);
}

/// Cancels a nursery whose thread task is where `body` takes it, and says how long that took.
fn cancelled_in(body: impl Fn(&mpsc::Sender<()>) + Send + Sync) -> Duration {
    let (up, is_up) = mpsc::channel();
    let body = &body;
    let mut asked = None;
    let outcome = nursery(|n| {
        n.task().on_thread().spawn(move || body(&up));
        is_up.recv_timeout(SOON).expect("it gets there");
        asked = Some(Instant::now());
        n.cancel();
        Ok(())
    });
    assert!(outcome.unwrap_err().is_cancelled());
    asked.unwrap().elapsed()
}

#[test]
fn a_cancellation_reaches_it_at_a_checkpoint_in_a_wait_and_in_nurseries_inside() {
    let tell = |up: &mpsc::Sender<()>| up.send(()).unwrap();
    let took = [
        cancelled_in(|up| {
            tell(up);
            loop {
                checkpoint();
            }
        }),
        cancelled_in(|up| {
            tell(up);
            sleep(Duration::from_secs(3600));
        }),
        cancelled_in(|up| {
            let (_tx, rx) = channel::<()>(1);
            tell(up);
            let _ = rx.recv();
        }),
        cancelled_in(|up| {
            let _ = nursery(|n| {
                n.spawn(|| sleep(Duration::from_secs(3600)));
                n.task().on_thread().spawn(|| sleep(Duration::from_secs(3600)));
                n.try_spawn(|| nursery(|m| m.spawn(|| sleep(Duration::from_secs(3600))).join()));
                tell(up);
                Ok(())
            });
        }),
        cancelled_in(|up| {
            tell(up);
            let _ = nursery(|n| n.task().on_thread().spawn(|| run(|| sleep(Duration::from_secs(3600)))).join());
        }),
    ];
    assert!(took.iter().all(|took| *took < SOON), "{took:?}");
}

#[test]
fn a_shield_holds_and_destructors_run_when_it_is_cancelled() {
    struct Tells<'a>(&'a AtomicBool);
    impl Drop for Tells<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let (finished, dropped, went_on) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    cancelled_in(|up| {
        let _tells = Tells(&dropped);
        shield(|| {
            up.send(()).unwrap();
            while !is_cancelled() {
                yield_now();
            }
            sleep(Duration::from_millis(1)); // would unwind outside
            finished.store(true, SeqCst);
        });
        checkpoint();
        went_on.store(true, SeqCst);
    });
    assert_eq!([&finished, &dropped, &went_on].map(|flag| flag.load(SeqCst)), [true, true, false]);
}

#[test]
fn one_that_waits_for_a_thread_ends_when_its_nursery_is_cancelled() {
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let (release, held) = mpsc::channel::<()>();
    let (up, is_up) = mpsc::channel();
    let began = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = began.clone();
    let captured = std::sync::Arc::new(());
    let seen = std::sync::Arc::downgrade(&captured);
    runtime
        .run(move || {
            nursery(|outer| {
                outer.task().on_thread().spawn(move || {
                    up.send(()).unwrap();
                    held.recv_timeout(SOON).expect("it is released");
                });
                is_up.recv_timeout(SOON).unwrap();
                // The only thread is taken, and nothing that is cancelled waits for it.
                let inner = nursery(|n| {
                    for _ in 0..100 {
                        let captured = captured.clone();
                        let began = &counted;
                        n.task().on_thread().spawn(move || {
                            let _captured = captured;
                            began.fetch_add(1, SeqCst);
                        });
                    }
                    drop(captured);
                    n.cancel();
                    Ok(())
                });
                assert!(inner.unwrap_err().is_cancelled());
                assert!(seen.upgrade().is_none(), "what they captured is dropped");
                release.send(()).unwrap();
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    assert_eq!(began.load(SeqCst), 0);
}

#[test]
fn it_spends_the_budget_of_its_nursery_and_stops_when_that_is_spent() {
    let outcome = nursery_with(NurseryOptions::new().task_budget(Budget::ops(1_000)), |n| {
        n.task()
            .on_thread()
            .spawn(|| {
                loop {
                    checkpoint();
                }
            })
            .join()
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error.reason(), Reason::BudgetExhausted { .. }), "{error}");
    // What it does not spend is there again, to the last operation.
    nursery_with(NurseryOptions::new().budget(Budget::ops(1_000).spawns(50)), |n| {
        for _ in 0..40 {
            n.task().on_thread().spawn(|| sched_tasks::charge(20)).join()?;
        }
        let pool = n.pool().unwrap();
        assert_eq!((pool.spent().ops, pool.spent().spawns), (40 * 20, 40), "{pool:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_it_starts_is_bound_by_its_capabilities() {
    let tenant = Ledger::new().grant(CapSpawn::new().max_tasks(3));
    let refused = nursery_with(NurseryOptions::new().capability(&tenant), |n| {
        n.task()
            .on_thread()
            .spawn(|| {
                nursery(|m| {
                    let tasks: Vec<_> = (0..5).map(|_| m.spawn(|| sleep(Duration::from_millis(20)))).collect();
                    tasks.into_iter().try_for_each(|task| task.join())
                })
                .is_err()
            })
            .join()
    });
    assert!(refused.unwrap());
}

#[test]
fn a_panic_and_an_error_fail_its_nursery_like_those_of_any_task() {
    let error = nursery(|n| {
        n.task().name("bad").on_thread().spawn(|| panic!("of a thread"));
        n.spawn(|| sleep(Duration::from_secs(3600)));
        Ok(())
    })
    .unwrap_err();
    assert!(error.is_panic(), "{error}");
    assert_eq!(error.task().and_then(|label| label.name.as_deref()), Some("bad"));
    let error = nursery(|n| {
        n.task().on_thread().try_spawn(|| Err::<(), _>(std::io::Error::other("disk").into()));
        Ok(())
    })
    .unwrap_err();
    assert!(error.downcast_ref::<std::io::Error>().is_some(), "{error}");
}

#[test]
fn a_deadline_ends_it() {
    let began = Instant::now();
    let error = nursery(|n| {
        n.timeout(Duration::from_millis(20));
        n.task().on_thread().spawn(|| sleep(Duration::from_secs(3600))).join()
    })
    .unwrap_err();
    assert!(matches!(error.reason(), Reason::DeadlineExceeded { .. } | Reason::Cancelled), "{error}");
    assert!(began.elapsed() < SOON);
}

#[test]
fn its_state_is_that_of_its_thread() {
    nursery(|n| {
        let (up, is_up) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let (tx, rx) = channel::<()>(1);
        let task = n.task().on_thread().spawn(move || {
            up.send(()).unwrap();
            goes.recv().unwrap();
            let _ = rx.recv();
        });
        is_up.recv_timeout(SOON).unwrap();
        assert_eq!(task.state(), TaskState::Running);
        go.send(()).unwrap();
        let began = Instant::now();
        while task.state() != TaskState::Blocked {
            assert!(began.elapsed() < SOON, "{:?}", task.state());
            yield_now();
        }
        drop(tx);
        task.join()
    })
    .unwrap();
}

#[test]
fn a_thread_is_used_again_and_nothing_of_a_task_stays_on_it() {
    fiber_local! {
        static MINE: AtomicUsize = AtomicUsize::new(0);
    }
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let threads = runtime.run(|| {
        nursery(|n| {
            let mut threads = std::collections::HashSet::new();
            for _ in 0..50 {
                let (before, thread) = n
                    .task()
                    .on_thread()
                    .spawn(|| (MINE.with(|mine| mine.fetch_add(1, SeqCst)), std::thread::current().id()))
                    .join()?;
                assert_eq!(before, 0);
                threads.insert(thread);
            }
            Ok(threads.len())
        })
    });
    assert_eq!(threads.unwrap().unwrap(), 1);
}

#[test]
fn it_has_a_stack_of_full_size() {
    fn depth(n: usize) -> usize {
        let frame = std::hint::black_box([n; 128]);
        if n == 0 { frame[0] } else { depth(n - 1) + frame[64] - frame[63] }
    }
    let reached = nursery(|n| n.task().on_thread().spawn(|| depth(2_000)).join());
    assert_eq!(reached.unwrap(), 0);
}

#[test]
fn in_a_seeded_run_it_is_a_fiber_and_the_run_repeats() {
    let run = |seed| {
        let runtime = Runtime::builder().workers(2).seeded(seed).build().unwrap();
        order_of_arrival(&runtime)
    };
    let first = run(7);
    assert!((0..5).all(|_| run(7) == first));
    assert!((0..50).any(|seed| run(seed) != first), "the seed decides");
}

fn order_of_arrival(runtime: &Runtime) -> Vec<u32> {
    let order = runtime.run(|| {
        nursery(|n| {
            let (tx, rx) = channel(16);
            for i in 0..6 {
                let tx = tx.clone();
                n.task().on_thread().try_spawn(move || Ok(tx.send(i)?));
            }
            drop(tx);
            Ok(rx.iter().collect())
        })
    });
    order.unwrap().unwrap()
}

#[test]
fn unblock_inside_it_is_a_call_and_its_nursery_runs_on_the_same_runtime() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let same = runtime.run(|| {
        nursery(|n| {
            let here = std::thread::current().id();
            n.task()
                .on_thread()
                .spawn(move || {
                    let thread = std::thread::current().id();
                    let worker = nursery(|m| m.spawn(|| std::thread::current().id()).join()).unwrap();
                    unblock(|| std::thread::current().id()) == thread && worker == here
                })
                .join()
        })
    });
    assert!(same.unwrap().unwrap());
}

#[test]
fn of_very_many_each_runs_once_or_not_at_all_whatever_is_cancelled() {
    let runtime = Runtime::builder().workers(2).blocking_threads(3).build().unwrap();
    for round in 0..200_usize {
        let (began, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        struct Counts<'a>(&'a AtomicUsize);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let outcome = runtime.run(|| {
            nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
                for i in 0..40 {
                    let (counts, began) = (Counts(&dropped), &began);
                    n.task().on_thread().spawn(move || {
                        let _counts = counts;
                        began.fetch_add(1, SeqCst);
                        if i % 7 == 0 {
                            yield_now();
                        }
                    });
                    if i == round % 41 {
                        n.cancel();
                    }
                }
                Ok(())
            })
        });
        assert_eq!(outcome.unwrap().is_err(), round % 41 < 40, "round {round}");
        let (began, dropped) = (began.load(SeqCst), dropped.load(SeqCst));
        assert!(dropped == 40 && began <= 40, "round {round}: {began} began, {dropped} were dropped");
    }
}
