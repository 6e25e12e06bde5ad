//! From the reports of a keeper to the scheduler, and to the listener of the program.
//!
//! Room: driver. Knows reports of keepers; knows nothing of how commands start.
//!
//! # Invariant
//! The end of a command reaches the scheduler once, also if the listener of the program panics.
//!
//! # Why it holds
//! A keeper reports one end for each command. Every call of the program's listener is guarded against panics.

use std::path::PathBuf;

use mech_process::{End, InForce, Report};

use super::Processes;
use super::outputs::{Made, Verdict, Watched};
use crate::drive::panics::{Caught, PanicSource};
use crate::executor::{AttemptId, Outcome, Reporter};

/// What happened to an attempt. It is reported on the thread that learns of it, before the scheduler learns of it, so the listener must be quick. A panic is counted
/// by [`Jobs::panics`](crate::Jobs::panics) and does not keep the attempt from ending.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum News<'a> {
    /// It has a process.
    Began {
        /// The first process of its tree.
        pid: i32,
    },
    /// What the system has in force for it, if its [`limits`](super::Command::limits) ask for a class, a weight, CPUs or a reservation.
    InForce(&'a InForce),
    /// A message for a person.
    Warning(&'a str),
    /// It has ended, and the observer of the scheduler knows that: see [`CommandEnd`].
    Ended,
}

/// How a command ended, and what it used. The [observer](crate::Builder::observe) of the scheduler gets it with the end of the job, by [`Facts::measured`](crate::Facts::measured).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandEnd {
    /// How it ended, and what it used.
    pub end: End,
    /// What that means for the attempt: a command may exit with 0 and not have made its outputs.
    pub outcome: Outcome,
    /// The files it declared, after a success.
    pub made: Vec<Made>,
    /// The largest sample of its video memory, in MB, if it used any.
    pub peak_vram_mb: Option<u64>,
}

impl CommandEnd {
    /// The end of a command that another executor ran.
    pub fn new(end: End, outcome: Outcome, made: Vec<Made>) -> Self {
        Self { end, outcome, made, peak_vram_mb: None }
    }
}

/// The callback that gets [`News`].
pub type Listen = Box<dyn Fn(AttemptId, News<'_>) + Send + Sync>;

/// Returns the path of the log of an attempt.
pub type LogPath = Box<dyn Fn(AttemptId) -> PathBuf + Send + Sync>;

impl Processes {
    /// The callback for the keeper of an attempt.
    pub(super) fn listener(&self, attempt_id: AttemptId, report: Reporter, watched: Watched) -> mech_process::Listener {
        let me = self.me.clone();
        Box::new(move |news| {
            let Some(me) = me.upgrade() else { return };
            match news {
                Report::Started { pid } => me.notify(&report, News::Began { pid }),
                Report::InForce(in_force) => me.notify(&report, News::InForce(&in_force)),
                Report::Warning(text) => me.notify(&report, News::Warning(&text)),
                Report::Paused => report.paused(),
                Report::Resumed | Report::Usage { .. } => {}
                Report::Ended(end) => {
                    let peak_vram_mb = Some(me.attempts.peak_vram_mb(attempt_id)).filter(|peak_mb| *peak_mb > 0);
                    me.attempts.remove(attempt_id);
                    me.ended(end, peak_vram_mb, &watched, &report);
                }
            }
        })
    }

    /// Reports an end to the scheduler and to the listener.
    pub(super) fn ended(&self, end: End, peak_vram_mb: Option<u64>, watched: &Watched, report: &Reporter) {
        let Verdict { outcome, made, warnings } = watched.end(&end.how);
        warnings.iter().for_each(|text| self.notify(report, News::Warning(text)));
        report.ended_with(outcome.clone(), CommandEnd { end, outcome, made, peak_vram_mb });
        self.notify(report, News::Ended);
    }

    /// Calls the listener. A panic is caught and counted.
    pub(super) fn notify(&self, report: &Reporter, news: News<'_>) {
        let mut call = || (self.listen)(report.attempt_id, news);
        match report.sink.upgrade() {
            Some(sink) => sink.guard(&mut call),
            // The last ends of a run that is over.
            None => drop(Caught::default().catch(PanicSource::Executor, call)),
        }
    }
}
