//! `bursar bench`: what scheduling costs on this machine.
//!
//! Jobs are empty, or nearly: what is measured is the scheduler, not the work. `work.rs` does it, `report.rs` tells it.

mod report;
mod work;

use std::error::Error;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use sched_jobs::{Config, Scheduler};

use self::report::Report;
use self::work::Measured;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Latency, throughput, queue wait and budget hits of the scheduler of jobs
    Jobs(JobsOptions),
}

#[derive(Debug, Args)]
struct JobsOptions {
    /// Which driver runs the jobs
    #[arg(long, value_enum, default_value_t = Driver::Threadpool)]
    scheduler: Driver,

    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = runs)]
    runs: u32,

    /// How many jobs each measurement has; `simple` looks at every ready job for each start, so many take long
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = jobs)]
    jobs: usize,

    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Driver {
    /// One job at a time, chosen by the formula written out
    Simple,
    /// As many jobs at a time as fit
    Threadpool,
}

fn runs(text: &str) -> Result<u32, String> {
    let known = text.parse().ok().filter(|runs| (1..=1000).contains(runs));
    known.ok_or_else(|| "1 to 1000 runs are possible; leave `--runs` out for 3".to_owned())
}

fn jobs(text: &str) -> Result<usize, String> {
    let known = text.parse().ok().filter(|jobs| (10..=1_000_000).contains(jobs));
    known.ok_or_else(|| "10 to 1000000 jobs are possible; leave `--jobs` out for 10000".to_owned())
}

/// Measures, prints a table, and writes the file.
///
/// # Errors
/// If the file cannot be written, or a job went wrong.
pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let What::Jobs(options) = &options.what;
    // Before the work, not after it: a file that cannot be written is best known at once.
    let out = match &options.out {
        Some(path) => Some(File::create(path).map_err(|error| {
            format!("cannot write {}: {error}; name a file in a folder you may write to", path.display())
        })?),
        None => None,
    };
    let (mut config, bad) = Config::from_env();
    for setting in bad {
        crate::exit::say!("bursar: {setting}");
    }
    config.scheduler = match options.scheduler {
        Driver::Simple => Scheduler::Simple,
        Driver::Threadpool => Scheduler::Threadpool,
    };
    let mut measured = Measured::default();
    let terminal = io::stderr().is_terminal();
    for run in 1..=options.runs {
        work::measure(&config, options.jobs, &mut measured, |step| {
            if terminal {
                eprint!("\r\x1b[Krun {run} of {}: {step}", options.runs);
                let _ = io::stderr().flush(); // progress that cannot be shown is no reason to stop
            }
        })?;
    }
    if terminal {
        eprint!("\r\x1b[K");
    }
    let report = Report::new(&config, options.runs, options.jobs, &measured);
    io::stdout().write_all(report.table().as_bytes())?;
    if let Some(mut out) = out {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    }
    Ok(())
}
