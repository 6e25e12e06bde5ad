//! `bursar run`: a graph of commands, or one, within what the machine has; recorded, so that it can go on after a crash.
//!
//! Room: surface. Reads files, starts keepers and writes the journal; what runs when is decided by `sched-jobs`.
//!
//! - `options.rs`: what can be said; `limits.rs`: what it comes to; `plan.rs`: the jobs.
//! - `learn.rs`: what earlier runs teach; `left.rs`: what an earlier life of this run left.
//! - `begin.rs`: a new run; `resume.rs`: one that goes on; `stage.rs`: what both do.
//! - `front.rs`: what is shown, and the socket that others steer it by; `share.rs`: one budget with other runs.
//! - `record.rs`: into the journal; `steward.rs`: signals and other interruptions.

mod begin;
mod dry;
mod follow;
mod front;
mod learn;
mod left;
mod limits;
mod options;
mod plan;
mod record;
mod resume;
mod share;
mod stage;
mod steward;
mod submit;

use surface_journal::JournalError;

pub(crate) use self::options::Options;

/// What a shell is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// A job failed, or something broke.
    Failed = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// The job file is not valid.
    BadFile = 3,
    /// There is no such run.
    NoRun = 4,
}

/// Why there was nothing to run, or why it could not go on.
#[derive(Debug)]
pub(crate) struct Failure {
    /// For the shell.
    pub(crate) code: Code,
    /// For people.
    pub(crate) message: String,
    /// The message is a picture of several lines, which stands for itself.
    pub(crate) is_drawn: bool,
}

impl Failure {
    fn broken(message: impl Into<String>) -> Self {
        Self { code: Code::Failed, message: message.into(), is_drawn: false }
    }

    fn usage(message: impl Into<String>) -> Self {
        Self { code: Code::Usage, message: message.into(), is_drawn: false }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let code = match error {
            JournalError::NoRun { .. } | JournalError::Ambiguous { .. } => Code::NoRun,
            _ => Code::Failed,
        };
        Self { code, message: error.to_string(), is_drawn: false }
    }
}

/// Runs what the options say. Gives the code for the shell.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    match &options.resume {
        Some(wanted) => resume::resume(options, wanted.as_deref()),
        None => begin::begin(options),
    }
}
