//! The display of a run, and its control socket.
//!
//! Room: driver.
//!
//! # Invariant
//! After [`Frontend::close`] only the caller holds the jobs and their processes.
//!
//! # Why it holds
//! The display joins its thread, the socket waits for its threads, and the hooks hold the processes only weakly.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sched_jobs::process::Processes;
use sched_jobs::{AttemptId, JobId, Jobs};
use sched_slurm::{Slurm, Stand};

use super::record::Recorder;
use crate::control::{self, Runner, ServerHandle};
use crate::exit::say;
use crate::view;
use crate::view::printer::Display;
use crate::view::run::{Ended, RunInfo};

/// Prints a message for people.
type Say = Box<dyn Fn(&str) + Send>;

/// The display and the control socket of a run.
pub(crate) struct Frontend {
    live: Option<Display<Ended>>,
    served: Option<ServerHandle>,
}

impl Frontend {
    /// Shows the run from now on, if it is to be shown.
    pub(crate) fn open(jobs: &Jobs, info: Option<RunInfo>) -> Frontend {
        // If the thread cannot be started, the run continues without a display.
        Frontend { live: info.and_then(|info| view::run::start(jobs, info).ok()), served: None }
    }

    /// Opens the control socket. If that fails, the run continues without it.
    pub(crate) fn serve(
        &mut self,
        folder: &Path,
        run: &str,
        jobs: &Jobs,
        processes: &Arc<Processes>,
        slurm: Option<&Arc<Slurm>>,
        recorder: &Arc<Recorder>,
    ) {
        let slurm = slurm.map(Arc::downgrade).unwrap_or_default();
        let say = Mutex::new(self.say_fn());
        let hooks = RunHooks { processes: Arc::downgrade(processes), slurm, recorder: Arc::clone(recorder), say };
        match control::serve(folder, run, jobs.clone(), Arc::new(hooks)) {
            Ok(served) => self.served = Some(served),
            Err(error) => self.say_fn()(&format!("other commands cannot reach this run: {error}")),
        }
    }

    /// A function that prints a message for people.
    pub(crate) fn say_fn(&self) -> Say {
        match &self.live {
            Some(live) => {
                let printer = live.printer();
                Box::new(move |text| printer.say(text))
            }
            None => Box::new(|text| say!("bursar: {text}")),
        }
    }

    /// The run is over.
    #[must_use = "a script would take an incomplete output for a complete one"]
    pub(crate) fn close(self, ended: Ended) -> Option<std::io::Error> {
        drop(self.served);
        self.live.and_then(|live| live.finish(ended))
    }
}

/// What else a request over the socket does.
struct RunHooks {
    processes: Weak<Processes>,
    /// Of nothing, if no job goes there.
    slurm: Weak<Slurm>,
    recorder: Arc<Recorder>,
    say: Mutex<Say>,
}

impl Runner for RunHooks {
    fn skip_grace(&self) {
        if let Some(processes) = self.processes.upgrade() {
            processes.hurry_cancelled();
        }
        if let Some(slurm) = self.slurm.upgrade() {
            slurm.hurry_cancelled();
        }
    }

    fn in_force(&self, job: JobId) -> Option<String> {
        let in_force = self.processes.upgrade()?.in_force(job)?;
        self.recorder.in_force_words(job.index(), &in_force)
    }

    fn elsewhere(&self, attempt_id: AttemptId) -> Option<String> {
        self.slurm.upgrade()?.status(attempt_id)
    }

    fn stand(&self, attempt_id: AttemptId) -> Option<Stand> {
        self.slurm.upgrade()?.stand(attempt_id)
    }

    fn unpaused(&self) -> (Vec<AttemptId>, Option<String>) {
        self.slurm.upgrade().map(|slurm| slurm.unpaused()).unwrap_or_default()
    }

    fn say(&self, text: &str) {
        (self.say.lock().unwrap_or_else(PoisonError::into_inner))(text);
    }

    fn run_paused(&self, paused: bool) {
        self.recorder.run_paused(paused);
    }
}
