//! Closures that block a thread, without blocking a worker.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
        mpsc,
    },
    thread,
};

use sched_tasks::{Runtime, block_on, nursery, run, unblock, unblock_async, yield_now};

#[test]
fn a_closure_borrows_and_runs_on_another_thread() {
    let words = ["alpha".to_string(), "beta".to_string()];
    let mut count = 0;
    run(|| {
        let worker = thread::current().id();
        let other = unblock(|| {
            count = words.len();
            thread::current().id()
        });
        assert_ne!(worker, other);
    })
    .unwrap();
    assert_eq!(count, 2);
}

#[test]
fn on_a_plain_thread_it_is_a_call() {
    let here = thread::current().id();
    assert_eq!(unblock(|| thread::current().id()), here);
}

#[test]
fn a_panic_comes_back_with_its_payload() {
    run(|| {
        let caught = catch_unwind(AssertUnwindSafe(|| unblock(|| panic_any(42_u32))));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&42_u32));
        let caught = catch_unwind(AssertUnwindSafe(|| block_on(unblock_async(|| panic_any(43_u32)))));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&43_u32));
        assert_eq!(unblock(|| 1), 1); // the thread lives on
    })
    .unwrap();
}

#[test]
fn a_worker_of_one_goes_on_meanwhile() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (tx, rx) = mpsc::channel();
    runtime
        .nursery(|n| {
            let blocked = n.spawn(|| unblock(move || rx.recv().unwrap())); // would block the only worker
            n.spawn(move || tx.send(7).unwrap());
            assert_eq!(blocked.join()?, 7);
            Ok(())
        })
        .unwrap();
}

#[test]
fn many_block_at_one_time() {
    const MANY: usize = 64;
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let all = Barrier::new(MANY); // opens only when all are there
    runtime
        .nursery(|n| {
            (0..MANY).for_each(|_| drop(n.spawn(|| unblock(|| all.wait()))));
            Ok(())
        })
        .unwrap();
}

#[test]
fn never_more_run_than_there_may_be() {
    let runtime = Runtime::builder().workers(2).blocking_threads(3).build().unwrap();
    let (now, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    runtime
        .nursery(|n| {
            for _ in 0..300 {
                n.spawn(|| {
                    unblock(|| {
                        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                        thread::yield_now();
                        now.fetch_sub(1, SeqCst);
                        done.fetch_add(1, SeqCst);
                    });
                });
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(done.into_inner(), 300);
    assert!((1..=3).contains(&most.into_inner()));
}

#[test]
fn a_cancelled_caller_waits_for_what_began() {
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let finished = AtomicBool::new(false);
    let returned = AtomicBool::new(false);
    let outcome = run(|| {
        nursery(|n| {
            let (finished, returned) = (&finished, &returned);
            n.spawn(move || {
                let text = String::from("borrowed by the closure");
                let borrowed = &text;
                unblock(move || {
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                    assert_eq!(borrowed.len(), 23);
                    finished.store(true, SeqCst);
                });
                returned.store(true, SeqCst); // what it did is known before the cancellation takes effect
                yield_now();
                unreachable!();
            });
            unblock(move || has_begun.recv().unwrap());
            n.cancel();
            go.send(()).unwrap();
            Ok(())
        })
    })
    .unwrap();
    assert!(outcome.unwrap_err().is_cancelled());
    assert!(finished.into_inner() && returned.into_inner());
}

#[test]
fn a_cancelled_caller_takes_back_what_has_not_begun() {
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let (begun, has_begun) = async_channel::bounded(1);
    let (go, may_go) = mpsc::channel::<()>();
    let ran = AtomicU32::new(0);
    runtime
        .run(|| {
            nursery(|n| {
                n.spawn(move || {
                    unblock(move || {
                        begun.send_blocking(()).unwrap();
                        may_go.recv().unwrap();
                    });
                });
                block_on(has_begun.recv()).unwrap(); // the only thread is taken
                let ran = &ran;
                let outcome = nursery(|inner| {
                    for _ in 0..10 {
                        inner.spawn(move || unblock(|| ran.fetch_add(1, SeqCst)));
                    }
                    yield_now(); // all ten are in the queue
                    inner.cancel();
                    Ok(())
                });
                assert!(outcome.unwrap_err().is_cancelled()); // although the thread is still taken
                go.send(()).unwrap();
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    assert_eq!(ran.into_inner(), 0);
}

#[test]
fn a_panic_from_elsewhere_is_not_unwound_twice() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            yield_now(); // a checkpoint, in a cancelled task, while a panic is on its way up
        }
    }
    let outcome = run(|| {
        nursery(|n| {
            let canceller = n.canceller();
            n.spawn(move || {
                let _waits = Waits;
                unblock(move || {
                    canceller.cancel();
                    panic!("on purpose");
                });
            });
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().is_panic());
}

#[test]
fn a_dropped_future_does_not_stop_its_closure() {
    let (tx, rx) = mpsc::channel();
    drop(unblock_async(move || tx.send(1).unwrap()));
    assert_eq!(rx.recv(), Ok(1));
}

#[test]
fn futures_wait_for_many_closures() {
    let seen = Mutex::new(Vec::new());
    nursery(|n| {
        for i in 0..100 {
            let seen = &seen;
            n.spawn_async(async move {
                let doubled = unblock_async(move || i * 2).await;
                seen.lock().unwrap().push(doubled);
            });
        }
        Ok(())
    })
    .unwrap();
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..100).map(|i| i * 2).collect::<Vec<_>>());
}
