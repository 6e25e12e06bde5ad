//! Tasks that one worker spawned and that take turns: they are spread over the workers before they are pinned.

use std::{
    collections::HashSet,
    hint,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use sched_tasks::{NurseryOptions, Runtime, nursery, nursery_with, yield_now};

const TASKS: u64 = 100;

/// How many tasks each of two workers began, if `spawn_all` spawns 100.
fn begun(seed: u64, spawn_all: impl Fn() + Send + Sync) -> [u64; 2] {
    let runtime = Runtime::builder().workers(2).seeded(seed).build().unwrap();
    runtime.run(&spawn_all).unwrap();
    let stats = runtime.stats();
    [stats.workers[0].executed, stats.workers[1].executed]
}

#[test]
fn fibers_that_one_worker_spawned_are_spread_before_they_are_pinned() {
    for seed in 0..20 {
        let [first, second] = begun(seed, || {
            let spawn_all = nursery(|n| {
                for _ in 0..TASKS {
                    n.spawn(|| (0..50).for_each(|_| yield_now()));
                }
                Ok(())
            });
            spawn_all.unwrap();
        });
        assert_eq!(first + second, TASKS + 1, "each task begins once, and so does the root");
        assert!(first.min(second) > TASKS / 4, "seed {seed}: {first} and {second} tasks began on the two workers");
    }
}

#[test]
fn futures_that_one_worker_spawned_are_taken_by_the_other_before_they_are_polled_again() {
    for seed in 0..20 {
        let runtime = Runtime::builder().workers(2).seeded(seed).build().unwrap();
        let spawn_all = || {
            nursery(|n| {
                for _ in 0..TASKS {
                    n.spawn_async(async {
                        for _ in 0..50 {
                            futures_lite::future::yield_now().await;
                        }
                    });
                }
                Ok(())
            })
        };
        runtime.run(spawn_all).unwrap().unwrap();
        let stolen = runtime.stats().total().stolen;
        assert!(stolen > TASKS / 4, "seed {seed}: {stolen} of {TASKS} futures were taken from their worker");
    }
}

/// On which threads ten tasks of a group run, if the other worker is busy elsewhere when they begin, and for two milliseconds more.
fn threads_of_a_group_that_began_beside_a_busy_worker() -> HashSet<ThreadId> {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let [is_away, comes_back] = &[const { AtomicBool::new(false) }; 2];
    let threads = Mutex::new(HashSet::new());
    let run = || {
        nursery(|n| {
            n.spawn(|| {
                is_away.store(true, Relaxed);
                while !comes_back.load(Relaxed) {
                    hint::spin_loop();
                }
            });
            while !is_away.load(Relaxed) {
                hint::spin_loop(); // so that the other worker takes it
            }
            let begun = Instant::now();
            nursery_with(NurseryOptions::new().weight(1), |n| {
                for _ in 0..10 {
                    n.spawn(|| {
                        while begun.elapsed() < Duration::from_millis(15) {
                            threads.lock().unwrap().insert(thread::current().id());
                            if begun.elapsed() > Duration::from_millis(2) {
                                comes_back.store(true, Relaxed);
                            }
                            yield_now();
                        }
                        comes_back.store(true, Relaxed); // also if it begins when the time is up
                    });
                }
                Ok(())
            })
        })
    };
    runtime.run(run).unwrap().unwrap();
    threads.into_inner().unwrap()
}

#[test]
fn a_worker_that_was_busy_when_a_group_began_gets_some_of_it_all_the_same() {
    // On a busy machine a worker may be away for longer than anything is kept for it.
    let is_spread = (0..20).any(|_| threads_of_a_group_that_began_beside_a_busy_worker().len() == 2);
    assert!(is_spread, "all fibers of the group were pinned to one worker, every time");
}

/// Most turns over least of twenty futures, if the other worker has one of them and is away with it for two milliseconds, while the others begin.
fn most_over_least_of_futures_that_began_beside_a_busy_worker(options: &NurseryOptions) -> f64 {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let [is_away, comes_back] = &[const { AtomicBool::new(false) }; 2];
    let turns = &[const { AtomicU32::new(0) }; 20];
    let begun = Instant::now();
    let take_turns = async |turns: &AtomicU32| {
        while begun.elapsed() < Duration::from_millis(25) {
            let turn = Instant::now();
            while turn.elapsed() < Duration::from_micros(20) {
                hint::spin_loop();
            }
            comes_back.fetch_or(begun.elapsed() > Duration::from_millis(2), Relaxed);
            turns.fetch_add(u32::from(begun.elapsed() > Duration::from_millis(5)), Relaxed);
            futures_lite::future::yield_now().await;
        }
        comes_back.store(true, Relaxed);
    };
    let take_turns = &take_turns;
    let run = || {
        nursery_with(options.clone(), |n| {
            n.spawn_async(async {
                is_away.store(true, Relaxed);
                while !comes_back.load(Relaxed) {
                    hint::spin_loop();
                }
                take_turns(&turns[0]).await;
            });
            while !is_away.load(Relaxed) {
                hint::spin_loop(); // so that the other worker takes it
            }
            for turns in &turns[1..] {
                n.spawn_async(take_turns(turns));
            }
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap();
    let turns = || turns.iter().map(|turns| f64::from(turns.load(Relaxed)));
    turns().fold(0.0, f64::max) / turns().fold(f64::INFINITY, f64::min).max(1.0)
}

#[test]
fn futures_that_one_worker_polls_are_taken_by_one_that_has_less_to_run() {
    for options in [NurseryOptions::new(), NurseryOptions::new().weight(1)] {
        let rounds = (0..20).map(|_| most_over_least_of_futures_that_began_beside_a_busy_worker(&options));
        let best = rounds.fold(f64::INFINITY, f64::min); // others may need the machine, too
        assert!(
            best < 3.0,
            "the future with most turns had {best:.1} times as many as the one with least, {options:?}"
        );
    }
}
