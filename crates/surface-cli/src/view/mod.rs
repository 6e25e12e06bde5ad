//! What a person, a file or a program sees of a run while it goes on.
//!
//! Room: surface. Listens and prints; nothing here changes the run, and a terminal that hangs or goes away does not hold it up.
//!
//! ```text
//! let live = view::start(&jobs, Scene { plan, run, limits, expected, logs, mode });   // before the jobs are submitted
//! live.voice().say("one line, above what is drawn");
//! live.finish(Ended::Well);                                                             // after `jobs.wait()`
//! ```
//!
//! # Invariant
//! Everything that happened before `finish` is shown when `finish` returns.
//!
//! # Why it holds
//! The scheduler publishes an event before `wait` can see its effect. The thread reads `closing` first and empties its queue after, so what
//! was published before `closing` was set is read in that round at the latest.
//!
//! [`board`] is the state, [`forecast`] the ETA, [`frame`] the live area, [`tell`] the lines for everything else: all pure. [`watch`] feeds
//! them.

mod board;
mod forecast;
mod frame;
pub(crate) mod paint;
pub(crate) mod tail;
mod tell;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod watch;

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sched_jobs::{Jobs, Limits};
use surface_jobfile::Plan;

use self::watch::Watcher;

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A terminal, drawn again and again.
    Live,
    /// A line for each event that matters.
    Plain,
    /// An object for each event; see [`tell`].
    Json,
    /// Failures only.
    Quiet,
}

impl Mode {
    /// What `--json` and `--quiet` ask for, else what suits where the output goes.
    pub(crate) fn choose(json: bool, quiet: bool) -> Mode {
        let can_draw = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match (json, quiet) {
            (true, _) => Mode::Json,
            (_, true) => Mode::Quiet,
            _ if can_draw => Mode::Live,
            _ => Mode::Plain,
        }
    }
}

/// What is to be shown.
pub(crate) struct Scene {
    /// The jobs, in the order they are submitted in.
    pub(crate) plan: Arc<Plan>,
    /// The name of the run.
    pub(crate) run: String,
    /// Whether it can be looked at when it is over.
    pub(crate) keeps: bool,
    /// What jobs may use together.
    pub(crate) limits: Limits,
    /// How long each job probably takes, as far as earlier runs tell; may be shorter than the plan.
    pub(crate) expected: Vec<Option<Duration>>,
    /// How long jobs whose attempts go on had run before.
    pub(crate) ran_before: HashMap<usize, Duration>,
    /// The folder of the logs; see [`log_path`].
    pub(crate) logs: Option<PathBuf>,
    /// How.
    pub(crate) mode: Mode,
}

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every job succeeded.
    Well,
    /// Some did not.
    Badly,
    /// Somebody wanted it to end.
    Interrupted,
}

/// Where the output of an attempt goes: `logs/<job>.<attempt>.log`.
pub(crate) fn log_path(logs: &Path, job: usize, attempt: u32) -> PathBuf {
    logs.join(format!("{job}.{attempt}.log"))
}

/// A display that is on.
#[must_use = "a display that is dropped goes off"]
pub(crate) struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mode: Mode,
}

#[derive(Default)]
struct Shared {
    closing: AtomicBool,
    ended: Mutex<Option<Ended>>,
    said: Mutex<Vec<String>>,
    /// Why events that a program reads could not be written.
    unwritten: Mutex<Option<std::io::Error>>,
}

/// Begins to show a run. Call it before the jobs are submitted, or what happened until now is known but not told.
pub(crate) fn start(jobs: &Jobs, scene: Scene) -> Live {
    let events = jobs.events();
    let mode = scene.mode;
    let shared = Arc::<Shared>::default();
    let mut watcher = Watcher::new(jobs.clone(), scene, shared.clone());
    for status in jobs.statuses() {
        watcher.know(&status);
    }
    let thread = std::thread::Builder::new().name("view".into()).spawn(move || watcher.watch(events)).ok();
    Live { shared, thread, mode }
}

/// A way to say something to whoever watches, from any thread.
#[derive(Clone)]
pub(crate) struct Voice {
    shared: Arc<Shared>,
    mode: Mode,
}

impl Voice {
    /// Says one line: above what is drawn, or on stderr if nothing is.
    pub(crate) fn say(&self, line: &str) {
        match self.mode {
            Mode::Live if !self.shared.closing.load(SeqCst) => {
                self.shared.said.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
            }
            _ => {
                let _ = writeln!(std::io::stderr(), "bursar: {line}"); // nobody may be there to read it
            }
        }
    }
}

impl Live {
    /// For others who have something to say.
    pub(crate) fn voice(&self) -> Voice {
        Voice { shared: self.shared.clone(), mode: self.mode }
    }

    /// Shows the end, and returns when everything has been shown. Gives the reason if events that a program reads could not be written.
    pub(crate) fn finish(self, ended: Ended) -> Option<std::io::Error> {
        let shared = Arc::clone(&self.shared);
        *shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        drop(self);
        shared.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}
