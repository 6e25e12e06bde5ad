//! Tasks that one worker spawned and that take turns: they are spread over the workers before they are pinned.

use sched_tasks::{Runtime, nursery, yield_now};

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
