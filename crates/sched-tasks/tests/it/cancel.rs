//! Cancellation reaches everything once, at checkpoints, and says why.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{
    Nursery, NurseryOptions, NurseryState, OnFailure, Reason, Runtime, TaskError, channel, checkpoint, is_cancelled,
    nursery, nursery_with, run, shield, sleep, yield_now,
};
use test_support::{alone, output_alone, text};

use crate::support::{cpu_share_at_rest, spin_until, until};

const LONG: Duration = Duration::from_secs(3600);

/// Adds one when it is dropped.
struct Count<'a>(&'a AtomicU64);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_nursery_is_seen_in_all_its_states() {
    let seen = Mutex::new(Vec::new());
    let canceller = Mutex::new(None);
    let note = |n: &Nursery<'_, '_>| seen.lock().unwrap().push(n.state());
    nursery(|n| {
        *canceller.lock().unwrap() = Some(n.canceller());
        note(n);
        n.close();
        note(n);
        n.cancel();
        note(n);
        Ok(())
    })
    .unwrap_err();
    assert_eq!(seen.into_inner().unwrap(), [NurseryState::Open, NurseryState::Closing, NurseryState::Cancelling]);
    canceller.into_inner().unwrap().unwrap().cancel(); // after the end: nothing
}

#[test]
fn any_task_may_cancel() {
    for who in ["the body", "a child", "a thread"] {
        let (blocked, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|threads| {
            let outcome = nursery(|n| {
                for _ in 0..3 {
                    n.spawn(|| {
                        let _ended = Count(&ended);
                        blocked.fetch_add(1, SeqCst);
                        sleep(LONG);
                    });
                }
                until(|| blocked.load(SeqCst) == 3);
                let canceller = n.canceller();
                match who {
                    "the body" => n.cancel(),
                    "a child" => drop(n.spawn(|| n.cancel())),
                    _ => drop(threads.spawn(move || canceller.cancel())),
                }
                sleep(LONG); // the body is interrupted as well, on a plain thread
                Ok(())
            });
            assert!(outcome.unwrap_err().is_cancelled(), "{who}");
            assert_eq!(ended.load(SeqCst), 3, "{who}");
        });
    }
}

#[test]
fn failed_over_cancelled_over_success() {
    let failed = nursery(|n| {
        n.try_spawn(|| Err::<(), _>(TaskError::msg("broken"))).join().unwrap_err();
        n.cancel();
        Ok(())
    });
    assert!(failed.unwrap_err().to_string().contains("broken"));
    let cancelled: Result<i32, _> = nursery(|n| {
        n.cancel();
        Ok(1)
    });
    assert!(cancelled.unwrap_err().is_cancelled());
    let dismissed = nursery(|n| {
        n.spawn(|| sleep(LONG));
        n.dismiss();
        Ok(1)
    });
    assert_eq!(dismissed.unwrap(), 1);
}

#[test]
fn the_first_failure_wins_and_cancels_the_others() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let ended = AtomicU64::new(0);
    let outcome = runtime.run(|| {
        nursery(|n| {
            let blocked = n.spawn(|| {
                let _ended = Count(&ended);
                sleep(LONG);
            });
            yield_now();
            n.try_spawn(|| Err::<(), _>(TaskError::msg("the first")));
            blocked.join()
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(error.to_string().contains("the first") && error.others().is_empty(), "{error}");
    assert_eq!(ended.load(SeqCst), 1);
}

#[test]
fn a_deadline_ends_whatever_is_inside_and_names_the_time() {
    let time = Duration::from_millis(20);
    let bodies: [(&str, fn()); 3] = [
        ("blocked", || sleep(LONG)),
        ("computing", || {
            loop {
                checkpoint();
            }
        }),
        ("nested", || {
            let inner = nursery(|n| n.spawn(|| sleep(LONG)).join());
            assert!(inner.unwrap_err().is_cancelled());
        }),
    ];
    for (name, body) in bodies {
        for in_child in [false, true] {
            let begun = Instant::now();
            let outcome = run(|| {
                nursery_with(NurseryOptions::new().timeout(time), |n| {
                    if in_child {
                        n.spawn(body).join()
                    } else {
                        body();
                        Ok(())
                    }
                })
            });
            let error = outcome.unwrap().unwrap_err();
            assert!(matches!(error.reason(), Reason::DeadlineExceeded { after } if *after == time), "{name}: {error}");
            assert!(error.to_string().contains("20ms"), "{error}");
            assert!(begun.elapsed() >= time);
        }
    }
}

#[test]
fn grace_lets_tasks_finish_and_then_interrupts_them() {
    let (polite, ended, ready) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let outcome = run(|| {
        nursery_with(NurseryOptions::new().grace(Duration::from_millis(50)), |n| {
            n.spawn(|| {
                ready.fetch_add(1, SeqCst);
                until(is_cancelled);
                yield_now(); // not interrupted yet
                polite.store(true, SeqCst);
            });
            n.spawn(|| {
                let _ended = Count(&ended);
                ready.fetch_add(1, SeqCst);
                sleep(LONG);
            });
            until(|| ready.load(SeqCst) == 2);
            n.cancel();
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
    assert!(polite.load(SeqCst));
    assert_eq!(ended.load(SeqCst), 1);
}

#[test]
fn a_cancellation_waits_for_the_last_shield() {
    let outcome: Result<(), _> = run(|| {
        let reached = AtomicU64::new(0);
        let outcome = nursery(|n| {
            shield(|| {
                shield(|| {
                    n.cancel();
                    yield_now();
                    reached.fetch_add(1, SeqCst);
                });
                sleep(Duration::from_millis(1));
                let inside = nursery(|m| m.spawn(|| sleep(Duration::from_millis(1))).join());
                inside.unwrap(); // a nursery inside a shield is not cancelled from around
                reached.fetch_add(1, SeqCst);
            });
            checkpoint();
            unreachable!("the cancellation arrives when the shields are down");
        });
        assert_eq!(reached.load(SeqCst), 2);
        outcome
    })
    .unwrap();
    assert!(outcome.unwrap_err().is_cancelled());
}

#[test]
fn inside_a_shield_a_nursery_keeps_its_own_deadline() {
    let outcome = run(|| {
        shield(|| {
            nursery_with(NurseryOptions::new().timeout(Duration::from_millis(10)), |_| {
                sleep(LONG);
                Ok(())
            })
        })
    });
    assert!(matches!(outcome.unwrap().unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
}

/// A chain of nurseries, each in a task of the one before; the innermost blocks.
fn chain(depth: u64, innermost: &AtomicBool, ended: &AtomicU64) -> Result<(), TaskError> {
    let _ended = Count(ended);
    if depth == 0 {
        innermost.store(true, SeqCst);
        sleep(LONG);
    }
    nursery(|n| n.try_spawn(|| chain(depth - 1, innermost, ended)).join())
}

#[test]
fn a_cancellation_at_the_root_ends_nurseries_a_thousand_deep() {
    for depth in [10, 1000] {
        let (innermost, ended) = (AtomicBool::new(false), AtomicU64::new(0));
        let outcome = run(|| {
            nursery(|n| {
                n.spawn(|| chain(depth, &innermost, &ended));
                until(|| innermost.load(SeqCst));
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap().unwrap_err().is_cancelled());
        assert_eq!(ended.load(SeqCst), depth + 1);
    }
}

#[test]
fn inner_nurseries_end_before_outer_ones_and_children_may_spawn_siblings_after_the_body() {
    let order = Mutex::new(Vec::new());
    run(|| {
        nursery(|n| {
            n.spawn(|| {
                nursery(|m| {
                    m.spawn(yield_now);
                    Ok(())
                })
                .unwrap();
                order.lock().unwrap().push("inner");
                n.spawn(|| {
                    yield_now();
                    n.spawn(|| order.lock().unwrap().push("grandchild"));
                });
            });
            Ok(())
        })
        .unwrap();
        order.lock().unwrap().push("outer");
    })
    .unwrap();
    assert_eq!(order.into_inner().unwrap(), ["inner", "grandchild", "outer"]);
}

#[test]
fn a_body_that_panics_waits_for_its_children_and_panics_on() {
    let ended = AtomicU64::new(0);
    let started = AtomicBool::new(false);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        nursery(|n| -> Result<(), _> {
            n.spawn(|| {
                let _ended = Count(&ended);
                started.store(true, SeqCst);
                sleep(LONG);
            });
            spin_until(|| started.load(SeqCst));
            panic!("the body")
        })
    }));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"the body"));
    assert_eq!(ended.load(SeqCst), 1);
}

#[test]
fn results_are_dropped_once_in_every_combination() {
    for (workers, failing, how) in (0..36).map(|n| (1 + n % 2, n / 2 % 2 == 1, n / 4 % 9)) {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (made, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        let make = || {
            made.fetch_add(1, SeqCst);
            Count(&dropped)
        };
        let options = NurseryOptions::new().on_failure(OnFailure::WaitAll);
        let _ = runtime.run(|| {
            nursery_with(options, |n| {
                let captured = make();
                let work = move || {
                    let _captured = captured;
                    if how % 3 == 1 {
                        yield_now();
                    }
                    if failing { Err(TaskError::msg("broken")) } else { Ok(make()) }
                };
                let task = if how < 5 { n.try_spawn(work) } else { n.try_spawn_async(async move { work() }) };
                match how {
                    0 | 5 => drop(task),
                    1 | 6 => drop(task.join()),
                    2 | 7 => drop(n.spawn(move || task.join()).join()), // another task joins
                    3 | 8 => drop(n.spawn_async(task).join()),          // another task awaits
                    _ => {
                        until(|| task.is_done());
                        drop(task);
                    }
                }
                if how == 2 {
                    n.cancel();
                }
                Ok(())
            })
        });
        assert_eq!(made.load(SeqCst), dropped.load(SeqCst), "workers {workers}, failing {failing}, how {how}");
        assert!(made.load(SeqCst) >= 1);
    }
}

#[test]
fn cancellation_prints_nothing() {
    let Some(output) = output_alone("cancel::cancellation_prints_nothing") else {
        let started = AtomicU64::new(0);
        let outcome = nursery(|n| {
            for _ in 0..10 {
                n.spawn(|| {
                    started.fetch_add(1, SeqCst);
                    sleep(LONG);
                });
            }
            until(|| started.load(SeqCst) == 10);
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        return;
    };
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_plain_thread_that_waits_for_a_nursery_does_not_poll() {
    if alone("cancel::a_plain_thread_that_waits_for_a_nursery_does_not_poll") {
        let (wake, woken) = channel::<()>(0);
        thread::scope(|threads| {
            threads.spawn(|| nursery(|n| Ok(n.spawn(|| woken.recv()).join()?.unwrap_err())).unwrap());
            let share = cpu_share_at_rest();
            assert!(share < 0.01, "a blocked thread uses {:.2} % of a CPU", share * 100.0);
            drop(wake);
        });
    }
}

#[test]
fn an_error_of_a_task_that_was_dismissed_is_nobodys_concern_but_a_panic_is() {
    let outcome = nursery(|n| {
        let (started, begun) = std::sync::mpsc::channel();
        n.try_spawn(move || {
            shield(|| {
                started.send(()).unwrap();
                until(is_cancelled);
            });
            Err::<(), _>(TaskError::msg("the reader is gone"))
        });
        begun.recv().unwrap();
        n.dismiss();
        Ok(7)
    });
    assert_eq!(outcome.unwrap(), 7);

    let outcome: Result<(), _> = nursery(|n| {
        n.dismiss();
        Err(TaskError::msg("the body itself"))
    });
    assert!(outcome.unwrap_err().to_string().contains("the body itself"));

    let (started, begun) = std::sync::mpsc::channel();
    let outcome = nursery(|n| {
        n.spawn(move || {
            shield(|| {
                started.send(()).unwrap();
                until(is_cancelled);
                panic!("on the way out");
            })
        });
        begun.recv().unwrap();
        n.dismiss();
        Ok(7)
    });
    assert!(outcome.unwrap_err().is_panic());
}
