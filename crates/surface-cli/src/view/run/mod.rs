//! The display of an active run.
//!
//! Room: surface.
//!
//! # Invariant
//! Everything that happened before `finish` is shown when `finish` returns.
//!
//! # Why it holds
//! The scheduler publishes an event before `wait` can see its effect. The thread reads whether it is closing first and empties its queue after,
//! so what was published before that is read in that round at the latest.
//!
//! [`board`] is the state, [`forecast`] the ETA, [`frame`] the live area, [`lines`] the lines for everything else: all pure. [`watch`] feeds
//! them.

mod board;
mod forecast;
mod frame;
mod lines;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sched_jobs::{Jobs, Limits};
use surface_jobfile::Plan;

use self::watch::Watcher;
use super::Mode;
use super::printer::{Display, Printer};
use crate::control::event::Subject;

/// What the display needs to know of a run.
pub(crate) struct RunInfo {
    /// The jobs, in the order they are submitted in.
    pub(crate) plan: Arc<Plan>,
    /// The name of the run.
    pub(crate) run: String,
    /// Whether it can be shown after its end.
    pub(crate) keeps: bool,
    /// What jobs may use together.
    pub(crate) limits: Limits,
    /// How long each job probably takes, from earlier runs; may be shorter than the plan.
    pub(crate) expected: Vec<Option<Duration>>,
    /// How long jobs whose attempts run already had run before.
    pub(crate) ran_before: HashMap<usize, Duration>,
    /// The folder of the logs; see [`log_path`](super::log_path).
    pub(crate) logs: Option<PathBuf>,
    /// How.
    pub(crate) mode: Mode,
}

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every job succeeded.
    Succeeded,
    /// Some did not.
    Failed,
    /// It was interrupted by a signal.
    Interrupted {
        /// Jobs that succeeded after they were asked to end: they are done, though they count as cancelled.
        late: u32,
    },
}

/// Starts to show a run. Call it before the jobs are submitted; otherwise earlier events are known but not shown.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(jobs: &Jobs, info: RunInfo) -> std::io::Result<Display<Ended>> {
    let events = jobs.events();
    let printer = Printer::new(info.mode, Subject::Run(info.run.clone()));
    let mut watcher = Watcher::new(jobs.clone(), info, printer.clone());
    for status in jobs.statuses() {
        watcher.know(&status);
    }
    Display::start(&printer, move |ended| watcher.watch(events, ended))
}
