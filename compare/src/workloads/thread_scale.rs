//! The primes up to 3,000,000 in 256 balanced chunks, on 1, 2, 4 … workers, up to twice as many as there are CPUs.
//!
//! Ours: a task for each chunk, in one runtime. Rayon: a task of a scope for each. Threads of the system: each has every n-th chunk, and nothing is scheduled, so theirs is the least that it can cost. Chunks of a
//! millisecond: what is measured is what a scheduler adds to work that needs none.
//!
//! No bar: the sheet shows work and cost apart, and what our workers counted.

use std::thread;

use bursar::Runtime;
use bursar::prelude::*;
use bursar::runtime::WorkerStats;

use crate::Failure;
use crate::measure::Plan;
use crate::primes::{self, CHUNKS, Found, Primes};
use crate::scaling::{Way, best, compared, worker_counts};
use crate::split::Counts;
use crate::table::Row;
use crate::workloads::peers;

pub const NAME: &str = "thread-scale";
const LIMIT: usize = 3_000_000;
const LIMIT_QUICK: usize = 150_000;

fn ours(runtime: &Runtime, primes: &Primes) -> Result<(Found, Counts), Failure> {
    let before = runtime.stats().total();
    let found = runtime.run(|| {
        nursery(|n| {
            let tasks: Vec<_> = (0..CHUNKS).map(|chunk| n.spawn(move || primes.chunk(chunk))).collect();
            tasks.into_iter().map(|task| task.join()).sum()
        })
    })??;
    Ok((found, counts(&before, &runtime.stats().total())))
}

/// What was counted between two looks.
pub fn counts(before: &WorkerStats, after: &WorkerStats) -> Counts {
    let candidates = |stats: &WorkerStats| stats.diagnostics.map_or(0, |own| own.candidates);
    Counts {
        candidates: candidates(after) - candidates(before),
        steals: after.stolen - before.stolen,
        wakes: after.wakes - before.wakes,
    }
}

fn with_rayon(pool: &rayon::ThreadPool, primes: &Primes) -> Found {
    let mut all = [Found::default(); CHUNKS];
    pool.install(|| {
        rayon::scope(|scope| {
            for (chunk, found) in all.iter_mut().enumerate() {
                scope.spawn(move |_| *found = primes.chunk(chunk));
            }
        })
    });
    all.into_iter().sum()
}

fn with_threads(workers: usize, primes: &Primes) -> Found {
    thread::scope(|scope| {
        let work = |part| scope.spawn(move || primes.part(part, workers).sum::<Found>());
        let threads: Vec<_> = (0..workers).map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    })
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let limit = plan.pick(LIMIT, LIMIT_QUICK) as u32;
    let (primes, expected) = (&Primes::new(limit), primes::expected(limit));
    let mut rows = Vec::new();
    for workers in worker_counts() {
        let runtime = Runtime::builder().workers(workers).diagnostics(true).build()?;
        let pool = peers::rayon(workers)?;
        let splits = best(
            plan,
            NAME,
            workers,
            [
                Way::new("ours", || ours(&runtime, primes).map(|(found, counts)| (found, Some(counts)))),
                Way::new("rayon", || Ok((with_rayon(&pool, primes), None))),
                Way::new("std threads", || Ok((with_threads(workers, primes), None))),
            ],
        )?;
        rows.extend(compared(plan, splits, expected));
    }
    Ok(rows)
}
