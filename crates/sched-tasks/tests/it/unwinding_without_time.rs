//! What is cancelled unwinds although its context has no time left: a cancellation does not wait for a refill.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use sched_tasks::{
    Context, NurseryOptions, Reason, Runtime, TaskError, channel, checkpoint, now, nursery, nursery_with, shield,
    sleep, yield_now,
};
use test_support::until;

const MS: Duration = Duration::from_millis(1);
/// A refill that no test waits for.
const LONG: Duration = Duration::from_secs(1000);

/// So little that it is used up at once, and comes back after a long time.
fn little(name: &str) -> NurseryOptions {
    NurseryOptions::new().name(name).context(Context::budget(Duration::from_micros(200)).period(LONG))
}

fn is_throttled(runtime: &Runtime, name: &str) -> bool {
    runtime.shares().iter().any(|share| share.name.as_deref() == Some(name) && share.is_throttled)
}

/// Counts itself out when it is dropped.
struct Inside<'a>(&'a AtomicUsize);

impl<'a> Inside<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_cancelled_nursery_without_time_ends_at_once_whatever_its_tasks_do() {
    for workers in [1, 2] {
        let runtime = &Runtime::builder().workers(workers).build().unwrap();
        for _ in 0..10 {
            let inside = &AtomicUsize::new(0);
            let begun = Instant::now();
            let outcome: Result<(), TaskError> = runtime.nursery_with(little("little"), |n| {
                for task in 0..60 {
                    match task % 5 {
                        0 => drop(n.spawn(move || {
                            let _inside = Inside::new(inside);
                            loop {
                                checkpoint();
                            }
                        })),
                        1 => drop(n.spawn(move || {
                            let _inside = Inside::new(inside);
                            sleep(LONG);
                        })),
                        2 => drop(n.spawn_async(async move {
                            let _inside = Inside::new(inside);
                            loop {
                                futures_lite::future::yield_now().await;
                            }
                        })),
                        3 => drop(n.spawn_async(async move {
                            let _inside = Inside::new(inside);
                            sched_tasks::sleep_async(LONG).await;
                        })),
                        _ => drop(n.spawn(move || {
                            let _inside = Inside::new(inside);
                            let outcome: Result<(), TaskError> = nursery(|n| {
                                n.spawn(move || {
                                    let _inside = Inside::new(inside);
                                    loop {
                                        yield_now();
                                    }
                                });
                                Ok(())
                            });
                            outcome.unwrap_err();
                        })),
                    }
                }
                until(LONG / 20, "nothing is left", || is_throttled(runtime, "little"));
                // Some that never begin.
                (0..20).for_each(|_| drop(n.spawn(|| unreachable!("there is no time to begin"))));
                n.cancel();
                Ok(())
            });
            assert!(matches!(outcome.unwrap_err().reason(), Reason::Cancelled));
            assert_eq!(inside.load(Relaxed), 0, "all of them unwound");
            assert!(begun.elapsed() < LONG / 10, "it did not wait for the refill");
            assert_eq!(runtime.shares(), []);
        }
    }
}

#[test]
fn a_deadline_ends_a_nursery_without_time_in_virtual_time_too() {
    for seed in 0..50 {
        let runtime = Runtime::builder().workers(2).seeded(seed).build().unwrap();
        let took = runtime.run(|| {
            let begun = now();
            let outcome: Result<(), TaskError> = nursery_with(little("little").timeout(5 * MS), |n| {
                for _ in 0..6 {
                    n.spawn(|| {
                        loop {
                            yield_now();
                        }
                    });
                }
                Ok(())
            });
            assert!(matches!(outcome.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
            now() - begun
        });
        let took = took.unwrap();
        assert!(took < 6 * MS, "seed {seed}: it took {took:?}");
    }
}

#[test]
fn only_what_is_cancelled_runs_without_time() {
    let runtime = Runtime::builder().workers(1).seeded(3).build().unwrap();
    let turns = &AtomicU64::new(0);
    let (mut before, mut after) = (0, 0);
    let run = || -> Result<(), TaskError> {
        nursery(|around| {
            nursery_with(little("little"), |n| {
                // This one is not cancelled, and shares its group with the nursery that is.
                n.spawn(|| {
                    loop {
                        turns.fetch_add(1, Relaxed);
                        yield_now();
                    }
                });
                let (tell, told) = channel(1);
                n.try_spawn(move || {
                    nursery(|inner| {
                        tell.send(inner.canceller())?;
                        for _ in 0..3 {
                            inner.spawn(|| {
                                loop {
                                    yield_now();
                                }
                            });
                        }
                        Ok(())
                    })
                });
                let inner = told.recv()?;
                sleep(10 * MS);
                before = turns.load(Relaxed);
                inner.cancel();
                sleep(10 * MS);
                after = turns.load(Relaxed);
                let unstarted = around.spawn(|| ());
                unstarted.join()?;
                n.cancel();
                Ok(())
            })
        })
    };
    runtime.run(run).unwrap().unwrap_err();
    assert!(before > 0, "it had some time");
    assert_eq!(after, before, "it had none while the others unwound");
}

#[test]
fn what_destructors_compute_is_charged_and_a_shield_is_no_side_door() {
    let runtime = Runtime::builder().workers(1).preempt_one_in(0).seeded(5).build().unwrap();
    struct Busy;
    impl Drop for Busy {
        fn drop(&mut self) {
            (0..1_000).for_each(|_| yield_now()); // a microsecond each
        }
    }
    let (mut busy, mut shares, shielded) = (0, Vec::new(), &AtomicU64::new(0));
    let run = || -> Result<(), TaskError> {
        nursery_with(little("little"), |n| {
            n.spawn(|| {
                let _busy = Busy;
                loop {
                    yield_now();
                }
            });
            n.spawn(|| {
                shield(|| {
                    while shielded.load(Relaxed) < 1_000_000 {
                        shielded.fetch_add(1, Relaxed);
                        yield_now();
                    }
                });
            });
            sleep(10 * MS);
            let turns = shielded.load(Relaxed);
            n.cancel();
            shield(|| sleep(10 * MS));
            busy = shielded.load(Relaxed) - turns;
            shares = runtime.shares();
            shielded.store(1_000_000, Relaxed);
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap_err();
    let share = shares.iter().find(|share| share.name.as_deref() == Some("little")).unwrap();
    assert!(share.cpu_time >= MS, "a thousand turns of the destructor: {share:?}");
    assert_eq!(busy, 0, "what a shield keeps a cancellation from waits for time as anything else");
}

#[test]
fn unwinding_uses_a_bounded_amount_in_advance() {
    let runtime = &Runtime::builder().workers(1).build().unwrap();
    struct Endless<'a>(&'a AtomicBool);
    impl Drop for Endless<'_> {
        fn drop(&mut self) {
            while !self.0.load(Relaxed) {
                let begun = Instant::now();
                while begun.elapsed() < MS {
                    std::hint::spin_loop();
                }
                yield_now();
            }
        }
    }
    let is_over = &AtomicBool::new(false);
    let cpu_time = || {
        let shares = runtime.shares();
        shares.iter().find(|share| share.depth == 1).map_or(Duration::ZERO, |share| share.cpu_time)
    };
    let context = Context::budget(10 * MS).period(200 * MS);
    let options = NurseryOptions::new().name("little").context(context);
    let outcome: Result<(), TaskError> = runtime.nursery_with(options, |n| {
        for _ in 0..2 {
            n.spawn(|| {
                let _endless = Endless(is_over);
                loop {
                    yield_now();
                }
            });
        }
        until(LONG / 20, "nothing is left", || is_throttled(runtime, "little"));
        n.cancel();
        until(LONG / 20, "it uses what it may", || cpu_time() >= 100 * MS);
        std::thread::sleep(300 * MS); // that it stops there is announced by no event
        let used = cpu_time();
        is_over.store(true, Relaxed);
        assert!(used < 200 * MS, "it used {used:?} that it did not have");
        Ok(())
    });
    outcome.unwrap_err(); // ten periods later it has paid that back, and goes on
}

#[test]
fn time_that_was_promised_is_there_again_when_its_group_has_ended() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    for round in 0..10 {
        // More than half: two at a time would not be admitted.
        let context = Context::budget(60 * MS).period(100 * MS);
        let outcome = runtime.nursery_with(NurseryOptions::new().name("half").context(context), |n| {
            n.spawn(|| (0..10).for_each(|_| yield_now())).join()
        });
        outcome.unwrap_or_else(|refused| panic!("round {round}: {refused}"));
    }
}
