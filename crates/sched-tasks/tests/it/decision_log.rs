//! What workers chose can be read, if it was asked for, and does not grow.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use sched_tasks::{Runtime, decide::Choice, nursery, yield_now};

use crate::support::spin_until;

fn busy(runtime: &Runtime) {
    runtime
        .run(|| {
            nursery(|n| {
                (0..200).for_each(|_| drop(n.spawn(|| (0..5).for_each(|_| yield_now()))));
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
}

#[test]
fn a_log_keeps_the_last_choices_of_every_worker_and_no_more() {
    let runtime = Runtime::builder().workers(3).max_fibers(4096).decision_log(50).build().unwrap();
    busy(&runtime);
    let log = runtime.decisions();
    for worker in 0..3 {
        assert!(log.iter().filter(|entry| entry.worker == worker).count() <= 50);
    }
    assert!(log.len() >= 50, "{} choices", log.len());
    assert!(log.windows(2).all(|two| two[0].number < two[1].number));
    assert!(log.iter().all(|entry| entry.task.0 > 0), "the task that runs is known: {log:?}");
    let before = log.last().unwrap().number;
    busy(&runtime);
    let log = runtime.decisions();
    assert!(log.len() <= 150 && log.iter().any(|entry| entry.number > before));
}

#[test]
fn every_start_and_every_theft_is_a_choice() {
    let runtime = Runtime::builder().workers(2).max_fibers(4096).decision_log(100_000).build().unwrap();
    busy(&runtime);
    runtime
        .run(|| {
            let stolen = AtomicBool::new(false);
            nursery(|n| {
                n.spawn(|| stolen.store(true, SeqCst));
                spin_until(|| stolen.load(SeqCst)); // keeps its worker, so the other one has to take it
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    // A worker counts what it did a moment after another thread may see it.
    let counts = || {
        let log = runtime.decisions();
        let thefts = log.iter().filter(|entry| entry.choice == Choice::Elsewhere);
        assert!(thefts.clone().all(|entry| entry.victim == Some(1 - entry.worker)), "{log:?}");
        let goes_on = |choice| matches!(choice, Choice::Ready | Choice::Ahead);
        let starts = log.iter().filter(|entry| !goes_on(entry.choice)).count();
        (starts as u64, thefts.count() as u64)
    };
    let counted = || {
        let stats = runtime.stats().total();
        (stats.executed, stats.stolen)
    };
    spin_until(|| counts() == counted());
    assert!(counted().1 > 0);
}

#[test]
fn the_task_that_runs_after_a_yield_was_chosen() {
    let runtime = Runtime::builder().workers(1).max_fibers(4096).decision_log(100_000).build().unwrap();
    busy(&runtime); // 1,000 yields; only at the end one may be alone, and just goes on
    let went_on = runtime.decisions().iter().filter(|entry| entry.choice == Choice::Ready).count();
    assert!((950..=1001).contains(&went_on), "{went_on} times");
}

#[test]
fn without_a_log_nothing_is_kept() {
    let runtime = Runtime::builder().workers(2).max_fibers(4096).build().unwrap();
    busy(&runtime);
    assert!(runtime.decisions().is_empty());
}
