//! Everything at once, many times, from seeds.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use sched_tasks::{
    Canceller, Nursery, NurseryOptions, OnFailure, Reason, Runtime, TaskError, channel, checkpoint, join, nursery,
    nursery_with, sleep, yield_now,
};
use test_support::{Dice, alone, for_seeds, resident_bytes};

use crate::{liveness::futures_yield, support::until};

/// Counts what begins and what ends; nothing may be left over.
#[derive(Default)]
struct Ledger {
    made: AtomicU64,
    dropped: AtomicU64,
    ran: AtomicU64,
}

struct Entry<'a>(&'a Ledger);

impl Ledger {
    fn entry(&self) -> Entry<'_> {
        self.made.fetch_add(1, SeqCst);
        Entry(self)
    }

    fn balance(&self, seed: u64) {
        assert_eq!(self.made.load(SeqCst), self.dropped.load(SeqCst), "seed {seed}: captures made and dropped");
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

fn spawns_with_random_cancels(seed: u64, spawns: u64) {
    let (dice, ledger) = (Dice::new(seed), Ledger::default());
    let runtime = Runtime::builder().workers(2).seed(seed).build().unwrap();
    let mut left = spawns;
    while left > 0 {
        let here = 1 + dice.below(500).min(left - 1);
        left -= here;
        let cancel_at = (dice.below(2) == 0).then(|| dice.below(here));
        let before = ledger.ran.load(SeqCst);
        let outcome = runtime.run(|| {
            nursery(|n| {
                for number in 0..here {
                    let (entry, dice, ledger) = (ledger.entry(), &dice, &ledger);
                    let body = move || {
                        let _entry = entry;
                        if dice.below(4) == 0 {
                            yield_now();
                        }
                        ledger.ran.fetch_add(1, SeqCst);
                    };
                    match dice.below(3) {
                        0 => drop(n.spawn_async(async move { body() })),
                        _ => drop(n.spawn(body)),
                    }
                    if cancel_at == Some(number) {
                        n.cancel();
                    }
                }
                Ok(())
            })
        });
        let ran = ledger.ran.load(SeqCst) - before;
        match outcome.unwrap() {
            Ok(()) => assert_eq!((cancel_at, ran), (None, here), "seed {seed}: all of an uncancelled nursery ran"),
            Err(error) => assert!(error.is_cancelled() && cancel_at.is_some() && ran <= here, "seed {seed}: {error}"),
        }
    }
    ledger.balance(seed);
}

#[test]
fn many_spawns_with_random_cancels_lose_nothing() {
    for_seeds("many_spawns_with_random_cancels_lose_nothing", 0..4, |seed| spawns_with_random_cancels(seed, 25_000));
}

/// `cargo test --release -p sched-tasks --test it -- --ignored a_hundred_thousand_spawns`
#[test]
#[ignore = "the long lane"]
fn a_hundred_thousand_spawns_with_random_cancels_lose_nothing_whatever_the_seed() {
    for_seeds("a_hundred_thousand_spawns_with_random_cancels_lose_nothing_whatever_the_seed", 100..140, |seed| {
        spawns_with_random_cancels(seed, 100_000)
    });
}

/// A tree of nurseries in which some task fails, panics, cancels or blocks. Returns whether this one must have failed.
fn tree(depth: u64, dice: &Dice, ledger: &Ledger) -> Result<(), TaskError> {
    let _entry = ledger.entry();
    if depth == 0 {
        return match dice.below(40) {
            0 => Err(TaskError::msg("a leaf failed")),
            1 => std::panic::resume_unwind(Box::new("a leaf panicked")), // no hook: it would print
            2 => {
                yield_now();
                checkpoint();
                Ok(())
            }
            3 => {
                sleep(Duration::from_micros(dice.below(300)));
                Ok(())
            }
            _ => Ok(()),
        };
    }
    let options = match dice.below(4) {
        0 => NurseryOptions::new().on_failure(OnFailure::WaitAll),
        1 => NurseryOptions::new().timeout(Duration::from_millis(dice.below(50))),
        2 => NurseryOptions::new().grace(Duration::from_micros(dice.below(500))),
        _ => NurseryOptions::new(),
    };
    nursery_with(options, |n| {
        for _ in 0..=dice.below(2) {
            n.try_spawn(move || tree(depth - 1, dice, ledger));
        }
        match dice.below(12) {
            0 => n.cancel(),
            1 => n.close(),
            2 => {
                let (a, b) = join(|| tree(0, dice, ledger), || tree(0, dice, ledger));
                a.and(b)?;
            }
            3 => return n.spawn_async(futures_yield()).join(),
            _ => {}
        }
        Ok(())
    })
}

#[test]
fn trees_of_depth_ten_with_random_failures_end_and_lose_nothing() {
    for_seeds("trees_of_depth_ten_with_random_failures_end_and_lose_nothing", 0..30, |seed| {
        let (dice, ledger) = (Dice::new(seed), Ledger::default());
        let runtime = Runtime::builder().workers(1 + seed as usize % 4).seed(seed).build().unwrap();
        for _ in 0..3 {
            let _ = runtime.run(|| tree(10, &dice, &ledger)); // a panic of the body goes through
        }
        ledger.balance(seed);
        assert_eq!(runtime.run(|| 1).unwrap(), 1, "seed {seed}: the runtime still works");
        assert_eq!(runtime.stats().total().restarts, 0, "seed {seed}: no worker failed");
    });
}

#[test]
fn a_storm_of_cancels_meets_spawns_and_closes() {
    for_seeds("a_storm_of_cancels_meets_spawns_and_closes", 0..3, |seed| {
        let (dice, ledger) = (Dice::new(seed), Ledger::default());
        let runtime = Runtime::builder().workers(2).seed(seed).build().unwrap();
        let (cancellers, over) = (Mutex::new(Vec::<Canceller>::new()), AtomicBool::new(false));
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    while !over.load(SeqCst) {
                        let some = {
                            let mut all = cancellers.lock().unwrap();
                            let at = all.len() - dice.below(all.len() as u64 + 1) as usize;
                            all.split_off(at)
                        };
                        some.iter().for_each(Canceller::cancel);
                        thread::yield_now();
                    }
                });
            }
            let outcome = runtime.run(|| {
                nursery(|outer| {
                    for _ in 0..1500 {
                        let (dice, ledger, cancellers) = (&dice, &ledger, &cancellers);
                        outer.spawn(move || {
                            let _ = nursery(|n| {
                                cancellers.lock().unwrap().push(n.canceller());
                                for _ in 0..dice.below(6) {
                                    let entry = ledger.entry();
                                    n.spawn(move || {
                                        let _entry = entry;
                                        if dice.below(3) == 0 {
                                            drop(n.spawn(checkpoint));
                                        }
                                        yield_now();
                                    });
                                }
                                if dice.below(4) == 0 {
                                    n.close();
                                }
                                Ok(())
                            });
                        });
                        if dice.below(64) == 0 {
                            yield_now();
                        }
                    }
                    Ok(())
                })
            });
            over.store(true, SeqCst);
            outcome.unwrap().unwrap();
        });
        ledger.balance(seed);
    });
}

#[test]
fn spawns_race_with_close() {
    for_seeds("spawns_race_with_close", 0..3, |seed| {
        let dice = Dice::new(seed);
        let runtime = Runtime::builder().workers(2).seed(seed).build().unwrap();
        for _ in 0..300 {
            let (admitted, ran) = (AtomicU64::new(0), AtomicU64::new(0));
            let outcome = runtime.nursery(|n| {
                fn grow<'s>(n: &'s Nursery<'s, '_>, admitted: &'s AtomicU64, ran: &'s AtomicU64) {
                    ran.fetch_add(1, SeqCst);
                    let refused = n.spawn(move || grow(n, admitted, ran));
                    if refused.is_done() && refused.join().is_err() {
                        return; // closed
                    }
                    admitted.fetch_add(1, SeqCst);
                }
                admitted.fetch_add(1, SeqCst);
                n.spawn(|| grow(n, &admitted, &ran));
                (0..dice.below(200)).for_each(|_| std::hint::spin_loop());
                n.close();
                Ok(())
            });
            let error = outcome.unwrap_err(); // a spawn came too late, always
            assert!(matches!(error.reason(), Reason::NurseryNotActive { .. }), "seed {seed}: {error}");
        }
    });
}

#[test]
fn joins_race_with_the_end_and_with_cancellation() {
    for_seeds("joins_race_with_the_end_and_with_cancellation", 0..4, |seed| {
        let (dice, ledger) = (Dice::new(seed), Ledger::default());
        let runtime = Runtime::builder().workers(2).seed(seed).build().unwrap();
        for _ in 0..400 {
            let cancelled = dice.below(2) == 0;
            let pause = dice.below(300);
            let outcome = runtime.run(|| {
                nursery(|n| {
                    let task = n.spawn(|| {
                        (0..pause).for_each(|_| std::hint::spin_loop());
                        ledger.entry()
                    });
                    let joiner = n.spawn(move || task.join().map(drop));
                    if cancelled {
                        n.spawn(|| n.cancel());
                    }
                    joiner.join()?
                })
            });
            match outcome.unwrap() {
                Ok(()) => {}
                Err(error) => assert!(cancelled && error.is_cancelled(), "seed {seed}: {error}"),
            }
        }
        ledger.balance(seed);
    });
}

#[test]
fn a_mix_of_everything_runs_what_the_model_says_on_256_workers() {
    for_seeds("a_mix_of_everything_runs_what_the_model_says_on_256_workers", 0..2, |seed| {
        let dice = Dice::new(seed);
        let runtime = Runtime::builder().workers(256).seed(seed).build().unwrap();
        // The model: every task adds what it is worth, and the tasks that fail are known before they run.
        let (sum, mut worth, mut failures) = (AtomicU64::new(0), 0, 0);
        let plan: Vec<(u64, u64)> = (0..2000).map(|_| (dice.below(8), dice.below(1000))).collect();
        for (kind, value) in &plan {
            match kind {
                6 => failures += 1,
                7 => worth += 2 * value,
                _ => worth += value,
            }
        }
        let (send, receive) = channel(16);
        let outcome = runtime.run(|| {
            nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
                n.spawn(|| {
                    receive.iter().for_each(|value: u64| _ = sum.fetch_add(value, SeqCst));
                });
                for (kind, value) in plan {
                    let (sum, send) = (&sum, send.clone());
                    let add = move |value| _ = sum.fetch_add(value, SeqCst);
                    match kind {
                        0 => drop(n.spawn(move || add(value))),
                        1 => drop(n.spawn_async(async move {
                            futures_yield().await;
                            add(value);
                        })),
                        2 => drop(n.spawn(move || {
                            sleep(Duration::from_micros(value));
                            add(value);
                        })),
                        3 => drop(n.spawn(move || {
                            yield_now();
                            add(value);
                        })),
                        4 => drop(n.spawn(move || send.send(value).unwrap())),
                        5 => drop(n.spawn(move || nursery(|m| m.spawn(|| add(value)).join()).unwrap())),
                        6 => drop(n.spawn(move || std::panic::resume_unwind(Box::new("planned")))),
                        _ => drop(n.spawn(move || join(|| add(value), || add(value)))),
                    }
                }
                drop(send);
                Ok(())
            })
        });
        let failed = outcome.unwrap().map_or_else(|error| 1 + error.others().len(), |()| 0);
        assert_eq!(sum.load(SeqCst), worth, "seed {seed}");
        assert_eq!(failed, failures.min(65), "seed {seed}: the first and 64 others are kept");
    });
}

#[test]
fn ten_thousand_cancelled_nurseries_give_their_memory_back() {
    if alone("stress::ten_thousand_cancelled_nurseries_give_their_memory_back") {
        for_seeds("ten_thousand_cancelled_nurseries_give_their_memory_back", 0..1, |_| {
            let runtime = Runtime::builder().workers(2).build().unwrap();
            let round = |nurseries: u64| {
                for _ in 0..nurseries {
                    let blocked = AtomicU64::new(0);
                    let outcome = runtime.run(|| {
                        nursery(|n| {
                            for _ in 0..4 {
                                n.spawn(|| {
                                    blocked.fetch_add(1, SeqCst);
                                    sleep(Duration::from_secs(3600));
                                });
                            }
                            until(|| blocked.load(SeqCst) == 4);
                            n.cancel();
                            Ok(())
                        })
                    });
                    assert!(outcome.unwrap().unwrap_err().is_cancelled());
                }
            };
            round(500);
            let before = resident_bytes();
            round(10_000);
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < 4 << 20, "{grown} bytes more after 10,000 nurseries");
            assert!(runtime.stacks().in_use < 64, "{:?}", runtime.stacks());
        });
    }
}

#[test]
fn a_runtime_may_be_dropped_at_any_moment_after_run() {
    for_seeds("a_runtime_may_be_dropped_at_any_moment_after_run", 0..4, |seed| {
        let dice = Dice::new(seed);
        for _ in 0..40 {
            let runtime = Runtime::builder().workers(1 + dice.below(6) as usize).build().unwrap();
            let ledger = Ledger::default();
            for _ in 0..dice.below(3) {
                let _ = runtime.run(|| tree(3, &dice, &ledger));
            }
            let pause = dice.below(2000);
            (0..pause).for_each(|_| std::hint::spin_loop());
            drop(runtime);
            ledger.balance(seed);
        }
    });
}
