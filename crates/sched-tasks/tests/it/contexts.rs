//! Scheduling contexts: so much CPU time in each period, and no more.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use sched_tasks::{
    Context, NurseryOptions, Overrun, Reason, Runtime, checkpoint, now, nursery, nursery_with, sleep, yield_now,
};

const MS: Duration = Duration::from_millis(1);

fn with(name: &str, context: Context) -> NurseryOptions {
    NurseryOptions::new().name(name).context(context)
}

/// How often a task of a nursery with `options` yields in so much virtual time: about once in a microsecond, if nothing limits it.
fn turns_in(runtime: &Runtime, options: NurseryOptions, time: Duration) -> u64 {
    let turns = AtomicU64::new(0);
    let turns_of = &turns;
    let run = || {
        nursery_with(options.clone(), |n| {
            n.spawn(move || {
                let begun = now();
                while now() - begun < time {
                    turns_of.fetch_add(1, Relaxed);
                    yield_now();
                }
            })
            .join()
        })
    };
    runtime.run(run).unwrap().unwrap();
    turns.into_inner()
}

#[test]
fn a_context_has_its_budget_in_every_period_and_no_more() {
    let runtime = Runtime::builder().workers(1).preempt_one_in(0).seeded(1).build().unwrap();
    let all = turns_in(&runtime, NurseryOptions::new().weight(1), 200 * MS);
    let limited = turns_in(&runtime, with("limited", Context::budget(2 * MS).period(10 * MS)), 200 * MS);
    let part = limited as f64 / all as f64;
    assert!((part - 0.2).abs() < 0.02, "{limited} of {all} turns: {part:.3}");
}

#[test]
fn a_context_that_is_demoted_goes_on_with_its_weight_when_nothing_is_left() {
    let runtime = Runtime::builder().workers(1).preempt_one_in(0).seeded(1).build().unwrap();
    let all = turns_in(&runtime, NurseryOptions::new().weight(1), 100 * MS);
    let context = Context::budget(2 * MS).period(10 * MS).on_overrun(Overrun::Demote);
    let demoted = turns_in(&runtime, with("demoted", context), 100 * MS);
    assert!(demoted * 10 > all * 9, "alone it has everything: {demoted} of {all}");
}

#[test]
fn a_context_that_is_demoted_has_its_time_again_in_every_period_and_counts_how_often_it_had_none_left() {
    let runtime = Runtime::builder().workers(1).preempt_one_in(0).seeded(1).build().unwrap();
    let context = Context::budget(2 * MS).period(10 * MS).on_overrun(Overrun::Demote);
    let run = || {
        nursery_with(with("demoted", context), |n| {
            n.spawn(|| {
                let begun = now();
                while now() - begun < 100 * MS {
                    yield_now();
                }
                runtime.shares()
            })
            .join()
        })
    };
    let shares = runtime.run(run).unwrap().unwrap();
    let depletions = shares.iter().map(|share| share.depletions).max().unwrap_or(0);
    assert!((8..=11).contains(&depletions), "once in each of ten periods: {shares:?}");
}

#[test]
fn a_context_that_may_not_overrun_cancels_its_nursery() {
    let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
    let context = Context::budget(MS).period(100 * MS).on_overrun(Overrun::Cancel);
    let run = || {
        nursery_with(with("strict", context), |n| {
            n.spawn(|| {
                loop {
                    checkpoint();
                    yield_now();
                }
            });
            Ok(())
        })
    };
    let error = runtime.run(run).unwrap().unwrap_err();
    assert!(matches!(error.reason(), Reason::CpuTimeSpent { budget, .. } if *budget == MS), "{error}");
    assert!(error.to_string().contains("1ms of CPU time in every 100ms"), "{error}");
}

#[test]
fn a_context_that_is_over_ends_tasks_that_wait_have_not_started_and_compute() {
    let context = Context::budget(Duration::from_micros(200)).period(100 * MS).on_overrun(Overrun::Cancel);
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        for _ in 0..20 {
            let run = || {
                nursery_with(with("strict", context), |n| {
                    for task in 0..30 {
                        n.spawn(move || match task % 3 {
                            0 => sleep(Duration::from_secs(3600)),
                            1 => loop {
                                checkpoint();
                            },
                            _ => loop {
                                yield_now();
                            },
                        });
                    }
                    Ok(())
                })
            };
            let error = runtime.run(run).unwrap().unwrap_err();
            assert!(matches!(error.reason(), Reason::CpuTimeSpent { .. }), "{error}");
        }
    }
}

#[test]
fn groups_may_be_deep_and_a_limit_that_would_be_too_deep_is_refused() {
    fn deeper(depth: u32) -> Result<(), sched_tasks::TaskError> {
        if depth == 0 {
            let context = Context::budget(MS).period(10 * MS);
            return nursery_with(with("deepest", context), |n| n.spawn(|| ()).join());
        }
        nursery_with(NurseryOptions::new().weight(2), |n| n.spawn(move || deeper(depth - 1)).join()?)
    }
    let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
    runtime.run(|| deeper(6)).unwrap().unwrap();
    let refused = runtime.run(|| deeper(20)).unwrap().unwrap_err();
    assert!(refused.to_string().contains("7 levels deep"), "{refused}");
}

#[test]
fn reserved_time_comes_before_groups_and_tasks_without_a_context() {
    let runtime = Runtime::builder().workers(1).preempt_one_in(0).seeded(3).build().unwrap();
    let is_over = &AtomicBool::new(false);
    let (mut latest, mut woken) = (Duration::ZERO, 0);
    let run = || {
        nursery(|n| {
            for _ in 0..20 {
                n.spawn(|| {
                    while !is_over.load(Relaxed) {
                        yield_now();
                    }
                });
            }
            let context = Context::budget(MS).period(5 * MS);
            nursery_with(with("control", context), |inside| {
                let waits = inside.spawn(|| {
                    let mut waits = Vec::new();
                    for _ in 0..40 {
                        let due = now() + 5 * MS;
                        sleep(5 * MS);
                        waits.push(now() - due);
                    }
                    waits
                });
                let waits = waits.join()?;
                woken = waits.len();
                latest = waits.into_iter().max().unwrap_or_default();
                Ok(())
            })?;
            is_over.store(true, Relaxed);
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap();
    assert_eq!(woken, 40);
    // A step of a task takes a microsecond there: with 20 others before it, it would come 20 later.
    assert!(latest <= Duration::from_micros(5), "it came {latest:?} after it was woken");
}

#[test]
fn time_that_the_workers_do_not_have_is_not_promised_and_is_there_again_after_the_nursery() {
    let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
    let half = || with("half", Context::budget(60 * MS).period(100 * MS));
    let too_much = with("greedy", Context::budget(99 * MS).period(100 * MS));
    let refused = runtime.run(|| nursery_with(too_much, |_| Ok(()))).unwrap().unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("greedy") && text.contains("99 ms in every 100 ms") && text.contains("95 ms left"), "{text}");
    for _ in 0..10 {
        runtime.run(|| nursery_with(half(), |_| Ok(()))).unwrap().unwrap();
    }
}

#[test]
fn a_context_that_cannot_be_is_refused_with_the_rule() {
    let runtime = Runtime::builder().workers(1).seeded(1).build().unwrap();
    for context in [
        Context::budget(Duration::ZERO),
        Context::budget(2 * MS).period(MS),
        Context::budget(2 * MS).period(10 * MS).deadline(MS),
        Context::budget(2 * MS).period(10 * MS).deadline(20 * MS),
        Context::budget(Duration::MAX),
    ] {
        let refused = runtime.run(|| nursery_with(with("bad", context), |_| Ok(()))).unwrap().unwrap_err();
        assert!(refused.to_string().contains("0 < budget <= deadline <= period"), "{refused}");
    }
}

#[test]
fn a_context_inside_a_group_is_a_limit_and_reserves_nothing() {
    let runtime = Runtime::builder().workers(1).preempt_one_in(0).seeded(5).build().unwrap();
    let [tenant, other, all] = &[const { AtomicU64::new(0) }; 3];
    let work = |turns: &AtomicU64| {
        while all.fetch_add(1, Relaxed) < 100_000 {
            turns.fetch_add(1, Relaxed);
            yield_now();
        }
    };
    let work = &work;
    let run = || {
        nursery(|n| {
            n.try_spawn(|| nursery_with(NurseryOptions::new().weight(1), |n| n.spawn(|| work(other)).join()));
            n.try_spawn(|| {
                nursery_with(NurseryOptions::new().weight(1), |_| {
                    let greedy = Context::budget(90 * MS).period(100 * MS);
                    nursery_with(with("greedy", greedy), |n| n.spawn(|| work(tenant)).join())
                })
            });
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap();
    let part = tenant.load(Relaxed) as f64 / 100_000.0;
    assert!((part - 0.5).abs() < 0.05, "its group has half, and it had {part:.3}");
}

#[test]
fn workers_sleep_while_all_that_is_ready_waits_for_time() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let turns = &AtomicU64::new(0);
    let (mut shares, mut parks) = (Vec::new(), 0);
    let run = || {
        let context = Context::budget(Duration::from_micros(500)).period(50 * MS);
        nursery_with(with("little", context), |n| {
            n.timeout(400 * MS);
            for _ in 0..4 {
                n.spawn(|| {
                    loop {
                        turns.fetch_add(1, Relaxed);
                        checkpoint();
                        yield_now();
                    }
                });
            }
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| runtime.run(run).unwrap());
        std::thread::sleep(200 * MS);
        shares = runtime.shares();
        parks = runtime.stats().total().parks;
        ran.join().unwrap().unwrap_err();
    });
    assert!(turns.load(Relaxed) > 0);
    let share = shares.iter().find(|share| share.name.as_deref() == Some("little")).unwrap();
    assert!(share.depletions >= 1 && share.cpu_time < 50 * MS, "{share:?}");
    assert!(parks < 1000, "workers went to sleep {parks} times, as if they had been told again and again");
}
