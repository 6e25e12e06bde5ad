//! The display of an active run or flow, for a person, a file or a program.
//!
//! Room: surface.
//!
//! It listens and prints; nothing here changes what is shown, and a terminal that hangs or is closed does not delay a run. A flow is delayed only by a reader
//! of its output that does not read, as any program is.
//!
//! ```text
//! let live = view::run::start(&jobs, RunInfo { plan, run, limits, expected, logs, mode }); // before the jobs are submitted
//! live.printer().say("one line, above what is drawn");
//! live.finish(Ended::Succeeded);                                                             // after `jobs.wait()`
//! ```
//!
//! - `printer.rs`: messages, lines and frames, written by one thread; `paint.rs`: the part of a terminal that is redrawn.
//! - `run/`: the state of a run, its forecast, its frame, its lines; `flow/`: the rates of a flow, its frame, its lines. All of it is pure except a `watch.rs` in each,
//!   which feeds the rest.
//! - `table.rs`, `text.rs`, `tail.rs`: what both put into lines.

pub(crate) mod flow;
pub(crate) mod paint;
pub(crate) mod printer;
pub(crate) mod run;
mod table;
pub(crate) mod tail;
pub(crate) mod text;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// How a run or a flow is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A terminal that is redrawn.
    Live,
    /// A line for each important event. What nodes of a flow print goes to stdout, so lines about a flow go to stderr.
    Plain,
    /// An object for each event.
    Json,
    /// Failures only.
    Quiet,
}

impl Mode {
    /// The mode that was asked for, else the one that suits the output.
    pub(crate) fn choose(asked: Option<Mode>) -> Mode {
        let can_draw = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        asked.unwrap_or(if can_draw { Mode::Live } else { Mode::Plain })
    }
}

/// Where the output of an attempt goes: `logs/<job>.<attempt>.log`.
pub(crate) fn log_path(logs: &Path, job: usize, attempt: u32) -> PathBuf {
    logs.join(format!("{job}.{attempt}.log"))
}
