//! The watchdog names the task that holds a worker and no other, and helps the tasks behind it.

use std::{
    future::poll_fn,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::Poll,
    thread,
    time::Duration,
};

use sched_tasks::{Builder, Runtime, Stuck, channel, checkpoint, current_task, nursery, sleep, yield_now};
use test_support::{alone, output_alone, text};

use crate::support::{spin_until, until};

/// Short, but longer than the system takes a thread off its CPU on a busy machine; where that matters, tests take more.
const LIMIT: Duration = Duration::from_millis(40);

/// A runtime whose stuck tasks are told of through a channel.
fn watched(builder: Builder) -> (Runtime, mpsc::Receiver<Stuck>) {
    let (tell, told) = mpsc::channel();
    let builder = builder.watchdog(LIMIT).on_stuck(move |stuck| drop(tell.send(stuck.clone())));
    (builder.build().unwrap(), told)
}

#[test]
fn a_hog_is_named_and_others_finish_what_its_worker_has_not_started() {
    let lazy = Runtime::builder().workers(2).without_stealing(0).without_stealing(1);
    for builder in [Runtime::builder().workers(2), lazy] {
        let (runtime, told) = watched(builder);
        let ran = AtomicUsize::new(0);
        let hog = runtime.nursery(|n| {
            let ran = &ran;
            let line = line!() + 1;
            let hog = n.spawn(move || {
                for _ in 0..50 {
                    n.spawn(|| ran.fetch_add(1, SeqCst));
                }
                let stuck = told.recv().unwrap(); // blocks the thread
                spin_until(|| ran.load(SeqCst) == 50);
                (stuck, current_task().unwrap().id)
            });
            let (stuck, id) = hog.join()?;
            assert_eq!((stuck.task, stuck.spawned_at.file(), stuck.spawned_at.line()), (id, file!(), line));
            assert!(stuck.for_at_least >= LIMIT, "{stuck}");
            Ok(stuck)
        });
        let hog = hog.unwrap();
        let stats = runtime.stats();
        assert!(stats.workers[hog.worker].stuck >= 1, "{stats:?}");
        assert!(runtime.stuck().iter().any(|stuck| stuck.task == hog.task), "{:?}", runtime.stuck());
    }
}

#[test]
fn thieves_that_are_stuck_themselves_are_not_relied_on() {
    let (runtime, told) = watched(Runtime::builder().workers(3));
    let (go, ran) = (AtomicBool::new(false), AtomicUsize::new(0));
    let outcome = runtime.nursery(|n| {
        let (go, ran) = (&go, &ran);
        n.spawn(|| spin_until(|| ran.load(SeqCst) == 20));
        n.spawn(move || {
            spin_until(|| go.load(SeqCst));
            (0..20).for_each(|_| drop(n.spawn(|| ran.fetch_add(1, SeqCst))));
            spin_until(|| ran.load(SeqCst) == 20);
        });
        let first = told.recv().unwrap().worker;
        let second = told.iter().map(|stuck| stuck.worker).find(|worker| *worker != first).unwrap();
        runtime.set_stealing(3 - first - second, false); // the only one that moves
        go.store(true, SeqCst);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_future_that_yielded_is_saved_from_behind_a_hog() {
    let (runtime, _told) = watched(Runtime::builder().workers(2));
    let [busy, polled, hogging, done] = [const { AtomicBool::new(false) }; 4];
    let outcome = runtime.run(|| {
        nursery(|n| {
            n.spawn(|| {
                busy.store(true, SeqCst);
                spin_until(|| hogging.load(SeqCst)); // the other worker has no time for the future, until
            });
            spin_until(|| busy.load(SeqCst));
            n.spawn(|| {
                assert!(polled.load(SeqCst));
                hogging.store(true, SeqCst);
                spin_until(|| done.load(SeqCst));
            });
            n.spawn_async(poll_fn(|cx| {
                if polled.swap(true, SeqCst) {
                    done.store(true, SeqCst);
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref(); // goes to the back of the line: behind the hog, which is older
                Poll::Pending
            }));
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_task_that_stopped_and_continued_is_named_and_not_the_one_between() {
    let (runtime, told) = watched(Runtime::builder().workers(1));
    let outcome = runtime.run(move || {
        nursery(|n| {
            let hog = n.spawn(move || {
                let other = n.spawn(|| ());
                until(|| other.is_done()); // it ran on this worker, the only one
                (told.recv().unwrap().task, current_task().unwrap().id)
            });
            let (named, hog) = hog.join()?;
            assert_eq!(named, hog);
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_hog_is_reported_again_when_the_time_has_doubled_but_counted_once() {
    let (runtime, told) = watched(Runtime::builder().workers(1));
    let reports: Vec<Stuck> = runtime.run(move || told.iter().take(3).collect()).unwrap();
    assert!(reports.windows(2).all(|two| two[1].for_at_least >= 2 * two[0].for_at_least), "{reports:?}");
    assert_eq!(runtime.stats().total().stuck, 1);
    let [stuck] = &runtime.stuck()[..] else { panic!("{:?}", runtime.stuck()) };
    assert!(stuck.task == reports[2].task && stuck.for_at_least >= reports[2].for_at_least);
}

#[test]
fn started_tasks_behind_a_hog_are_counted() {
    let (runtime, told) = watched(Runtime::builder().workers(1));
    let (started, [hogging, over]) = (AtomicUsize::new(0), [const { AtomicBool::new(false) }; 2]);
    let (wake, woken) = channel(0);
    let outcome = runtime.nursery(|n| {
        for _ in 0..3 {
            n.spawn(|| {
                started.fetch_add(1, SeqCst);
                until(|| over.load(SeqCst)); // ready all the time
            });
        }
        n.spawn(|| {
            started.fetch_add(1, SeqCst);
            woken.recv()
        });
        let (started, hogging, over) = (&started, &hogging, &over);
        let hog = n.spawn(move || {
            until(|| started.load(SeqCst) == 4);
            (0..4).for_each(|_| yield_now()); // the fourth waits by now
            hogging.store(true, SeqCst);
            let found = told.iter().find(|stuck| stuck.held_up == 4);
            over.store(true, SeqCst);
            found
        });
        spin_until(|| hogging.load(SeqCst));
        wake.send(()).unwrap(); // comes to the inbox, and is not taken in
        assert!(hog.join()?.is_some());
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_task_that_comes_to_checkpoints_is_never_named() {
    let runtime = Runtime::builder().workers(3).watchdog(Duration::from_millis(400)).build().unwrap();
    let over = || runtime.watchdog_looks() >= 10;
    let outcome = runtime.nursery(|n| {
        let (wake, woken) = channel::<()>(0);
        n.spawn(move || woken.recv()); // asleep all the time
        let looping = [
            n.spawn(|| {
                while !over() {
                    checkpoint()
                }
            }),
            n.spawn(|| {
                while !over() {
                    yield_now()
                }
            }),
        ];
        for task in looping {
            task.join()?;
        }
        drop(wake);
        Ok(())
    });
    outcome.unwrap();
    assert_eq!((runtime.stuck(), runtime.stats().total().stuck), (vec![], 0));
}

#[test]
fn the_watchdog_of_an_idle_runtime_rests_and_wakes_up_again() {
    if alone("watchdog::the_watchdog_of_an_idle_runtime_rests_and_wakes_up_again") {
        let (tell, told) = mpsc::channel();
        let builder = Runtime::builder().workers(4).watchdog(Duration::from_millis(8));
        let runtime = builder.on_stuck(move |stuck| drop(tell.send(stuck.clone()))).build().unwrap();
        assert_eq!((runtime.watchdog_looks(), clock_switches()), (0, None), "nothing has run yet");
        let (wake, woken) = channel::<()>(0);
        let (begun, has_begun) = mpsc::channel();
        let told = thread::scope(|scope| {
            let runtime = &runtime;
            scope.spawn(move || {
                let waits = || {
                    begun.send(()).unwrap();
                    woken.recv().unwrap_err()
                };
                runtime.run(waits)
            });
            has_begun.recv().unwrap();
            spin_until(|| clock_switches().is_some());
            let least = (0..10).map(|_| {
                let before = (runtime.watchdog_looks(), clock_switches().unwrap());
                thread::sleep(Duration::from_millis(100)); // what is measured is that nothing happens
                let after = (runtime.watchdog_looks(), clock_switches().unwrap());
                (after.0 - before.0, after.1 - before.1)
            });
            assert_eq!(least.min(), Some((0, 0)), "looks and wake-ups in 100 ms of rest");
            drop(wake);
            runtime.run(move || told.recv().unwrap()) // a hog, after the rest
        });
        assert!(told.unwrap().for_at_least >= Duration::from_millis(8));
    }
}

/// How often the clock's thread has gone to sleep. None: it has not even told the system its name.
fn clock_switches() -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut statuses = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let status = statuses.find(|status| status.starts_with("Name:\tbursar-clock"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

#[test]
fn without_a_hook_a_line_on_standard_error_tells() {
    match output_alone("watchdog::without_a_hook_a_line_on_standard_error_tells") {
        Some(output) => {
            let (said, line) = (text(&output.stderr), format!("(spawned at {}:", file!()));
            assert!(said.contains("bursar: task #") && said.contains(&line), "{said}");
            assert!(said.contains("without a checkpoint") && said.contains("`bursar::checkpoint()`"), "{said}");
        }
        None => {
            let runtime = Runtime::builder().workers(1).watchdog(LIMIT).build().unwrap();
            let looks = || runtime.watchdog_looks();
            runtime.run(|| spin_until(|| looks() > 6)).unwrap();
        }
    }
}

#[test]
fn a_hook_that_panics_does_not_stop_the_clock() {
    let runtime = Runtime::builder().workers(1).watchdog(LIMIT).on_stuck(|_| panic!("on purpose")).build().unwrap();
    runtime.run(|| spin_until(|| runtime.watchdog_looks() > 6)).unwrap();
    assert_eq!(runtime.stats().total().stuck, 1);
    runtime.run(|| sleep(Duration::from_millis(1))).unwrap(); // comes back
}

#[test]
fn no_watchdog_runs_if_none_is_wanted() {
    let runtime = Runtime::builder().workers(1).no_watchdog().build().unwrap();
    runtime.run(|| thread::sleep(Duration::from_millis(20))).unwrap(); // long enough for the shortest limit there is
    assert_eq!((runtime.watchdog_looks(), runtime.stuck()), (0, vec![]));
}
