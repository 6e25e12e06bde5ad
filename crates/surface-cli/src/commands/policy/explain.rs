//! `bursar policy explain`: which profile, by which rule, and what it means in numbers.
//!
//! Room: surface.

use std::fmt::Write;
use std::path::PathBuf;

use bursar::policy::{Because, CpuDemand, CpuProfile, Epoch, Hint, Latency, Machine, Overrun};
use clap::Args;
use serde::Serialize;
use surface_policyfile::{Location, PolicyFile};
use surface_text::amounts::counted;
use surface_text::clean;

use super::Target;
use crate::exit::{Exit, Failure};
use crate::out::{json, print};
use crate::problems::invalid;

/// What a task has if nothing is said.
const NORMAL: u32 = 1024;

/// Options of `bursar policy explain`.
#[derive(Debug, Clone, Args)]
pub(super) struct Options {
    /// The policy file, TOML or JSON
    file: PathBuf,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    target: Target,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A hint: latency-sensitive, batch, driver, poller or agent
    #[arg(long, value_name = "HINT")]
    hint: Option<Hint>,
    /// A name: `service:mixer-1`, `account:nightly`, `session:tty1`, or any other
    #[arg(long = "for", value_name = "NAME")]
    name: Option<String>,
}

#[derive(Serialize)]
struct Explained<'a> {
    profile: &'a str,
    because: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    weight: u32,
    /// Of a CPU, beside one normal task.
    share_percent: f64,
    latency: &'static str,
    slice_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserve: Option<ReserveJson>,
    cpus: String,
    /// Whether this machine can promise it, beside the others of the file.
    admitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

#[derive(Serialize)]
struct ReserveJson {
    budget_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    criticality: u8,
    overrun: &'static str,
}

/// `bursar policy explain`
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let file = surface_policyfile::load(&options.file).map_err(|problems| invalid(&problems))?;
    let machine = options.target.machine();
    let refusals = file.set().problems_on(&machine);
    // Its rules are asked on a machine that can do everything; what this one cannot do is said below.
    let set = without_demands(&file);
    let chooser =
        Epoch::new(1, set, &Machine::new(256)).map_err(|_| Failure::broken("the policy is not consistent"))?;
    let (chosen, because, subject) = match (&options.what.hint, &options.what.name) {
        (Some(hint), _) => {
            let (profile, because) = chooser.hint(*hint);
            (profile, because, format!("hint {hint}"))
        }
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            let (profile, because) = chooser.profile(name);
            (profile, because, clean(name).into_owned())
        }
    };
    let found = file.set().profiles.iter().position(|profile| profile.name == chosen.name);
    let profile = &file.set().profiles[found.unwrap_or(0)];
    let why_not = refusals
        .iter()
        .find(
            |refusal| matches!(refusal.concern(), bursar::policy::Concern::Profile(index, _) if Some(*index) == found),
        )
        .map(|refusal| format!("{refusal}; {}", refusal.way_out()));
    let (why, at) = reason(&file, because, profile);
    if options.json {
        json(&Explained {
            profile: &profile.name,
            because: why,
            rule: if let Because::Rule(index) = because { Some(index + 1) } else { None },
            line: at.map(|at| at.line),
            weight: profile.weight,
            share_percent: share(profile.weight),
            latency: latency(profile.latency),
            slice_ns: profile.slice,
            reserve: profile.reserve.map(|reserve| ReserveJson {
                budget_ns: reserve.budget,
                period_ns: reserve.period,
                deadline_ns: reserve.deadline,
                criticality: reserve.criticality,
                overrun: overrun(reserve.overrun).0,
            }),
            cpus: cpus(profile.cpus),
            admitted: why_not.is_none(),
            why_not,
        })?;
        return Ok(Exit::Success);
    }
    let mut text = format!("{subject} gets profile `{}`: {why}", profile.name);
    if let Some(at) = at {
        let _ = write!(text, " ({}:{}:{})", options.file.display(), at.line, at.column);
    }
    text.push('\n');
    text.push_str(&numbers(profile));
    let place = format!("a machine of {}, 5 % of each kept for housekeeping", counted(machine.cpus() as usize, "CPU"));
    let _ = match (&why_not, profile.reserve) {
        (Some(why), _) => writeln!(text, "  admission  refused on {place}:\n             {why}"),
        (None, None) => writeln!(text, "  admission  nothing is reserved, so there is nothing to admit"),
        (None, Some(_)) => writeln!(text, "  admission  taken on {place}, beside all others of the file"),
    };
    print(&text)?;
    Ok(Exit::Success)
}

/// The same rules and names, with profiles that every machine can do.
fn without_demands(file: &PolicyFile) -> bursar::policy::PolicySet {
    let mut set = file.set().clone();
    for profile in &mut set.profiles {
        (profile.reserve, profile.cpus) = (None, CpuDemand::Any);
    }
    set
}

fn reason(file: &PolicyFile, because: Because, profile: &CpuProfile) -> (String, Option<Location>) {
    match because {
        Because::Rule(index) => {
            let rule = file.set().rules.get(index).map(ToString::to_string).unwrap_or_default();
            (format!("rule {}, {}", index + 1, clean(&rule)), file.rule_location(index))
        }
        Because::Name => {
            let why = "no rule matches, and it is the name of the profile";
            (why.to_owned(), file.profile_location(&profile.name))
        }
        Because::Hint(hint) => (format!("[hints] {hint}"), file.profile_location(&profile.name)),
        _ => ("no rule matches, so it is the default".to_owned(), file.profile_location(&profile.name)),
    }
}

fn share(weight: u32) -> f64 {
    let weight = f64::from(weight);
    (weight / (weight + f64::from(NORMAL)) * 10_000.0).round() / 100.0
}

fn latency(latency: Latency) -> &'static str {
    match latency {
        Latency::Sensitive => "sensitive",
        Latency::Normal => "normal",
        Latency::Batch => "batch",
    }
}

/// The word of a file, and what it means.
fn overrun(overrun: Overrun) -> (&'static str, &'static str) {
    match overrun {
        Overrun::Throttle => ("throttle", "it waits for the next period"),
        Overrun::Demote => ("demote", "it continues with its weight"),
        Overrun::Stop => ("stop", "it is stopped"),
    }
}

fn cpus(demand: CpuDemand) -> String {
    match demand {
        CpuDemand::Count(count) => format!("any {count}"),
        CpuDemand::Set(cpus) => cpus.to_string(),
        _ => "any".to_owned(),
    }
}

fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{} ms", ns as f64 / 1e6),
        _ => format!("{} s", ns as f64 / 1e9),
    }
}

fn numbers(profile: &CpuProfile) -> String {
    let mut text = String::new();
    let times = f64::from(profile.weight) / f64::from(NORMAL);
    let _ = writeln!(
        text,
        "  weight     {}: {:.2} times a normal task; beside one, {:.2} % of a CPU",
        profile.weight,
        times,
        share(profile.weight)
    );
    let word = latency(profile.latency);
    let _ = writeln!(
        text,
        "  slice      {} at a time (latency {word}); a smaller one is served sooner, not more",
        time(profile.slice)
    );
    match profile.reserve {
        None => text.push_str("  reserved   no time\n"),
        Some(reserve) => {
            let percent = reserve.budget as f64 / reserve.period as f64 * 100.0;
            let _ = writeln!(
                text,
                "  reserved   {} in every {}, within {}: {percent:.2} % of a CPU; when it is spent, {}; criticality {}",
                time(reserve.budget),
                time(reserve.period),
                time(reserve.deadline),
                overrun(reserve.overrun).1,
                reserve.criticality
            );
        }
    }
    let _ = writeln!(text, "  CPUs       {}", cpus(profile.cpus));
    text
}
