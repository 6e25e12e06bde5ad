//! What was measured, as a table for a person and as an object for a script.

use std::fmt::Write;

use hdrhistogram::Histogram;
use sched_jobs::{Config, Scheduler};
use serde::Serialize;

use super::work::Measured;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    scheduler: &'static str,
    machine: Machine,
    settings: Settings,
    latency_ns: Times,
    queue_wait_ns: Times,
    independent_jobs_per_second: Rates,
    graph_jobs_per_second: Rates,
    budget_hits: BudgetHits,
}

#[derive(Debug, Serialize)]
struct Machine {
    system: &'static str,
    architecture: &'static str,
    kernel: Option<String>,
    cpu: Option<String>,
    cpus: usize,
    ram_mb: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Settings {
    runs: u32,
    jobs: usize,
    workers: usize,
    cpu_slots: u32,
    ram_mb_soft: u64,
    vram_mb_soft: u64,
    aging_interval_ms: u128,
    aging_boost: u32,
    optimised: bool,
}

#[derive(Debug, Serialize)]
struct Times {
    count: u64,
    mean: f64,
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
struct Rates {
    median: f64,
    best: f64,
    runs: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct BudgetHits {
    /// Jobs that did not fit at the moment they became ready.
    hits: u64,
    jobs: u64,
}

impl From<&Histogram<u64>> for Times {
    fn from(all: &Histogram<u64>) -> Self {
        let at = |part| all.value_at_quantile(part);
        Self { count: all.len(), mean: all.mean(), p50: at(0.50), p95: at(0.95), p99: at(0.99), max: all.max() }
    }
}

impl From<&[f64]> for Rates {
    fn from(runs: &[f64]) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (last, best) = (sorted.len() - 1, sorted[sorted.len() - 1]);
        let median = (sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0;
        Self { median, best, runs: runs.to_vec() }
    }
}

impl Machine {
    fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let field = |text: String, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches([' ', '\t', ':']).trim().to_owned())
        };
        let kib = read("/proc/meminfo").and_then(|text| field(text, "MemTotal"));
        Self {
            system: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            cpu: read("/proc/cpuinfo").and_then(|text| field(text, "model name")),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            ram_mb: kib.and_then(|kib| kib.strip_suffix(" kB")?.parse::<u64>().ok()).map(|kib| kib * 1_024 / 1_000_000),
        }
    }
}

impl Report {
    pub(super) fn new(config: &Config, runs: u32, jobs: usize, measured: &Measured) -> Self {
        let simple = config.scheduler == Scheduler::Simple;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            scheduler: if simple { "simple" } else { "threadpool" },
            machine: Machine::this(),
            settings: Settings {
                runs,
                jobs,
                workers: if simple { 1 } else { config.workers },
                cpu_slots: config.limits.cpu_slots,
                ram_mb_soft: config.limits.ram_mb,
                vram_mb_soft: config.limits.vram_mb,
                aging_interval_ms: config.aging.interval.as_millis(),
                aging_boost: config.aging.boost,
                optimised: !cfg!(debug_assertions),
            },
            latency_ns: (&measured.latency).into(),
            queue_wait_ns: (&measured.queue_wait).into(),
            independent_jobs_per_second: measured.independent.as_slice().into(),
            graph_jobs_per_second: measured.graph.as_slice().into(),
            budget_hits: BudgetHits { hits: measured.budget_hits, jobs: measured.budget_jobs },
        }
    }

    pub(super) fn table(&self) -> String {
        let Self { settings, latency_ns, queue_wait_ns, budget_hits, .. } = self;
        let mut text = format!(
            "{} · {} workers, {} CPU slots · {} jobs, {} runs · {}\n\n",
            self.scheduler,
            settings.workers,
            settings.cpu_slots,
            settings.jobs,
            settings.runs,
            self.machine.cpu.as_deref().unwrap_or("unknown CPU"),
        );
        let mut line = |name: &str, figures: String| {
            writeln!(text, "{name:<34} {figures}").expect("a String takes everything");
        };
        let times = |times: &Times| {
            format!(
                "p50 {:>9}   p95 {:>9}   mean {:>9}",
                time(times.p50 as f64),
                time(times.p95 as f64),
                time(times.mean)
            )
        };
        let rates = |rates: &Rates| format!("{:>9}/s   best {:>9}/s", count(rates.median), count(rates.best));
        line("latency, submit to done", times(latency_ns));
        line("queue wait, ready to started", times(queue_wait_ns));
        line("independent jobs", rates(&self.independent_jobs_per_second));
        line("graph, 3 needs each", rates(&self.graph_jobs_per_second));
        let percent = budget_hits.hits as f64 * 100.0 / budget_hits.jobs.max(1) as f64;
        line("ready, but did not fit", format!("{} of {} jobs ({percent:.1} %)", budget_hits.hits, budget_hits.jobs));
        if !settings.optimised {
            text += "\nA debug build: use `cargo run --release` for figures that mean something.\n";
        }
        text
    }
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

fn count(each: f64) -> String {
    match each {
        n if n < 1e3 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.1} k", n / 1e3),
        n => format!("{:.2} M", n / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_best_of_the_runs_are_told() {
        let rates = Rates::from(&[3.0, 9.0, 1.0][..]);
        assert_eq!((rates.median, rates.best), (3.0, 9.0));
        assert_eq!(rates.runs, [3.0, 9.0, 1.0]);
        assert_eq!(Rates::from(&[4.0, 2.0][..]).median, 3.0);
    }

    #[test]
    fn figures_have_the_unit_a_person_would_choose() {
        assert_eq!([999.0, 1_500.0, 2_000_000.0, 3e9].map(time), ["999 ns", "1.5 µs", "2.0 ms", "3.00 s"]);
        assert_eq!([999.0, 1_500.0, 2_340_000.0].map(count), ["999", "1.5 k", "2.34 M"]);
    }
}
