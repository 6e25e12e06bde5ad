//! Mutex, condition variable and semaphore.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{Condvar, Mutex, Runtime, Semaphore, nursery, run, yield_now};

const MOMENT: Duration = Duration::from_millis(2);
const AGES: Duration = Duration::from_secs(60);

fn turns(turns: u32) {
    for _ in 0..turns {
        yield_now();
        thread::yield_now();
    }
}

#[test]
fn a_mutex_excludes_fibers_and_threads() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let count = Mutex::new(0u64);
        let add = || {
            for i in 0..500 {
                let mut guard = count.lock();
                let before = *guard;
                if i % 16 == 0 {
                    yield_now(); // with the lock held
                }
                *guard = before + 1;
            }
        };
        thread::scope(|s| {
            s.spawn(add);
            s.spawn(add);
            runtime
                .nursery(|n| {
                    (0..6).for_each(|_| drop(n.spawn(add)));
                    Ok(())
                })
                .unwrap();
        });
        assert_eq!(count.into_inner(), 4000);
    }
}

#[test]
fn a_held_mutex_is_refused_and_waited_for_in_time() {
    let check = || {
        let mutex = Mutex::new(1);
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none() && mutex.is_locked());
        let begun = Instant::now();
        assert!(mutex.lock_timeout(MOMENT).is_none());
        assert!(begun.elapsed() >= MOMENT);
        drop(guard);
        assert_eq!(mutex.lock_timeout(AGES).as_deref(), Some(&1));
        assert!(!mutex.is_locked());
    };
    check();
    run(check).unwrap();
}

#[test]
fn a_panic_unlocks_and_does_not_poison() {
    let mutex = Mutex::new(1);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _guard = mutex.lock();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(outcome.is_err());
    assert_eq!(*mutex.lock(), 1);
}

#[test]
fn a_waiter_is_not_starved_by_a_task_that_locks_without_pause() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let mutex = Mutex::new(());
    let served = AtomicUsize::new(0);
    runtime
        .nursery(|n| {
            n.spawn(|| {
                while served.load(SeqCst) < 20 {
                    let _guard = mutex.lock();
                    yield_now(); // holds it nearly all the time
                }
            });
            n.spawn(|| {
                for _ in 0..20 {
                    let _guard = mutex.lock();
                    served.fetch_add(1, SeqCst);
                }
            });
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_cancelled_wait_for_a_mutex_leaves_it_usable() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..200 {
        let mutex = Mutex::new(0);
        let outcome = runtime.run(|| {
            nursery(|n| {
                for _ in 0..4 {
                    n.spawn(|| {
                        loop {
                            *mutex.lock() += 1;
                            yield_now();
                            let _guard = mutex.lock();
                            yield_now();
                        }
                    });
                }
                turns(round % 20);
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap().unwrap_err().is_cancelled());
        assert!(mutex.try_lock().is_some(), "round {round}");
    }
}

#[test]
fn a_condvar_wakes_one_or_all() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (tokens, changed) = (Mutex::new(0), Condvar::new());
        let served = AtomicUsize::new(0);
        let take = || {
            let mut tokens = tokens.lock();
            changed.wait_while(&mut tokens, |tokens| *tokens == 0);
            *tokens -= 1;
            served.fetch_add(1, SeqCst);
        };
        thread::scope(|s| {
            s.spawn(take);
            runtime
                .nursery(|n| {
                    let takers: Vec<_> = (0..7).map(|_| n.spawn(take)).collect();
                    for _ in 0..3 {
                        *tokens.lock() += 1;
                        changed.notify_one();
                    }
                    *tokens.lock() += 5;
                    changed.notify_all();
                    takers.into_iter().try_for_each(|taker| taker.join())
                })
                .unwrap();
        });
        assert_eq!((served.into_inner(), tokens.into_inner()), (8, 0));
    }
}

#[test]
fn a_condvar_wait_ends_in_time_with_the_lock() {
    let check = || {
        let (mutex, never) = (Mutex::new(1), Condvar::new());
        let mut guard = mutex.lock();
        assert!(!never.wait_timeout(&mut guard, MOMENT));
        assert!(mutex.try_lock().is_none());
        assert!(!never.wait_while_timeout(&mut guard, MOMENT, |one| *one == 1));
        assert!(never.wait_while_timeout(&mut guard, AGES, |one| *one == 2));
        assert!(!never.notify_one() && never.notify_all() == 0);
    };
    check();
    run(check).unwrap();
}

#[test]
fn a_cancelled_condvar_wait_unlocks_and_passes_no_notification_by() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..200 {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        runtime
            .run(|| {
                nursery(|n| {
                    // One who stays, behind four who are cancelled while they are notified.
                    let outcome = nursery(|inner| {
                        for _ in 0..4 {
                            inner.spawn(|| changed.wait_while(&mut mutex.lock(), |value| *value == 0));
                        }
                        turns(round % 8);
                        inner.cancel();
                        Ok(())
                    });
                    assert!(outcome.unwrap_err().is_cancelled());
                    let stays = n.spawn(|| changed.wait_while(&mut mutex.lock(), |value| *value == 0));
                    *mutex.lock() = 1;
                    changed.notify_one();
                    stays.join()
                })
            })
            .unwrap()
            .unwrap();
        assert!(mutex.try_lock().is_some(), "round {round}");
    }
}

#[test]
fn a_semaphore_lets_so_many_in() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (semaphore, inside) = (Semaphore::new(3), AtomicUsize::new(0));
    let enter = || {
        for _ in 0..100 {
            let permit = semaphore.acquire(1);
            assert!(inside.fetch_add(1, SeqCst) < 3);
            yield_now();
            inside.fetch_sub(1, SeqCst);
            drop(permit);
        }
    };
    thread::scope(|s| {
        s.spawn(enter);
        runtime
            .nursery(|n| {
                for _ in 0..6 {
                    n.spawn(enter);
                    n.spawn_async(async {
                        for _ in 0..100 {
                            let _permit = semaphore.acquire_async(1).await;
                            assert!(inside.fetch_add(1, SeqCst) < 3);
                            inside.fetch_sub(1, SeqCst);
                        }
                    });
                }
                Ok(())
            })
            .unwrap();
    });
    assert_eq!(semaphore.available(), 3);
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    let semaphore = Semaphore::new(4);
    let mut cx = Context::from_waker(Waker::noop());
    let one = semaphore.acquire(1);
    let mut large = pin!(semaphore.acquire_async(4));
    assert!(large.as_mut().poll(&mut cx).is_pending());
    assert!(semaphore.try_acquire(1).is_none(), "three are free, but another request is first");
    let mut small = pin!(semaphore.acquire_async(1));
    assert!(small.as_mut().poll(&mut cx).is_pending());
    drop(one);
    let Poll::Ready(all) = large.as_mut().poll(&mut cx) else { panic!("it was first") };
    assert!(small.as_mut().poll(&mut cx).is_pending());
    drop(all);
    assert!(small.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn a_large_request_that_gives_up_lets_the_small_ones_go() {
    let semaphore = Semaphore::new(1);
    let mut cx = Context::from_waker(Waker::noop());
    let mut small = pin!(semaphore.acquire_async(1));
    {
        let mut large = pin!(semaphore.acquire_async(2));
        assert!(large.as_mut().poll(&mut cx).is_pending());
        assert!(small.as_mut().poll(&mut cx).is_pending());
    }
    assert!(small.as_mut().poll(&mut cx).is_ready());
    assert!(semaphore.acquire_timeout(2, MOMENT).is_none());
    assert!(run(|| semaphore.acquire_timeout(2, MOMENT).is_none()).unwrap());
}

#[test]
fn permits_come_and_go() {
    let semaphore = Semaphore::new(0);
    semaphore.add_permits(5);
    let permit = semaphore.acquire(2);
    assert_eq!((permit.permits(), semaphore.available()), (2, 3));
    permit.forget();
    assert_eq!(semaphore.available(), 3);
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut served = pin!(semaphore.acquire_async(4));
        assert!(served.as_mut().poll(&mut cx).is_pending());
        semaphore.add_permits(1); // served, and dropped before it looks
    }
    assert_eq!(semaphore.available(), 4);
}

#[test]
fn no_permit_is_lost_to_cancellation() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..200 {
        let semaphore = Semaphore::new(5);
        let outcome = runtime.run(|| {
            nursery(|n| {
                for task in 0..6 {
                    let semaphore = &semaphore;
                    n.spawn(move || {
                        loop {
                            let _permit = semaphore.acquire(1 + task % 4);
                            yield_now();
                        }
                    });
                    n.spawn_async(async move {
                        loop {
                            drop(semaphore.acquire_async(1 + task % 3).await);
                            let mut yielded = false;
                            std::future::poll_fn(|cx| {
                                cx.waker().wake_by_ref();
                                if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
                            })
                            .await;
                        }
                    });
                }
                turns(round % 20);
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap().unwrap_err().is_cancelled());
        assert_eq!(semaphore.available(), 5, "round {round}");
    }
}
