//! Very many groups: what a worker pays for its next choice does not grow with them, and none of their tasks is lost.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use sched_tasks::{Context, NurseryOptions, OwnedNursery, Runtime, TaskError, nursery, nursery_with, sleep, yield_now};

const MS: Duration = Duration::from_millis(1);

/// The CPU time of this thread so far. In a seeded runtime it plays all workers.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`, which is ours.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(code, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What so many turns of a task cost while there are so many groups of which a half waits for time, with tasks that have started and tasks that have not.
fn cost_of_turns(groups: usize) -> Duration {
    let runtime = Runtime::builder().workers(2).preempt_one_in(0).seeded(1).build().unwrap();
    let mut cost = Duration::MAX;
    let run = || -> Result<(), TaskError> {
        nursery_with(NurseryOptions::new().weight(1), |n| {
            n.try_spawn(|| {
                let mut all = Vec::new();
                for group in 0..groups {
                    let little = Context::budget(Duration::from_nanos(100)).period(Duration::from_secs(1_000_000));
                    let options = NurseryOptions::new();
                    let options = if group % 2 == 0 { options.context(little) } else { options.weight(2) };
                    let owned = OwnedNursery::with(options)?;
                    if group % 2 == 0 {
                        owned.spawn(|| {
                            loop {
                                yield_now();
                            }
                        })?;
                    }
                    all.push(owned);
                }
                sleep(100 * MS);
                all.iter().step_by(2).try_for_each(|owned| owned.spawn(|| ()))?;
                sleep(100 * MS);
                for _ in 0..3 {
                    let begun = thread_time();
                    (0..2_000).for_each(|_| yield_now());
                    cost = cost.min(thread_time() - begun);
                }
                Ok(())
            })
            .join()
        })
    };
    runtime.run(run).unwrap().unwrap();
    cost
}

#[test]
fn a_choice_costs_the_same_with_twenty_groups_and_with_two_thousand() {
    let [few, many] = [20, 2_000].map(cost_of_turns);
    assert!(many < few * 4, "2,000 turns cost {few:?} with 20 groups and {many:?} with 2,000");
}

#[test]
fn contexts_that_run_out_and_are_refilled_all_the_time_lose_no_task() {
    for workers in [1, 2, 3] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let ended = &AtomicUsize::new(0);
        let run = || -> Result<(), TaskError> {
            nursery(|n| {
                for context in 0..8_u32 {
                    n.try_spawn(move || {
                        let little = Context::budget(50 * Duration::from_micros(1)).period(MS);
                        let options = if context % 2 == 0 {
                            NurseryOptions::new().context(little)
                        } else {
                            NurseryOptions::new().weight(1)
                        };
                        nursery_with(options, |n| {
                            for task in 0..40 {
                                // A limit inside a limit, or inside a group; tasks that yield, wait, and begin late.
                                n.try_spawn(move || {
                                    let inner = if task % 3 == 0 {
                                        NurseryOptions::new().context(little)
                                    } else {
                                        NurseryOptions::new()
                                    };
                                    nursery_with(inner, |n| {
                                        n.spawn(|| {
                                            (0..20).for_each(|_| yield_now());
                                            ended.fetch_add(1, Relaxed);
                                        });
                                        n.spawn_async(async {
                                            futures_lite::future::yield_now().await;
                                            ended.fetch_add(1, Relaxed);
                                        });
                                        Ok(())
                                    })
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
        assert_eq!((ended.load(Relaxed), runtime.shares()), (8 * 40 * 2, vec![]));
    }
}

/// Waits without a checkpoint: it keeps its worker. False if it takes too long.
fn spin_until(holds: impl Fn() -> bool) -> bool {
    let late = Instant::now() + Duration::from_secs(20);
    while !holds() && Instant::now() < late {
        std::hint::spin_loop();
    }
    holds()
}

#[test]
fn what_waits_for_time_on_a_busy_worker_is_taken_by_one_that_sleeps_when_there_is_time() {
    let runtime = &Runtime::builder().workers(2).build().unwrap();
    let steal = |steals: bool| (0..2).for_each(|worker| _ = runtime.set_stealing(worker, steals));
    let is_throttled = || runtime.shares().iter().any(|share| share.is_throttled);
    let [begun, free] = &[const { AtomicU64::new(0) }; 2];
    let run = || -> Result<(), TaskError> {
        nursery_with(NurseryOptions::new().weight(1), |other| {
            nursery_with(NurseryOptions::new().context(Context::budget(MS).period(1000 * MS)), |limited| {
                // All of it stays on this worker: one uses up the time, the others have to wait for more. The time of the thread: what other programs have meanwhile is not charged.
                let busy = || {
                    let before = thread_time();
                    spin_until(|| thread_time() > before + 2 * MS)
                };
                limited.spawn(busy).join()?;
                (0..5).for_each(|_| drop(limited.spawn(|| begun.fetch_add(1, Relaxed))));
                let waited = Instant::now();
                while !is_throttled() {
                    assert!(waited.elapsed() < 30_000 * MS, "the time is used up: {:?}", runtime.shares());
                    yield_now();
                }
                steal(true);
                // A thief comes by again and again, and finds that the group inside has no time.
                for taken in 1..4 {
                    other.spawn(|| free.fetch_add(1, Relaxed));
                    assert!(spin_until(|| free.load(Relaxed) == taken), "that of the group around may be taken");
                }
                assert_eq!(begun.load(Relaxed), 0, "there is no time");
                assert!(spin_until(|| begun.load(Relaxed) == 5), "no other worker was told that there is time");
                Ok(())
            })
        })
    };
    steal(false);
    runtime.run(|| nursery(|n| n.try_spawn(run).join())).unwrap().unwrap();
}
