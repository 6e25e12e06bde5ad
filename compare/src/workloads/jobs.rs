//! A million empty jobs that need nothing. 2 workers.
//!
//! The scheduler has everything on, as in `dag`: priorities, aging, demands and limits, and an observer that counts events. Jobs are submitted a thousand
//! at a time; a second row has them one by one. Timed from the first submit to the end of the last job. Tokio stands beside it for
//! orientation: it only spawns.
//!
//! Bar: a million jobs a second. More is better here.

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::dag::ours;
use crate::workloads::peers;

pub const NAME: &str = "jobs";
const MILLIONS_MIN: f64 = 1.0;
const BATCH: usize = 1000;

fn in_batches(count: usize) -> Result<(), Failure> {
    let (jobs, events) = ours::scheduler();
    for first in (0..count).step_by(BATCH) {
        jobs.submit_all((first..count.min(first + BATCH)).map(ours::job))?;
    }
    ours::finish(&jobs, &events, count)
}

fn one_by_one(count: usize) -> Result<(), Failure> {
    let (jobs, events) = ours::scheduler();
    for number in 0..count {
        jobs.submit(ours::job(number))?;
    }
    ours::finish(&jobs, &events, count)
}

async fn with_tokio(count: usize) {
    let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(async {})).collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 100_000);
    let tokio = peers::tokio(2)?;
    let nanoseconds = plan.best_of(
        count,
        [
            Side::new("ours", || in_batches(count)),
            Side::new("ours, one by one", || one_by_one(count)),
            Side::new("tokio", || peers::run_tokio(&tokio, with_tokio(count))),
        ],
    )?;
    let [batches, singles, tokio] = nanoseconds.map(|each| 1e3 / each);
    let unit = "M jobs/s";
    Ok(vec![
        Row::new(NAME, LIMIT, [batches, MILLIONS_MIN], unit, Bar::AtLeast),
        Row::new(NAME, "bar, one by one", [singles, MILLIONS_MIN], unit, Bar::Open),
        Row::new(NAME, "tokio, spawn and join", [batches, tokio], unit, Bar::Open),
    ])
}
