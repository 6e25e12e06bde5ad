//! A command as the work of a job.
//!
//! Room: values.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use mech_process::{Limits, Stdin};

/// A program to run, its environment, and its limits.
///
/// ```
/// use sched_jobs::process::Command;
/// use std::time::Duration;
///
/// let mut command = Command::new(["render", "--scene", "3"]);
/// command.limits.wall = Some(Duration::from_secs(600));
/// ```
///
/// How the system treats it and everything it starts is a part of its limits. [`Processes::in_force`](super::Processes::in_force) and
/// [`End::in_force`](super::End::in_force) say what the system has made of that:
///
/// ```
/// use sched_jobs::process::{Class, Command, InForce, Reservation};
/// use std::time::Duration;
///
/// let mut render = Command::new(["render", "--scene", "3"]);
/// render.limits.class = Some(Class::Batch); // gives way to everything that a person waits for
/// render.limits.weight = Some(50); // half of what others of its class get
/// render.limits.cpus = Some(vec![0, 1]);
///
/// let mut control = Command::new(["control-loop"]);
/// control.limits.reservation = Some(Reservation::new(Duration::from_millis(2), Duration::from_millis(10)));
///
/// fn say(in_force: &InForce, command: &Command) {
///     if let Some(words) = in_force.words(&command.limits) {
///         println!("{words}"); // class batch: SCHED_BATCH, nice 10, …
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Command {
    /// Program and arguments. A program without a `/` is searched in `PATH`.
    pub argv: Vec<OsString>,
    /// Variables to set, over those of this process.
    pub env: Vec<(OsString, OsString)>,
    /// Start from no variables at all.
    pub clear_env: bool,
    /// Its working directory; by default the one that this process had when it began.
    pub cwd: Option<PathBuf>,
    /// What it reads as standard input.
    pub stdin: Stdin,
    /// Standard error has a log of its own, beside that of standard output and with the extension `err`.
    pub splits_streams: bool,
    /// Disk space that each log of an attempt may take. Of a longer log the beginning and the end stay.
    pub log_bytes_max: Option<u64>,
    /// What it may use.
    pub limits: Limits,
    /// Time between TERM and KILL when it is cancelled.
    pub grace: Duration,
    /// What to do if this process is killed while the command runs, and a later process resumes the run.
    pub on_crash: OnCrash,
    /// The files it makes, as absolute paths. If it exits with 0 and one is missing, the attempt has failed.
    pub outputs: Vec<PathBuf>,
    /// Keep the outputs of an attempt that did not succeed; by default they are removed. A file that existed before the attempt always stays.
    pub keep_incomplete: bool,
}

/// What to do with a command that an earlier process of this program started. It does not matter for a command that has ended meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCrash {
    /// Adopt its processes if they still run, else start it again.
    #[default]
    Adopt,
    /// Kill what is left of it, and start it again.
    Restart,
    /// Kill what is left of it; the attempt has failed.
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
