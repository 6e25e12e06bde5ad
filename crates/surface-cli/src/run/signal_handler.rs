//! What happens to a run from outside its jobs: signals, the first failure, a journal that cannot be written.
//!
//! Room: driver.
//!
//! # Invariant
//! After the first signal nothing starts. After the second no job has any grace time.
//!
//! # Why it holds
//! Signals are read by a thread of their own and become notices, as everything else; one thread, the handler, handles them in
//! their order. Cancelling the run is one step of the scheduler: a job that is not running then has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sched_jobs::process::Processes;
use sched_jobs::{Jobs, State, Target};
use sched_slurm::Slurm;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use surface_journal::JournalError;

use super::record::Recorder;
use crate::signals::FirstSignal;

/// How often the handler looks whether Slurm answers, while jobs are to end.
const LOOK: Duration = Duration::from_millis(250);

/// A notice for the handler.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A signal to end.
    Signal(i32),
    /// A job failed for good.
    Failed,
    /// The output of one command was closed: called directly, the command would have ended by SIGPIPE.
    OutputClosed,
    /// The journal cannot be written any more.
    JournalBroken(JournalError),
    /// The run is over.
    Over,
}

/// How notices have stopped the run.
#[derive(Debug, Default)]
pub(crate) struct StopState {
    /// What ended the run.
    pub(crate) signal: FirstSignal,
    pub(crate) stopped_early: AtomicBool,
    output_closed: AtomicBool,
    pub(crate) broken: Mutex<Option<JournalError>>,
}

impl StopState {
    /// The signal that a command gets when its output is closed, if ours is.
    pub(crate) fn output_closed(&self) -> Option<i32> {
        self.output_closed.load(Ordering::SeqCst).then_some(SIGPIPE)
    }

    /// Why the journal could not be written.
    pub(crate) fn take_broken(&self) -> Option<JournalError> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Handles signals and other notices of a run.
pub(crate) struct SignalHandler {
    /// The id of the run.
    pub(crate) run: String,
    pub(crate) jobs: Jobs,
    pub(crate) processes: Arc<Processes>,
    pub(crate) slurm: Option<Arc<Slurm>>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) stop_state: Arc<StopState>,
    pub(crate) fail_fast: bool,
    /// Prints a message for people.
    pub(crate) say: Box<dyn Fn(&str) + Send>,
}

/// Handles notices until the run has ended.
pub(crate) fn start(handler: SignalHandler, notices: Receiver<Notice>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("bursar-handler".to_owned()).spawn(move || handler.serve(&notices))
}

impl SignalHandler {
    fn serve(&self, notices: &Receiver<Notice>) {
        let mut is_told = false;
        loop {
            let is_ending = self.slurm.is_some() && self.stop_state.signal.get().is_some();
            let notice =
                if is_ending { notices.recv_timeout(LOOK) } else { notices.recv().map_err(RecvTimeoutError::from) };
            let notice = match notice {
                Ok(notice) => notice,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.tell_of_slurm(&mut is_told);
                    continue;
                }
            };
            match notice {
                Notice::Signal(signal) => self.signalled(signal),
                Notice::Failed if self.fail_fast => self.stop_all(),
                Notice::Failed => {}
                Notice::OutputClosed => {
                    self.stop_state.output_closed.store(true, Ordering::SeqCst);
                    let _ = self.jobs.cancel_because(Target::Run, "its output was closed");
                }
                Notice::JournalBroken(error) => self.start_nothing_more(error),
                Notice::Over => return,
            }
        }
    }

    fn signalled(&self, signal: i32) {
        if self.stop_state.signal.note(signal) {
            self.recorder.interrupt();
            let are = if self.slurm.is_some() { "are being" } else { "were" };
            (self.say)(&format!("stopping: running jobs {are} asked to end; Ctrl-C again kills them now"));
            let _ = self.jobs.cancel_because(Target::Run, "the run was interrupted"); // a run is never unknown
        } else {
            (self.say)("killing running jobs");
            self.processes.hurry();
            self.slurm.iter().for_each(|slurm| slurm.hurry());
            if let Some((why, running)) = self.unreachable() {
                self.say_how_to_leave(&why, running, "killed");
            }
        }
    }

    /// Why Slurm does not end what runs, and how many run.
    fn unreachable(&self) -> Option<(String, usize)> {
        self.slurm.as_ref()?.unreachable().filter(|(_, running)| *running > 0)
    }

    fn say_how_to_leave(&self, why: &str, running: usize, what: &str) {
        let (pid, run) = (std::process::id(), &self.run);
        let (jobs, are) = match running {
            1 => ("1 job runs on a node".to_owned(), "is"),
            _ => (format!("{running} jobs run on nodes"), "are"),
        };
        (self.say)(&format!(
            "{jobs} and {are} {what} when Slurm answers; now {why}. To leave at once: `kill -9 {pid}`, and later `bursar cancel {run}` or `bursar run --resume {run}`"
        ));
    }

    /// Says once that Slurm does not end what runs, and how to leave; and when it answers again.
    fn tell_of_slurm(&self, is_told: &mut bool) {
        match (self.unreachable(), *is_told) {
            (Some((why, running)), false) => {
                self.say_how_to_leave(&why, running, "asked to end");
                *is_told = true;
            }
            (None, true) if self.slurm.as_ref().is_some_and(|slurm| slurm.unreachable().is_none()) => {
                (self.say)("Slurm answers again: running jobs are asked to end");
                *is_told = false;
            }
            _ => {}
        }
    }

    fn stop_all(&self) {
        if !self.stop_state.stopped_early.swap(true, Ordering::SeqCst) {
            let _ = self.jobs.cancel_because(Target::Run, "another job failed");
        }
    }

    /// Running jobs may end; their keepers remember it. No other job starts, since its start could not be recorded.
    fn start_nothing_more(&self, error: JournalError) {
        (self.say)(&format!("the journal cannot be written: {error}. Running jobs continue, no other job is started"));
        *self.stop_state.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        // This first: what seems to start from now on does not run, so cancelling it interrupts nothing.
        const WHY: &str = "not started: the journal cannot be written";
        self.processes.refuse(WHY);
        self.slurm.iter().for_each(|slurm| slurm.refuse(WHY));
        // Others may become ready between the look and the request, so repeat until all that is left runs.
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
