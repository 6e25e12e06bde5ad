//! A seeded run that cannot go on fails, and says so; and what it borrowed from is still there.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sched_tasks::{Reason, RunError, Runtime, TaskError, channel, nursery, shield};
use test_support::{output_alone, text};

use crate::{destructors::OnDrop, seeded::seeded};

#[test]
fn a_deadlock_behind_a_shield_is_the_failure_of_its_run() {
    let runtime = seeded(2, 17);
    let (_tx, rx) = channel::<()>(1);
    let (dropped, rx) = (AtomicU64::new(0), &rx);
    let count = || OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
    let waits: [&(dyn Fn() -> Result<(), TaskError> + Sync); 4] = [
        &|| {
            nursery(|n| {
                let task = n.task().name("behind a shield").spawn(|| {
                    let _counts = count();
                    shield(|| rx.recv())
                });
                Ok(task.join()??)
            })
        },
        // A nursery inside a shield is not reached by a cancellation, either.
        &|| {
            let _counts = count();
            shield(|| nursery(|n| Ok(n.task().name("behind a shield").spawn(|| rx.recv()).join()??)))
        },
        // Nor is a destructor of something that never ran.
        &|| {
            nursery(|n| {
                let waits = OnDrop(|| drop((count(), rx.recv())));
                n.task().name("behind a shield").spawn(move || drop(waits));
                n.cancel();
                Ok(())
            })
        },
        &|| {
            let _counts = count();
            Ok(shield(|| rx.recv())?)
        },
    ];
    for (round, wait) in waits.into_iter().enumerate() {
        dropped.store(0, SeqCst);
        let outcome = runtime.run(wait);
        let Err(RunError::Task(error)) = outcome else { panic!("round {round}: {outcome:?}") };
        assert!(matches!(error.reason(), Reason::Deadlock { seed: 17, .. }), "round {round}: {error}");
        assert_eq!(dropped.load(SeqCst), 1, "round {round}");
        assert_eq!(runtime.run(|| shield(|| 1)).unwrap(), 1); // and it can be used again
    }
    // The same where the body is on the caller's thread.
    let outcome = runtime.nursery(|_| Ok(shield(|| rx.recv())?));
    assert!(matches!(outcome.unwrap_err().reason(), Reason::Deadlock { .. }));
}

#[test]
fn a_seeded_run_that_would_wait_for_another_runtime_fails_and_says_so() {
    let runtime = seeded(2, 17);
    let other = Runtime::builder().workers(1).build().unwrap();
    let slow = || {
        std::thread::sleep(std::time::Duration::from_millis(5)); // so that the seeded run has nothing else to do
        1
    };
    let outcomes = [
        runtime.run(|| drop(other.run(slow))).map_err(|error| error.to_string()),
        runtime.nursery(|_| other.run(slow).or(Ok(0))).map(drop).map_err(|error| error.to_string()),
        runtime.run(|| drop(other.nursery(|n| n.spawn(slow).join()))).map_err(|error| error.to_string()),
        runtime.run(|| drop(shield(|| other.run(slow)))).map_err(|error| error.to_string()),
    ];
    for outcome in outcomes {
        let said = outcome.unwrap_err();
        assert!(said.contains("another runtime") && said.contains("seed"), "{said}");
    }
    assert_eq!((runtime.run(|| 1).unwrap(), other.run(|| 2).unwrap()), (1, 2)); // both can be used again
    // One that is seeded itself waits for no other.
    assert_eq!(runtime.run(|| seeded(2, 3).run(|| 4).unwrap()).unwrap(), 4);
}

#[test]
fn a_deadlock_in_a_destructor_that_runs_while_its_task_unwinds_ends_the_process_and_says_who_it_is() {
    let test = "seeded_deadlocks::a_deadlock_in_a_destructor_that_runs_while_its_task_unwinds_ends_the_process_and_says_who_it_is";
    match output_alone(test) {
        None => {
            let (_tx, rx) = channel::<()>(1);
            let waits = || {
                let _waits = OnDrop(|| _ = rx.recv());
                sched_tasks::sleep(std::time::Duration::from_secs(1));
                rx.recv().unwrap();
            };
            let _ = seeded(2, 17).run(|| nursery(|n| n.task().name("in a destructor").spawn(waits).join()));
        }
        Some(output) => {
            let said = text(&output.stderr);
            assert!(!output.status.success());
            assert!(said.contains("deadlock") && said.contains("in a destructor") && said.contains("17"), "{said}");
        }
    }
}
