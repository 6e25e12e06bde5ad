//! The work that is measured: real jobs, on a real scheduler, timed from outside and by its own events.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sched_jobs::{Config, Demand, Event, Job, JobId, Jobs, What};

/// What all runs together measured. Times are in nanoseconds.
#[derive(Debug)]
pub(super) struct Measured {
    /// From submit to done, of a single job when nothing else is there.
    pub(super) latency: Histogram<u64>,
    /// From ready to started, of jobs that compete for room.
    pub(super) queue_wait: Histogram<u64>,
    /// Jobs a second, one figure for each run: independent ones, and a graph.
    pub(super) independent: Vec<f64>,
    pub(super) graph: Vec<f64>,
    /// How many jobs did not fit at the moment they became ready, and of how many.
    pub(super) budget_hits: u64,
    pub(super) budget_jobs: u64,
}

impl Default for Measured {
    fn default() -> Self {
        // Up to a minute, three digits.
        let new = || Histogram::new_with_max(60_000_000_000, 3).expect("the bounds make sense");
        Self {
            latency: new(),
            queue_wait: new(),
            independent: Vec::new(),
            graph: Vec::new(),
            budget_hits: 0,
            budget_jobs: 0,
        }
    }
}

/// More single jobs teach nothing.
const SINGLES_MAX: usize = 2_000;
const BATCH: usize = 1_000;
const NEEDS: usize = 3;
/// What a job that competes for room does: long enough to be in the way of others.
const BUSY: Duration = Duration::from_micros(20);
/// So many of them for each CPU slot are there at a time.
const WINDOW: usize = 4;

type Outcome = Result<(), Box<dyn Error>>;

/// Measures everything once.
pub(super) fn measure(config: &Config, count: usize, into: &mut Measured, mut step: impl FnMut(&str)) -> Outcome {
    step("latency");
    singles(config, count.min(SINGLES_MAX), &mut into.latency)?;
    step("independent jobs");
    into.independent.push(rate(count, || independent(config, count))?);
    step("a graph of jobs");
    into.graph.push(rate(count, || graph(config, count))?);
    step("jobs that compete for room");
    competing(config, count, into)
}

fn scheduler(config: &Config) -> Jobs {
    Jobs::builder().config(config.clone()).build()
}

fn rate(count: usize, work: impl FnOnce() -> Outcome) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    work()?;
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn singles(config: &Config, count: usize, latency: &mut Histogram<u64>) -> Outcome {
    let jobs = scheduler(config);
    // The first one starts the threads.
    jobs.submit(Job::new("warm-up").run(|_| ()))?;
    jobs.wait()?;
    for number in 0..count {
        let job = Job::new(number.to_string()).run(|_| ());
        let began = Instant::now();
        jobs.submit(job)?;
        jobs.wait()?;
        latency.saturating_record(nanoseconds(began.elapsed()));
    }
    Ok(())
}

fn independent(config: &Config, count: usize) -> Outcome {
    let jobs = scheduler(config);
    for first in (0..count).step_by(BATCH) {
        jobs.submit_all((first..count.min(first + BATCH)).map(|number| Job::new(number.to_string()).run(|_| ())))?;
    }
    jobs.wait()?;
    Ok(())
}

/// Layers of jobs, as many as a layer has jobs; each needs three of the layer before.
fn graph(config: &Config, count: usize) -> Outcome {
    let jobs = scheduler(config);
    let width = count.isqrt();
    let mut before: Vec<JobId> = Vec::new();
    let mut seed = 1;
    for first in (0..count).step_by(width) {
        let layer = (first..count.min(first + width)).map(|number| {
            let needs = NEEDS.min(before.len());
            let needed = (0..needs).map(|_| before[scattered(&mut seed) % before.len()]);
            Job::new(number.to_string()).needs_all(needed).run(|_| ())
        });
        before = jobs.submit_all(layer)?;
    }
    jobs.wait()?;
    Ok(())
}

/// The next of a series that looks like chance and is always the same: SplitMix64.
fn scattered(seed: &mut u64) -> usize {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut x = *seed;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ (x >> 31)) as usize
}

/// What a job of that number demands: one slot to all of them, and up to half the memory.
fn demand(config: &Config, number: usize) -> Demand {
    let slots = config.limits.cpu_slots as usize;
    let half_mb = if config.limits.ram_mb == 0 { 1024 } else { config.limits.ram_mb } / 2;
    Demand {
        cpu_slots: (number % slots + 1) as u32,
        ram_mb: half_mb * (number as u64 / 3 % 4 + 1) / 4,
        ..Demand::default()
    }
}

/// Watches who waits how long, and who does not fit.
#[derive(Debug)]
struct Watch {
    config: Config,
    ready: Vec<Duration>,
    cpu_slots: u64,
    ram_mb: u64,
    hits: u64,
    waits: Vec<u64>,
}

impl Watch {
    fn see(&mut self, event: &Event) {
        let number = event.job.index();
        let Demand { cpu_slots, ram_mb, .. } = demand(&self.config, number);
        match event.what {
            What::Ready => {
                self.ready[number] = event.at();
                let limits = &self.config.limits;
                let no_slots = self.cpu_slots + u64::from(cpu_slots) > u64::from(limits.cpu_slots);
                let no_ram = limits.ram_mb > 0 && self.ram_mb + ram_mb > limits.ram_mb;
                self.hits += u64::from(no_slots || no_ram);
            }
            What::Started { .. } => {
                self.waits.push(nanoseconds(event.at().saturating_sub(self.ready[number])));
                self.cpu_slots += u64::from(cpu_slots);
                self.ram_mb += ram_mb;
            }
            What::Succeeded | What::Failed | What::Canceled => {
                self.cpu_slots -= u64::from(cpu_slots);
                self.ram_mb -= ram_mb;
            }
            _ => {}
        }
    }
}

/// Jobs that arrive as others end, want different amounts, and are in each other's way.
fn competing(config: &Config, count: usize, into: &mut Measured) -> Outcome {
    let watch = Watch {
        config: config.clone(),
        ready: vec![Duration::ZERO; count],
        cpu_slots: 0,
        ram_mb: 0,
        hits: 0,
        waits: Vec::with_capacity(count),
    };
    let watch = Arc::new(Mutex::new(watch));
    let seen = watch.clone();
    let observer = move |event: &Event, _: sched_jobs::JobFacts<'_>| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).see(event)
    };
    let jobs = Jobs::builder().config(config.clone()).observe(observer).build();
    let (end, ends) = mpsc::channel();
    for number in 0..count {
        if number >= WINDOW * config.limits.cpu_slots as usize {
            ends.recv()?;
        }
        let end = end.clone();
        let busy = move |_: &sched_jobs::Ctx<'_>| {
            let began = Instant::now();
            while began.elapsed() < BUSY {
                std::hint::spin_loop();
            }
            end.send(())
        };
        jobs.submit(Job::new(number.to_string()).demand(demand(config, number)).run(busy))?;
    }
    jobs.wait()?;
    let watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
    for wait in &watch.waits {
        into.queue_wait.saturating_record(*wait);
    }
    into.budget_hits += watch.hits;
    into.budget_jobs += count as u64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured_on_both_drivers() {
        for scheduler in [sched_jobs::Scheduler::Simple, sched_jobs::Scheduler::Threadpool] {
            let config = Config { scheduler, ..Config::for_cpus(2) };
            let mut measured = Measured::default();
            let mut steps = 0;
            measure(&config, 200, &mut measured, |_| steps += 1).expect("all jobs succeed");
            assert_eq!((steps, measured.latency.len(), measured.queue_wait.len()), (4, 200, 200), "{scheduler:?}");
            assert!(measured.independent[0] > 0.0 && measured.graph[0] > 0.0, "{scheduler:?}");
            // Every other job wants both slots.
            assert!((1..=200).contains(&measured.budget_hits), "{scheduler:?}: {}", measured.budget_hits);
        }
    }

    #[test]
    fn every_job_that_competes_can_run() {
        for cpus in [1, 4, 64] {
            let config = Config::for_cpus(cpus);
            for number in 0..1000 {
                let demand = demand(&config, number);
                assert!((1..=config.limits.cpu_slots).contains(&demand.cpu_slots), "job {number}");
                assert!(demand.ram_mb <= config.limits.ram_mb, "job {number}");
            }
        }
    }
}
