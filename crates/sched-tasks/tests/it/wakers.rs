//! Wakers of spawned futures: never lost, never too many, never dangling.

use std::{
    cell::Cell,
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
};

use sched_tasks::{NurseryOptions, OnFailure, Runtime, block_on, channel, nursery, nursery_with, yield_now};

use crate::support::{spin_until, until};

/// Pending `left` times, and wakes itself by `wake` each time.
struct Again<W> {
    left: u32,
    wake: W,
}

impl<W: FnMut(&Waker) + Unpin> Future for Again<W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.left -= 1;
        (self.wake)(cx.waker());
        Poll::Pending
    }
}

fn by_value(waker: Waker) {
    waker.wake();
}

fn spawn_and_wait<F: Future<Output = ()> + Send>(future: F) {
    nursery(|n| n.spawn_async(future).join()).unwrap();
}

#[test]
fn a_future_woken_during_its_poll_is_polled_again() {
    spawn_and_wait(Again { left: 1_000, wake: |waker: &Waker| waker.wake_by_ref() });
    spawn_and_wait(Again { left: 1_000, wake: |waker: &Waker| by_value(waker.clone()) });
    spawn_and_wait(Again { left: 1_000, wake: |waker: &Waker| (0..3).for_each(|_| waker.wake_by_ref()) });
}

#[test]
fn a_future_woken_from_another_thread_is_polled_again() {
    let (tx, rx) = mpsc::channel::<Waker>();
    let by_value = thread::spawn(move || rx.into_iter().for_each(Waker::wake));
    spawn_and_wait(Again { left: 5_000, wake: |waker: &Waker| tx.send(waker.clone()).unwrap() });
    drop(tx);
    by_value.join().unwrap();
}

#[test]
fn a_wake_after_the_end_does_nothing() {
    let kept = Mutex::new(Vec::new());
    spawn_and_wait(Again {
        left: 3,
        wake: |waker: &Waker| {
            waker.wake_by_ref();
            kept.lock().unwrap().push(waker.clone());
        },
    });
    for waker in kept.into_inner().unwrap() {
        waker.wake_by_ref();
        by_value(waker.clone());
        waker.wake();
    }
}

#[test]
fn a_storm_of_clones_loses_no_wake_and_no_memory() {
    let held = Arc::new(()); // lives as long as the future does
    for _ in 0..20 {
        let inside = held.clone();
        nursery(|n| {
            let storm = Again {
                left: 50,
                wake: |waker: &Waker| {
                    let clones: Vec<_> = (0..100).map(|_| waker.clone()).collect();
                    let (here, there) = clones.split_at(50);
                    let there = there.to_vec();
                    thread::spawn(move || there.into_iter().for_each(Waker::wake));
                    here.iter().for_each(Waker::wake_by_ref);
                },
            };
            n.spawn_async(async move {
                storm.await;
                drop(inside);
            })
            .join()
        })
        .unwrap();
    }
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_future_that_wakes_itself_a_thousand_times_does_not_starve_its_sibling() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let polls_left = AtomicU32::new(1_000);
    let left_at_sibling = AtomicU32::new(u32::MAX);
    runtime
        .nursery(|n| {
            let (polls_left, left_at_sibling) = (&polls_left, &left_at_sibling);
            n.spawn_async(Again {
                left: 1_000,
                wake: move |waker: &Waker| {
                    polls_left.fetch_sub(1, SeqCst);
                    if polls_left.load(SeqCst) == 999 {
                        n.spawn_async(async move { left_at_sibling.store(polls_left.load(SeqCst), SeqCst) });
                    }
                    waker.wake_by_ref();
                },
            });
            Ok(())
        })
        .unwrap();
    let left = left_at_sibling.into_inner();
    assert!((900..1_000).contains(&left), "the sibling ran when {left} polls were left");
}

#[test]
fn two_futures_that_wake_each_other_do_not_starve_a_third() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let stop = AtomicBool::new(false);
    runtime
        .nursery(|n| {
            let (to_left, left) = async_channel::bounded::<()>(1);
            let (to_right, right) = async_channel::bounded::<()>(1);
            let stop = &stop;
            for (mine, other) in [(left, to_right), (right, to_left.clone())] {
                n.spawn_async(async move {
                    while !stop.load(SeqCst) {
                        let _ = mine.recv().await;
                        let _ = other.send(()).await;
                    }
                });
            }
            n.spawn_async(async move { to_left.send(()).await });
            let third = n.spawn(move || {
                (0..10).for_each(|_| yield_now());
                stop.store(true, SeqCst);
            });
            third.join()
        })
        .unwrap();
}

#[test]
fn a_waker_outlives_its_runtime() {
    let (tx, rx) = mpsc::channel::<Waker>();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let outcome = runtime.nursery(|n| {
        n.spawn_async(poll_fn(move |cx| {
            tx.send(cx.waker().clone()).unwrap();
            Poll::<()>::Pending
        }));
        let waker = rx.recv().unwrap();
        n.cancel();
        Ok(waker)
    });
    assert!(outcome.unwrap_err().is_cancelled());
    let kept = Mutex::new(None);
    runtime
        .nursery(|n| {
            n.spawn_async(poll_fn(|cx| {
                *kept.lock().unwrap() = Some(cx.waker().clone());
                Poll::Ready(())
            }))
            .join()
        })
        .unwrap();
    drop(runtime);
    let waker = kept.into_inner().unwrap().unwrap();
    let clone = waker.clone();
    thread::spawn(move || clone.wake()).join().unwrap();
    waker.wake();
}

struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn cancelling_drops_a_pending_future_exactly_once() {
    let drops = Arc::new(AtomicU32::new(0));
    for round in 0..200 {
        let (counted, polled) = (Counted(drops.clone()), AtomicBool::new(false));
        let outcome = nursery(|n| {
            let polled = &polled;
            n.spawn_async(async move {
                let _counted = counted;
                polled.store(true, SeqCst);
                pending::<()>().await;
            });
            // Half of them before they were ever polled, perhaps.
            while round % 2 == 0 && !polled.load(SeqCst) {
                yield_now();
            }
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(drops.load(SeqCst), round + 1);
    }
}

#[test]
fn cancelling_and_waking_at_once_ends_every_future_once() {
    let drops = Arc::new(AtomicU32::new(0));
    for _ in 0..300 {
        let (tx, rx) = mpsc::channel::<Waker>();
        let waking = thread::spawn(move || rx.into_iter().for_each(Waker::wake));
        let _ = nursery(|n| {
            for _ in 0..4 {
                let (counted, tx) = (Counted(drops.clone()), tx.clone());
                n.spawn_async(async move {
                    let _counted = counted;
                    poll_fn(|cx| {
                        let _ = tx.send(cx.waker().clone());
                        Poll::<()>::Pending
                    })
                    .await;
                });
            }
            drop(tx);
            yield_now();
            n.cancel();
            Ok(())
        });
        waking.join().unwrap();
    }
    assert_eq!(drops.load(SeqCst), 1_200);
}

#[test]
fn a_panic_in_a_poll_fails_its_task_alone() {
    let drops = Arc::new(AtomicU32::new(0));
    let counted = Counted(drops.clone());
    let outcome = nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
        let doomed = n.spawn_async(async move {
            let _counted = counted;
            futures_lite::future::yield_now().await;
            panic!("on purpose");
        });
        let error = doomed.join().unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        n.spawn_async(async { 1 }).join()
    });
    assert!(outcome.unwrap_err().is_panic());
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_panic_in_the_destructor_of_a_cancelled_future_is_its_failure() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("while it is dropped");
        }
    }
    let outcome = nursery(|n| {
        let (tx, rx) = async_channel::bounded(1);
        n.spawn_async(async move {
            let _bomb = Bomb;
            tx.send(()).await.unwrap();
            pending::<()>().await;
        });
        block_on(rx.recv()).unwrap();
        n.cancel();
        Ok(())
    });
    assert!(outcome.unwrap_err().to_string().contains("while it is dropped"));
}

#[test]
fn a_task_polled_by_futures_then_dropped_wakes_only_the_future_that_still_waits() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .nursery(|n| {
            for round in 0..3_000_u32 {
                let inner = n.spawn_async(async move { round });
                let other = n.spawn_async(async move { round + 1 });
                n.spawn_async(async move {
                    let (mut inner, mut other) = (inner, other);
                    let first = poll_fn(|cx| {
                        if let Poll::Ready(value) = Pin::new(&mut inner).poll(cx) {
                            return Poll::Ready(value);
                        }
                        Pin::new(&mut other).poll(cx)
                    })
                    .await
                    .unwrap();
                    assert!(first == round || first == round + 1);
                }); // whichever was not taken is dropped with its waker left behind
                if round % 64 == 0 {
                    yield_now();
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_finished_task_polled_again_panics_and_harms_no_other() {
    nursery(|n| {
        let mut task = n.spawn_async(async { 1 });
        assert_eq!(block_on(&mut task)?, 1);
        let again = catch_unwind(AssertUnwindSafe(|| block_on(&mut task)));
        assert!(again.is_err());
        Ok(())
    })
    .unwrap();
}

/// Wakes when its thread ends: after the thread's own memory of the runtime is gone, as it was made first.
struct WakesAtExit(Cell<Option<Waker>>);

impl Drop for WakesAtExit {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            yield_now();
            waker.wake();
        }
    }
}

thread_local! {
    static AT_EXIT: WakesAtExit = const { WakesAtExit(Cell::new(None)) };
}

#[test]
fn a_thread_that_ends_still_wakes() {
    let (tx, rx) = mpsc::channel::<Waker>();
    let ending = thread::spawn(move || {
        AT_EXIT.with(|_| ()); // destroyed last
        yield_now(); // the thread is known to the runtime
        let waker = rx.recv().unwrap();
        AT_EXIT.with(|at_exit| at_exit.0.set(Some(waker)));
    });
    spawn_and_wait(Again { left: 1, wake: |waker: &Waker| tx.send(waker.clone()).unwrap() });
    ending.join().unwrap();
}

#[test]
fn a_waker_that_panics_keeps_no_nursery_waiting() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker, on purpose");
        }
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    for _ in 0..10 {
        let (tx, rx) = channel::<u32>(1);
        let outcome = runtime.nursery(|n| {
            let mut fiber = n.spawn(move || rx.recv());
            let waker = Waker::from(Arc::new(Panics));
            assert!(Pin::new(&mut fiber).poll(&mut Context::from_waker(&waker)).is_pending());
            tx.send(7)?;
            until(|| fiber.is_done());
            Ok(())
        });
        outcome.unwrap();
        assert_eq!(runtime.run(|| 1).unwrap(), 1);
    }
}

#[test]
fn a_waker_that_panics_does_not_keep_others_from_being_woken() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            CALLS.fetch_add(1, SeqCst);
            panic!("a waker, on purpose");
        }
    }
    let waker = Waker::from(Arc::new(Panics));
    for capacity in [0, 1] {
        let (tx, rx) = channel::<u32>(capacity);
        let mut hostile = Box::pin(rx.recv_async());
        assert!(hostile.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let closed = nursery(|n| {
            let waiting = n.spawn(|| rx.recv());
            let late = n.spawn(|| rx.recv());
            yield_now();
            drop(tx);
            Ok((waiting.join()?, late.join()?))
        });
        assert!(matches!(closed.unwrap(), (Err(_), Err(_))));
    }
    // The thread that keeps the time runs wakers, too.
    let mut timer = Box::pin(sched_tasks::sleep_async(std::time::Duration::from_millis(1)));
    let calls = CALLS.load(SeqCst);
    assert!(timer.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    spin_until(|| CALLS.load(SeqCst) > calls);
    sched_tasks::run(|| sched_tasks::sleep(std::time::Duration::from_millis(1))).unwrap(); // time goes on
}
