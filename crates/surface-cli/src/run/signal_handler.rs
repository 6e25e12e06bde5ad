//! What happens to a run from outside its jobs: signals, the first failure, a journal that breaks.
//!
//! # Invariant
//! After the first signal nothing starts. After the second nobody has any grace.
//!
//! # Why it holds
//! Signals are read by a thread of their own and become notices, as everything else; one thread, the steward, answers them in
//! their order. To cancel the run is one step of the scheduler: whoever is not running then has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use sched_jobs::process::Processes;
use sched_jobs::{Jobs, State, Target};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use surface_journal::JournalError;

use super::record::Recorder;
use crate::signals::FirstSignal;

/// Something that is not about one job.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Somebody wants us to end.
    Signal(i32),
    /// A job failed for good.
    Failed,
    /// The reader of what one command prints has gone: called directly, the command would have ended by SIGPIPE.
    OutputClosed,
    /// Nothing more can be recorded.
    JournalBroken(JournalError),
    /// The run is over.
    Over,
}

/// What became of the run because of notices.
#[derive(Debug, Default)]
pub(crate) struct StopState {
    /// What ended the run.
    pub(crate) signal: FirstSignal,
    pub(crate) stopped_early: AtomicBool,
    output_closed: AtomicBool,
    pub(crate) broken: Mutex<Option<JournalError>>,
}

impl StopState {
    /// The signal that a command gets whose output is not read any more, if ours is not.
    pub(crate) fn output_closed(&self) -> Option<i32> {
        self.output_closed.load(Ordering::SeqCst).then_some(SIGPIPE)
    }

    /// Why the journal could not be written.
    pub(crate) fn take_broken(&self) -> Option<JournalError> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What the steward acts on.
pub(crate) struct SignalHandler {
    pub(crate) jobs: Jobs,
    pub(crate) processes: Arc<Processes>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) stop_state: Arc<StopState>,
    pub(crate) fail_fast: bool,
    /// Where people are told.
    pub(crate) say: Box<dyn Fn(&str) + Send>,
}

/// Answers notices until the run is over.
pub(crate) fn start(handler: SignalHandler, notices: Receiver<Notice>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("bursar-steward".to_owned()).spawn(move || handler.serve(&notices))
}

impl SignalHandler {
    fn serve(&self, notices: &Receiver<Notice>) {
        for notice in notices {
            match notice {
                Notice::Signal(signal) => self.signalled(signal),
                Notice::Failed if self.fail_fast => self.stop_all(),
                Notice::Failed => {}
                Notice::OutputClosed => {
                    self.stop_state.output_closed.store(true, Ordering::SeqCst);
                    let _ = self.jobs.cancel_because(Target::Run, "its output is not read any more");
                }
                Notice::JournalBroken(error) => self.start_nothing_more(error),
                Notice::Over => return,
            }
        }
    }

    fn signalled(&self, signal: i32) {
        if self.stop_state.signal.note(signal) {
            self.recorder.interrupt();
            (self.say)("stopping: running jobs were asked to end; Ctrl-C again kills them now");
            let _ = self.jobs.cancel_because(Target::Run, "the run was interrupted"); // a run is never unknown
        } else {
            (self.say)("killing what still runs");
            self.processes.hurry();
        }
    }

    fn stop_all(&self) {
        if !self.stop_state.stopped_early.swap(true, Ordering::SeqCst) {
            let _ = self.jobs.cancel_because(Target::Run, "another job failed");
        }
    }

    /// What runs may end; its keepers remember it. Nothing else begins, since nobody would know that it had.
    fn start_nothing_more(&self, error: JournalError) {
        (self.say)(&format!("the journal cannot be written: {error}. Running jobs go on, nothing new is started"));
        *self.stop_state.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        // First this: what seems to start from now on does not run, so to cancel it ends nobody in the middle of something.
        self.processes.refuse("not started: the journal cannot be written");
        // Others may become ready between the look and the request, so look again until all that is left runs.
        loop {
            let waiting =
                self.jobs.statuses().into_iter().filter(|job| matches!(job.state, State::Queued | State::Ready));
            let waiting: Vec<_> = waiting.map(|job| job.id).collect();
            if waiting.is_empty() {
                return;
            }
            for id in waiting {
                let _ = self.jobs.cancel_because(id, "the journal cannot be written");
            }
        }
    }
}

/// Listens for signals and makes notices of them.
pub(crate) fn listen_for_signals(notices: Sender<Notice>) -> std::io::Result<signal_hook::iterator::Handle> {
    crate::signals::listen(&[SIGINT, SIGTERM, SIGHUP], move |signal| notices.send(Notice::Signal(signal)).is_ok())
}
