//! A command as the work of a job: a plain value.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use mech_process::{Limits, Stdin};

/// A program to run, where, and within which bounds.
///
/// ```
/// use sched_jobs::process::Command;
/// use std::time::Duration;
///
/// let mut command = Command::new(["render", "--scene", "3"]);
/// command.limits.wall = Some(Duration::from_secs(600));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Command {
    /// Program and arguments. Without a `/` the program is looked for in `PATH`.
    pub argv: Vec<OsString>,
    /// Variables to set, over those of this process.
    pub env: Vec<(OsString, OsString)>,
    /// Start from no variables at all.
    pub clear_env: bool,
    /// Where it runs; else where this process was when it began.
    pub cwd: Option<PathBuf>,
    /// What it reads as standard input.
    pub stdin: Stdin,
    /// Standard error has a log of its own, beside that of standard output and with the ending `err`.
    pub splits_streams: bool,
    /// Disk space that each log of an attempt may take: its beginning and its end stay.
    pub log_bytes_max: Option<u64>,
    /// What it may use.
    pub limits: Limits,
    /// How long it has between a polite TERM and the end.
    pub grace: Duration,
    /// What becomes of it if this process is killed while it runs, and a later one goes on.
    pub on_crash: OnCrash,
    /// Files it makes, absolute. If it exits with 0 and one is missing, the attempt has failed.
    pub outputs: Vec<PathBuf>,
    /// Outputs stay that an attempt made which did not succeed; else they are removed. What was there before always stays.
    pub keep_incomplete: bool,
}

/// What is done with a command that an earlier life of this program started. One that ended meanwhile has ended, whatever is said here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCrash {
    /// Go on with its processes if they are still there, else start it again.
    #[default]
    Adopt,
    /// End what is left of it, and start it again.
    Restart,
    /// End what is left of it; the attempt has failed.
    Fail,
}

impl Command {
    /// A command with no limits, the environment of this process, and 5 s of grace.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            stdin: Stdin::default(),
            splits_streams: false,
            log_bytes_max: None,
            limits: Limits::default(),
            grace: Duration::from_secs(5),
            on_crash: OnCrash::default(),
            outputs: Vec::new(),
            keep_incomplete: false,
        }
    }
}
