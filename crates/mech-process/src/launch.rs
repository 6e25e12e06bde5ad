//! What a client asks for, and what it gets reported: commands, limits, reports, ends.
//!
//! Room: values.
//!
//! They also travel between a client and its keepers.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::in_force::InForce;
use crate::limits::Limits;
use crate::os_text::{os_list, os_opt_path, os_pairs, os_path};

/// A command to start, and its limits.
///
/// ```
/// use mech_process::Launch;
/// use std::time::Duration;
///
/// let mut launch = Launch::new("build-1", ["make", "-j2"], "build.log");
/// launch.limits.wall = Some(Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The client's name for this one start. The end is recorded under it.
    pub token: String,
    /// Program and arguments. A program without a `/` is searched in `PATH`.
    #[serde(with = "os_list")]
    pub argv: Vec<OsString>,
    /// Variables to set, over those that the keeper inherited from the client that started it.
    #[serde(with = "os_pairs")]
    pub env: Vec<(OsString, OsString)>,
    /// Start from no variables at all (but the keeper's mark, [`MARK`](crate::MARK)).
    pub clear_env: bool,
    /// Its working directory; by default the one that the client had when it started the keeper.
    #[serde(with = "os_opt_path")]
    pub cwd: Option<PathBuf>,
    /// Both output streams are appended to this file, in the order they are written.
    #[serde(with = "os_path")]
    pub log: PathBuf,
    /// Standard error is appended to this file instead.
    #[serde(with = "os_opt_path", default)]
    pub err_log: Option<PathBuf>,
    /// Disk space that each log may take. The middle of a longer log is given back to the file system; the beginning and the end stay. Checked
    /// five times a second, so a log can be over its limit for that long.
    #[serde(default)]
    pub log_bytes_max: Option<u64>,
    /// What it reads as standard input.
    #[serde(default)]
    pub stdin: Stdin,
    /// What it may use.
    pub limits: Limits,
    /// Time between TERM and KILL, if a limit ends the command.
    pub grace: Duration,
}

impl Launch {
    /// A command with no limits, the client's environment, and 5 s of grace.
    pub fn new<A: Into<OsString>>(
        token: impl Into<String>,
        argv: impl IntoIterator<Item = A>,
        log: impl Into<PathBuf>,
    ) -> Launch {
        Launch {
            token: token.into(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            log: log.into(),
            err_log: None,
            log_bytes_max: None,
            stdin: Stdin::default(),
            limits: Limits::default(),
            grace: Duration::from_secs(5),
        }
    }
}

/// What a command reads as standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    #[default]
    Null,
    /// What the client reads: the same open file, pipe or terminal.
    Client,
}

/// Descriptors that become the standard streams of a command, for [`Keepers::start_with`](crate::Keepers::start_with). A stream that is not given
/// is what its [`Launch`] says. The keeper passes them on and keeps no copy, so the command alone holds the other end of a pipe.
#[derive(Debug, Default)]
pub struct Streams {
    /// Instead of [`Launch::stdin`].
    pub stdin: Option<OwnedFd>,
    /// Instead of [`Launch::log`].
    pub stdout: Option<OwnedFd>,
    /// Instead of [`Launch::err_log`], or of `log`.
    pub stderr: Option<OwnedFd>,
}

impl Streams {
    /// Which of them are given.
    pub(crate) fn given(&self) -> [bool; 3] {
        [self.stdin.is_some(), self.stdout.is_some(), self.stderr.is_some()]
    }

    /// The descriptors in their order.
    pub(crate) fn into_fds(self) -> Vec<OwnedFd> {
        [self.stdin, self.stdout, self.stderr].into_iter().flatten().collect()
    }
}

/// What a listener gets, in this order: `Started`, any others, `Ended`.
///
/// `Started` is missing if the command could not start or its keeper was lost.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// It runs. Reported within some milliseconds, or together with the end if that came sooner.
    Started {
        /// The first process of the tree, and its process group.
        pid: i32,
    },
    /// What the system has in force for it. Reported after `Started` if its limits ask for any of this, and again if it changed.
    InForce(Box<InForce>),
    /// Every process of the tree has stopped.
    Paused,
    /// The tree runs again.
    Resumed,
    /// A message for a person.
    Warning(String),
    /// Memory of the tree. Reported when it has changed by a sixteenth.
    Usage {
        /// In MB.
        rss_mb: u64,
    },
    /// The tree is empty. Nothing comes after this.
    Ended(End),
}

/// How a tree ended, and what it used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The token of its [`Launch`].
    pub token: String,
    /// Why it ended.
    pub how: How,
    /// Peak memory of the tree, in kB (1,000 bytes): sampled over all its processes, and at least the peak of its largest process as the kernel counts it.
    pub peak_rss_kb: u64,
    /// User and system time of all its processes, to the microsecond.
    pub cpu: Duration,
    /// From its start to the end of its last process, without the time it was frozen.
    pub wall: Duration,
    /// What the system had in force for it, if its limits asked for any of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<Box<InForce>>,
}

/// Why a tree ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum How {
    /// The first process exited with this code.
    Exit(i32),
    /// The first process was killed by this signal, which neither client nor keeper sent.
    Signal(i32),
    /// It ran into [`Limits::wall`].
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// It used more than [`Limits::ram_mb`].
    OverMemory {
        /// What it used, in MB.
        used_mb: u64,
        /// The limit, in MB.
        limit_mb: u64,
    },
    /// The client cancelled it.
    Cancelled,
    /// The command could not start; the text says what to change.
    CouldNotStart(String),
    /// Its keeper was killed by another process, or the connection to it broke. What could be found of the tree was killed; its exit status is not known.
    KeeperLost,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Exit(code) => write!(f, "exited with code {code}"),
            How::Signal(signal) => write!(f, "killed by signal {signal}"),
            How::TimedOut { after } => {
                write!(f, "still running after its limit of {after:?}, and was killed; raise the limit")
            }
            How::OverMemory { used_mb, limit_mb } => write!(
                f,
                "used {used_mb} MB, over its limit of {limit_mb} MB, and was killed; raise the limit to {used_mb} MB or more"
            ),
            How::Cancelled => f.write_str("cancelled"),
            How::CouldNotStart(why) => f.write_str(why),
            How::KeeperLost => f.write_str(
                "its keeper process was killed, or the connection to it broke, so its exit status is not known; its processes were killed",
            ),
        }
    }
}
