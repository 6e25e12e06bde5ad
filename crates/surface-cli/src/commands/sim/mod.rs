//! `bursar sim`: a workload on a simulated machine, by one policy or several.
//!
//! Room: surface.

mod replay;
mod rows;
mod svg;
mod table;
mod timeline;

use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use surface_simfile::{Failed, Nanos, Options as Run, Plan, Policy, Report, nanos};

use crate::exit::{Exit, Failure, say};
use crate::out::{json, print};
use crate::picture::deliver;
use crate::problems::invalid;

/// What is shown of a run if nothing else is asked for.
const WINDOW: Nanos = 100_000_000;

/// Options of `bursar sim`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// A workload file, TOML or JSON; `bursar help simfile` lists its keys
    file: PathBuf,
    /// Decides what is random [default: that of the file, or 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// CPUs of the machine [default: that of the file, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: Option<u32>,
    /// Time that is simulated [default: that of the file, or 1s]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    time: Option<Nanos>,
    /// How threads without a context take turns; several, side by side: `eevdf,rr`
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "eevdf", value_parser = policy)]
    policy: Vec<Policy>,
    /// All policies side by side, on the same workload
    #[arg(long)]
    compare: bool,
    /// The part of the run that the timeline shows: `FROM..TO` [default: the first 100 ms]
    #[arg(long, value_name = "WINDOW", value_parser = window)]
    window: Option<Range<Nanos>>,
    /// Write the timeline as a picture, too
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<Nanos, String> {
    match nanos(text) {
        Ok(0) => Err("a run of 0 shows nothing; write `2s` or `500ms`".to_owned()),
        Ok(time) => Ok(time),
        Err(why) => Err(format!("{why}; write `2s`, `500ms` or `250us`")),
    }
}

fn window(text: &str) -> Result<Range<Nanos>, String> {
    let help = "write `200ms..300ms`";
    let (from, to) = text.split_once("..").ok_or_else(|| format!("there is no `..` in it; {help}"))?;
    let read = |text: &str| nanos(text).map_err(|why| format!("{why}; {help}"));
    let window = read(from)?..read(to)?;
    if window.is_empty() { Err(format!("its end is not after its beginning; {help}")) } else { Ok(window) }
}

fn policy(text: &str) -> Result<Policy, String> {
    let known = Policy::ALL.into_iter().find(|policy| policy.name() == text);
    known.ok_or_else(|| "it is none of eevdf, wfq, rr".to_owned())
}

/// `bursar sim`
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let plan = surface_simfile::load(&options.file).map_err(|problems| invalid(&problems))?;
    let cpus = options.cpus.unwrap_or(plan.cpus);
    if let Some(highest) = plan.highest_cpu().filter(|highest| *highest >= cpus) {
        let needed = highest + 1;
        return Err(Failure::usage(format!(
            "the file names CPU {highest}, and the machine has {cpus}, numbered from 0; use `--cpus {needed}` or more"
        )));
    }
    for refused in plan.not_admitted(cpus) {
        say!("warning: a system would refuse this: {refused}; it is simulated all the same");
    }
    let time = options.time.unwrap_or(plan.time);
    let window = options.window.clone().unwrap_or(0..WINDOW);
    if window.start >= time {
        let [from, time] = [window.start, time].map(|time| surface_text::amounts::latency(time as f64 / 1e3));
        return Err(Failure::usage(format!(
            "`--window` begins at {from}, and the run ends at {time}; choose an earlier one, or simulate more with `--for`"
        )));
    }
    let window = window.start.min(time)..window.end.min(time);
    let run = Run { policy: Policy::Eevdf, cpus, seed: options.seed.unwrap_or(plan.seed), time, window };
    let mut runs = Vec::new();
    for policy in policies(options) {
        let run = Run { policy, ..run.clone() };
        let report = surface_simfile::simulate(&plan, &run).map_err(|failed| failure(options, &run, &failed))?;
        runs.push((policy, report));
    }
    if let Some(path) = &options.svg {
        deliver(&svg::draw(&plan, &run, &runs), Some(path))?;
    }
    if options.json {
        json(&table::json(&plan, &run, &runs))?;
    } else {
        print(&text(&plan, &run, &runs))?;
    }
    Ok(Exit::Success)
}

fn text(plan: &Plan, run: &Run, runs: &[(Policy, Report)]) -> String {
    let mut text = table::text(plan, run, runs);
    if !run.window.is_empty() {
        text.push('\n');
        text += &timeline::text(plan, run, runs);
    }
    text
}

/// The policies that are asked for, each once.
fn policies(options: &Options) -> Vec<Policy> {
    let mut policies: Vec<Policy> = Vec::new();
    let more: &[Policy] = if options.compare { &Policy::ALL } else { &[] };
    for policy in options.policy.iter().chain(more) {
        if !policies.contains(policy) {
            policies.push(*policy);
        }
    }
    policies
}

fn failure(options: &Options, run: &Run, failed: &Failed) -> Failure {
    match failed {
        Failed::Broken(broken) => {
            let (policy, replay) = (run.policy, replay::command(options, run));
            let at = surface_text::amounts::latency(broken.at as f64 / 1e3);
            Failure::broken(format!("a law broke under {policy} after {at}: {}\nreplay: {replay}", broken.law))
        }
        refused => Failure::broken(refused.to_string()),
    }
}
