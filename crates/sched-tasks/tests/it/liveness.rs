//! No task waits for ever because of another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use sched_tasks::{Priority, Runtime, nursery, yield_now};

use crate::support::{spin_until, until};

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}

#[test]
fn a_nursery_ends_while_a_task_outside_it_keeps_yielding() {
    let over = AtomicBool::new(false);
    let outcome = one_worker().run(|| {
        nursery(|outer| {
            outer.spawn(|| until(|| over.load(SeqCst)));
            nursery(|inner| {
                inner.spawn(|| ());
                Ok(())
            })?;
            over.store(true, SeqCst);
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_nursery_ends_on_another_worker_while_a_task_outside_it_computes() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..200 {
        let (over, begun) = (AtomicBool::new(false), AtomicU64::new(0));
        let outcome = runtime.nursery(|outer| {
            // On the caller's thread: both tasks are injected, and may run on one worker, one after the other.
            nursery_on(&runtime, |inner| {
                inner.spawn(|| begun.fetch_add(1, SeqCst));
                outer.spawn(|| spin_until(|| over.load(SeqCst)));
                Ok(())
            })?;
            over.store(true, SeqCst);
            Ok(())
        });
        outcome.unwrap();
    }
}

fn nursery_on<'env, T>(
    runtime: &Runtime,
    body: impl for<'scope> FnOnce(&'scope sched_tasks::Nursery<'scope, 'env>) -> Result<T, sched_tasks::TaskError>,
) -> Result<T, sched_tasks::TaskError> {
    runtime.nursery(body)
}

#[test]
fn a_yielding_task_lets_one_of_low_priority_run() {
    let ran = AtomicBool::new(false);
    let outcome = one_worker().run(|| {
        nursery(|n| {
            n.task().priority(Priority::Low).spawn(|| ran.store(true, SeqCst));
            until(|| ran.load(SeqCst));
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn two_yielding_tasks_let_one_of_low_priority_run() {
    let ran = AtomicBool::new(false);
    let outcome = one_worker().run(|| {
        nursery(|n| {
            n.spawn(|| until(|| ran.load(SeqCst)));
            n.task().priority(Priority::Low).spawn(|| ran.store(true, SeqCst));
            until(|| ran.load(SeqCst));
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn tasks_of_high_priority_that_spawn_more_do_not_starve_the_others() {
    let ran = AtomicBool::new(false);
    fn more<'scope>(n: &'scope sched_tasks::Nursery<'scope, '_>, ran: &'scope AtomicBool) {
        if !ran.load(SeqCst) {
            n.task().priority(Priority::High).spawn(move || more(n, ran));
        }
    }
    let outcome = one_worker().run(|| {
        nursery(|n| {
            more(n, &ran);
            n.spawn(|| ran.store(true, SeqCst));
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn endless_yielders_starve_neither_unstarted_nor_injected_nor_woken_tasks() {
    let runtime = one_worker();
    let (over, up, done) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let (wake, woken) = sched_tasks::channel::<()>(1);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let outcome = runtime.run(|| {
                nursery(|n| {
                    for _ in 0..2 {
                        n.spawn(|| {
                            while !over.load(SeqCst) {
                                yield_now();
                            }
                        });
                        n.spawn_async(async {
                            while !over.load(SeqCst) {
                                futures_yield().await;
                            }
                        });
                    }
                    n.spawn(|| {
                        up.store(true, SeqCst);
                        woken.recv().unwrap();
                        n.spawn(|| done.fetch_add(1, SeqCst)); // unstarted
                        done.fetch_add(1, SeqCst);
                    });
                    Ok(())
                })
            });
            outcome.unwrap().unwrap();
        });
        spin_until(|| up.load(SeqCst));
        wake.send(()).unwrap();
        runtime.run(|| done.fetch_add(1, SeqCst)).unwrap(); // injected
        spin_until(|| done.load(SeqCst) == 3);
        over.store(true, SeqCst);
    });
}

#[test]
fn tasks_that_only_yield_take_what_a_computing_worker_has_not_begun() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for yielders in (0..3).cycle().take(60) {
        let (begun, ran) = (AtomicBool::new(false), AtomicBool::new(false));
        let outcome = runtime.run(|| {
            nursery(|n| {
                for _ in 0..yielders {
                    n.spawn(|| until(|| ran.load(SeqCst)));
                }
                yield_now();
                n.spawn(|| {
                    begun.store(true, SeqCst);
                    n.spawn(|| ran.store(true, SeqCst));
                    spin_until(|| ran.load(SeqCst)); // this worker is busy, and the other has only yielders
                });
                if yielders == 0 {
                    spin_until(|| begun.load(SeqCst)); // so it was stolen
                }
                until(|| ran.load(SeqCst));
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
    }
}

/// Pending once, and woken at once.
pub(crate) async fn futures_yield() {
    let mut first = true;
    std::future::poll_fn(|cx| {
        if std::mem::take(&mut first) {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
}

#[test]
fn work_is_stolen_though_some_workers_may_not_steal() {
    for thief in 0..4 {
        let mut builder = Runtime::builder().workers(4);
        for index in (0..4).filter(|index| *index != thief) {
            builder = builder.without_stealing(index);
        }
        let runtime = builder.build().unwrap();
        for _ in 0..50 {
            let ran = AtomicBool::new(false);
            let outcome = runtime.run(|| {
                if std::thread::current().name() == Some(&format!("bursar-{thief}")) {
                    return Ok(()); // no worker takes the thief's own work
                }
                nursery(|n| {
                    n.spawn(|| ran.store(true, SeqCst));
                    spin_until(|| ran.load(SeqCst));
                    Ok(())
                })
            });
            outcome.unwrap().unwrap();
        }
    }
}
