//! Groups of tasks share the workers by their weights, whatever each of them does.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sched_tasks::{
    NurseryOptions, OwnedNursery, Priority, Runtime, TaskError, channel, checkpoint, explore, join, nursery,
    nursery_with, sleep, yield_now,
};

fn weight(name: &str, weight: u32) -> NurseryOptions {
    NurseryOptions::new().name(name).weight(weight)
}

/// Runs groups of tasks that yield until all of them together had so many turns; how many each had.
fn turns<const N: usize>(runtime: &Runtime, groups: [(u32, usize); N], total: u64) -> [u64; N] {
    let turns: [AtomicU64; N] = std::array::from_fn(|_| AtomicU64::new(0));
    let all = AtomicU64::new(0);
    let (turns_of, all) = (&turns, &all);
    let run = || {
        nursery(|n| {
            for (group, (times, tasks)) in groups.into_iter().enumerate() {
                n.spawn(move || {
                    nursery_with(weight("group", times), |n| {
                        for _ in 0..tasks {
                            n.spawn(move || {
                                while all.fetch_add(1, Relaxed) < total {
                                    turns_of[group].fetch_add(1, Relaxed);
                                    yield_now();
                                }
                            });
                        }
                        Ok(())
                    })
                });
            }
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap();
    turns.map(AtomicU64::into_inner)
}

#[track_caller]
fn assert_shares(turns: &[u64], shares: &[f64], off_by: f64) {
    let total: u64 = turns.iter().sum();
    for (turns, share) in turns.iter().zip(shares) {
        let part = *turns as f64 / total as f64;
        assert!((part - share).abs() < off_by, "{part:.3} instead of {share:.3}, of {total}");
    }
}

#[test]
fn groups_share_the_workers_by_weight() {
    for workers in [1, 2, 3] {
        let runtime = Runtime::builder().workers(workers).seeded(7).build().unwrap();
        let turns = turns(&runtime, [(1, 30), (2, 30), (4, 30)], 200_000);
        assert_shares(&turns, &[1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0], 0.03);
    }
}

#[test]
fn a_group_of_many_tasks_has_no_more_than_a_group_of_one() {
    let runtime = Runtime::builder().workers(1).seeded(3).build().unwrap();
    let turns = turns(&runtime, [(1, 1000), (1, 1)], 200_000);
    assert_shares(&turns, &[0.5, 0.5], 0.02);
}

#[test]
fn the_same_seed_gives_the_same_run_with_groups_too() {
    let runtime = Runtime::builder().workers(3).seeded(11).build().unwrap();
    let run = || {
        let turns = turns(&runtime, [(1, 5), (3, 5), (2, 1)], 5_000);
        (turns, runtime.trace().hash())
    };
    let first = run();
    runtime.reseed(12);
    let _another = run();
    runtime.reseed(11);
    assert_eq!(run(), first);
}

/// What the work of `spin` is worth: so long a turn takes.
fn spin() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(20) {
        std::hint::spin_loop();
    }
}

#[test]
fn shares_hold_on_a_real_worker() {
    // One, so that it does not depend on the system where fibers start: with two, `compare shares` measures it.
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let is_over = &AtomicBool::new(false);
    let busy = |name: &'static str, times: u32, tasks: usize| {
        move || {
            nursery_with(weight(name, times), |n| {
                for _ in 0..tasks {
                    n.spawn(move || {
                        while !is_over.load(Relaxed) {
                            spin();
                            yield_now();
                        }
                    });
                }
                Ok(())
            })
        }
    };
    let mut shares = Vec::new();
    let observed = runtime.run(|| {
        nursery(|n| {
            n.spawn(busy("one", 1, 20));
            n.spawn(busy("two", 2, 20));
            n.spawn(busy("four", 4, 20));
            sleep(Duration::from_millis(500));
            shares = runtime.shares();
            is_over.store(true, Relaxed);
            Ok(())
        })
    });
    observed.unwrap().unwrap();
    let time = |name: &str| {
        let share = shares.iter().find(|share| share.name.as_deref() == Some(name));
        share.expect("it runs").cpu_time.as_nanos() as u64
    };
    let times = [time("one"), time("two"), time("four")];
    assert_shares(&times, &[1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0], 0.08);
    assert_eq!(runtime.shares(), [], "groups end with their nurseries");
}

#[test]
fn a_task_gets_no_more_by_opening_groups_inside_its_own() {
    let runtime = Runtime::builder().workers(1).seeded(5).build().unwrap();
    let [honest, greedy, all] = &[const { AtomicU64::new(0) }; 3];
    let work = |turns: &AtomicU64| {
        while all.fetch_add(1, Relaxed) < 100_000 {
            turns.fetch_add(1, Relaxed);
            yield_now();
        }
    };
    let work = &work;
    let run = || {
        nursery(|n| {
            n.spawn(|| nursery_with(weight("honest", 1), |n| n.spawn(|| work(honest)).join()));
            n.spawn(|| {
                nursery_with(weight("greedy", 1), |n| {
                    for _ in 0..5 {
                        n.try_spawn(|| nursery_with(weight("inside", 1000), |n| n.spawn(|| work(greedy)).join()));
                    }
                    Ok(())
                })
            });
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap();
    assert_shares(&[honest.load(Relaxed), greedy.load(Relaxed)], &[0.5, 0.5], 0.03);
}

#[test]
fn the_time_of_a_group_has_that_of_groups_inside_it_also_of_those_that_ended() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let shares = runtime.run(|| {
        nursery_with(weight("outer", 1), |n| {
            n.spawn(|| {
                for name in ["first", "second"] {
                    nursery_with(weight(name, 1), |n| n.spawn(|| (0..50).for_each(|_| turn())).join())?;
                }
                yield_now(); // what ran is charged when something else is chosen
                Ok::<_, TaskError>(runtime.shares())
            })
            .join()?
        })
    });
    let shares = shares.unwrap().unwrap();
    let outer = shares.iter().find(|share| share.name.as_deref() == Some("outer")).expect("it is open");
    assert!(outer.cpu_time >= Duration::from_millis(10), "a hundred turns of 200 µs were inside: {shares:?}");
}

/// Keeps the worker for 200 µs, and lets others run.
fn turn() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
    yield_now();
}

#[test]
fn a_nursery_that_a_value_owns_is_in_the_group_of_the_task_that_made_it() {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::builder().workers(2).build().unwrap());
    let depth = &*Box::leak(Box::new(AtomicU64::new(0)));
    let run = || {
        nursery_with(weight("around", 1), |_| {
            let owned = OwnedNursery::new()?;
            owned.spawn(|| {
                let deeper = nursery_with(weight("deeper", 1), |_| {
                    let shares = runtime.shares();
                    let share = shares.iter().find(|share| share.name.as_deref() == Some("deeper"));
                    depth.store(u64::from(share.expect("it is open").depth), Relaxed);
                    Ok(())
                });
                deeper.unwrap();
            })?;
            owned.wait()
        })
    };
    runtime.run(run).unwrap().unwrap();
    assert_eq!(depth.load(Relaxed), 2, "else it would have left its group");
}

#[test]
fn groups_that_are_pinned_to_one_worker_share_that_one() {
    // Stealing is forbidden: all that the first worker spawns stays there. The second worker idles.
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.set_stealing(1, false);
    let is_over = &AtomicBool::new(false);
    let mut had = Vec::new();
    runtime.set_stealing(0, true);
    let times = || runtime.shares().iter().skip(1).map(|share| share.cpu_time).collect::<Vec<_>>();
    let run = || {
        nursery(|n| {
            for name in ["a", "b"] {
                n.spawn(move || {
                    nursery_with(weight(name, 1), |n| {
                        n.spawn(|| {
                            while !is_over.load(Relaxed) {
                                spin();
                                yield_now();
                            }
                        })
                        .join()
                    })
                });
            }
            // From when both have begun, until both together have had so much: on a busy machine that takes longer.
            let mut begun = Vec::new();
            while had.iter().sum::<Duration>() < Duration::from_millis(800) {
                sleep(Duration::from_millis(5));
                let now = times();
                if begun.is_empty() && now.len() == 2 && now.iter().all(|time| !time.is_zero()) {
                    begun = now.clone();
                }
                had = begun.iter().zip(now).map(|(begun, now)| now - *begun).collect();
            }
            is_over.store(true, Relaxed);
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap();
    let [least, most] = [had.iter().min().unwrap(), had.iter().max().unwrap()];
    assert!(*least * 10 > *most * 8, "each has half of its worker at least: {had:?}");
}

#[test]
fn whatever_tasks_do_works_in_a_group_as_outside() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let run = || -> Result<u64, TaskError> {
        nursery_with(weight("all", 3), |n| {
            let (sender, receiver) = channel::<u64>(4);
            let sum = n.spawn(move || receiver.iter().sum::<u64>());
            for _ in 0..8 {
                let sender = sender.clone();
                n.spawn(move || (0..100).for_each(|value| sender.send(value).unwrap()));
                n.task().priority(Priority::High).spawn(yield_now);
                n.task().priority(Priority::Low).spawn(|| sleep(Duration::from_millis(1)));
            }
            drop(sender);
            let futures: Vec<_> = (0..50)
                .map(|value| {
                    n.spawn_async(async move {
                        futures_lite::future::yield_now().await;
                        sched_tasks::sleep_async(Duration::from_micros(100)).await;
                        value
                    })
                })
                .collect();
            let mut total = 0;
            for future in futures {
                total += future.join()?;
            }
            fn count(depth: u32) -> u64 {
                if depth == 0 { 1 } else { join(|| count(depth - 1), || count(depth - 1)).into_sum() }
            }
            trait IntoSum {
                fn into_sum(self) -> u64;
            }
            impl IntoSum for (u64, u64) {
                fn into_sum(self) -> u64 {
                    self.0 + self.1
                }
            }
            total += n.spawn(|| count(10)).join()?;
            total += nursery_with(weight("inside", 2), |n| n.spawn(|| count(4)).join())?;
            Ok(total + sum.join()?)
        })
    };
    for _ in 0..20 {
        let total = runtime.run(run).unwrap().unwrap();
        assert_eq!(total, 50 * 49 / 2 + 1024 + 16 + 8 * 4950);
    }
}

#[test]
fn a_group_can_be_cancelled_while_its_tasks_wait_run_and_have_not_started() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..50 {
        let run = || {
            nursery_with(weight("doomed", 2).timeout(Duration::from_millis(2)), |n| {
                for task in 0..200 {
                    n.spawn(move || {
                        if task % 2 == 0 {
                            loop {
                                checkpoint();
                            }
                        }
                        sleep(Duration::from_secs(60));
                    });
                }
                Ok(())
            })
        };
        runtime.run(run).unwrap().unwrap_err();
        assert_eq!(runtime.shares(), []);
    }
}

#[test]
fn groups_come_and_go_on_many_threads_and_lose_no_task() {
    let runtime = &Runtime::builder().workers(2).build().unwrap();
    let ended = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..100 {
                    let options = weight("short", 1 + (thread + round) % 5);
                    let run = runtime.nursery_with(options, |n| {
                        for _ in 0..10 {
                            n.spawn(|| {
                                yield_now();
                                ended.fetch_add(1, Relaxed);
                            });
                            n.spawn_async(async {
                                futures_lite::future::yield_now().await;
                                ended.fetch_add(1, Relaxed);
                            });
                        }
                        Ok(())
                    });
                    run.unwrap();
                }
            });
        }
    });
    assert_eq!(ended.load(Relaxed), 4 * 100 * 20);
    assert_eq!(runtime.shares(), []);
}

#[test]
fn what_a_seed_finds_among_tasks_it_finds_among_groups() {
    let found = std::panic::catch_unwind(|| {
        explore(0..500, || {
            let value = sched_tasks::atomic::AtomicU64::new(0);
            let value = &value;
            let add = || {
                let seen = value.load(std::sync::atomic::Ordering::SeqCst);
                value.store(seen + 1, std::sync::atomic::Ordering::SeqCst);
            };
            let add = &add;
            let all = nursery(|n| {
                n.spawn(move || nursery_with(weight("a", 1), |n| n.spawn(add).join()));
                n.spawn(move || nursery_with(weight("b", 5), |n| n.spawn(add).join()));
                Ok(())
            });
            all.unwrap();
            assert_eq!(value.load(std::sync::atomic::Ordering::SeqCst), 2);
        });
    });
    assert!(found.is_err(), "a lost update is found");
}
