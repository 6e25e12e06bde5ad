//! Workers share the work, count it, sleep when there is none, and leave nothing behind.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use sched_tasks::{Nursery, Priority, Runtime, VictimStrategy, channel, nursery, sleep, yield_now};
use test_support::{alone, proc_count, resident_bytes};

use crate::{
    liveness::futures_yield,
    support::{cpu_share_at_rest, spin_until, until},
};

#[test]
fn one_two_and_256_workers_do_the_same_job() {
    for workers in [1, 2, 256] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        assert_eq!(runtime.workers(), workers);
        let sum = AtomicU64::new(0);
        let outcome = runtime.run(|| {
            nursery(|n| {
                for number in 0..1000 {
                    let sum = &sum;
                    n.spawn(move || {
                        if number % 3 == 0 {
                            yield_now();
                        }
                        sum.fetch_add(number, SeqCst)
                    });
                }
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
        assert_eq!(sum.load(SeqCst), 499_500, "{workers} workers");
    }
}

/// Each task spawns the next one, which is newer than any other of its worker.
fn chain<'scope>(n: &'scope Nursery<'scope, '_>, is_over: &'scope AtomicBool) {
    if !is_over.load(SeqCst) {
        n.spawn(move || chain(n, is_over));
    }
}

#[test]
fn newer_tasks_keep_neither_an_older_one_waiting_nor_one_behind_a_task_that_computes() {
    let is_over = AtomicBool::new(false);
    for is_behind_another in [false, true] {
        let runtime = Runtime::builder().workers(1 + usize::from(is_behind_another)).build().unwrap();
        is_over.store(false, SeqCst);
        let outcome = runtime.run(|| {
            nursery(|n| {
                let is_over = &is_over;
                let end_it = || drop(n.spawn(|| is_over.store(true, SeqCst)));
                if is_behind_another {
                    n.spawn(move || chain(n, is_over)); // the first to be stolen
                    end_it();
                    spin_until(|| is_over.load(SeqCst)); // this worker computes
                } else {
                    end_it();
                    n.spawn(move || chain(n, is_over));
                }
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
    }
}

#[test]
fn by_default_there_is_a_worker_for_each_cpu() {
    let cpus = thread::available_parallelism().unwrap().get();
    assert_eq!(Runtime::new().unwrap().workers(), cpus);
}

#[test]
fn every_strategy_moves_work_and_a_worker_that_may_not_steal_takes_none() {
    for strategy in [VictimStrategy::Random, VictimStrategy::RoundRobin, VictimStrategy::LeastLoaded] {
        let runtime = Runtime::builder().workers(3).victims(strategy).without_stealing(1).build().unwrap();
        for _ in 0..20 {
            let ran = AtomicU64::new(0);
            let outcome = runtime.run(|| {
                nursery(|n| {
                    for _ in 0..50 {
                        n.spawn(|| ran.fetch_add(1, SeqCst));
                    }
                    // The owner does nothing: other workers must take them all.
                    spin_until(|| ran.load(SeqCst) == 50);
                    Ok(())
                })
            });
            outcome.unwrap().unwrap();
        }
        let stats = runtime.stats();
        assert_eq!(stats.workers[1].stolen, 0, "{strategy:?}: {stats:?}");
        assert!(stats.total().stolen >= 1000, "{strategy:?}: {stats:?}");
        assert!(runtime.set_stealing(1, true) && !runtime.set_stealing(3, true));
    }
}

#[test]
fn the_statistics_add_up() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let outcome = runtime.run(|| {
        nursery(|n| {
            (0..999).for_each(|_| drop(n.spawn(|| ())));
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    let stats = runtime.stats();
    assert_eq!(stats.total().executed, 1000, "{stats:?}");
    assert!(stats.workers.iter().all(|worker| worker.stolen <= worker.executed), "{stats:?}");
    assert_eq!((stats.total().overflows, stats.total().restarts), (0, 0));
    spin_until(|| runtime.stats().workers.iter().all(|worker| worker.parks == worker.wakes + 1)); // all asleep
}

#[test]
fn an_idle_runtime_uses_no_cpu() {
    if alone("workers::an_idle_runtime_uses_no_cpu") {
        let runtime = Runtime::builder().workers(8).build().unwrap();
        let (wake, woken) = channel::<()>(0);
        thread::scope(|threads| {
            threads.spawn(|| {
                runtime.run(|| {
                    nursery(|n| {
                        (0..10).for_each(|_| drop(n.spawn(|| woken.recv())));
                        n.spawn(|| sleep(Duration::from_secs(3600)));
                        woken.recv().unwrap_err();
                        n.dismiss();
                        Ok(())
                    })
                })
            });
            let share = cpu_share_at_rest();
            assert!(share < 0.01, "an idle runtime uses {:.2} % of a CPU", share * 100.0);
            drop(wake);
        });
    }
}

#[test]
fn high_priority_starts_first_and_low_priority_last() {
    let order = Mutex::new(Vec::new());
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outcome = runtime.run(|| {
        nursery(|n| {
            for (name, priority) in [
                ("low", Priority::Low),
                ("normal", Priority::Normal),
                ("high", Priority::High),
                ("low", Priority::Low),
                ("normal", Priority::Normal),
                ("high", Priority::High),
            ] {
                let order = &order;
                n.task().name(name).priority(priority).spawn(move || order.lock().unwrap().push(name));
            }
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    assert_eq!(order.into_inner().unwrap(), ["high", "high", "normal", "normal", "low", "low"]);
}

#[test]
fn a_yielding_task_never_runs_again_before_its_ready_peers() {
    let (turns, ready) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let runtime = Runtime::builder().workers(1).build().unwrap();
    const ROUNDS: usize = 200;
    let outcome = runtime.run(|| {
        nursery(|n| {
            for number in 0..6 {
                let (turns, ready) = (&turns, &ready);
                if number % 2 == 0 {
                    n.spawn(move || {
                        ready.fetch_add(1, SeqCst);
                        until(|| ready.load(SeqCst) == 6);
                        for _ in 0..ROUNDS {
                            turns.lock().unwrap().push(number);
                            yield_now();
                        }
                    });
                } else {
                    n.spawn_async(async move {
                        ready.fetch_add(1, SeqCst);
                        while ready.load(SeqCst) < 6 {
                            futures_yield().await;
                        }
                        for _ in 0..ROUNDS {
                            turns.lock().unwrap().push(number);
                            futures_yield().await;
                        }
                    });
                }
            }
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    let turns = turns.into_inner().unwrap();
    assert_eq!(turns.len(), 6 * ROUNDS);
    // All six have begun, and none has ended: each comes once before any comes twice.
    for (at, window) in turns[6..6 * (ROUNDS - 2)].windows(6).enumerate() {
        let different: HashSet<_> = window.iter().collect();
        assert_eq!(different.len(), 6, "at turn {}: {window:?}", at + 6);
    }
}

#[test]
fn an_unstarted_task_runs_before_a_task_that_yielded_after_it_was_spawned() {
    let order = Mutex::new(Vec::new());
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outcome = runtime.run(|| {
        nursery(|n| {
            for name in ["a", "b", "c"] {
                let order = &order;
                n.spawn(move || order.lock().unwrap().push(name));
            }
            yield_now();
            order.lock().unwrap().push("the yielder");
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    let order = order.into_inner().unwrap();
    assert_eq!(order.last(), Some(&"the yielder"), "{order:?}");
}

#[test]
fn a_burst_of_blocked_fibers_gives_its_stacks_and_memory_back() {
    if alone("workers::a_burst_of_blocked_fibers_gives_its_stacks_and_memory_back") {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        for _ in 0..2 {
            let (wake, woken) = channel::<()>(0);
            let blocked = AtomicU64::new(0);
            let outcome = runtime.run(|| {
                nursery(|n| {
                    for _ in 0..30_000 {
                        n.spawn(|| {
                            blocked.fetch_add(1, SeqCst);
                            woken.recv()
                        });
                    }
                    until(|| blocked.load(SeqCst) == 30_000);
                    drop(wake);
                    Ok(())
                })
            });
            outcome.unwrap().unwrap();
            spin_until(|| runtime.stacks().in_use <= 2 * 256);
        }
        let stacks = runtime.stacks();
        assert!(stacks.free_cold > 10_000, "warm stacks are bounded: {stacks:?}");
        assert!(resident_bytes() < 160 << 20, "{} bytes resident", resident_bytes());
    }
}

#[test]
fn two_hundred_runtimes_leave_nothing_behind() {
    if alone("workers::two_hundred_runtimes_leave_nothing_behind") {
        let round = |number: u64| {
            let runtime = Runtime::builder().workers(1 + number as usize % 4).build().unwrap();
            if number.is_multiple_of(3) {
                return; // dropped at once
            }
            let outcome = runtime.run(|| {
                nursery(|n| {
                    (0..20).for_each(|_| drop(n.spawn(|| sleep(Duration::from_micros(1)))));
                    n.spawn_async(futures_yield());
                    Ok(())
                })
            });
            outcome.unwrap().unwrap();
        };
        (0..40).for_each(round); // until whatever is kept for reuse is there
        spin_until(|| proc_count("task") <= 2); // the process and this test
        let before = [proc_count("task"), proc_count("fd"), proc_count("maps")];
        let resident = resident_bytes();
        (0..200).for_each(round);
        spin_until(|| proc_count("task") <= before[0]); // a joined thread may be listed a moment longer
        let after = [proc_count("task"), proc_count("fd"), proc_count("maps")];
        assert_eq!(before[1], after[1], "files");
        assert!(after[2] <= before[2] + 8, "mappings: {} and then {}", before[2], after[2]);
        let grown = resident_bytes().saturating_sub(resident);
        assert!(grown < 8 << 20, "{grown} bytes more after 200 runtimes");
    }
}

#[test]
fn a_runtime_dropped_with_its_last_task_just_ended_joins_its_threads() {
    for round in 0..100 {
        let runtime = Runtime::builder().workers(2).name(format!("drop{round}")).build().unwrap();
        let told = &AtomicU64::new(0);
        let outcome = runtime.nursery(|n| {
            (0..8).for_each(|_| drop(n.spawn(|| told.fetch_add(1, SeqCst))));
            Ok(())
        });
        outcome.unwrap();
        drop(runtime);
        assert_eq!(told.load(SeqCst), 8);
        // A joined thread may be listed a moment longer.
        spin_until(|| {
            let mut tasks = std::fs::read_dir("/proc/self/task").unwrap();
            !tasks.any(|task| {
                let name = task.ok().and_then(|task| std::fs::read_to_string(task.path().join("comm")).ok());
                name.is_some_and(|name| name.starts_with(&format!("drop{round}-")))
            })
        });
    }
}
