//! `bursar demo`: four acts of real work, and a table of what the workers counted meanwhile.

mod canvas;
mod memory;
mod report;
mod stage;

mod cancel;
mod park;
mod throughput;
mod tree;

use std::{error::Error, time::Duration};

use bursar::{MAX_WORKERS, Runtime};
use clap::Args;

use self::{
    report::Report,
    stage::{Show, Stage},
};

/// Seconds a person likes to watch, and seconds a log file needs.
const SECONDS_LIVE: u64 = 10;
const SECONDS_PLAIN: u64 = 3;
const SECONDS_MAX: u64 = 600;
/// A runtime's default limit.
const FIBERS_MAX: usize = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// About how long it takes [default: 10 on a terminal, else 3]
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<u64>,

    /// Worker threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = workers)]
    workers: Option<usize>,

    /// Fibers to park at the same time
    #[arg(long, value_name = "N", value_parser = fibers, default_value_t = 100_000)]
    fibers: usize,

    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<u64, String> {
    within(text, 1, SECONDS_MAX as usize).map(|seconds| seconds as u64).ok_or_else(|| {
        format!("the demonstration takes 1 to {SECONDS_MAX} seconds; leave `--seconds` out for a good length")
    })
}

fn workers(text: &str) -> Result<usize, String> {
    within(text, 1, MAX_WORKERS)
        .ok_or_else(|| format!("a runtime has 1 to {MAX_WORKERS} workers; leave `--workers` out for one per CPU"))
}

fn fibers(text: &str) -> Result<usize, String> {
    within(text, 1, FIBERS_MAX)
        .ok_or_else(|| format!("a runtime holds 1 to {FIBERS_MAX} fibers at a time; 100000 take about half a gigabyte"))
}

fn within(text: &str, least: usize, most: usize) -> Option<usize> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

/// Runs the four acts, or those that Ctrl-C leaves time for.
pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let show = Show::new(options.json);
    let seconds = options.seconds.unwrap_or(if show.is_live() { SECONDS_LIVE } else { SECONDS_PLAIN });
    crate::stop::listen()?;
    let mut builder = Runtime::builder().name("demo");
    if let Some(workers) = options.workers {
        builder = builder.workers(workers);
    }
    let runtime = builder.build()?;
    let stage = Stage::new(&runtime, &show, Duration::from_secs(seconds));

    let mut report = Report::new(&runtime);
    report.tree = tree::act(&stage)?;
    report.parked = park::act(&stage, options.fibers)?;
    report.cancelled = cancel::act(&stage)?;
    report.throughput = throughput::act(&stage)?;
    report.finish(&runtime);
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        report.print(&show);
    }
    Ok(())
}
