//! How a run ended.
//!
//! Room: values.

use std::io;
use std::time::Duration;

use bursar::capability::CapError;
use bursar::janus::{Fault, FaultKind, Spent, Value};
use bursar::{Reason, TaskError, budget::Component};
use signal_hook::consts::SIGPIPE;

use crate::exit::Exit;
use crate::signals;

/// After a time limit, as of `timeout(1)` and of `bursar run -- COMMAND`.
const TIMED_OUT: u8 = 124;

/// What a run gave back.
pub(super) struct Outcome {
    pub(super) result: Result<Value, TaskError>,
    /// The first error that the program noted, with its line.
    pub(super) noted: Option<Fault>,
    /// A signal that cancelled it.
    pub(super) signal: Option<i32>,
}

/// A run that has ended.
pub(super) struct Ended {
    pub(super) how: How,
    /// Where the program was, if it is known.
    pub(super) fault: Option<Fault>,
    pub(super) spent: Spent,
    pub(super) took: Duration,
}

/// How it ended.
pub(super) enum How {
    /// `main` returned.
    Returned(Value),
    /// An error of the program.
    Failed(FaultKind),
    /// This part of its budget is spent.
    Spent(Component),
    /// It may not start that many tasks.
    TooManyTasks { limit: u64 },
    /// Its time limit was reached.
    TimedOut,
    /// All its tasks wait for each other; their names.
    Deadlock(Vec<String>),
    /// A signal cancelled it.
    Interrupted(i32),
    /// What it printed could not be written.
    Unwritten(io::Error),
    /// Something else, in its own words.
    Other(String),
}

impl Ended {
    pub(super) fn new(outcome: Outcome, spent: Spent, took: Duration) -> Ended {
        let Outcome { result, noted, signal } = outcome;
        let (how, fault) = match result {
            Ok(value) => (How::Returned(value), None),
            Err(error) => of_error(&error, noted, signal),
        };
        Ended { how, fault, spent, took }
    }

    /// If its output could not be written, that is how it ended, whatever else happened then.
    pub(super) fn unless_unwritten(self, error: Option<io::Error>) -> Ended {
        match error {
            Some(error) => Ended { how: How::Unwritten(error), fault: None, ..self },
            None => self,
        }
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        match &self.how {
            How::Returned(Value::Int(value)) => u8::try_from(*value).unwrap_or(Exit::Failed as u8),
            How::Returned(Value::Bool(false)) => Exit::Failed as u8,
            How::Returned(_) => Exit::Success as u8,
            How::TimedOut => TIMED_OUT,
            How::Interrupted(signal) => signals::code(*signal),
            How::Unwritten(error) if error.kind() == io::ErrorKind::BrokenPipe => signals::code(SIGPIPE),
            _ => Exit::Failed as u8,
        }
    }
}

fn of_error(error: &TaskError, noted: Option<Fault>, signal: Option<i32>) -> (How, Option<Fault>) {
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return (How::Failed(fault.kind.clone()), Some(fault.clone()));
    }
    match error.reason() {
        Reason::BudgetExhausted { component, .. } => (How::Spent(*component), noted),
        Reason::NotAllowed(CapError::TaskLimitExceeded { limit, .. }) => (How::TooManyTasks { limit: *limit }, noted),
        Reason::DeadlineExceeded { .. } => (How::TimedOut, None),
        Reason::Deadlock { waiting, .. } => {
            let name = |task: &bursar::task::TaskLabel| task.name.as_deref().map(str::to_owned);
            (How::Deadlock(waiting.iter().filter_map(name).collect()), None)
        }
        Reason::Cancelled => match signal {
            Some(signal) => (How::Interrupted(signal), None),
            None => (How::Other(error.to_string()), noted),
        },
        _ => (How::Other(error.to_string()), noted),
    }
}
