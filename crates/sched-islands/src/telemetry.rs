//! What is counted of each task of an island, while it runs.
//!
//! Room: state. Knows counts and times; knows nothing of what is counted.
//!
//! # Invariant
//! Each number has one writer, the thread of the task's CPU; any thread may read it at any time. Counting allocates nothing and waits for no thread.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use policy_cpu::Nanos;

use crate::decide::{Counts, Ended};
use crate::ended::Ended as IslandEnded;
use crate::in_force::InForce;

/// Four buckets for each power of two: a time is known to within a fifth.
const BUCKETS: usize = 4 * 40;

/// How often a time was so long.
#[derive(Debug)]
struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

fn bucket_of(time: Nanos) -> usize {
    if time < 4 {
        return time as usize;
    }
    let power = time.ilog2() as usize;
    let quarter = (time >> (power - 2)) as usize & 3;
    (4 * (power - 1) + quarter).min(BUCKETS - 1)
}

/// The longest time that is counted in a bucket.
fn longest_of(bucket: usize) -> Nanos {
    if bucket < 4 {
        return bucket as Nanos;
    }
    let (power, quarter) = (bucket / 4 + 1, bucket % 4);
    ((5 + quarter as Nanos) << (power - 2)) - 1
}

impl Histogram {
    fn count(&self, time: Nanos) {
        add(&self.0[bucket_of(time)], 1);
    }

    /// A time that at most one in `one_in` took longer than.
    fn at_most(&self, one_in: u64) -> Nanos {
        let counts = self.0.each_ref().map(|count| count.load(Relaxed));
        let mut above = counts.iter().sum::<u64>() / one_in;
        for (bucket, count) in counts.iter().enumerate().rev() {
            if *count > above {
                return longest_of(bucket);
            }
            above -= count;
        }
        0
    }
}

/// Adds to a counter that only the caller writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// What is counted of one task.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    cycles: AtomicU64,
    missed: AtomicU64,
    skipped: AtomicU64,
    bypassed: AtomicU64,
    overruns: AtomicU64,
    late_max: AtomicU64,
    ran_max: AtomicU64,
    ran_all: AtomicU64,
    late: Histogram,
}

impl Telemetry {
    pub(crate) fn set(&self, counts: Counts) {
        let Counts { cycles, missed, skipped, bypassed, overruns } = counts;
        self.cycles.store(cycles, Relaxed);
        self.missed.store(missed, Relaxed);
        self.skipped.store(skipped, Relaxed);
        self.bypassed.store(bypassed, Relaxed);
        self.overruns.store(overruns, Relaxed);
    }

    pub(crate) fn ended(&self, ended: Ended) {
        let Ended { late, ran } = ended;
        self.late.count(late);
        self.late_max.store(self.late_max.load(Relaxed).max(late), Relaxed);
        self.ran_max.store(self.ran_max.load(Relaxed).max(ran), Relaxed);
        add(&self.ran_all, ran);
    }

    pub(crate) fn read(&self, name: &str, cpu: u32) -> IslandTaskStats {
        let cycles = self.cycles.load(Relaxed);
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Relaxed));
        IslandTaskStats {
            name: name.to_owned(),
            cpu,
            cycles,
            missed: self.missed.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            bypassed: self.bypassed.load(Relaxed),
            overruns: self.overruns.load(Relaxed),
            late_p99: Duration::from_nanos(self.late.at_most(100)).min(time(&self.late_max)),
            late_max: time(&self.late_max),
            ran_average: Duration::from_nanos(self.ran_all.load(Relaxed).checked_div(cycles).unwrap_or(0)),
            ran_max: time(&self.ran_max),
        }
    }
}

/// What a task of an island has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IslandTaskStats {
    /// What it is called.
    pub name: String,
    /// Its CPU.
    pub cpu: u32,
    /// Cycles that ran.
    pub cycles: u64,
    /// Cycles that were not done by their deadline: those that ran too long or too late, and all that did not run.
    pub missed: u64,
    /// Cycles that did not run since their period was over before they could begin.
    pub skipped: u64,
    /// Cycles that did not run since the task had used up its time.
    pub bypassed: u64,
    /// Cycles that took longer than the budget.
    pub overruns: u64,
    /// At most one cycle in a hundred began so long after its release; known to within a fifth.
    pub late_p99: Duration,
    /// The longest time from a release to the beginning of its cycle.
    pub late_max: Duration,
    /// How long a cycle took on average.
    pub ran_average: Duration,
    /// The longest cycle.
    pub ran_max: Duration,
}

/// What an island has done so far. Its `Display` is a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IslandStats {
    /// What it is called.
    pub name: String,
    /// Its tasks, in the order in which they were named.
    pub tasks: Vec<IslandTaskStats>,
    /// What the system granted; none before it runs.
    pub in_force: Option<InForce>,
    /// Why it ended; none while it runs.
    pub ended: Option<IslandEnded>,
}

impl IslandStats {
    /// Deadlines that were missed, of all tasks.
    pub fn missed(&self) -> u64 {
        self.tasks.iter().map(|task| task.missed).sum()
    }
}

impl fmt::Display for IslandStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(in_force) = &self.in_force {
            write!(f, ": {in_force}")?;
        }
        let width = self.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).max(4);
        write!(
            f,
            "\n{:width$}  cpu     cycles  missed  skipped  bypassed  overruns   late p99   late max    ran avg    ran max",
            "task"
        )?;
        for task in &self.tasks {
            let [late_p99, late_max, ran_average, ran_max] =
                [task.late_p99, task.late_max, task.ran_average, task.ran_max].map(micros);
            write!(
                f,
                "\n{:width$}  {:>3} {:>10} {:>7} {:>8} {:>9} {:>9} {late_p99:>10} {late_max:>10} {ran_average:>10} {ran_max:>10}",
                task.name, task.cpu, task.cycles, task.missed, task.skipped, task.bypassed, task.overruns,
            )?;
        }
        Ok(())
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_nanos() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_known_to_within_a_fifth() {
        for time in (0..1000).chain((10..39).flat_map(|power| [1 << power, (1 << power) + 77, (3 << power) - 1])) {
            let longest = longest_of(bucket_of(time));
            assert!(longest >= time && longest <= time + time / 4, "{time} is counted as up to {longest}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn one_in_a_hundred_is_longer() {
        let histogram = Histogram::default();
        assert_eq!(histogram.at_most(100), 0);
        (0..990).for_each(|_| histogram.count(1000));
        (0..10).for_each(|_| histogram.count(1_000_000));
        assert!((1000..1250).contains(&histogram.at_most(100)), "{}", histogram.at_most(100));
        assert!(histogram.at_most(1000) >= 1_000_000);
    }
}
