//! Jobs whose closures run as fibers.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use sched_jobs::{Ctx, Job, JobError, Jobs, State};
use sched_tasks::{channel, current_worker, explore, sleep, yield_now};

use crate::on_both;

const LONG: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(20);

fn nap(name: impl Into<String>) -> Job {
    Job::new(name).light().cpu_slots(0).ram_mb(0)
}

#[test]
fn thousands_of_light_jobs_wait_at_a_time_on_few_threads() {
    let jobs = Jobs::builder().cpu_slots(1).build();
    let (waits, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (tx, rx) = channel::<()>(1);
    let all = (0..2_000).map(|i| {
        let (waits, most, rx) = (waits.clone(), most.clone(), rx.clone());
        nap(format!("{i}")).run(move |_| {
            assert!(current_worker().is_some(), "it is a fiber");
            most.fetch_max(waits.fetch_add(1, SeqCst) + 1, SeqCst);
            let _closed = rx.recv();
            waits.fetch_sub(1, SeqCst);
        })
    });
    jobs.submit_all(all).unwrap();
    jobs.submit(Job::new("opens").run_once(move |_| {
        while most.load(SeqCst) < 2_000 {
            yield_now();
        }
        drop(tx);
    }))
    .unwrap();
    assert_eq!(jobs.wait().unwrap().succeeded, 2_001);
}

#[test]
fn a_light_job_has_slots_inputs_retries_progress_and_ends_like_others() {
    on_both(|jobs| {
        let runs = Arc::new(AtomicUsize::new(0));
        let most = runs.clone();
        let board = jobs.submit(Job::new("board").light().run(|_| Ok::<_, JobError>(7_u32))).unwrap();
        let tries = AtomicUsize::new(0);
        jobs.submit(Job::new("flaky").light().needs(board).retries(1).run(move |ctx: &Ctx<'_>| {
            assert_eq!(*ctx.input::<u32>("board")?, 7);
            ctx.progress(0.5)?;
            if tries.fetch_add(1, SeqCst) < 1 { Err(JobError::msg("not yet")) } else { Ok(()) }
        }))
        .unwrap();
        jobs.submit_all((0..20).map(|i| {
            let runs = most.clone();
            Job::new(format!("slot {i}")).light().run(move |_| {
                assert!(runs.fetch_add(1, SeqCst) < 2, "two CPU slots");
                yield_now();
                runs.fetch_sub(1, SeqCst);
            })
        }))
        .unwrap();
        jobs.submit(Job::new("panics").light().run(|_| -> () { panic!("no") })).unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.failed), (22, 1), "{failed}");
        assert_eq!(jobs.status("flaky").unwrap().attempts, 2);
        assert_eq!(failed.first[0].0, "panics");
    });
}

#[test]
fn a_light_job_is_paused_resumed_and_cancelled_where_it_waits() {
    on_both(|jobs| {
        let rounds = Arc::new(AtomicUsize::new(0));
        let counts = rounds.clone();
        let job = jobs.submit(nap("counts").run(move |_| -> () {
            loop {
                counts.fetch_add(1, SeqCst);
                sleep(Duration::from_micros(100));
            }
        }));
        let job = job.unwrap();
        let moves = || {
            let before = rounds.load(SeqCst);
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {
                std::thread::yield_now();
            }
            rounds.load(SeqCst) != before
        };
        while rounds.load(SeqCst) < 3 {
            std::thread::yield_now();
        }
        jobs.pause(job).unwrap();
        assert_eq!(jobs.status(job).unwrap().state, State::Paused);
        std::thread::sleep(Duration::from_millis(5)); // it comes back from its sleep
        assert!(!moves());
        jobs.resume(job).unwrap();
        while !moves() {}
        jobs.cancel_and_wait(job).unwrap();
        assert_eq!(jobs.status(job).unwrap().state, State::Cancelled);
        assert!(!moves());
    });
}

#[test]
fn dropping_the_scheduler_ends_light_jobs() {
    let (up, is_up) = mpsc::channel();
    let jobs = Jobs::builder().build();
    jobs.submit(nap("waits").run(move |_| {
        up.send(()).unwrap();
        sleep(LONG);
    }))
    .unwrap();
    is_up.recv_timeout(SOON).unwrap();
    let begun = Instant::now();
    drop(jobs);
    assert!(begun.elapsed() < SOON);
}

#[test]
fn light_jobs_and_others_are_explored_together() {
    explore(0..60, || {
        let jobs = Jobs::builder().cpu_slots(2).build();
        let (tx, rx) = channel(1);
        jobs.submit(Job::new("sends").light().run(move |_| tx.send(42).map_err(JobError::from))).unwrap();
        jobs.submit(Job::new("receives").run(move |_| rx.recv().map_err(JobError::from))).unwrap();
        jobs.submit(nap("sleeps").run(|_| sleep(LONG))).unwrap();
        sleep(Duration::from_secs(1));
        jobs.cancel("sleeps").unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.cancelled), (2, 1));
    });
}
