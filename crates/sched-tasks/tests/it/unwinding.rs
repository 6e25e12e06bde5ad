//! What unwinds runs its destructors, and nothing unwinds twice at one time.

use std::{
    future::pending,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use sched_tasks::{Reason, Runtime, block_on, current_task, join, nursery, run, yield_now};

use crate::support::skipping;

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
