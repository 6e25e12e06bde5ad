//! Jobs whose runtime is gone.

use std::time::Duration;

use sched_jobs::{Cause, Job, JobError, Jobs, State};
use sched_tasks::{Runtime, sleep};

const SOON: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

fn built_in(runtime: &Runtime) -> Jobs {
    runtime.run(|| Jobs::builder().cpu_slots(2).build()).unwrap()
}

/// Every job has ended, and the scheduler can be dropped.
fn has_ended(jobs: Jobs, what: &str) {
    let ended = jobs.wait_timeout(SOON);
    assert!(ended.is_some(), "{what}: {:#?}", jobs.statuses());
    drop(jobs);
}

#[test]
fn light_jobs_and_others_end_with_it_whenever_that_is() {
    for round in 0..150_u64 {
        let runtime = runtime();
        let jobs = built_in(&runtime);
        for i in 0..(round % 7) {
            let job = Job::unnamed().ram_mb(0).run(|_| ());
            jobs.submit(if i % 2 == 0 { job.light() } else { job }).unwrap();
        }
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_micros(round * 10));
        }
        drop(runtime);
        has_ended(jobs, "in the middle");
    }
}

#[test]
fn a_job_that_waits_for_its_next_attempt_ends_with_it() {
    for light in [true, false] {
        let runtime = runtime();
        let jobs = built_in(&runtime);
        let job = Job::new("flaky").retries(5).run(|_| Err::<(), _>(JobError::msg("not yet")));
        jobs.submit(if light { job.light() } else { job }).unwrap();
        while jobs.status("flaky").unwrap().attempts == 0 {
            std::thread::yield_now();
        }
        drop(runtime);
        has_ended(jobs, "in its back-off");
    }
}

#[test]
fn a_paused_job_is_cancelled_with_it_and_does_not_fail() {
    let runtime = runtime();
    let jobs = built_in(&runtime);
    jobs.submit(Job::new("sleeps").run(|_| sleep(Duration::from_secs(3600)))).unwrap();
    while jobs.status("sleeps").unwrap().state != State::Running {
        std::thread::yield_now();
    }
    jobs.pause("sleeps").unwrap();
    drop(runtime);
    let failed = jobs.wait_timeout(SOON).expect("it ends").unwrap_err();
    assert_eq!((failed.summary.cancelled, failed.summary.failed), (1, 0), "{failed}");
    assert!(matches!(&failed.first[0].1, Cause::Stopped(why) if why.contains("runtime")), "{failed}");
}

#[test]
fn after_it_jobs_are_refused_or_end_and_nothing_hangs() {
    for before in 0..3 {
        let runtime = runtime();
        let jobs = built_in(&runtime);
        match before {
            0 => {}
            1 => _ = jobs.submit(Job::new("before").run(|_| ())).unwrap(),
            _ => _ = jobs.submit(Job::new("before").light().run(|_| ())).unwrap(),
        }
        let _ = jobs.wait();
        drop(runtime);
        for light in [false, true] {
            let job = Job::unnamed().run(|_| ());
            if jobs.submit(if light { job.light() } else { job }).is_ok() {
                let ended = jobs.wait_timeout(SOON).expect("it ends");
                assert!(ended.is_err(), "it did not run");
            }
        }
        has_ended(jobs, "after it");
    }
}

#[test]
fn a_runtime_that_goes_while_many_jobs_begin_does_go() {
    for round in 0..200 {
        let runtime = runtime();
        let jobs = built_in(&runtime);
        jobs.submit_all((0..40).map(|_| Job::unnamed().ram_mb(0).run(|_| ()))).unwrap();
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_micros(round * 5));
        }
        drop(runtime);
        has_ended(jobs, "many");
    }
}
