//! Waiting for futures where one may block, and timers for futures.

use std::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use sched_tasks::{
    NurseryOptions, Reason, Runtime, Task, block_on, nursery, nursery_with, run, shield, sleep, sleep_async, timeout,
    yield_now,
};

/// Ready at the second poll, after `wake` was given its waker.
fn once<W: FnOnce(&Waker)>(wake: W) -> impl Future<Output = ()> {
    let mut wake = Some(wake);
    poll_fn(move |cx| match wake.take() {
        Some(wake) => {
            wake(cx.waker());
            Poll::Pending
        }
        None => Poll::Ready(()),
    })
}

fn by_value(waker: Waker) {
    waker.wake();
}

/// Counts its drops.
struct Counted<'a>(&'a AtomicU32);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_thread_and_a_fiber_wait_for_a_future() {
    assert_eq!(block_on(async { 1 }), 1);
    assert_eq!(run(|| block_on(async { 2 })).unwrap(), 2);
}

#[test]
fn a_wake_during_a_poll_is_not_lost() {
    block_on(once(|waker| waker.wake_by_ref()));
    run(|| block_on(once(|waker| by_value(waker.clone())))).unwrap();
}

#[test]
fn wakes_from_another_thread_are_never_lost() {
    let (tx, rx) = std::sync::mpsc::channel::<Waker>();
    let waking = std::thread::spawn(move || rx.into_iter().for_each(Waker::wake));
    let (here, there) = (tx.clone(), tx);
    for _ in 0..5_000 {
        block_on(once(|waker| here.send(waker.clone()).unwrap()));
    }
    drop(here);
    run(move || (0..5_000).for_each(|_| block_on(once(|waker| there.send(waker.clone()).unwrap())))).unwrap();
    waking.join().unwrap();
}

#[test]
fn many_wakers_for_one_wait_are_harmless() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .run(|| {
            for _ in 0..500 {
                nursery(|n| {
                    let (tx, rx) = std::sync::mpsc::sync_channel::<Waker>(4);
                    let waiting = n.spawn(move || {
                        block_on(once(|waker| (0..4).for_each(|_| tx.send(waker.clone()).unwrap())));
                        yield_now(); // the others may still come, while we wait for other things
                        sleep(Duration::from_micros(10));
                    });
                    while !waiting.is_done() {
                        rx.try_iter().for_each(Waker::wake);
                        yield_now();
                    }
                    Ok(())
                })
                .unwrap();
            }
        })
        .unwrap();
}

#[test]
fn a_late_waker_wakes_no_other_wait() {
    let kept = Mutex::new(Vec::new());
    run(|| {
        for round in 0..100 {
            block_on(once(|waker| {
                kept.lock().unwrap().push(waker.clone());
                waker.wake_by_ref();
            }));
            // Every waker of an earlier round is used in the middle of a wait that is not its own.
            let begun = Instant::now();
            nursery(|n| {
                n.spawn(|| kept.lock().unwrap().iter().for_each(Waker::wake_by_ref));
                sleep(Duration::from_millis(1));
                Ok(())
            })
            .unwrap();
            assert!(begun.elapsed() >= Duration::from_millis(1), "round {round}: a sleep was cut short");
        }
    })
    .unwrap();
}

#[test]
fn block_on_nests() {
    let sum = run(|| {
        block_on(async {
            let inner = block_on(async {
                sleep_async(Duration::from_millis(1)).await;
                block_on(async { 20 }) + 1
            });
            sleep_async(Duration::from_millis(1)).await;
            inner * 2
        })
    });
    assert_eq!(sum.unwrap(), 42);
}

#[test]
fn a_wake_for_the_outer_future_comes_while_the_inner_one_waits() {
    run(|| {
        let mut polls = 0;
        block_on(poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                let waker = cx.waker().clone();
                nursery(|n| {
                    n.spawn(move || waker.wake());
                    block_on(sleep_async(Duration::from_millis(1)));
                    Ok(())
                })
                .unwrap();
                return Poll::Pending;
            }
            Poll::Ready(())
        }));
        assert_eq!(polls, 2);
    })
    .unwrap();
}

#[test]
fn a_future_that_wakes_itself_lets_others_run() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime
        .run(|| {
            let done = AtomicU32::new(0);
            nursery(|n| {
                n.spawn(|| done.store(1, SeqCst));
                block_on(poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if done.load(SeqCst) == 1 { Poll::Ready(()) } else { Poll::Pending }
                }));
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
}

#[test]
fn cancelling_drops_the_future_once_and_unwinds() {
    let drops = AtomicU32::new(0);
    let outcome = run(|| {
        nursery(|n| {
            let (started, has_started) = async_channel::bounded(1);
            let drops = &drops;
            n.spawn(move || {
                block_on(async {
                    let _counted = Counted(drops);
                    started.send(()).await.unwrap();
                    pending::<()>().await;
                });
                unreachable!("a cancelled wait does not return");
            });
            block_on(has_started.recv()).unwrap();
            n.cancel();
            Ok(())
        })
    })
    .unwrap();
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_cancelled_task_does_not_begin_to_wait() {
    let polls = AtomicU32::new(0);
    let outcome = nursery(|n| {
        n.cancel();
        block_on(async { polls.fetch_add(1, SeqCst) });
        Ok(())
    });
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(polls.load(SeqCst), 0);
}

#[test]
fn a_shielded_wait_is_not_cancelled() {
    let outcome = nursery(|n| {
        n.cancel();
        shield(|| block_on(sleep_async(Duration::from_millis(1))));
        Ok(7)
    });
    assert!(outcome.unwrap_err().is_cancelled());
}

#[test]
fn a_deadline_interrupts_a_waiting_thread() {
    let options = NurseryOptions::new().timeout(Duration::from_millis(5));
    let outcome = nursery_with(options, |_| {
        block_on(pending::<()>());
        Ok(())
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
}

#[test]
fn a_panic_in_a_poll_goes_through() {
    let outcome = run(|| block_on(async { panic!("on purpose") }));
    assert!(outcome.unwrap_err().to_string().contains("on purpose"));
    run(|| block_on(async {})).unwrap(); // and leaves nothing behind
}

/// On a virtual clock: on a real one, a busy machine may start the shortest last.
#[test]
fn sleeps_end_in_their_order() {
    sched_tasks::explore(0..50, || {
        let order = Mutex::new(Vec::new());
        nursery(|n| {
            for millis in [30, 10, 20] {
                let order = &order;
                n.spawn_async(async move {
                    sleep_async(Duration::from_millis(millis)).await;
                    order.lock().unwrap().push(millis);
                });
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(order.into_inner().unwrap(), [10, 20, 30]);
    });
}

#[test]
fn a_sleep_moves_to_the_waker_of_its_last_poll() {
    let mut sleep = sleep_async(Duration::from_millis(5));
    let first = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(first, Poll::Pending);
    block_on(&mut sleep);
    block_on(sleep);
}

#[test]
fn a_dropped_sleep_wakes_no_task() {
    run(|| {
        for _ in 0..2_000 {
            let mut sleep = sleep_async(Duration::from_micros(50));
            let polled = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
            drop(sleep);
            if polled.is_pending() {
                block_on(sleep_async(Duration::from_micros(20)));
            }
        }
    })
    .unwrap();
}

#[test]
fn a_timeout_drops_what_is_late_and_keeps_what_is_not() {
    let drops = Arc::new(AtomicU32::new(0));
    let counted = drops.clone();
    let late = block_on(timeout(Duration::from_millis(5), async move {
        let _counted = Counted(&counted);
        pending::<()>().await
    }));
    assert_eq!(late.unwrap_err().after, Duration::from_millis(5));
    assert_eq!(drops.load(SeqCst), 1);
    assert_eq!(block_on(timeout(Duration::ZERO, async { 3 })), Ok(3)); // ready at once is in time
}

#[test]
fn a_time_beyond_all_clocks_is_for_ever() {
    let forever = block_on(timeout(Duration::from_millis(5), sleep_async(Duration::MAX)));
    assert!(forever.is_err());
}

/// A task polled, then dropped or joined, while it ends: the token it was left must not be used for anything else.
#[test]
fn a_task_polled_then_dropped_while_it_ends_loses_no_wake() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .run(|| {
            for round in 0..3_000 {
                nursery(|n| {
                    let tasks: Vec<Task<_>> = (0..4).map(|i| n.spawn(move || i)).collect();
                    for (i, mut task) in tasks.into_iter().enumerate() {
                        let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
                        match (polled, (i + round) % 3) {
                            (Poll::Ready(value), _) => assert_eq!(value?, i),
                            (Poll::Pending, 0) => drop(task),
                            (Poll::Pending, 1) => assert_eq!(task.join()?, i),
                            (Poll::Pending, _) => assert_eq!(block_on(task)?, i),
                        }
                    }
                    Ok(())
                })
                .unwrap();
            }
        })
        .unwrap();
}
