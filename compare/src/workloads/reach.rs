//! How long a cancellation and a pause take to reach what runs inside a job.
//!
//! The closure of the job opens a nursery with a fiber, a nested nursery, a thread task and a future. Each waits for six seconds (`waiting`), or
//! computes, with a checkpoint every 100 µs (`busy`). A pause is over when nothing of it moves any more, a cancellation when all of it has ended.
//!
//! Bar: 50 ms in the worst of all rounds.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bursar::jobs::{Job, Jobs};
use bursar::prelude::*;
use bursar::sleep_async;

use crate::Failure;
use crate::measure::{Plan, percentile};
use crate::table::{Bar, LIMIT, Row};

pub const NAME: &str = "reach";
const WORST_MS_MAX: f64 = 50.0;
/// Fiber, nested fiber, thread task, future.
const INSIDE: usize = 4;
const LONG: Duration = Duration::from_secs(6);

/// What each of them does, until it is cancelled.
#[derive(Clone, Copy)]
enum Doing {
    /// It waits for longer than the measurement takes.
    Waiting,
    /// It computes for 100 µs from one checkpoint to the next.
    Busy,
}

impl Doing {
    fn compute(self) {
        let started = Instant::now();
        while started.elapsed() < Duration::from_micros(100) {
            spin_loop();
        }
    }

    fn for_ever(self, begun: &AtomicUsize) {
        begun.fetch_add(1, Ordering::AcqRel);
        loop {
            match self {
                Self::Waiting => sleep(LONG),
                Self::Busy => {
                    self.compute();
                    yield_now();
                }
            }
        }
    }

    async fn for_ever_async(self, begun: &AtomicUsize) {
        begun.fetch_add(1, Ordering::AcqRel);
        loop {
            match self {
                Self::Waiting => sleep_async(LONG).await,
                Self::Busy => {
                    self.compute();
                    sleep_async(Duration::from_micros(1)).await;
                }
            }
        }
    }
}

/// Pauses one job and then cancels it. How long each took, in milliseconds.
fn round(jobs: &Jobs, name: String, doing: Doing) -> Result<[f64; 2], Failure> {
    let begun = Arc::new(AtomicUsize::new(0));
    let inside = Arc::clone(&begun);
    let job = jobs.submit(Job::new(name).run(move |_| {
        nursery(|n| {
            n.spawn(|| doing.for_ever(&inside));
            n.try_spawn(|| nursery(|nested| nested.spawn(|| doing.for_ever(&inside)).join()));
            n.task().on_thread().spawn(|| doing.for_ever(&inside));
            n.spawn_async(doing.for_ever_async(&inside));
            Ok(())
        })
    }))?;
    let asked = Instant::now();
    while begun.load(Ordering::Acquire) < INSIDE {
        if asked.elapsed() > Duration::from_secs(5) {
            return Err("the job did not start within 5 s".into());
        }
        std::thread::yield_now();
    }
    let asked = Instant::now();
    jobs.pause(job)?;
    let paused = asked.elapsed();
    jobs.resume(job)?;
    let asked = Instant::now();
    jobs.cancel_and_wait(job)?;
    Ok([paused, asked.elapsed()].map(|time| time.as_secs_f64() * 1e3))
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let jobs = Jobs::builder().cpu_slots(1).build();
    let rounds = plan.pick(200, 20);
    let mut rows = Vec::new();
    for (doing, units) in [
        (Doing::Waiting, ["ms worst, pause, waiting", "ms worst, cancel, waiting", "ms p50, cancel, waiting"]),
        (Doing::Busy, ["ms worst, pause, busy", "ms worst, cancel, busy", "ms p50, cancel, busy"]),
    ] {
        let (mut paused, mut cancelled) = (Vec::new(), Vec::new());
        for number in 1..=rounds {
            plan.step(&format!("round {number} of {rounds}"));
            let [pause, cancel] = round(&jobs, format!("{} {number}", units[0]), doing)?;
            paused.push(pause);
            cancelled.push(cancel);
        }
        rows.push(Row::new(NAME, LIMIT, [percentile(&mut paused, 100), WORST_MS_MAX], units[0], Bar::AtMost));
        rows.push(Row::new(NAME, LIMIT, [percentile(&mut cancelled, 100), WORST_MS_MAX], units[1], Bar::AtMost));
        rows.push(Row::new(NAME, LIMIT, [percentile(&mut cancelled, 50), WORST_MS_MAX], units[2], Bar::Open));
    }
    Ok(rows)
}
