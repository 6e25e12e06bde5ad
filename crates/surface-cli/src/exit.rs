//! Exit codes for the shell, and error messages for people.
//!
//! Room: values.

use std::fmt;
use std::process::ExitCode;

use surface_journal::JournalError;

/// Writes a line to standard error. If that fails (a full disk, a closed terminal), the program continues; `eprintln!` would panic.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(crate::streams::stderr().lock(), $($text)*);
    }};
}
pub(crate) use say;

/// Exit codes; the help lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Success.
    Success = 0,
    /// A job failed, or another error.
    Failed = 1,
    /// The arguments are not valid.
    Usage = 2,
    /// The job file is not valid.
    BadFile = 3,
    /// There is no such run or job.
    NotFound = 4,
    /// Jobs are to go to Slurm, and its commands are not installed here, or nothing says who asks slurmrestd.
    NoSlurm = 5,
    /// Slurm does not answer, or has not done in time what was asked.
    SlurmSilent = 6,
    /// Slurm has no such partition, or can never give a job what it wants.
    SlurmRefuses = 7,
    /// The broker of an edge cannot be used.
    #[cfg(feature = "nats")]
    Broker = 8,
    /// Another process has our end of an edge.
    #[cfg(feature = "nats")]
    EdgeTaken = 9,
    /// Ended by Ctrl-C, as in a shell: 128 plus the number of SIGINT.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    /// The message is a drawing of several lines, printed without a prefix.
    pub(crate) is_drawn: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        // It may contain text of a file or a user.
        Failure { exit, message: surface_text::clean_lines(&message.into()).into_owned(), is_drawn: false }
    }

    pub(crate) fn broken(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// A job file that is not valid, with its lines drawn.
    pub(crate) fn drawn(picture: String) -> Failure {
        Failure { exit: Exit::BadFile, message: picture, is_drawn: true }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Failure {
        Failure::new(Exit::NotFound, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        let exit = match error {
            JournalError::NoRun { .. } | JournalError::Ambiguous { .. } => Exit::NotFound,
            _ => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}
