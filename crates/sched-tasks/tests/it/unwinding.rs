//! What unwinds runs its destructors, and nothing unwinds twice at one time.

use std::{
    future::pending,
    panic::catch_unwind,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use sched_tasks::{
    Canceller, Reason, Runtime, TaskError, block_on, current_task, join, nursery, run, shield, sleep, yield_now,
};

use crate::{
    destructors::OnDrop,
    support::{skipping, until},
};

/// Stops at a checkpoint while it is dropped: in a cancelled task that would unwind, if nothing did yet.
struct Waits;

impl Drop for Waits {
    fn drop(&mut self) {
        yield_now();
    }
}

#[test]
fn a_panic_of_a_stolen_half_goes_on_in_a_cancelled_task() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let stolen = AtomicBool::new(false);
    let outcome = runtime.nursery(|n| {
        let canceller = n.canceller();
        let stolen = &stolen;
        n.spawn(move || {
            let _waits = Waits;
            join(
                || while !stolen.load(SeqCst) {},
                || {
                    stolen.store(true, SeqCst);
                    canceller.cancel();
                    panic!("on purpose");
                },
            );
        });
        Ok(())
    });
    assert!(outcome.unwrap_err().is_panic());
}

#[test]
fn a_panic_of_a_body_goes_on_in_a_cancelled_task() {
    let outcome = nursery(|n| {
        let canceller = n.canceller();
        n.try_spawn(move || {
            let _waits = Waits;
            nursery(|_| {
                canceller.cancel();
                panic!("on purpose");
                #[allow(unreachable_code)]
                Ok(())
            })
        });
        Ok(())
    });
    assert!(outcome.unwrap_err().is_panic());
}

/// Does in its destructor what a task may do.
struct Works;

impl Drop for Works {
    fn drop(&mut self) {
        yield_now();
        assert_eq!(join(|| 1, || 2), (1, 2));
        assert!(current_task().is_some());
    }
}

#[test]
fn destructors_of_what_is_cancelled_are_part_of_their_task() {
    let outcome = run(|| {
        nursery(|n| {
            let (tx, rx) = async_channel::bounded(1);
            n.spawn_async(async move {
                let _works = Works;
                tx.send(()).await.unwrap();
                pending::<()>().await;
            });
            block_on(rx.recv()).unwrap();
            let works = Works;
            n.spawn(move || drop(works));
            n.cancel(); // one waits, the other has not begun
            Ok(())
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(error.is_cancelled(), "{error}");
}

#[test]
fn a_destructor_that_overflows_fails_its_task_alone() {
    struct Deep;
    impl Drop for Deep {
        fn drop(&mut self) {
            fn dig(depth: u64) -> u64 {
                let here = std::hint::black_box([depth; 64]);
                if depth == 0 { 0 } else { here[0] + dig(depth - 1) }
            }
            std::hint::black_box(dig(1_000_000));
        }
    }
    let runtime = skipping().workers(1).build().unwrap();
    let outcome = runtime.nursery(|n| {
        let (tx, rx) = async_channel::bounded(1);
        n.spawn_async(async move {
            let _deep = Deep;
            tx.send(()).await.unwrap();
            pending::<()>().await;
        });
        block_on(rx.recv()).unwrap();
        n.cancel();
        Ok(())
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::StackOverflow { .. }));
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

/// Tells that it is being dropped, and waits there until it may go on.
struct Stops<'a>(&'a AtomicBool, &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        self.0.store(true, SeqCst);
        while !self.1.load(SeqCst) {
            sleep(Duration::from_micros(100));
            yield_now();
        }
        assert!(std::thread::panicking(), "it goes on to unwind");
    }
}

/// Has a task unwind by `unwinds`, stop in a destructor, and another on the same worker hold a lock and let go of it meanwhile.
fn beside(runtime: &Runtime, unwinds: impl FnOnce(&Canceller) + Send) -> Result<(), TaskError> {
    let (stopped, go_on) = (AtomicBool::new(false), AtomicBool::new(false));
    let innocent = Mutex::new(0);
    let outcome = runtime.nursery(|n| {
        n.task().name("innocent").spawn(|| {
            let _then = OnDrop(|| go_on.store(true, SeqCst)); // also if it fails
            let mut held = innocent.lock().unwrap();
            shield(|| until(|| stopped.load(SeqCst)));
            assert!(!std::thread::panicking(), "another task does");
            *held += 1;
            drop(held);
            drop(catch_unwind(|| std::panic::resume_unwind(Box::new(1)))); // its own panic is its own
            assert!(!std::thread::panicking());
        });
        let canceller = n.canceller();
        let (stopped, go_on) = (&stopped, &go_on);
        n.task().name("unwinds").spawn(move || {
            let _stops = Stops(stopped, go_on);
            unwinds(&canceller);
            sleep(Duration::from_secs(3600));
        });
        Ok(())
    });
    assert!(!innocent.is_poisoned());
    assert_eq!(*innocent.lock().unwrap(), 1);
    outcome
}

#[test]
fn a_task_does_not_panic_because_another_on_its_worker_unwinds() {
    let seeded = || Runtime::builder().workers(2).seeded(5).build().unwrap();
    for runtime in [Runtime::builder().workers(1).build().unwrap(), seeded()] {
        for _ in 0..20 {
            assert!(beside(&runtime, Canceller::cancel).unwrap_err().is_cancelled());
            assert!(beside(&runtime, |_| panic!("on purpose")).unwrap_err().is_panic());
        }
        assert!(!runtime.run(std::thread::panicking).unwrap());
    }
    assert!(!std::thread::panicking());
}

#[test]
fn many_tasks_may_stop_while_they_unwind_and_none_sees_another() {
    const TASKS: u64 = 500;
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (waiting, stopped, own, innocent) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let outcome = runtime.nursery(|outer| {
        for _ in 0..4 {
            outer.spawn(|| {
                let _then = OnDrop(|| _ = innocent.fetch_add(1, SeqCst)); // also if it fails
                until(|| stopped.load(SeqCst) == TASKS); // all are in the middle of it
                assert!(!std::thread::panicking(), "others do");
            });
        }
        let unwound = nursery(|n| {
            for _ in 0..TASKS {
                n.spawn(|| {
                    let _stops = OnDrop(|| {
                        stopped.fetch_add(1, SeqCst);
                        until(|| innocent.load(SeqCst) == 4);
                        own.fetch_add(u64::from(std::thread::panicking()), SeqCst);
                    });
                    waiting.fetch_add(1, SeqCst);
                    sleep(Duration::from_secs(3600));
                });
            }
            until(|| waiting.load(SeqCst) == TASKS);
            n.cancel();
            Ok(())
        });
        assert!(unwound.unwrap_err().is_cancelled());
        Ok(())
    });
    outcome.unwrap();
    assert_eq!(own.load(SeqCst), TASKS, "each sees its own");
    for _ in 0..8 {
        assert!(!runtime.run(std::thread::panicking).unwrap());
    }
}
