//! A readers-writer lock: readers together, a writer alone, and each in its turn.
// The guards are those of a lock that may be held while a task waits.
#![allow(clippy::await_holding_lock)]

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{
    Explore, Reason, Runtime, RwLock, RwLockWriteGuard, channel, explore, nursery, run, shield, sleep, yield_now,
};

const MOMENT: Duration = Duration::from_millis(2);
const AGES: Duration = Duration::from_secs(60);

/// Two numbers that a writer changes one after the other, and no reader may see different.
type Pair = RwLock<(u64, u64)>;

fn write(pair: &Pair) {
    let mut guard = pair.write();
    guard.0 += 1;
    yield_now(); // with the lock held
    guard.1 += 1;
}

fn read(pair: &Pair) -> u64 {
    let guard = pair.read();
    let (one, two) = *guard;
    assert_eq!(one, two);
    yield_now();
    assert_eq!(*guard, (one, one), "no writer comes in between");
    one
}

#[test]
fn a_writer_excludes_fibers_threads_and_futures() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let pair = Pair::default();
        let mixed = || {
            for i in 0..200 {
                if i % 4 == 0 { write(&pair) } else { _ = read(&pair) }
            }
        };
        thread::scope(|s| {
            s.spawn(mixed);
            runtime
                .nursery(|n| {
                    for _ in 0..4 {
                        n.spawn(mixed);
                        n.spawn_async(async {
                            for _ in 0..50 {
                                let mut guard = pair.write_async().await;
                                guard.0 += 1;
                                let echo = n.spawn_async(async {}); // the guard is held across an await
                                echo.await.unwrap();
                                guard.1 += 1;
                                drop(guard);
                                let guard = pair.read_async().await;
                                assert_eq!(guard.0, guard.1);
                            }
                        });
                    }
                    Ok(())
                })
                .unwrap();
        });
        assert_eq!(pair.into_inner(), (450, 450));
    }
}

#[test]
fn readers_are_inside_together() {
    let (lock, inside, most) = (RwLock::new(()), AtomicUsize::new(0), AtomicUsize::new(0));
    nursery(|n| {
        for _ in 0..5 {
            n.spawn(|| {
                let _guard = lock.read();
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                while most.load(SeqCst) < 5 {
                    yield_now();
                }
            });
        }
        Ok(())
    })
    .unwrap();
    assert!(!lock.is_locked());
}

#[test]
fn a_held_lock_is_refused_and_waited_for_in_time() {
    let check = || {
        let lock = RwLock::new(1);
        let writer = lock.write();
        assert!(lock.try_read().is_none() && lock.try_write().is_none() && lock.is_locked());
        let begun = Instant::now();
        assert!(lock.read_timeout(MOMENT).is_none() && lock.write_timeout(MOMENT).is_none());
        assert!(begun.elapsed() >= 2 * MOMENT);
        let reader = RwLockWriteGuard::downgrade(writer);
        assert_eq!(lock.try_read().as_deref(), Some(&1));
        assert!(lock.try_write().is_none() && lock.write_timeout(MOMENT).is_none());
        assert_eq!(lock.read_timeout(AGES).as_deref(), Some(&1), "the writer that gave up is not in the way");
        drop(reader);
        assert_eq!(lock.write_timeout(AGES).as_deref(), Some(&1));
    };
    check();
    run(check).unwrap();
}

#[test]
fn a_panic_unlocks_and_does_not_poison() {
    let lock = RwLock::new(1);
    for writes in [true, false] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _guard = if writes { Ok(lock.write()) } else { Err(lock.read()) };
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(outcome.is_err());
        assert_eq!(lock.try_write().as_deref(), Some(&1));
    }
}

#[test]
fn requests_are_served_in_the_order_they_came() {
    let mut cx = Context::from_waker(Waker::noop());
    let lock = RwLock::new(());
    let first = lock.read();
    let mut write = pin!(lock.write_async());
    let (mut read1, mut read2) = (pin!(lock.read_async()), pin!(lock.read_async()));
    let mut write2 = pin!(lock.write_async());
    let mut read3 = pin!(lock.read_async());
    assert!(write.as_mut().poll(&mut cx).is_pending());
    assert!(read1.as_mut().poll(&mut cx).is_pending(), "a writer waits before it");
    assert!(read2.as_mut().poll(&mut cx).is_pending());
    assert!(write2.as_mut().poll(&mut cx).is_pending());
    assert!(read3.as_mut().poll(&mut cx).is_pending());
    assert!(lock.try_read().is_none(), "nor is one that does not wait faster");
    drop(first);
    let Poll::Ready(writer) = write.as_mut().poll(&mut cx) else { panic!("it was first") };
    assert!(read1.as_mut().poll(&mut cx).is_pending());
    drop(writer);
    let both = (read1.as_mut().poll(&mut cx), read2.as_mut().poll(&mut cx));
    assert!(both.0.is_ready() && both.1.is_ready(), "readers side by side");
    assert!(write2.as_mut().poll(&mut cx).is_pending() && read3.as_mut().poll(&mut cx).is_pending());
    drop(both);
    assert!(write2.as_mut().poll(&mut cx).is_ready(), "and is dropped at once");
    assert!(read3.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn a_request_that_gives_up_lets_those_behind_it_go() {
    let mut cx = Context::from_waker(Waker::noop());
    let lock = RwLock::new(());
    let _reader = lock.read();
    let mut behind = pin!(lock.read_async());
    {
        let mut write = pin!(lock.write_async());
        assert!(write.as_mut().poll(&mut cx).is_pending());
        assert!(behind.as_mut().poll(&mut cx).is_pending());
    }
    assert!(behind.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn a_future_that_was_served_and_is_dropped_gives_the_lock_back() {
    let mut cx = Context::from_waker(Waker::noop());
    let lock = RwLock::new(());
    let guard = lock.write();
    {
        let (mut write, mut read) = (pin!(lock.write_async()), pin!(lock.read_async()));
        assert!(write.as_mut().poll(&mut cx).is_pending() && read.as_mut().poll(&mut cx).is_pending());
        drop(guard); // the writer is served, and dropped before it looks
    }
    assert!(lock.try_write().is_some());
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    explore(0..100, || {
        let lock = RwLock::new(0);
        nursery(|n| {
            let mut guard = lock.write();
            n.spawn(|| *lock.write() += 10);
            let readers: Vec<_> = (0..2).map(|_| n.spawn(|| *lock.read())).collect();
            yield_now();
            *guard = 1;
            let guard = RwLockWriteGuard::downgrade(guard);
            yield_now();
            assert_eq!(*guard, 1);
            drop(guard);
            for reader in readers {
                assert!([1, 11].contains(&reader.join()?));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(lock.into_inner(), 11);
    });
}

#[test]
fn a_writer_is_not_starved_by_readers_that_overlap() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (lock, done) = (RwLock::new(0), AtomicBool::new(false));
        runtime
            .nursery(|n| {
                for _ in 0..4 {
                    n.spawn(|| {
                        while !done.load(SeqCst) {
                            let _guard = lock.read();
                            yield_now(); // one of the four holds it at any time
                        }
                    });
                }
                n.spawn(|| {
                    for _ in 0..50 {
                        *lock.write() += 1;
                    }
                    done.store(true, SeqCst);
                });
                Ok(())
            })
            .unwrap();
        assert_eq!(lock.into_inner(), 50);
    }
}

#[test]
fn a_reader_is_not_starved_by_writers() {
    let (lock, done) = (RwLock::new(0_u64), AtomicBool::new(false));
    nursery(|n| {
        for _ in 0..3 {
            n.spawn(|| {
                while !done.load(SeqCst) {
                    let mut guard = lock.write();
                    *guard += 1;
                    yield_now();
                }
            });
        }
        n.spawn(|| {
            for _ in 0..50 {
                drop(lock.read());
            }
            done.store(true, SeqCst);
        });
        Ok(())
    })
    .unwrap();
}

#[test]
fn whatever_order_a_seed_gives_no_reader_sees_half_of_a_write() {
    explore(0..300, || {
        let pair = Pair::default();
        nursery(|n| {
            for _ in 0..2 {
                n.spawn(|| (0..3).for_each(|_| write(&pair)));
                n.spawn(|| (0..3).for_each(|_| _ = read(&pair)));
            }
            n.spawn_async(async {
                for _ in 0..3 {
                    let guard = pair.read_async().await;
                    assert_eq!(guard.0, guard.1);
                    drop(guard);
                    let mut guard = pair.write_async().await;
                    *guard = (guard.0 + 1, guard.1 + 1);
                }
            });
            Ok(())
        })
        .unwrap();
        assert_eq!(pair.into_inner(), (9, 9));
    });
}

#[test]
fn a_cancelled_wait_leaves_the_lock_usable() {
    explore(0..500, || {
        let pair = Pair::default();
        let outcome = nursery(|outer| {
            // One who stays, beside those who are cancelled while the lock is handed to them.
            let stays = outer.spawn(|| (0..5).for_each(|_| _ = (write(&pair), read(&pair))));
            let outcome = nursery(|n| {
                for _ in 0..2 {
                    n.spawn(|| while read(&pair) < u64::MAX {});
                    n.spawn(|| {
                        loop {
                            let _guard = pair.write();
                            yield_now();
                        }
                    });
                    n.spawn_async(async {
                        loop {
                            drop(pair.read_async().await);
                            drop(pair.write_async().await);
                        }
                    });
                }
                sleep(Duration::from_micros(30)); // some steps
                n.cancel();
                Ok(())
            });
            assert!(outcome.unwrap_err().is_cancelled());
            stays.join()
        });
        outcome.unwrap();
        assert_eq!(pair.try_write().as_deref(), Some(&(5, 5)));
    });
}

#[test]
fn cancelled_waits_on_several_threads_leave_the_lock_usable() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..200 {
        let pair = Pair::default();
        let outcome = runtime.run(|| {
            nursery(|n| {
                for task in 0..6 {
                    let pair = &pair;
                    n.spawn(move || {
                        loop {
                            if task % 2 == 0 {
                                drop(pair.write())
                            } else {
                                _ = read(pair)
                            }
                            yield_now();
                        }
                    });
                    n.spawn_async(async move {
                        loop {
                            drop(pair.write_async().await);
                            drop(pair.read_async().await);
                        }
                    });
                }
                (0..round % 20).for_each(|_| yield_now());
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap().unwrap_err().is_cancelled());
        assert!(pair.try_write().is_some(), "round {round}");
    }
}

#[test]
fn a_wait_that_is_not_interrupted_ends_with_the_lock() {
    explore(0..100, || {
        let left = RwLock::new(3);
        let outcome = nursery(|n| {
            for _ in 0..3 {
                n.spawn(|| {
                    let _reads = left.read();
                    yield_now();
                });
                n.spawn(|| shield(|| *left.write_uninterrupted() -= 1));
            }
            yield_now();
            *left.write_uninterrupted() += 0;
            Ok(())
        });
        outcome.unwrap();
        assert_eq!(left.into_inner(), 0);
    });
    let left = RwLock::new(1);
    let outcome: Result<(), _> = nursery(|n| {
        n.cancel();
        *left.write_uninterrupted() -= 1;
        drop(left.read());
        unreachable!("a cancelled task unwinds there")
    });
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(left.into_inner(), 0);
}

#[test]
fn a_reader_that_reads_again_behind_a_writer_is_found_as_a_deadlock() {
    let program = || {
        let lock = RwLock::new(());
        nursery(|n| {
            let (go, gone) = channel::<()>(0);
            let (lock, reader) = (&lock, lock.read());
            n.try_spawn(move || {
                go.send(())?;
                drop(lock.write());
                Ok(())
            });
            gone.recv()?;
            let (one, two) = (reader, lock.read());
            drop((one, two));
            Ok(())
        })
    };
    let finding = Explore::new().find(0..200, program);
    assert!(format!("{finding:?}").contains("eadlock"), "{finding:?}");
    let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
    let lock = RwLock::new(());
    let outcome = runtime.nursery(|_| {
        let (_one, _two) = (lock.write(), lock.read());
        Ok(())
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::Deadlock { .. }));
}

#[test]
fn guards_may_go_to_another_thread_and_show_what_they_protect() {
    let mut lock = RwLock::new(1);
    let guard = lock.write();
    thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
    let guard = lock.read();
    assert_eq!(format!("{guard} {guard:?} {:?}", lock.try_read().is_some()), "1 1 true");
    thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
    assert_eq!(format!("{} {0:?}", lock.write()), "1 1");
    assert_eq!(format!("{lock:?}"), "RwLock { data: 1 }");
    *lock.get_mut() = 2;
    assert_eq!(lock.into_inner(), 2);
}
