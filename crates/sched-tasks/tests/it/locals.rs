//! Values that belong to a task.

use std::{
    cell::{Cell, RefCell},
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use sched_tasks::{
    Budget, Component, NurseryOptions, OnFailure, Reason, Runtime, block_on, charge, current_worker, join, nursery,
    nursery_with,
};

use crate::support::until;

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a value of a task panics while it is dropped, on purpose");
    }
}

sched_tasks::fiber_local! {
    static NUMBER: Cell<u32> = Cell::new(0);
    static BOMB: Bomb = Bomb;
    static OWNED: RefCell<Option<Counts>> = RefCell::new(None);
}

#[test]
fn a_value_that_panics_when_it_is_dropped_does_not_take_the_worker_along() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime
        .nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            let failed = [n.spawn(|| BOMB.with(|_| ())).join(), n.spawn_async(async { BOMB.with(|_| ()) }).join()];
            for error in failed.map(Result::unwrap_err) {
                assert!(error.to_string().contains("while it is dropped, on purpose"), "{error}");
            }
            assert_eq!(n.spawn(|| 1).join()?, 1);
            Ok(())
        })
        .unwrap_err();
    assert_eq!(runtime.stats().workers[0].restarts, 0);
}

#[test]
fn a_task_that_panicked_says_so_whatever_its_values_do() {
    let error = nursery(|n| {
        n.spawn(|| {
            BOMB.with(|_| ());
            panic!("the task itself");
        })
        .join()
    })
    .unwrap_err();
    let Reason::Panicked { message, location } = error.reason() else { panic!("{error}") };
    assert_eq!(&**message, "the task itself");
    assert!(location.as_ref().is_some_and(|at| at.contains("locals.rs")), "{location:?}");
}

/// Spends when it is dropped.
struct Spends(u64);

impl Drop for Spends {
    fn drop(&mut self) {
        charge(self.0);
    }
}

sched_tasks::fiber_local! {
    static SPENDS: Cell<Option<Spends>> = Cell::new(None);
}

#[test]
fn what_the_values_of_a_task_spend_the_task_pays() {
    let options = || {
        NurseryOptions::new()
            .budget(Budget { ops: 10_000, ..Budget::UNLIMITED })
            .task_budget(Budget { ops: 1_000, ..Budget::UNLIMITED })
    };
    let set = |ops| SPENDS.with(|cell| cell.set(Some(Spends(ops))));
    nursery_with(options(), |n| {
        n.spawn(|| set(500)).join()?;
        n.spawn_async(async { set(500) }).join()?;
        until(|| n.pool().unwrap().out().ops == 0);
        assert_eq!(n.pool().unwrap().spent().ops, 1_000);
        Ok(())
    })
    .unwrap();
    for kind in 0..2 {
        let outcome = nursery_with(options(), |n| match kind {
            0 => n.spawn(|| set(5_000)).join(),
            _ => n.spawn_async(async { set(5_000) }).join(),
        });
        let error = outcome.unwrap_err();
        assert!(matches!(error.reason(), Reason::BudgetExhausted { component: Component::Ops, .. }), "{error}");
    }
}

/// Writes down the task's number when it is dropped, and changes it.
struct Notes(Arc<AtomicU32>);

impl Drop for Notes {
    fn drop(&mut self) {
        self.0.store(NUMBER.get(), SeqCst);
        NUMBER.set(99);
    }
}

/// Counts how many were dropped.
struct Counts(Arc<AtomicU32>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_destructors_of_a_cancelled_future_see_its_values_and_leave_none_behind() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let seen = Arc::new(AtomicU32::new(0));
    let notes = Notes(seen.clone());
    let (tx, rx) = async_channel::bounded(1);
    let outcome = runtime.nursery(|n| {
        n.spawn_async(async move {
            let _notes = notes;
            NUMBER.set(7);
            tx.send(()).await.unwrap();
            pending::<()>().await;
        });
        block_on(rx.recv()).unwrap();
        n.cancel();
        Ok(())
    });
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(seen.load(SeqCst), 7);
    assert_eq!(runtime.run(|| NUMBER.get()).unwrap(), 0);
}

#[test]
fn the_destructors_of_a_task_that_never_ran_leave_no_values_behind() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let seen = Arc::new(AtomicU32::new(1));
    let outcome = runtime.run(|| {
        let notes = Notes(seen.clone());
        nursery(|n| {
            n.spawn(move || drop(notes));
            n.cancel();
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
    assert_eq!(seen.load(SeqCst), 0);
    assert_eq!(runtime.run(|| NUMBER.get()).unwrap(), 0);
}

#[test]
fn the_next_task_on_the_same_stack_begins_with_fresh_values() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let seen: Vec<u32> = (1..=5)
        .map(|number| {
            let task = move || {
                let before = NUMBER.get();
                NUMBER.set(number);
                before
            };
            runtime.run(task).unwrap()
        })
        .collect();
    assert_eq!(seen, [0; 5]);
}

struct Says(&'static str);

static SAID: std::sync::Mutex<Vec<&str>> = std::sync::Mutex::new(Vec::new());

impl Drop for Says {
    fn drop(&mut self) {
        SAID.lock().unwrap().push(self.0);
    }
}

sched_tasks::fiber_local! {
    static C: Says = Says("c");
    static A: Says = Says("a");
    static D: Says = Says("d");
    static B: Says = Says("b");
}

#[test]
fn values_are_dropped_in_the_order_they_were_made() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| [&A, &B, &A, &C, &D].map(|local| local.with(|_| ()))).unwrap();
    assert_eq!(*SAID.lock().unwrap(), ["a", "b", "c", "d"]);
}

#[test]
fn both_halves_of_a_join_see_the_values_of_their_task() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let seen = runtime.run(|| {
        NUMBER.set(7);
        // On two workers the second half is there to be taken while the first waits for it, if it is offered at all.
        let (second_began, limit) = (AtomicU32::new(0), Duration::from_millis(200));
        join(
            || {
                let begun = Instant::now();
                while second_began.load(SeqCst) == 0 && begun.elapsed() < limit {
                    std::thread::yield_now();
                }
                NUMBER.get()
            },
            || {
                second_began.store(1, SeqCst);
                let (left, right) = join(|| NUMBER.get(), || NUMBER.with(|number| number.replace(8)));
                (left, right, NUMBER.get())
            },
        )
    });
    assert_eq!(seen.unwrap(), (7, (7, 7, 8)));
}

#[test]
fn a_value_that_a_half_made_stays_with_the_task() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (dropped, stolen) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
    let workers = runtime.run(|| {
        let there = join(
            || {
                while stolen.load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
            },
            || {
                stolen.store(1, SeqCst);
                NUMBER.set(5);
                OWNED.with(|owned| owned.replace(Some(Counts(dropped.clone()))));
                current_worker()
            },
        );
        assert_eq!((NUMBER.get(), dropped.load(SeqCst)), (5, 0));
        (current_worker(), there.1)
    });
    let (here, there) = workers.unwrap();
    assert_ne!(here, there, "the half was to be stolen");
    assert_eq!(dropped.load(SeqCst), 1, "it was dropped with the task, once");
}

#[test]
fn both_halves_of_a_join_on_a_thread_see_the_values_of_the_thread() {
    std::thread::spawn(|| {
        NUMBER.set(7);
        assert_eq!(join(|| NUMBER.get(), || NUMBER.with(|number| number.replace(8))), (7, 7));
        assert_eq!(NUMBER.get(), 8);
    })
    .join()
    .unwrap();
}
