//! The rules of the specification, one after the other.

use std::sync::mpsc;

use sched_jobs::{Job, JobError, Jobs, Scheduler, State};

use crate::{Door, LONG, in_time, logs, on_both, on_both_with, stands_at, state};

#[test]
fn a_job_runs_after_what_it_needs() {
    on_both(|jobs| {
        let (log, order) = mpsc::channel();
        jobs.submit_all([logs(&log, "c").needs("b"), logs(&log, "b").needs("a"), logs(&log, "a")]).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 3);
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(state(&jobs, "c"), State::Succeeded);
    });
}

#[test]
fn among_waiting_jobs_the_highest_priority_runs_first_then_the_earliest() {
    on_both_with(
        |builder| builder.cpu_slots(1),
        |jobs| {
            let (door, (log, order)) = (Door::default(), mpsc::channel());
            let (first, runs) = stands_at(&door, "first");
            jobs.submit(first).unwrap();
            runs.recv().unwrap();
            for (name, priority) in [("low", -1), ("a", 0), ("high", 9), ("b", 0), ("higher", 10), ("lowest", i32::MIN)]
            {
                jobs.submit(logs(&log, name).priority(priority)).unwrap();
            }
            door.open();
            jobs.wait().unwrap();
            assert_eq!(order.try_iter().collect::<Vec<_>>(), ["higher", "high", "a", "b", "low", "lowest"]);
        },
    );
}

#[test]
fn a_job_that_waited_for_an_interval_overtakes_the_next_priority() {
    let interval = std::time::Duration::from_millis(20);
    on_both_with(
        move |builder| builder.cpu_slots(1).aging(interval, 10),
        move |jobs| {
            let (door, (log, order)) = (Door::default(), mpsc::channel());
            let (first, runs) = stands_at(&door, "first");
            jobs.submit(first).unwrap();
            runs.recv().unwrap();
            jobs.submit(logs(&log, "old")).unwrap();
            let since = jobs.now();
            while jobs.now() < since + 2 * interval {
                std::thread::yield_now(); // the test waits for time to pass
            }
            jobs.submit(logs(&log, "new").priority(9)).unwrap();
            door.open();
            jobs.wait().unwrap();
            assert_eq!(order.try_iter().collect::<Vec<_>>(), ["old", "new"]);
        },
    );
}

#[test]
fn jobs_are_submitted_while_others_run_and_from_within_them() {
    on_both(|jobs| {
        let (door, (log, order)) = (Door::default(), mpsc::channel());
        let (first, runs) = stands_at(&door, "first");
        jobs.submit(first).unwrap();
        runs.recv().unwrap();
        let (handle, log) = (jobs.clone(), std::sync::Mutex::new(log));
        let parent = Job::new("parent").needs("first").run(move |ctx| {
            let log = log.lock().unwrap().clone();
            handle.submit(logs(&log, "child").needs(ctx.id()))?;
            handle.submit(logs(&log, "grandchild").needs("child"))?;
            log.send("parent".to_owned())?;
            Ok::<_, JobError>(())
        });
        jobs.submit(parent).unwrap();
        door.open();
        assert_eq!(jobs.wait().unwrap().succeeded, 4);
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["parent", "child", "grandchild"]);
    });
}

#[test]
fn simple_runs_one_job_at_a_time_and_threadpool_as_many_as_it_has_workers() {
    for (scheduler, together) in [(Scheduler::Simple, 1), (Scheduler::Threadpool, 3)] {
        let jobs = Jobs::builder().cpu_slots(3).scheduler(scheduler).build();
        let (door, (entered, entries)) = (Door::default(), mpsc::channel());
        for i in 0..9 {
            let (door, entered) = (door.clone(), entered.clone());
            jobs.submit(Job::new(format!("{i}")).run(move |_| {
                let _ = entered.send(());
                door.pass();
            }))
            .unwrap();
        }
        for _ in 0..together {
            entries.recv_timeout(LONG).unwrap();
        }
        assert_eq!(jobs.usage().running, together, "{scheduler}");
        door.open();
        jobs.wait().unwrap();
    }
}

#[test]
fn a_job_without_work_succeeds_at_once() {
    on_both(|jobs| {
        jobs.submit(Job::new("bundle")).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 1);
    });
}

#[test]
fn jobs_that_become_ready_together_run_together() {
    in_time("three workers".to_owned(), || {
        let jobs = Jobs::builder().cpu_slots(3).build();
        for round in ["cold", "warm"] {
            let (door, (entered, entries)) = (Door::default(), mpsc::channel());
            let root = Job::new(round);
            let below = (0..3).map(|i| {
                let (door, entered) = (door.clone(), entered.clone());
                Job::new(format!("{round}-{i}")).needs(round).run(move |_| {
                    let _ = entered.send(());
                    door.pass();
                })
            });
            jobs.submit_all(std::iter::once(root).chain(below)).unwrap();
            for _ in 0..3 {
                entries.recv_timeout(LONG).expect("a worker comes for each of them");
            }
            door.open();
            jobs.wait().unwrap();
        }
    });
}
