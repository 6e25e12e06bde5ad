//! Jobs in runs that a seed decides.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sched_jobs::{Cause, Ctx, Job, JobError, Jobs, Scheduler, State};
use sched_tasks::{
    Explore, Mutex as TaskMutex, Runtime, TaskError, checkpoint, explore, now, nursery, sleep, yield_now,
};

fn build(scheduler: Scheduler) -> Jobs {
    Jobs::builder().scheduler(scheduler).cpu_slots(3).build()
}

/// A diamond, of which one job fails twice and one is paused and resumed by another task; a second graph is cancelled.
fn pipeline(scheduler: Scheduler) -> Vec<String> {
    let jobs = build(scheduler);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = order.clone();
        move |_: &Ctx<'_>| {
            yield_now();
            order.lock().unwrap().push(name.to_owned());
        }
    };
    let tries = AtomicUsize::new(0);
    let flaky = order.clone();
    jobs.submit_all([
        Job::new("fetch").run(note("fetch")),
        Job::new("left").needs("fetch").run(note("left")),
        Job::new("right").needs("fetch").retries(2).run(move |_| {
            sleep(Duration::from_secs(1));
            if tries.fetch_add(1, Relaxed) < 2 {
                return Err(JobError::msg("not yet"));
            }
            flaky.lock().unwrap().push("right".to_owned());
            Ok(())
        }),
        Job::new("join").needs("left").needs("right").run(note("join")),
        Job::new("sleeper").run(|_| sleep(Duration::from_secs(3600))),
        Job::new("after").needs("sleeper").run(note("after")),
    ])
    .unwrap();
    nursery(|n| {
        n.spawn(|| {
            if jobs.pause("right").is_ok() {
                sleep(Duration::from_secs(10));
                jobs.resume("right").unwrap();
            }
        });
        n.spawn(|| jobs.cancel("sleeper").unwrap());
        Ok(())
    })
    .unwrap();
    let failed = jobs.wait().unwrap_err();
    assert_eq!((failed.summary.succeeded, failed.summary.cancelled), (4, 2));
    let state = |job: &str| jobs.status(job).unwrap().state;
    assert_eq!([state("sleeper"), state("after")], [State::Cancelled; 2]);
    assert_eq!(jobs.status("right").unwrap().attempts, 3);
    let order = order.lock().unwrap().clone();
    let at = |name: &str| order.iter().position(|done| done == name).unwrap();
    assert!(at("fetch") < at("left") && at("fetch") < at("right") && at("join") == 3, "{order:?}");
    order
}

#[test]
fn a_graph_with_retries_a_pause_and_a_cancellation_is_explored_in_virtual_time() {
    for scheduler in [Scheduler::Threadpool, Scheduler::Simple] {
        let begun = Instant::now();
        let explored = explore(0..60, || drop(pipeline(scheduler)));
        assert_eq!(explored.seeds, 60);
        assert!(explored.distinct > 20, "{explored:?}");
        assert!(begun.elapsed() < Duration::from_secs(120), "an hour of sleep takes no time");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_of_jobs() {
    for seed in 0..10 {
        let run = || {
            let runtime = Runtime::builder().workers(3).seeded(seed).build().unwrap();
            let order = runtime.run(|| pipeline(Scheduler::Threadpool)).unwrap();
            (order, runtime.trace().hash())
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// Two jobs of which one should need the other: the author forgot it.
fn forgot_a_need(forgets: bool) {
    let jobs = Jobs::builder().cpu_slots(2).build();
    let table = Arc::new(TaskMutex::new(Vec::new()));
    let (fill, read) = (table.clone(), table);
    let index = Job::new("index").run(move |_| {
        checkpoint();
        fill.lock().push(42);
    });
    let search =
        Job::new("search").run(move |_| read.lock().first().copied().ok_or_else(|| JobError::msg("nothing there")));
    jobs.submit_all([index, if forgets { search } else { search.needs("index") }]).unwrap();
    jobs.wait().unwrap();
}

#[test]
fn explore_finds_that_a_job_does_not_need_what_it_reads() {
    let finding = Explore::new().find(0..200, || forgot_a_need(true)).expect_err("some seed runs `search` first");
    assert!(finding.message.contains("nothing there"), "{finding}");
    explore(0..200, || forgot_a_need(false));
}

#[test]
fn a_job_that_waits_for_ever_is_a_deadlock_that_the_run_names() {
    let runtime = Runtime::builder().seeded(1).build().unwrap();
    let stuck = runtime.run(|| {
        let jobs = Jobs::builder().build();
        let (_kept, never) = sched_tasks::channel::<()>(1);
        jobs.submit(Job::new("stuck").run(move |_| _ = never.recv())).unwrap();
        let _ = jobs.wait();
    });
    assert!(stuck.unwrap_err().to_string().contains("deadlock"));
}

#[test]
fn jobs_that_outlive_their_seeded_run_are_ended_with_it() {
    let runtime = Runtime::builder().seeded(7).build().unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    struct Tells(Arc<AtomicBool>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let tells = Tells(dropped.clone());
    let jobs = runtime
        .run(move || {
            let jobs = Jobs::builder().build();
            jobs.submit(Job::new("long").run_once(move |_| {
                let _tells = tells;
                sleep(Duration::from_secs(3600));
            }))
            .unwrap();
            while jobs.status("long").unwrap().state != State::Running {
                yield_now();
            }
            jobs
        })
        .unwrap();
    assert!(dropped.load(Relaxed), "its closure has ended");
    let failed = jobs.wait().unwrap_err();
    assert!(matches!(&failed.first[0].1, Cause::Stopped(why) if why.contains("runtime")), "{failed}");
    let begun = now();
    drop(jobs);
    assert!(now() - begun < Duration::from_secs(60));
}

#[test]
fn when_a_runtime_is_dropped_its_jobs_have_ended() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let jobs = runtime.run(|| {
        let jobs = Jobs::builder().cpu_slots(2).build();
        jobs.submit_all((0..4).map(|i| Job::new(format!("{i}")).run(|_| sleep(Duration::from_secs(3600))))).unwrap();
        Ok::<_, TaskError>(jobs)
    });
    let jobs = jobs.unwrap().unwrap();
    drop(runtime);
    let ended = jobs.wait_timeout(Duration::from_secs(20)).unwrap_or_else(|| panic!("{:#?}", jobs.statuses()));
    assert_eq!(ended.unwrap_err().summary.cancelled, 4);
}
