//! A task that runs out of stack fails alone, wherever it was.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use sched_tasks::{
    NurseryOptions, OnFailure, Reason, RunError, Runtime, TaskError, join, nursery, nursery_with, run, sleep, yield_now,
};

use crate::support::{Dice, for_seeds, spin_until, until, watch};

#[allow(unconditional_recursion)]
fn forever(n: u64) -> u64 {
    black_box(forever(black_box(n + 1)) + 1)
}

fn is_overflow(error: &TaskError) -> bool {
    matches!(error.reason(), Reason::StackOverflow { .. })
}

#[test]
fn an_overflow_names_the_task_the_bytes_and_the_way_out() {
    let runtime = Runtime::builder().workers(1).stack_bytes(32 << 10).build().unwrap();
    let error = runtime.nursery(|n| n.task().name("deep").spawn(|| forever(0)).join()).unwrap_err();
    assert!(matches!(error.reason(), Reason::StackOverflow { stack_bytes: 32768 }), "{error}");
    let text = error.to_string();
    for part in ["`deep`", "32768 bytes", ".stack_bytes(65536)", "overflow.rs"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn fifty_overflows_in_one_runtime_do_no_harm() {
    let _watchdog = watch("fifty_overflows_in_one_runtime_do_no_harm");
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let lost_before = runtime.stacks().quarantined; // by a runtime that had this memory before
    for round in 0..50 {
        let error = runtime.run(|| forever(0)).unwrap_err();
        assert!(matches!(&error, RunError::Task(error) if is_overflow(error)), "{error}");
        assert_eq!(runtime.run(|| round).unwrap(), round);
    }
    assert_eq!(runtime.stats().total().overflows, 50);
    assert_eq!(runtime.stacks().quarantined - lost_before, 50);
}

#[test]
fn overflows_that_use_up_all_stacks_are_errors_and_never_a_hang() {
    let _watchdog = watch("overflows_that_use_up_all_stacks_are_errors_and_never_a_hang");
    let runtime = Runtime::builder().workers(2).max_fibers(3).build().unwrap();
    let mut refused = 0;
    for _ in 0..60 {
        match runtime.run(|| forever(0)).unwrap_err() {
            RunError::Task(error) if is_overflow(&error) => {}
            RunError::Task(error) => {
                assert!(matches!(error.reason(), Reason::OutOfStacks { .. }), "{error}");
                refused += 1;
            }
            error => panic!("{error}"),
        }
    }
    assert!(refused > 0, "there are fewer stacks than overflows");
}

#[test]
fn an_overflow_waits_for_the_children_that_borrow_from_its_stack() {
    let _watchdog = watch("an_overflow_waits_for_the_children_that_borrow_from_its_stack");
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (seen, cancelled) = (AtomicU64::new(0), AtomicU64::new(0));
    for _ in 0..20 {
        let error = runtime
            .run(|| {
                let local = [7_u64; 64]; // on the stack that is lost
                nursery(|n| {
                    let started = AtomicBool::new(false);
                    let started = &*Box::leak(Box::new(started));
                    n.spawn(|| {
                        struct Count<'a>(&'a AtomicU64, &'a AtomicU64, &'a [u64; 64]);
                        impl Drop for Count<'_> {
                            fn drop(&mut self) {
                                self.0.fetch_add(self.2.iter().sum(), SeqCst);
                                self.1.fetch_add(1, SeqCst);
                            }
                        }
                        let _count = Count(&seen, &cancelled, &local);
                        started.store(true, SeqCst);
                        sleep(Duration::from_secs(3600));
                    });
                    until(|| started.load(SeqCst));
                    Ok(forever(0))
                })
            })
            .unwrap_err();
        assert!(matches!(&error, RunError::Task(error) if is_overflow(error)), "{error}");
    }
    assert_eq!((seen.load(SeqCst), cancelled.load(SeqCst)), (20 * 7 * 64, 20));
}

#[test]
fn an_overflow_in_either_half_of_a_join_is_the_tasks_failure() {
    let _watchdog = watch("an_overflow_in_either_half_of_a_join_is_the_tasks_failure");
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..40 {
        let (stolen, ran) = (AtomicBool::new(false), AtomicU64::new(0));
        let count = || ran.fetch_add(1, SeqCst);
        let outcome = match round % 4 {
            0 => runtime.run(|| join(|| forever(0), count)), // the second half is in the deque, unstarted
            1 => runtime.run(|| join(count, || forever(0))), // run inline
            2 => runtime.run(|| {
                join(
                    || {
                        spin_until(|| stolen.load(SeqCst));
                        count()
                    },
                    || {
                        stolen.store(true, SeqCst);
                        forever(0)
                    },
                )
            }),
            _ => runtime.run(|| {
                join(
                    || {
                        spin_until(|| stolen.load(SeqCst));
                        forever(0)
                    },
                    || {
                        stolen.store(true, SeqCst);
                        yield_now();
                        count()
                    },
                )
            }),
        };
        let error = outcome.unwrap_err();
        assert!(matches!(&error, RunError::Task(error) if is_overflow(error)), "round {round}: {error}");
        assert_eq!(ran.load(SeqCst), 1, "round {round}: the other half ran");
    }
}

#[test]
fn an_overflow_beside_a_destructor_that_waits_does_not_abort() {
    let _watchdog = watch("an_overflow_beside_a_destructor_that_waits_does_not_abort");
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    struct Waits<'a>(&'a AtomicBool, &'a AtomicBool);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
            until(|| self.1.load(SeqCst)); // unwinding, and stopped
        }
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            n.spawn(|| {
                let _waits = Waits(&ready, &over);
                panic!("on purpose");
            });
            until(|| ready.load(SeqCst));
            let overflowed = n.spawn(|| forever(0)).join();
            over.store(true, SeqCst);
            overflowed
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(is_overflow(&error) || error.others().iter().any(is_overflow), "{error}");
}

/// Recursion through everything a task may call: sooner or later the stack ends inside the runtime itself.
#[test]
fn an_overflow_inside_the_runtime_loses_nothing_but_its_task() {
    for_seeds("an_overflow_inside_the_runtime_loses_nothing_but_its_task", 0..12, |seed| {
        let dice = Dice::new(seed);
        let runtime = Runtime::builder().workers(2).stack_bytes(32 << 10).build().unwrap();
        let others = AtomicU64::new(0);
        for _ in 0..10 {
            let kind = dice.roll(6);
            let pad = dice.roll(64);
            let outcome = runtime.run(|| {
                nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
                    n.spawn(|| shift(pad, &|| descend(kind, 0)));
                    for _ in 0..20 {
                        n.spawn(|| {
                            yield_now();
                            others.fetch_add(1, SeqCst);
                        });
                    }
                    Ok(())
                })
            });
            let error = outcome.unwrap().unwrap_err();
            assert!(is_overflow(&error), "seed {seed}, kind {kind}, pad {pad}: {error}");
        }
        assert_eq!(others.load(SeqCst), 200);
    });
}

/// Moves the end of the stack to another instruction.
fn shift(pad: u64, f: &dyn Fn()) {
    if pad > 0 {
        black_box([pad as u8; 40]);
        shift(black_box(pad - 1), f);
    } else {
        f();
    }
    black_box(pad);
}

#[allow(unconditional_recursion)]
fn descend(kind: u64, depth: u64) {
    match kind {
        0 => yield_now(),
        1 => drop(nursery(|n| {
            n.spawn(|| ());
            Ok(())
        })),
        2 => {
            join(|| black_box(depth), || black_box(depth));
        }
        3 => drop(nursery(|n| n.spawn(yield_now).join())),
        4 => sleep(Duration::from_nanos(1)),
        _ => drop(join(|| descend(kind, depth + 1), || black_box(depth))),
    }
    descend(kind, black_box(depth + 1));
    black_box(depth);
}

#[test]
fn the_common_runtime_survives_an_overflow() {
    assert!(run(|| forever(0)).is_err());
    assert_eq!(run(|| 1).unwrap(), 1);
}
