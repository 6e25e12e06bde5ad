//! Futures are tasks like fibers: counted, cancelled, woken once per wake.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use sched_tasks::{Reason, Runtime, TaskError, join, nursery, run, sleep, yield_now};
use test_support::{Dice, for_seeds};

use crate::{liveness::futures_yield, support::until};

/// Completes when it is told to, from any thread.
#[derive(Default)]
struct Gate(Mutex<(bool, Vec<Waker>)>);

impl Gate {
    fn open(&self) {
        let wakers = {
            let mut gate = self.0.lock().unwrap();
            gate.0 = true;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn passed(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            let mut gate = self.0.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1.push(cx.waker().clone());
            Poll::Pending
        })
    }
}

#[test]
fn a_future_is_woken_from_a_plain_thread() {
    for _ in 0..200 {
        let gate = Gate::default();
        thread::scope(|threads| {
            threads.spawn(|| gate.open());
            run(|| nursery(|n| n.spawn_async(gate.passed()).join())).unwrap().unwrap();
        });
    }
}

#[test]
fn a_future_is_polled_once_per_wake_and_by_one_worker_at_a_time() {
    for_seeds("a_future_is_polled_once_per_wake_and_by_one_worker_at_a_time", 0..4, |seed| {
        let dice = Dice::new(seed);
        let runtime = Runtime::builder().workers(3).seed(seed).build().unwrap();
        let (polls, wakes, inside, over) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let waker = Mutex::new(None::<Waker>);
        thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..2000 {
                    let waker = waker.lock().unwrap().clone();
                    if let Some(waker) = waker {
                        wakes.fetch_add(1, SeqCst);
                        if dice.below(2) == 0 { waker.wake_by_ref() } else { waker.wake() }
                    }
                    if dice.below(4) == 0 {
                        thread::yield_now();
                    }
                }
                over.store(true, SeqCst);
                if let Some(waker) = waker.lock().unwrap().take() {
                    wakes.fetch_add(1, SeqCst);
                    waker.wake();
                };
            });
            let outcome = runtime.nursery(|n| {
                n.spawn_async(poll_fn(|cx| {
                    assert!(!inside.swap(true, SeqCst), "two polls at a time");
                    polls.fetch_add(1, SeqCst);
                    *waker.lock().unwrap() = Some(cx.waker().clone());
                    inside.store(false, SeqCst);
                    // Seen here, or the last wake comes after this poll.
                    if over.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
                }))
                .join()
            });
            outcome.unwrap();
        });
        assert!(polls.load(SeqCst) <= wakes.load(SeqCst) + 1, "{polls:?} polls, {wakes:?} wakes");
    });
}

#[test]
fn a_cancelled_future_is_dropped_before_its_nursery_ends() {
    for pending in [false, true] {
        let dropped = AtomicU64::new(0);
        struct Count<'a>(&'a AtomicU64);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let started = AtomicBool::new(false);
        let kept = Mutex::new(None);
        let outcome = nursery(|n| {
            let count = Count(&dropped);
            let (started, kept) = (&started, &kept);
            n.spawn_async(async move {
                let _count = count;
                poll_fn(|cx| {
                    *kept.lock().unwrap() = Some(cx.waker().clone());
                    started.store(true, SeqCst);
                    Poll::<()>::Pending
                })
                .await;
            });
            if pending {
                until(|| started.load(SeqCst));
            }
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(dropped.load(SeqCst), 1);
        if let Some(waker) = kept.into_inner().unwrap() {
            waker.wake_by_ref(); // a waker outlives its task, and does nothing
            drop(waker.clone());
        }
    }
}

#[test]
fn a_future_that_fails_or_panics_fails_its_nursery() {
    let error = nursery(|n| n.try_spawn_async(async { Err::<(), _>(TaskError::msg("no answer")) }).join()).unwrap_err();
    assert!(error.to_string().contains("no answer") && error.to_string().contains("futures_core.rs"), "{error}");
    let error = nursery(|n| {
        n.task().name("poll").spawn_async(async {
            futures_yield().await;
            panic!("in a poll")
        });
        Ok(())
    })
    .unwrap_err();
    let Reason::Panicked { message, location } = error.reason() else { panic!("{error}") };
    assert_eq!(&**message, "in a poll");
    assert!(location.as_ref().unwrap().contains("futures_core.rs"));
    assert_eq!(error.task().unwrap().name.as_deref(), Some("poll"));
}

#[test]
fn a_task_is_awaited_by_a_foreign_executor() {
    struct Unpark(thread::Thread, AtomicBool);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.store(true, SeqCst);
            self.0.unpark();
        }
    }
    for _ in 0..100 {
        let answer = nursery(|n| {
            let mut task = pin!(n.spawn(|| {
                yield_now();
                42
            }));
            let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
            let waker = Waker::from(unpark.clone());
            loop {
                if let Poll::Ready(answer) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return answer;
                }
                while !unpark.1.swap(false, SeqCst) {
                    thread::park();
                }
            }
        });
        assert_eq!(answer.unwrap(), 42);
    }
}

#[test]
fn a_task_that_was_polled_may_be_dropped_or_joined() {
    for seed in 0..200 {
        let value = run(|| {
            nursery(|n| {
                let mut task = n.spawn(move || {
                    (0..seed % 5).for_each(|_| yield_now());
                    Box::new(seed)
                });
                let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
                match polled {
                    Poll::Ready(value) => value,
                    Poll::Pending if seed % 2 == 0 => task.join(),
                    Poll::Pending => {
                        drop(task);
                        Ok(Box::new(seed))
                    }
                }
            })
        });
        assert_eq!(*value.unwrap().unwrap(), seed);
    }
}

#[test]
fn a_poll_may_block_its_fiber() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let sum = runtime.run(|| {
        nursery(|n| {
            let a = n.spawn_async(async {
                sleep(Duration::from_millis(1));
                nursery(|m| m.spawn(|| 1).join()).unwrap() + join(|| 2, || 3).1
            });
            let b = n.spawn(|| 10);
            Ok(a.join()? + b.join()?)
        })
    });
    assert_eq!(sum.unwrap().unwrap(), 14);
}
