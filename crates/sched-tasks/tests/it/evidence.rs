//! Where does the time go: what workers count adds up, and tells the scheduler from the work.

use std::{
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{
    Choices, NurseryOptions, OnFailure, Priority, Runtime, Stats, What, WorkerStats, channel, decide::Choice, nursery,
    nursery_with, unbounded, yield_now,
};

use crate::{liveness::futures_yield, support::spin_until};

/// Everything that can be chosen: fibers that yield and wait, futures, priorities, tasks that only another worker can run.
fn medley(runtime: &Runtime) {
    runtime
        .run(|| {
            nursery(|n| {
                (0..100).for_each(|_| drop(n.spawn(|| ()))); // the newest first, while nothing is ready
                Ok(())
            })?;
            let (request, requests) = channel(1);
            let stolen = AtomicBool::new(false);
            nursery(|n| {
                for number in 0..200 {
                    let request = request.clone();
                    let priority = [Priority::Normal, Priority::High, Priority::Low][number % 3];
                    n.task().priority(priority).spawn(move || {
                        (0..5).for_each(|_| yield_now());
                        request.send(number).unwrap();
                    });
                    n.spawn_async(async {
                        for _ in 0..3 {
                            futures_yield().await;
                        }
                    });
                }
                drop(request);
                n.spawn(move || assert_eq!(requests.iter().count(), 200));
                if runtime.workers() > 1 {
                    n.spawn(|| stolen.store(true, SeqCst));
                    spin_until(|| stolen.load(SeqCst)); // keeps its worker
                }
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
}

/// What the log of a worker's choices says of them.
fn logged(runtime: &Runtime, worker: usize) -> Choices {
    let log = runtime.decisions();
    let count = |wanted: &[Choice]| {
        log.iter().filter(|entry| entry.worker == worker && wanted.contains(&entry.choice)).count() as u64
    };
    let mut choices = Choices::default();
    choices.ready = count(&[Choice::Ready, Choice::Ahead]);
    choices.newest = count(&[Choice::Newest]);
    choices.oldest = count(&[Choice::Oldest]);
    choices.shared = count(&[Choice::High, Choice::Injected, Choice::Low]);
    choices.stolen = count(&[Choice::Elsewhere]);
    choices
}

/// Its statistics once all workers sleep: until then some of what they did is on its way into the counters.
fn at_rest(runtime: &Runtime) -> Stats {
    spin_until(|| runtime.stats().workers.iter().all(|worker| worker.parks == worker.wakes + 1));
    runtime.stats()
}

fn adds_up(worker: &WorkerStats) -> bool {
    worker.choices.made() == worker.executed + worker.refused + worker.resumed
}

#[test]
fn what_is_derived_is_what_the_log_of_all_choices_says() {
    for (workers, diagnostics) in [(1, false), (2, false), (3, true)] {
        let builder = Runtime::builder().workers(workers).max_fibers(4096).decision_log(1_000_000);
        let runtime = builder.diagnostics(diagnostics).build().unwrap();
        medley(&runtime);
        let stats = at_rest(&runtime);
        for (index, worker) in stats.workers.iter().enumerate() {
            let mut counted = worker.choices;
            counted.nothing = 0; // that is not logged
            assert_eq!(counted, logged(&runtime, index), "worker {index} of {workers}");
            assert!(adds_up(worker), "{worker:?}");
        }
        let all = stats.total().choices;
        match workers {
            1 => assert!([all.ready, all.newest, all.oldest, all.shared, all.nothing].iter().all(|&kind| kind > 0)),
            _ => assert!(all.stolen > 0, "one could only be stolen: {all:?}"),
        }
        assert_eq!(all.group, 0);
    }
}

#[test]
fn with_groups_it_adds_up_as_well() {
    for diagnostics in [false, true] {
        let builder = Runtime::builder().workers(2).max_fibers(4096).decision_log(1_000_000);
        let runtime = builder.diagnostics(diagnostics).build().unwrap();
        runtime
            .run(|| {
                nursery(|n| {
                    for weight in [1, 3] {
                        n.try_spawn(move || {
                            nursery_with(NurseryOptions::new().weight(weight), |n| {
                                for number in 0..100 {
                                    let priority = [Priority::Normal, Priority::High, Priority::Low][number % 3];
                                    n.task().priority(priority).spawn(|| (0..5).for_each(|_| yield_now()));
                                    n.spawn_async(futures_yield());
                                }
                                Ok(())
                            })
                        });
                    }
                    (0..50).for_each(|_| drop(n.spawn(|| (0..5).for_each(|_| yield_now()))));
                    Ok(())
                })
            })
            .unwrap()
            .unwrap();
        let stats = at_rest(&runtime);
        for (index, worker) in stats.workers.iter().enumerate() {
            assert!(adds_up(worker), "{worker:?}");
            assert_eq!(worker.choices.made(), logged(&runtime, index).made(), "worker {index}: {worker:?}");
        }
        assert!(stats.total().choices.group >= 2 * 100 * 6, "each is begun, and goes on five times: {stats:?}");
    }
}

#[test]
fn tasks_for_which_there_is_no_stack_were_chosen_too() {
    let runtime = Runtime::builder().workers(1).max_fibers(4).build().unwrap();
    let (release, released) = channel::<()>(0);
    let refused = runtime.run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            (0..10).for_each(|_| drop(n.spawn(|| released.recv())));
            yield_now();
            drop(release);
            Ok(())
        })
    });
    refused.unwrap().unwrap_err();
    let all = at_rest(&runtime).total();
    assert!(all.refused > 0 && adds_up(&all), "{all:?}");
}

#[test]
fn a_task_that_yields_in_vain_is_not_counted_as_chosen_and_one_that_goes_on_is() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| (0..1000).for_each(|_| yield_now())).unwrap();
    assert_eq!(runtime.stats().total().resumed, 0, "it was alone");
    let outcome = runtime.run(|| {
        nursery(|n| {
            (0..2).for_each(|_| drop(n.spawn(|| (0..1000).for_each(|_| yield_now()))));
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    let resumed = runtime.stats().total().resumed;
    // Each yield of the first lets the second go on and the other way round, until one has ended; and the body goes on when both have.
    assert!((1990..=2001).contains(&resumed), "{resumed}");
}

#[test]
fn a_worker_that_publishes_work_signals_one_that_sleeps() {
    let runtime = Runtime::builder().workers(2).no_watchdog().build().unwrap();
    let (before, after, other) = runtime
        .run(|| {
            let ran = AtomicBool::new(false);
            let own = sched_tasks::current_worker().unwrap();
            let other = 1 - own;
            let asleep = |stats: &Stats| stats.workers[other].parks == stats.workers[other].wakes + 1;
            nursery(|n| {
                let run_elsewhere = || {
                    spin_until(|| asleep(&runtime.stats()));
                    let before = runtime.stats();
                    ran.store(false, SeqCst);
                    n.spawn(|| ran.store(true, SeqCst));
                    spin_until(|| ran.load(SeqCst));
                    before
                };
                run_elsewhere(); // the other one may have been woken while this task began
                Ok((run_elsewhere(), runtime.stats(), other))
            })
        })
        .unwrap()
        .unwrap();
    let own = 1 - other;
    assert_eq!(after.workers[own].signals - before.workers[own].signals, 1, "{after:?}");
    assert_eq!(after.workers[other].wakes - before.workers[other].wakes, 1, "{after:?}");
    assert_eq!(after.workers[other].choices.stolen - before.workers[other].choices.stolen, 1, "{after:?}");
}

/// What passed between two looks, and how long that was at least and at most.
fn between(runtime: &Runtime, work: impl FnOnce()) -> (Vec<(WorkerStats, WorkerStats)>, Duration, Duration) {
    let (outer, first, inner) = (Instant::now(), runtime.stats(), Instant::now());
    work();
    let (least, second, most) = (inner.elapsed(), runtime.stats(), outer.elapsed());
    (first.workers.into_iter().zip(second.workers).collect(), least, most)
}

/// The rate of the processor's counter is measured: in some tens of milliseconds it may be off by that.
const OFF_BY: Duration = Duration::from_micros(100);

#[test]
fn scheduler_tasks_and_idle_are_the_wall_time_of_a_worker_whether_it_is_busy_or_not() {
    let runtime = Runtime::builder().workers(3).diagnostics(true).build().unwrap();
    at_rest(&runtime); // all have begun
    let spun = AtomicU64::new(0);
    let (workers, least, most) = between(&runtime, || {
        let outcome = runtime.run(|| {
            nursery(|n| {
                // One worker computes, two fibers change places, and there is nothing for the third.
                let (ping, pong) = channel(0);
                n.spawn(move || (0..2000).for_each(|number| ping.send(number).unwrap()));
                n.spawn(move || assert_eq!(pong.iter().count(), 2000));
                n.spawn(|| {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(20) {
                        hint::spin_loop();
                    }
                    spun.store(begun.elapsed().as_nanos() as u64, SeqCst);
                });
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
        at_rest(&runtime);
    });
    for (first, second) in &workers {
        let (own, before) = (second.diagnostics.unwrap(), first.diagnostics.unwrap());
        for (stats, diagnostics) in [(first, &before), (second, &own)] {
            let sum = diagnostics.in_scheduler + diagnostics.in_tasks + stats.idle;
            assert!(sum.abs_diff(stats.wall) <= OFF_BY, "{sum:?} of {stats:?}");
        }
        let wall = second.wall - first.wall;
        assert!(wall + OFF_BY >= least && wall <= most + OFF_BY, "{wall:?}, but {least:?} to {most:?}");
    }
    let tasks: Duration = workers.iter().map(|(_, last)| last.diagnostics.unwrap().in_tasks).sum();
    let spun = Duration::from_nanos(spun.into_inner());
    assert!(tasks + OFF_BY >= spun, "{tasks:?} in tasks, of which one alone spun for {spun:?}");
    let scheduler: Duration = workers.iter().map(|(_, last)| last.diagnostics.unwrap().in_scheduler).sum();
    assert!(scheduler > Duration::ZERO, "4000 switches took {scheduler:?}");
}

#[test]
fn a_worker_that_sleeps_is_idle_while_it_sleeps_and_does_nothing_else() {
    for diagnostics in [false, true] {
        let runtime = Runtime::builder().workers(1).diagnostics(diagnostics).build().unwrap();
        at_rest(&runtime);
        let (workers, least, _) = between(&runtime, || thread::sleep(Duration::from_millis(5)));
        let (first, last) = workers[0];
        assert_eq!(first.parks, last.parks, "it was left alone");
        assert!(last.idle - first.idle + OFF_BY >= least, "{last:?} after {first:?}");
        assert_eq!(last.idle - first.idle, last.wall - first.wall);
        assert_eq!(last.diagnostics.is_some(), diagnostics);
        if let Some((last, first)) = last.diagnostics.zip(first.diagnostics) {
            assert_eq!(last, first, "neither tasks nor scheduler");
        }
    }
}

fn in_tasks(runtime: &Runtime) -> Duration {
    runtime.stats().total().diagnostics.unwrap().in_tasks
}

/// Keeps its worker for a while; all of that has to be time in tasks.
fn spins_as_a_task(runtime: &Runtime) {
    let (before, begun) = (in_tasks(runtime), Instant::now());
    while begun.elapsed() < Duration::from_millis(5) {
        hint::spin_loop();
    }
    let (spun, counted) = (begun.elapsed(), in_tasks(runtime) - before);
    assert!(counted + OFF_BY >= spun, "{counted:?} of {spun:?}");
}

#[test]
fn a_task_that_waits_costs_no_time_and_one_that_spins_costs_all_of_it() {
    let runtime = Runtime::builder().workers(1).diagnostics(true).build().unwrap();
    let (slept, counted) = runtime
        .run(|| {
            let (begun, before) = (Instant::now(), in_tasks(&runtime));
            sched_tasks::sleep(Duration::from_millis(20));
            let waits = (begun.elapsed(), in_tasks(&runtime) - before);
            spins_as_a_task(&runtime); // it went on after a stop
            waits
        })
        .unwrap();
    assert!(counted < slept / 2, "{counted:?} of {slept:?}");
}

#[test]
fn a_task_costs_its_time_also_where_it_begins_without_a_switch_or_goes_on_without_one() {
    let runtime = Runtime::builder().workers(1).diagnostics(true).build().unwrap();
    let outcome = runtime.run(|| {
        nursery(|n| {
            (0..3).for_each(|_| drop(n.spawn(|| spins_as_a_task(&runtime)))); // one after the other, on one stack
            Ok(())
        })?;
        nursery(|n| {
            n.task().priority(Priority::Low).spawn(|| ());
            let before = runtime.stats().total();
            yield_now(); // there is something else, but it comes later: this task is chosen itself
            let after = runtime.stats().total();
            assert_eq!((after.resumed - before.resumed, after.switches - before.switches), (1, 0));
            spins_as_a_task(&runtime);
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn without_diagnostics_none_are_counted() {
    let runtime = Runtime::builder().workers(2).max_fibers(4096).build().unwrap();
    medley(&runtime);
    let stats = at_rest(&runtime);
    assert!(stats.workers.iter().all(|worker| worker.diagnostics.is_none()) && stats.total().diagnostics.is_none());
    assert!(stats.total().choices.ready > 1000, "the short way is counted: {stats:?}");
}

#[test]
fn candidates_are_counted_for_each_choice() {
    let runtime = Runtime::builder().workers(2).max_fibers(4096).diagnostics(true).build().unwrap();
    medley(&runtime);
    let all = at_rest(&runtime).total();
    // Each choice asks for high priority first, and then at least one queue more.
    let candidates = all.diagnostics.unwrap().candidates;
    assert!(candidates >= 2 * (all.choices.made() - all.stolen), "{all:?}");
    assert!(candidates < 20 * (all.choices.made() + all.choices.nothing * 20), "{all:?}");
}

#[test]
fn locks_that_are_found_taken_are_counted() {
    let runtime = Runtime::builder().workers(2).diagnostics(true).build().unwrap();
    let contended = || runtime.stats().total().diagnostics.unwrap().contended_locks;
    let outcome = runtime.run(|| {
        let (tx, rx) = unbounded();
        let begun = AtomicU64::new(0);
        nursery(|n| {
            for _ in 0..2 {
                let (tx, rx, begun) = (tx.clone(), rx.clone(), &begun);
                n.spawn(move || {
                    begun.fetch_add(1, SeqCst);
                    spin_until(|| begun.load(SeqCst) == 2); // on both workers
                    while contended() == 0 {
                        for number in 0..100 {
                            tx.send(number).unwrap();
                            let _ = rx.try_recv(); // so the queue stays short, however long it takes
                        }
                    }
                });
            }
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
    assert!(contended() > 0);
}

#[test]
fn a_seeded_run_counts_the_same_each_time_and_has_no_times() {
    let seeded = |diagnostics: bool| {
        let builder = Runtime::builder().workers(3).seeded(11).diagnostics(diagnostics);
        let runtime = builder.build().unwrap();
        let outcome = runtime.run(|| {
            let (tx, rx) = channel(1);
            nursery(|n| {
                for number in 0..20 {
                    let tx = tx.clone();
                    n.spawn(move || {
                        yield_now();
                        tx.send(number).unwrap();
                    });
                    n.spawn_async(futures_yield());
                }
                drop(tx);
                Ok(rx.iter().sum::<i32>())
            })
        });
        assert_eq!(outcome.unwrap().unwrap(), 190);
        (runtime.stats(), runtime.trace())
    };
    let (first, trace) = seeded(true);
    assert_eq!((first.clone(), trace.clone()), seeded(true));
    let (without, same_trace) = seeded(false);
    assert_eq!(trace.events(), same_trace.events(), "to count changes no choice");
    let count = |worker: usize, what: What| {
        trace.events().iter().filter(|event| event.worker == Some(worker as u32) && event.what == what).count() as u64
    };
    assert!(trace.events().iter().any(|event| event.what == What::Preempted), "{trace}");
    for (index, (worker, without)) in first.workers.iter().zip(&without.workers).enumerate() {
        assert!(adds_up(worker), "{worker:?}");
        assert_eq!(worker.executed, count(index, What::Started));
        let interrupted = count(index, What::Preempted); // and went on later, but not because it was chosen
        assert_eq!(worker.resumed, count(index, What::Resumed) - interrupted);
        let mut permanent = *worker;
        permanent.diagnostics = None;
        assert_eq!(permanent, *without);
        assert_eq!((worker.wall, worker.idle, worker.signals), (Duration::ZERO, Duration::ZERO, 0));
        let own = worker.diagnostics.unwrap();
        assert_eq!((own.in_tasks, own.in_scheduler, own.contended_locks), (Duration::ZERO, Duration::ZERO, 0));
        assert!(own.candidates > 0);
    }
}

#[test]
fn the_table_has_a_line_for_each_worker_and_one_for_all() {
    let runtime = Runtime::builder().workers(2).diagnostics(true).build().unwrap();
    runtime.run(|| ()).unwrap();
    let table = runtime.stats().to_string();
    let titles = table.lines().next().unwrap();
    for title in ["begun", "resumed", "candidates", "tasks", "scheduler", "idle"] {
        assert!(titles.contains(title), "{table}");
    }
    assert_eq!(table.lines().count(), 4, "{table}");
}
