//! What is asked for, and what is told: the nouns of this crate.
//!
//! Room: mechanism. Plain values, which also travel between a client and its keepers.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::os_text::{os_list, os_opt_path, os_pairs, os_path};

/// A command to start, and the bounds it runs in.
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
    /// The client's name for this one start. Ends are recorded under it.
    pub token: String,
    /// Program and arguments. Without a `/` the program is looked for in `PATH`.
    #[serde(with = "os_list")]
    pub argv: Vec<OsString>,
    /// Variables to set, over those that the keeper inherited from the client that started it.
    #[serde(with = "os_pairs")]
    pub env: Vec<(OsString, OsString)>,
    /// Start from no variables at all (but the keeper's mark, [`MARK`](crate::MARK)).
    pub clear_env: bool,
    /// Where it runs; else where the client was when it started the keeper.
    #[serde(with = "os_opt_path")]
    pub cwd: Option<PathBuf>,
    /// Both output streams are appended to this file, in the order they are written.
    #[serde(with = "os_path")]
    pub log: PathBuf,
    /// Standard error is appended to this file instead.
    #[serde(with = "os_opt_path", default)]
    pub err_log: Option<PathBuf>,
    /// Disk space that each log may take. Its middle is given back to the file system; the beginning and the end stay. Looked at
    /// five times a second, so a command that is quick can be over it for that long.
    #[serde(default)]
    pub log_bytes_max: Option<u64>,
    /// What it reads as standard input.
    #[serde(default)]
    pub stdin: Stdin,
    /// What it may use.
    pub limits: Limits,
    /// How long it has between a polite TERM and the end, if a limit ends it.
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
    /// Nothing: it is at its end.
    #[default]
    Null,
    /// What the client reads: the same open file, pipe or terminal.
    Client,
}

/// What a tree may use. The default is: anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time it may run; frozen time does not count.
    pub wall: Option<Duration>,
    /// Memory of the whole tree, in MB (10^6 bytes). Looked at every 50 ms, so a tree that is quicker than that can be over it for that long.
    pub ram_mb: Option<u64>,
    /// What happens to a tree over `ram_mb`.
    pub over_ram: OverRam,
    /// The CPUs it may run on, by number.
    pub cpus: Option<Vec<usize>>,
    /// Its niceness, −20 to 19.
    pub nice: Option<i32>,
}

/// What happens to a tree that holds more memory than it may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OverRam {
    /// It is ended at once, as [`How::OverMemory`].
    #[default]
    Kill,
    /// It is reported, once, and goes on.
    Warn,
}

/// What a listener is told, in this order: `Started`, anything, `Ended`.
///
/// `Started` is missing if the command could not start or its keeper was lost.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// It runs. Told within some milliseconds, together with the end if that came sooner.
    Started {
        /// The first process of the tree, and its process group.
        pid: i32,
    },
    /// Every process of the tree has stopped.
    Paused,
    /// The tree runs again.
    Resumed,
    /// Something a person should read.
    Warning(String),
    /// What the tree holds now. Told when it has changed by a sixteenth.
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
    /// Of its [`Launch`].
    pub token: String,
    /// Why it is over.
    pub how: How,
    /// The most memory that the tree held, in kB (1,000 bytes): sampled over all its processes, and at least what its largest process had by the kernel's count.
    pub peak_rss_kb: u64,
    /// User and system time of all its processes, to the microsecond.
    pub cpu: Duration,
    /// From its start to its last process being gone, without the time it was frozen.
    pub wall: Duration,
}

/// Why a tree is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum How {
    /// The first process exited with this code.
    Exit(i32),
    /// The first process was ended by this signal, which nobody here sent.
    Signal(i32),
    /// It ran into [`Limits::wall`].
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// It held more than [`Limits::ram_mb`].
    OverMemory {
        /// What it held, in MB.
        used_mb: u64,
        /// The limit, in MB.
        limit_mb: u64,
    },
    /// The client ended it.
    Cancelled,
    /// There was nothing to run; the text says what to change.
    CouldNotStart(String),
    /// Its keeper was killed by another process, or the connection to it broke. What could be found of the tree was ended; its exit status is not known.
    KeeperLost,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Exit(code) => write!(f, "exited with code {code}"),
            How::Signal(signal) => write!(f, "ended by signal {signal}"),
            How::TimedOut { after } => {
                write!(f, "still running after its limit of {after:?}, and ended; allow it more time")
            }
            How::OverMemory { used_mb, limit_mb } => write!(
                f,
                "held {used_mb} MB, over its limit of {limit_mb} MB, and was ended; allow it {used_mb} MB or more"
            ),
            How::Cancelled => f.write_str("cancelled"),
            How::CouldNotStart(why) => f.write_str(why),
            How::KeeperLost => f.write_str(
                "its keeper process was killed, or the connection to it broke, so its exit status is not known; its processes were ended",
            ),
        }
    }
}
