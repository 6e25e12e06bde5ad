//! From publishing a task to its start on the other, idle worker. 2 workers.
//!
//! The publisher spins until the task has started, so only the other worker can have
//! started it. It keeps busy between rounds for 20 to 100 µs, in which the thief finds
//! nothing and goes to sleep in its own way; in the rows `idle 5 ms`, long enough for the
//! deepest sleep it has.
//!
//! Bar: p50 below 10 µs. Rayon stands beside it for orientation. Tokio cannot: the task a
//! worker spawned last sits in a slot that no thief may take, so the publisher would spin
//! for ever.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::measure::{Plan, percentile};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::peers;

pub const NAME: &str = "steal";
const P50_US_MAX: f64 = 10.0;
/// If no worker stole for so long, none will.
const STEAL_TIMEOUT: Duration = Duration::from_secs(2);

fn busy(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        spin_loop();
    }
}

/// The time of one steal, seen from both workers.
struct Stopwatch {
    published: Instant,
    /// Nanoseconds after `published`, and at least 1; 0 means not started yet.
    started_ns: AtomicU64,
}

impl Stopwatch {
    fn start() -> Self {
        Self { published: Instant::now(), started_ns: AtomicU64::new(0) }
    }

    /// Called by the stolen task, first thing.
    fn started(&self) {
        let elapsed = self.published.elapsed().as_nanos() as u64;
        self.started_ns.store(elapsed.max(1), Ordering::Release);
    }

    /// Called by the publisher: spins until the task has started. Microseconds.
    fn wait(&self) -> Option<f64> {
        loop {
            match self.started_ns.load(Ordering::Acquire) {
                0 if self.published.elapsed() > STEAL_TIMEOUT => return None,
                0 => spin_loop(),
                nanoseconds => return Some(nanoseconds as f64 / 1e3),
            }
        }
    }
}

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn steals(runtime: &Runtime, pauses: &[Duration]) -> Result<Vec<Option<f64>>, Failure> {
        Ok(runtime.run(|| {
            let steal = |pause: &Duration| {
                busy(*pause);
                let watch = Stopwatch::start();
                nursery(|n| {
                    n.spawn(|| watch.started());
                    Ok(watch.wait())
                })
            };
            pauses.iter().map(steal).collect::<Result<Vec<_>, _>>()
        })??)
    }
}

mod with_rayon {
    use super::*;

    pub fn steals(pool: &rayon::ThreadPool, pauses: &[Duration]) -> Vec<Option<f64>> {
        pool.install(|| {
            let steal = |pause: &Duration| {
                busy(*pause);
                let watch = Stopwatch::start();
                rayon::scope(|scope| {
                    scope.spawn(|_| watch.started());
                    watch.wait()
                })
            };
            pauses.iter().map(steal).collect()
        })
    }
}

/// The samples of both sides, in batches that alternate, the first of which does not count.
fn sample(
    plan: &Plan,
    batches: usize,
    pauses: &[Duration],
    runtime: &bursar::Runtime,
    pool: &rayon::ThreadPool,
) -> Result<[Vec<f64>; 2], Failure> {
    let mut samples = [Vec::new(), Vec::new()];
    for batch in 0..=batches {
        plan.step(&format!("ours, batch {batch} of {batches}"));
        let ours = ours::steals(runtime, pauses)?;
        plan.step(&format!("rayon, batch {batch} of {batches}"));
        let rayon = with_rayon::steals(pool, pauses);
        for (samples, batch_samples) in samples.iter_mut().zip([ours, rayon]) {
            let taken: Option<Vec<f64>> = batch_samples.into_iter().collect();
            let taken = taken.ok_or_else(|| format!("no worker stole within {STEAL_TIMEOUT:?}"))?;
            if batch > 0 {
                samples.extend(taken);
            }
        }
    }
    Ok(samples)
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let pool = peers::rayon(2)?;

    let short: Vec<_> = (0..500).map(|i| Duration::from_micros(20 + i * 7 % 81)).collect();
    let mut short = sample(plan, plan.pick(8, 4), &short, &runtime, &pool)?;
    let long = [Duration::from_millis(5); 50];
    let mut long = sample(plan, plan.pick(4, 2), &long, &runtime, &pool)?;

    let p50 = short.each_mut().map(|samples| percentile(samples, 50));
    let p99 = short.each_mut().map(|samples| percentile(samples, 99));
    let idle_p50 = long.each_mut().map(|samples| percentile(samples, 50));
    let idle_p99 = long.each_mut().map(|samples| percentile(samples, 99));
    Ok(vec![
        Row::new(NAME, LIMIT, [p50[0], P50_US_MAX], "µs p50", Bar::Below),
        Row::new(NAME, "rayon", p50, "µs p50", Bar::Open),
        Row::new(NAME, "rayon", p99, "µs p99", Bar::Open),
        Row::new(NAME, "rayon, idle 5 ms", idle_p50, "µs p50", Bar::Open),
        Row::new(NAME, "rayon, idle 5 ms", idle_p99, "µs p99", Bar::Open),
    ])
}
