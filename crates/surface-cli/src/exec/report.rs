//! What is said about a run: the last lines for people, an object for scripts.
//!
//! Room: surface.

use bursar::budget::Component;
use bursar::janus::{FaultKind, Problems, Spent, Value};
use serde::Serialize;
use surface_text::amounts::{bytes, counted, grouped, measured};

use super::ending::{Ended, How};
use super::source::Source;
use super::{Options, name, replay};
use crate::exit::{Exit, Failure, say};
use crate::out::{json, print};
use crate::problems::ProblemJson;
use crate::view::text::{clean, listed};

/// Says how a run ended, and what it spent.
pub(super) fn report(options: &Options, source: &Source, ended: &Ended) -> Result<(), Failure> {
    if options.json {
        return json(&Ran::of(options, source, ended));
    }
    if let Some(line) = line(options, source, ended) {
        say!("{line}");
    }
    say!("{}", spent(options, ended));
    if let (Some(seed), true) = (options.seed, is_failure(ended)) {
        say!("replay: {}", replay::command(options, seed));
    }
    Ok(())
}

/// Whether a run is what `--explore` looks for.
pub(super) fn is_failure(ended: &Ended) -> bool {
    !matches!(ended.how, How::Interrupted(_) | How::Unwritten(_)) && ended.code() != Exit::Success as u8
}

/// `miner.jan:12:5: stopped: budget spent (ops 1,000,000 of 1,000,000) in `hash_forever``; none if there is nothing to say.
pub(super) fn line(options: &Options, source: &Source, ended: &Ended) -> Option<String> {
    let what = what(options, ended)?;
    let place = match &ended.fault {
        Some(fault) => match source.column(fault.line) {
            Some(column) => format!("{}:{}:{column}", fault.file, fault.line),
            None if fault.line > 0 => format!("{} (line {} of its source)", fault.file, fault.line),
            None => fault.file.to_string(),
        },
        None => name(options),
    };
    let within = ended.fault.as_ref().map_or(String::new(), |fault| format!(" in `{}`", fault.function));
    let way_out = way_out(&ended.how).map_or(String::new(), |way_out| format!("; {way_out}"));
    Some(clean(&format!("{place}: {what}{within}{way_out}")))
}

/// What happened, without the place.
fn what(options: &Options, ended: &Ended) -> Option<String> {
    Some(match &ended.how {
        How::Returned(Value::Unit) => return None,
        How::Returned(Value::Int(value)) if u8::try_from(*value).is_err() => {
            format!("`main` returned {value}, which is no exit code (0 to 255)")
        }
        How::Returned(value) => format!("`main` returned {value}"),
        How::Failed(FaultKind::Stack { limit }) => format!("failed: stack: calls take more than {}", bytes(*limit)),
        How::Failed(FaultKind::Memory { limit }) => {
            format!("stopped: budget spent (memory {} of {})", grouped(ended.spent.memory), grouped(*limit))
        }
        How::Failed(kind) => format!("failed: {kind}"),
        How::Spent(component) => {
            let (spent, limit) = match component {
                Component::Spawns => (ended.spent.spawns, options.spawns),
                Component::ChannelOps => (ended.spent.channel_ops, options.channel_ops),
                Component::Memory => (ended.spent.memory, options.memory),
                Component::Syscalls => (ended.spent.syscalls, None),
                Component::Ops => (ended.spent.ops, options.ops),
            };
            let held = if limit.is_some_and(|limit| spent < limit) { "; other tasks hold the rest" } else { "" };
            let limit = limit.map_or(String::new(), |limit| format!(" of {}", grouped(limit)));
            format!("stopped: budget spent ({component} {}{limit}{held})", grouped(spent))
        }
        How::TooManyTasks { limit } => {
            format!("stopped: capability used up ({} at a time)", counted(*limit as usize, "task"))
        }
        How::TimedOut => {
            let limit = std::time::Duration::from_millis(options.timeout.unwrap_or(0));
            format!("stopped: its time limit of {} was reached", measured(limit))
        }
        How::Deadlock(names) => {
            let names = if names.is_empty() { "all of them".to_owned() } else { listed(names, 8, String::clone) };
            format!("stopped: deadlock: its tasks wait for each other ({names}), and no `timeout` runs")
        }
        How::Interrupted(_) => "cancelled".to_owned(),
        How::Unwritten(error) => format!("cancelled: what it prints cannot be written: {error}"),
        How::Other(why) => format!("failed: {why}"),
    })
}

/// The option that helps, if one does.
fn way_out(how: &How) -> Option<&'static str> {
    match how {
        How::Failed(FaultKind::Stack { .. }) => Some("recurse less deeply, or raise `--stack`"),
        How::Failed(FaultKind::Memory { .. }) | How::Spent(Component::Memory) => {
            Some("make fewer or smaller channels, or raise `--memory`")
        }
        How::Returned(Value::Int(value)) if u8::try_from(*value).is_err() => Some("print it instead"),
        How::TooManyTasks { .. } => Some("wait for some before others start, or raise `--tasks`"),
        _ => None,
    }
}

/// `spent: ops 1,000,000 · memory 12 kB · spawns 3 · channel ops 0 · syscalls 0 · 11 ms`
pub(super) fn spent(options: &Options, ended: &Ended) -> String {
    let Spent { ops, memory, spawns, channel_ops, syscalls, .. } = ended.spent;
    let [ops, spawns, channel_ops, syscalls] = [ops, spawns, channel_ops, syscalls].map(grouped);
    let virtual_time = if options.is_seeded() { " of virtual time" } else { "" };
    format!(
        "spent: ops {ops} · memory {} · spawns {spawns} · channel ops {channel_ops} · syscalls {syscalls} · {}{virtual_time}",
        bytes(memory),
        measured(ended.took)
    )
}

/// `--check`
pub(super) fn checked(options: &Options, source: &Source) -> Result<(), Failure> {
    let (program, file) = (&source.program, name(options));
    let functions: Vec<&str> = program.ir().functions.iter().map(|function| function.name.as_str()).collect();
    let profile = program.profile().name();
    if options.json {
        return json(
            &serde_json::json!({ "ok": true, "file": file, "profile": profile, "functions": functions, "problems": [] }),
        );
    }
    print(&format!("{file}: no problems; profile {profile}, {}\n", counted(functions.len(), "function")))
}

/// The problems of a program, for scripts.
pub(super) fn problems_json(problems: &Problems) -> serde_json::Value {
    let problems: Vec<ProblemJson<'_>> = problems.iter().map(ProblemJson::of).collect();
    serde_json::json!({ "ok": false, "problems": problems })
}

/// A run, for scripts.
#[derive(Serialize)]
struct Ran<'a> {
    ok: bool,
    file: String,
    /// What `main` returned.
    result: Option<serde_json::Value>,
    exit: u8,
    spent: SpentJson,
    /// Of the clock that it ran by.
    nanos: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    fault: Option<FaultJson<'a>>,
}

#[derive(Serialize)]
struct SpentJson {
    ops: u64,
    memory: u64,
    spawns: u64,
    channel_ops: u64,
    syscalls: u64,
}

#[derive(Serialize)]
struct FaultJson<'a> {
    kind: &'static str,
    message: String,
    line: Option<u32>,
    column: Option<usize>,
    function: Option<&'a str>,
}

impl<'a> Ran<'a> {
    fn of(options: &Options, source: &Source, ended: &'a Ended) -> Ran<'a> {
        let Spent { ops, memory, spawns, channel_ops, syscalls, .. } = ended.spent;
        let result = match &ended.how {
            How::Returned(Value::Int(value)) => Some((*value).into()),
            How::Returned(Value::Bool(value)) => Some((*value).into()),
            _ => None,
        };
        let at = ended.fault.as_ref().filter(|fault| fault.line > 0);
        let fault = kind(&ended.how).map(|kind| FaultJson {
            kind,
            message: what(options, ended).unwrap_or_default(),
            line: at.map(|fault| fault.line),
            column: at.and_then(|fault| source.column(fault.line)),
            function: ended.fault.as_ref().map(|fault| &*fault.function),
        });
        Ran {
            ok: fault.is_none(),
            file: name(options),
            result,
            exit: ended.code(),
            spent: SpentJson { ops, memory, spawns, channel_ops, syscalls },
            nanos: u64::try_from(ended.took.as_nanos()).unwrap_or(u64::MAX),
            seed: options.seed,
            fault,
        }
    }
}

/// One word for why it failed; none if it did not.
fn kind(how: &How) -> Option<&'static str> {
    Some(match how {
        How::Returned(_) => return None,
        How::Failed(FaultKind::Overflow) => "overflow",
        How::Failed(FaultKind::DivisionByZero) => "division_by_zero",
        How::Failed(FaultKind::Stack { .. }) => "stack",
        How::Failed(FaultKind::Memory { .. }) | How::Spent(_) => "budget",
        How::Failed(FaultKind::Closed) => "closed",
        How::Failed(_) => "failed",
        How::TooManyTasks { .. } => "capability",
        How::TimedOut => "timeout",
        How::Deadlock(_) => "deadlock",
        How::Interrupted(_) => "cancelled",
        How::Unwritten(_) => "unwritten",
        How::Other(_) => "other",
    })
}
