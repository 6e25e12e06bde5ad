//! A list of steps becomes a program.
//!
//! Room: surface.
//!
//! # Invariant
//! A program that is repeated lets time pass: it has a step that takes some, or waits for others.

use proof_sim::{Program, Step};
use surface_text::fields::Spanned;
use surface_text::units::clip;
use surface_text::{Span, nearest};

use crate::keys::Values;
use crate::keys::range;

const STEPS: [&str; 8] = ["run", "sleep", "call", "receive", "reply", "poll", "yield", "exit"];

/// Where names of threads and rings lead.
pub(crate) struct Names<'a> {
    /// Threads, and the number of the first of each in the machine.
    pub(crate) threads: &'a [(String, u32)],
    /// Rings, in order.
    pub(crate) rings: &'a [String],
}

/// The program of a thread. `None` if there is a problem, which is in the report.
pub(crate) fn program(
    steps: &[Spanned<String>],
    once: bool,
    at: &Span,
    names: &Names<'_>,
    values: &mut Values<'_>,
) -> Option<Program> {
    let mut program = Vec::with_capacity(steps.len());
    for step in steps {
        match read(&step.value, names) {
            Ok(step) => program.push(step),
            Err((message, help)) => values.report.add(&step.at, message, help),
        }
    }
    if program.len() < steps.len() {
        return None;
    }
    let takes_time = |step: &Step| match *step {
        Step::Run(time) | Step::Sleep(time) => time > 0,
        Step::RunBetween(from, _) | Step::SleepBetween(from, _) => from > 0,
        Step::Receive | Step::Poll(_) | Step::Exit => true,
        _ => false,
    };
    if once {
        return Some(Program::once(program));
    }
    if !program.iter().any(takes_time) {
        values.report.add(
            at,
            "these steps take no time, again and again",
            "add a step like \"run 1ms\" or \"sleep 5ms\"",
        );
        return None;
    }
    Some(Program::forever(program))
}

fn read(text: &str, names: &Names<'_>) -> Result<Step, (String, String)> {
    let (verb, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    let rest = rest.trim();
    let time = || {
        range(rest).map_err(|why| {
            let message = format!("`{}` is not followed by a time: {why}", clip(text));
            (message, format!("write \"{verb} 1ms\", or \"{verb} 1ms..4ms\" for a random time between them"))
        })
    };
    let nothing_more = |step: Step| {
        if rest.is_empty() {
            return Ok(step);
        }
        Err((format!("`{verb}` takes nothing, and `{}` follows", clip(rest)), format!("write \"{verb}\"")))
    };
    match verb {
        "run" => time().map(|(from, to)| if from == to { Step::Run(from) } else { Step::RunBetween(from, to) }),
        "sleep" => time().map(|(from, to)| if from == to { Step::Sleep(from) } else { Step::SleepBetween(from, to) }),
        "call" => {
            let found = names.threads.iter().find(|(name, _)| name == rest).map(|(_, number)| Step::Call(*number));
            found.ok_or_else(|| unknown("thread", rest, names.threads.iter().map(|(name, _)| name.as_str())))
        }
        "poll" => {
            let found = names.rings.iter().position(|name| name == rest).map(|number| Step::Poll(number as u32));
            found.ok_or_else(|| unknown("ring", rest, names.rings.iter().map(String::as_str)))
        }
        "receive" => nothing_more(Step::Receive),
        "reply" => nothing_more(Step::Reply),
        "yield" => nothing_more(Step::Yield),
        "exit" => nothing_more(Step::Exit),
        _ => {
            let help = match nearest(verb, STEPS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("steps are {}", STEPS.join(", ")),
            };
            Err((format!("`{}` is not a step", clip(text)), help))
        }
    }
}

/// What is said of a name that no section has.
pub(crate) fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> (String, String) {
    let help = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("add a section `[{kind}.{}]`", clip(name)),
    };
    (format!("there is no {kind} `{}`", clip(name)), help)
}
