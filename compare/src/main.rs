//! Bursar beside its peers, in one run.
//!
//! Every figure is a ratio of two measurements taken minutes apart at most, on the same
//! machine, in rounds that alternate: a slow minute slows both sides. One file of
//! `src/workloads/` holds one workload, ours and the peers' side by side, so that a reader
//! can check that both do the same work.
//!
//! # Not for
//! Absolute figures. They belong to the machine; only the ratios travel.

mod chain;
mod cluster;
mod load;
mod measure;
mod memory;
mod parked;
mod primes;
mod scaling;
mod split;
mod table;
mod watchdog;
mod workloads;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use lexopt::prelude::*;

use crate::load::{CLIENT, Client};
use crate::measure::Plan;
use crate::table::Row;
use crate::workloads::process_scale::{PART, Part};
use crate::workloads::{ALL, CLUSTER, ON_CLUSTER, Workload};

/// What stops a workload. It is printed for a person, so it is kept as a message.
type Failure = Box<dyn Error>;

/// The first argument of a keeper: this program is that, too, for its own commands.
const KEEP: &str = "--keep";

const HELP: &str = "\
Measures Bursar beside tokio, may, rayon, async-executor, crossbeam and corosensei.

Usage: compare [WORKLOAD…] [--quick] [--json FILE]
       compare --list

  WORKLOAD…     the workloads to run; all of them if none is named, but for those on a
                cluster: `cluster` names these, and `cargo xtask compare cluster`
                starts what they need
  --quick       less work and fewer rounds: a first look, not a verdict
  --json FILE   also write one object per line:
                {\"workload\",\"peer\",\"ours\",\"theirs\",\"unit\",\"ratio\"}
                and of thread-scale and process-scale, in milliseconds:
                {\"workload\",\"side\",\"workers\",\"wall\",\"total\",\"work\",…}
  --list        name the workloads and say what each does

Less is better, except for `scale`, `jobs` and rates (…/s). Rows with the peer `bar` compare with a fixed limit.
A bar that is not met is a result, not an error: the exit code is 0. It is 1 when a
workload could not be measured or came to a wrong result, and 2 when the command line is wrong.
";

/// The machine's load, over the last minute, above which it is not quiet.
const LOAD_QUIET_MAX: f64 = 0.7;

struct Options {
    workloads: Vec<&'static Workload>,
    json: Option<File>,
    quick: bool,
}

enum Command {
    Run(Options),
    Part(Part),
    Client(Client),
    Help,
    List,
}

fn parse(mut args: lexopt::Parser) -> Result<Command, Failure> {
    let mut options = Options { workloads: Vec::new(), json: None, quick: false };
    while let Some(arg) = args.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("list") => return Ok(Command::List),
            Long("quick") => options.quick = true,
            Long("json") => {
                let path = args.value()?;
                let file = File::create(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
                options.json = Some(file);
            }
            // How `process-scale` starts it.
            Long(PART) => {
                let values = [args.value()?, args.value()?, args.value()?, args.value()?];
                let words = values.map(|value| value.string()).into_iter().collect::<Result<Vec<_>, _>>()?;
                let words: [&str; 4] = std::array::from_fn(|at| &*words[at]);
                return Ok(Command::Part(Part::parse(words)?));
            }
            // How `load::ask` starts it.
            Long(CLIENT) => {
                let values = [args.value()?, args.value()?, args.value()?, args.value()?];
                let words = values.map(|value| value.string()).into_iter().collect::<Result<Vec<_>, _>>()?;
                let words: [&str; 4] = std::array::from_fn(|at| &*words[at]);
                return Ok(Command::Client(Client::parse(words)?));
            }
            Value(name) => options.workloads.extend(workloads::find(&name.string()?)?),
            other => return Err(other.unexpected().into()),
        }
    }
    if options.workloads.is_empty() {
        options.workloads = ALL.iter().collect();
    }
    Ok(Command::Run(options))
}

fn run(mut options: Options) -> Result<ExitCode, Failure> {
    let plan = Plan::new(options.quick);
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    let began = Instant::now();
    let busy = busy_note();
    if let Some(note) = &busy {
        plan.done(note);
    }
    for (index, workload) in options.workloads.iter().enumerate() {
        let started = Instant::now();
        plan.say(&format!("[{}/{}] {}", index + 1, options.workloads.len(), workload.name));
        match guarded(|| (workload.run)(&plan)) {
            Ok(new) => {
                if let Some(file) = &mut options.json {
                    // Now, so that a run that dies later keeps what it measured.
                    for row in &new {
                        writeln!(file, "{}", row.json())?;
                    }
                    for split in plan.sheet().rows().iter().filter(|split| split.workload == workload.name) {
                        writeln!(file, "{}", split.json())?;
                    }
                }
                rows.extend(new);
                plan.done(&format!("{} in {:.1} s", workload.name, started.elapsed().as_secs_f64()));
            }
            Err(failure) => {
                plan.done(&format!("{} FAILED: {failure}", workload.name));
                failed.push(workload.name);
            }
        }
    }
    watchdog::rest();
    let mut out = io::stdout().lock();
    write!(out, "{}", table::render(&rows))?;
    let sheet = plan.sheet();
    if !sheet.rows().is_empty() {
        write!(out, "\n{}", sheet.render())?;
    }
    for refused in sheet.refused() {
        plan.done(&format!("REFUSED {refused}"));
    }
    writeln!(out, "\n{}", summary(&rows, &failed, began))?;
    if let Some(note) = &busy {
        writeln!(out, "{note}")?;
    }
    Ok(if failed.is_empty() && sheet.refused().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What to say if other programs are at work. Ratios survive a slow machine; those with two
/// workers do not survive a machine that has no second core to spare.
fn busy_note() -> Option<String> {
    let load: f64 = fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()?;
    (load > LOAD_QUIET_MAX)
        .then(|| format!("NOTE: the load was {load} before the start; measure again when other programs are quiet"))
}

fn summary(rows: &[Row], failed: &[&str], began: Instant) -> String {
    let judged = rows.iter().filter_map(Row::met);
    let (met, bars) = judged.fold((0, 0), |(met, bars), ok| (met + u32::from(ok), bars + 1));
    let mut text = format!("{met} of {bars} bars met, {:.0} s in all", began.elapsed().as_secs_f64());
    if !failed.is_empty() {
        text += &format!("; not measured: {}", failed.join(", "));
    }
    text
}

/// Runs one workload; a panic in it becomes its failure, so that the others still run.
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message =
            panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", message.unwrap_or("without a message")).into())
    })
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(KEEP) {
        bursar::jobs::process::keeper_main(); // this process is a keeper; it does not return
    }
    let command = match parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("compare: {error}\nTry `compare --help`.");
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Help => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Command::List => {
            for workload in ALL {
                println!("{:<13} {}", workload.name, workload.about);
            }
            println!("\nOnly when named, with `cargo xtask compare`, which starts a cluster; `{CLUSTER}` names both:");
            for workload in ON_CLUSTER {
                println!("{:<13} {}", workload.name, workload.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(options) => run(options),
        Command::Client(client) => client.run().map(|said| {
            println!("{said}");
            ExitCode::SUCCESS
        }),
        Command::Part(part) => part.run().map(|said| {
            println!("{said}");
            ExitCode::SUCCESS
        }),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("compare: {error}");
        ExitCode::from(1)
    })
}
