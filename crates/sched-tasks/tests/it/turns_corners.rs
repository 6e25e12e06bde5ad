//! Turns in company: with sleepers, deadlines, time limits, shields, wakers, other people's executors and seeds; and who goes first.

use std::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use sched_tasks::{
    Mutex, NurseryOptions, Priority, Reason, Runtime, Semaphore, TaskError, block_on, channel, checkpoint, nursery,
    nursery_with, sleep, timeout, unbounded, yield_now,
};

use crate::{
    support::{spin_until, until},
    turns::{MOST, Rounds, SOME_TIME, SOON, one_worker},
};

#[test]
fn a_future_that_awaits_finished_tasks_takes_turns() {
    let (tx, rx) = channel::<()>(1);
    let rounds = Rounds::default();
    let outcome = one_worker().run(|| {
        nursery(|n| {
            let tasks: Vec<_> = (0..4000).map(|i| n.spawn(move || i)).collect();
            n.spawn(|| {
                rx.recv().unwrap();
                rounds.go_on();
            });
            until(|| tasks.iter().all(|task| task.is_done()));
            yield_now();
            n.spawn_async(async {
                tx.try_send(()).unwrap(); // it is ready from now on, on this very worker
                for task in tasks {
                    rounds.another();
                    task.await.unwrap();
                }
            });
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    rounds.check("await", SOON);
}

#[test]
fn who_joins_finished_tasks_takes_turns() {
    let (tx, rx) = channel::<()>(1);
    let rounds = Rounds::default();
    let outcome = one_worker().run(|| {
        nursery(|n| {
            let tasks: Vec<_> = (0..4000).map(|i| n.spawn(move || i)).collect();
            n.spawn(|| {
                rx.recv().unwrap();
                rounds.go_on();
            });
            until(|| tasks.iter().all(|task| task.is_done()));
            yield_now();
            tx.send(()).unwrap(); // it is ready from now on, on this very worker
            for task in tasks {
                rounds.another();
                task.join()?;
            }
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    rounds.check("join", SOON);
}

#[test]
fn results_that_are_there_are_handed_over_though_the_turn_ends_in_a_cancelled_body() {
    let outcome = one_worker().run(|| {
        nursery(|n| {
            let tasks: Vec<_> = (0..2000).map(|i| n.spawn(move || i)).collect();
            until(|| tasks.iter().all(|task| task.is_done()));
            n.dismiss(); // the body has what it wants
            tasks.into_iter().map(|task| task.join()).sum::<Result<u64, TaskError>>()
        })
    });
    assert_eq!(outcome.unwrap().unwrap(), 1999 * 1000);
}

/// std's test of this name, in fibers: both may start on one worker, the receiver first, and then it is woken behind a sender that need not wait.
#[test]
fn port_gone_concurrent() {
    let runtime = Runtime::builder().workers(4).build().unwrap();
    for _ in 0..200 {
        let outcome = runtime.run(|| {
            nursery(|n| {
                let (tx, rx) = unbounded::<i32>();
                n.spawn(move || {
                    let mut sent = 0;
                    while sent < 10 * MOST && tx.send(1).is_ok() {
                        sent += 1;
                    }
                    assert!(sent < 10 * MOST, "the receiver was woken and forgotten");
                });
                n.spawn(move || rx.recv().unwrap());
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
    }
}

#[test]
fn a_receiver_that_waited_first_goes_on_behind_a_sender_that_never_waits() {
    let sent = AtomicU64::new(0);
    let outcome = one_worker().run(|| {
        nursery(|n| {
            let (tx, rx) = unbounded::<i32>();
            n.spawn(move || rx.recv().unwrap());
            yield_now(); // it waits
            while sent.load(SeqCst) < MOST && tx.send(1).is_ok() {
                sent.fetch_add(1, SeqCst);
            }
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    assert!(sent.load(SeqCst) <= SOON, "the receiver was gone after {sent:?} values");
}

/// Everything that is not a fiber that waited: it starts, or goes on, by the worker's regular look at what it puts off.
#[test]
fn beside_a_busy_pair_everything_else_starts() {
    let runtime = one_worker();
    for which in ["unstarted", "injected", "low priority", "future", "future that yields", "fiber that yields"] {
        let rounds = &Rounds::default();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                spin_until(|| rounds.done.load(SeqCst) > 300);
                if which == "injected" {
                    rounds.count();
                    runtime.run(|| rounds.go_on()).unwrap();
                }
            });
            let outcome = runtime.run(|| {
                nursery(|n| {
                    for _ in 0..2 {
                        n.spawn(|| {
                            let mutex = Mutex::new(());
                            while rounds.another() {
                                drop(mutex.lock());
                            }
                        });
                    }
                    until(|| rounds.done.load(SeqCst) > 300);
                    rounds.count();
                    match which {
                        "unstarted" => drop(n.spawn(|| rounds.go_on())),
                        "low priority" => drop(n.task().priority(Priority::Low).spawn(|| rounds.go_on())),
                        "future" => drop(n.spawn_async(async { rounds.go_on() })),
                        "future that yields" => drop(n.spawn_async(async {
                            for _ in 0..3 {
                                crate::liveness::futures_yield().await;
                            }
                            rounds.go_on();
                        })),
                        "fiber that yields" => {
                            (0..3).for_each(|_| yield_now());
                            rounds.go_on();
                        }
                        _ => {}
                    }
                    Ok(())
                })
            });
            outcome.unwrap().unwrap();
        });
        rounds.check(which, SOME_TIME);
    }
}

#[test]
fn a_woken_task_does_not_wait_for_all_that_a_yielded_task_waits_for() {
    let rounds = &Rounds::default();
    let (wake, woken) = channel::<()>(1);
    let is_up = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            spin_until(|| rounds.done.load(SeqCst) > 300);
            wake.send(()).unwrap();
            rounds.count();
        });
        let outcome = one_worker().run(|| {
            nursery(|n| {
                n.spawn(|| {
                    is_up.store(true, SeqCst);
                    woken.recv().unwrap();
                    rounds.go_on();
                });
                until(|| is_up.load(SeqCst));
                for _ in 0..20_000 {
                    n.spawn(|| {
                        rounds.another();
                        (0..1000).for_each(|_| std::hint::spin_loop());
                    });
                }
                yield_now(); // goes on after all of them
                assert_eq!(rounds.done.load(SeqCst), 20_000);
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
    });
    rounds.check("woken", 64);
}

/// Were those that give their turn away put behind all that has not started, each of these would stand on a stack of its own. Now and then they let one begin, while fewer than 32 have.
#[test]
fn tasks_that_give_turns_do_not_make_all_others_start() {
    let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let outcome = one_worker().run(|| {
        nursery(|n| {
            for _ in 0..3000 {
                n.spawn(|| {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    let mutex = Mutex::new(());
                    for _ in 0..1000 {
                        drop(mutex.lock());
                    }
                    running.fetch_sub(1, SeqCst);
                });
            }
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    assert!(most.load(SeqCst) <= 48, "{most:?} tasks had begun and not ended");
}

#[test]
fn a_sleeper_wakes_beside_busy_pipelines() {
    let is_enough = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let outcome = runtime.run(|| {
        nursery(|n| {
            for _ in 0..4 {
                let (tx, rx) = channel(64);
                n.spawn(|| {
                    let (tx, rx) = (tx, rx);
                    // By the count, if no wake comes: some seconds.
                    while !is_enough.load(SeqCst) && sent.fetch_add(1, SeqCst) < 20_000_000 {
                        tx.send(1)?;
                        assert_eq!(rx.recv()?, 1);
                    }
                    Ok::<(), TaskError>(())
                });
            }
            for _ in 0..20 {
                sleep(Duration::from_millis(1));
            }
            is_enough.store(true, SeqCst);
            Ok(sent.load(SeqCst))
        })
    });
    let sent = outcome.unwrap().unwrap();
    assert!(sent < 20_000_000, "the sleeper woke when there was nothing left to send");
}

#[test]
fn a_deadline_ends_a_tree_whose_tasks_are_always_ready() {
    let rounds = &Rounds::default();
    let forever = || rounds.done.fetch_add(1, SeqCst) < 30_000_000;
    let outcome = one_worker().run(|| {
        nursery(|n| {
            n.timeout(Duration::from_millis(20));
            n.spawn_async(async {
                let (tx, rx) = channel(1);
                while forever() {
                    tx.send_async(1).await.unwrap();
                    rx.recv_async().await.unwrap();
                }
            });
            nursery(|inner| {
                inner.spawn(|| {
                    let (_tx, rx) = channel::<()>(1);
                    while forever() {
                        let _ = rx.try_recv();
                    }
                });
                Ok(())
            })
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(matches!(error.reason(), Reason::DeadlineExceeded { .. }), "{error}");
    assert!(rounds.done.load(SeqCst) < 30_000_000, "they ended by themselves");
}

#[test]
fn a_time_limit_reaches_a_future_that_uses_up_its_turns() {
    async fn always_ready(rounds: &Rounds) {
        let (tx, rx) = channel(1);
        while rounds.done.fetch_add(1, SeqCst) < 10_000_000 {
            tx.send_async(1).await.unwrap();
            rx.recv_async().await.unwrap();
        }
    }
    for limit in [Duration::ZERO, Duration::from_millis(5)] {
        let rounds = Rounds::default();
        let in_task = one_worker().run(|| nursery(|n| n.spawn_async(timeout(limit, always_ready(&rounds))).join()));
        assert!(in_task.unwrap().unwrap().is_err(), "in a future, {limit:?}");
        let in_fiber = one_worker().run(|| block_on(timeout(limit, always_ready(&rounds))));
        assert!(in_fiber.unwrap().is_err(), "in a fiber, {limit:?}");
        assert!(block_on(timeout(limit, always_ready(&rounds))).is_err(), "on a plain thread, {limit:?}");
    }
}

#[test]
fn a_part_of_a_future_that_is_always_ready_does_not_hide_the_other() {
    let rounds = Rounds::default();
    let busy = async {
        let semaphore = Semaphore::new(1);
        while rounds.another() {
            drop(semaphore.acquire_async(1).await);
        }
    };
    let outcome = one_worker().run(|| {
        nursery(|n| {
            n.spawn_async(async { futures::join!(busy, async { rounds.go_on() }) });
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    rounds.check("the other part", SOON);
}

#[test]
fn who_waits_for_more_than_a_turn_of_things_at_once_hears_of_each() {
    let outcome = one_worker().run(|| {
        nursery(|n| {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..1000).map(|_| channel(1)).unzip();
            let all =
                n.spawn_async(
                    async move { futures::future::join_all(receivers.iter().map(|rx| rx.recv_async())).await },
                );
            for (i, tx) in senders.iter().enumerate().rev() {
                tx.send(i)?;
            }
            let got: Vec<_> = all.join()?.into_iter().map(Result::unwrap).collect();
            assert!(got.into_iter().eq(0..1000));
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

/// A foreign executor polls again at once: it must not do so for ever.
#[test]
fn an_executor_inside_a_task_gets_on() {
    let many = || async {
        let semaphore = Semaphore::new(1);
        for _ in 0..10_000 {
            drop(semaphore.acquire_async(1).await);
        }
    };
    let outcome = one_worker().run(|| {
        futures_lite::future::block_on(many()); // in a fiber
        nursery(|n| n.spawn_async(async move { futures_lite::future::block_on(many()) }).join())
    });
    outcome.unwrap().unwrap();
    futures_lite::future::block_on(many()); // on a plain thread
}

#[test]
fn a_shield_holds_when_a_turn_ends_and_so_does_a_destructor() {
    struct Drains<'a>(sched_tasks::Receiver<u32>, &'a AtomicU64);
    impl Drop for Drains<'_> {
        fn drop(&mut self) {
            while self.0.try_recv().is_ok() {
                self.1.fetch_add(1, SeqCst);
            }
        }
    }
    let (shielded, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
    let outcome = one_worker().run(|| {
        nursery(|n| {
            n.spawn(|| (0..1000).for_each(|_| yield_now())); // a task to take the turns
            n.cancel();
            let (tx, rx) = unbounded();
            sched_tasks::shield(|| {
                for i in 0..1000 {
                    tx.send(i)?;
                    shielded.fetch_add(1, SeqCst);
                }
                Ok::<(), TaskError>(())
            })?;
            let _drains = Drains(rx, &dropped);
            loop {
                checkpoint(); // unwinds
            }
        })
    });
    let outcome: Result<(), _> = outcome.unwrap();
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!((shielded.into_inner(), dropped.into_inner()), (1000, 1000));
}

/// A waker may be called in the middle of another operation, and may itself send: that must neither stop nor unwind there.
#[test]
fn no_turn_ends_inside_a_waker() {
    use std::{
        sync::Arc,
        task::{Context, Poll, Wake},
    };
    struct Tells(sched_tasks::Sender<()>);
    impl Wake for Tells {
        fn wake(self: Arc<Self>) {
            for _ in 0..300 {
                self.0.try_send(()).unwrap(); // more than a turn
            }
        }
    }
    let (tell, told) = unbounded();
    let waker = Arc::new(Tells(tell)).into();
    let turns_of_others = AtomicU64::new(0);
    let outcome = one_worker().run(|| {
        nursery(|n| {
            let (tx, rx) = channel(1);
            n.spawn(|| {
                for _ in 0..100 {
                    turns_of_others.fetch_add(1, SeqCst);
                    yield_now();
                }
            });
            let mut cx = Context::from_waker(&waker);
            let mut recv = rx.recv_async();
            assert_eq!(Pin::new(&mut recv).poll(&mut cx), Poll::Pending);
            yield_now(); // a new turn begins
            let before = turns_of_others.load(SeqCst);
            tx.send(7)?;
            assert_eq!((turns_of_others.load(SeqCst) - before, told.len()), (0, 300));
            let refused = Pin::new(&mut recv).poll(&mut cx); // what the waker did was counted
            assert_eq!((refused, Pin::new(&mut recv).poll(&mut cx)), (Poll::Pending, Poll::Ready(Ok(7))));
            drop(recv);
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_plain_thread_that_only_tries_sees_its_deadline() {
    let came_to_its_end = AtomicBool::new(false);
    let outcome = nursery_with(NurseryOptions::new().timeout(Duration::from_millis(5)), |_| {
        let (_tx, rx) = channel::<()>(1);
        for _ in 0..20_000_000 {
            let _ = rx.try_recv();
        }
        came_to_its_end.store(true, SeqCst);
        Ok(())
    });
    assert!(!came_to_its_end.load(SeqCst));
    assert!(matches!(outcome.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
}

#[test]
fn a_seeded_run_takes_turns_and_the_same_ones_again() {
    let run = |seed: u64, one_in: u32| {
        let runtime = Runtime::builder().workers(2).seeded(seed).preempt_one_in(one_in).build().unwrap();
        let tries = runtime.run(|| {
            nursery(|n| {
                let (tx, rx) = channel::<()>(1);
                let (back, heard) = channel::<()>(1);
                n.spawn(move || {
                    rx.recv().unwrap();
                    back.send(()).unwrap();
                });
                yield_now();
                tx.send(())?;
                let mut tries = 0;
                while heard.try_recv().is_err() && tries < 100_000 {
                    tries += 1;
                }
                Ok(tries)
            })
        });
        (tries.unwrap().unwrap(), runtime.trace().hash())
    };
    for seed in 0..20 {
        for one_in in [0, 8] {
            let (tries, hash) = run(seed, one_in);
            assert!(tries < 1000, "seed {seed}: no other task had a turn in {tries} tries");
            assert_eq!(run(seed, one_in), (tries, hash), "seed {seed}");
        }
    }
}

#[test]
fn a_spawn_runs_no_task_that_may_want_a_lock_that_is_held() {
    let held = std::sync::Mutex::new(0);
    one_worker()
        .nursery(|n| {
            let greedy = || {
                yield_now(); // both have begun
                for _ in 0..20 {
                    let mut held = held.lock().unwrap(); // blocks the worker, if its other fiber has stopped with it
                    *held += 1;
                    let spawned = nursery(|inner| {
                        (0..1_000).for_each(|_| drop(inner.spawn(|| ())));
                        drop(held);
                        Ok(())
                    });
                    spawned.unwrap();
                    yield_now();
                }
            };
            n.spawn(greedy);
            n.spawn(greedy).join()
        })
        .unwrap();
    assert_eq!(held.into_inner().unwrap(), 40);
}

#[test]
fn a_loop_of_only_spawns_ends_when_its_time_is_over() {
    let (mut spawned, limit) = (0_u64, 50_000_000);
    let outcome = one_worker().run(|| {
        nursery_with(NurseryOptions::new().timeout(Duration::from_millis(20)), |n| {
            while spawned < limit {
                drop(n.spawn(|| ()));
                spawned += 1;
            }
            Ok(())
        })
    });
    assert!(outcome.unwrap().is_err() && spawned < limit, "{spawned}");
}

#[test]
fn a_loop_of_runs_ends_when_its_time_is_over() {
    let outcome: Result<(), _> = nursery_with(NurseryOptions::new().timeout(Duration::from_millis(20)), |n| {
        n.spawn(|| {
            loop {
                let _ = sched_tasks::run(|| ());
            }
        })
        .join()
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::DeadlineExceeded { .. } | Reason::Cancelled));
}
