//! What a run shows, and the socket that others steer it by.
//!
//! # Invariant
//! After [`Front::close`] nobody but the caller holds the jobs and their processes.
//!
//! # Why it holds
//! The display joins its thread, the socket waits for its own, and whoever hurries processes does not keep them.

use std::path::Path;
use std::sync::{Arc, Weak};

use sched_jobs::Jobs;
use sched_jobs::process::Processes;

use super::record::Recorder;
use crate::control::{self, Runner, Served};
use crate::exit::say;
use crate::view;
use crate::view::run::{Ended, Scene};
use crate::view::voice::Display;

/// A run's face to the outside.
pub(crate) struct Front {
    live: Option<Display<Ended>>,
    served: Option<Served>,
}

impl Front {
    /// Shows the run from now on, if it is to be shown.
    pub(crate) fn open(jobs: &Jobs, scene: Option<Scene>) -> Front {
        // Without a thread to show it, it runs all the same.
        Front { live: scene.and_then(|scene| view::run::start(jobs, scene).ok()), served: None }
    }

    /// Lets others steer it. If they cannot, it runs all the same.
    pub(crate) fn serve(
        &mut self,
        folder: &Path,
        run: &str,
        jobs: &Jobs,
        processes: &Arc<Processes>,
        recorder: &Arc<Recorder>,
    ) {
        let hands = Hands { processes: Arc::downgrade(processes), recorder: Arc::clone(recorder) };
        match control::serve(folder, run, jobs.clone(), Arc::new(hands)) {
            Ok(served) => self.served = Some(served),
            Err(error) => self.voice()(&format!("other commands cannot reach this run: {error}")),
        }
    }

    /// A way to tell people something.
    pub(crate) fn voice(&self) -> Box<dyn Fn(&str) + Send> {
        match &self.live {
            Some(live) => {
                let voice = live.voice();
                Box::new(move |text| voice.say(text))
            }
            None => Box::new(|text| say!("bursar: {text}")),
        }
    }

    /// The run is over.
    #[must_use = "a script may believe what it did not read"]
    pub(crate) fn close(self, ended: Ended) -> Option<std::io::Error> {
        drop(self.served);
        self.live.and_then(|live| live.finish(ended))
    }
}

/// What a request from outside does besides.
struct Hands {
    processes: Weak<Processes>,
    recorder: Arc<Recorder>,
}

impl Runner for Hands {
    fn hurry(&self) {
        if let Some(processes) = self.processes.upgrade() {
            processes.hurry_cancelled();
        }
    }

    fn run_paused(&self, paused: bool) {
        self.recorder.run_paused(paused);
    }
}
