//! What scripts and this program write into the marks folder.
//!
//! Room: surface.
//!
//! | file | written by | says |
//! |---|---|---|
//! | `K.sh` | this program | the script of the attempt with key K; written under another name and renamed, after its permit |
//! | `K.permit` | this program | the command has not begun |
//! | `K.taken-…` | who renamed the permit | the rest of the name: a script by its job and process, or `bursar` |
//! | `K.start` | the script | job id, node and time |
//! | `K.end` | the script | how the command ended, when, and the CPU time it used |
//!
//! `K.start` and `K.end` are written under another name and renamed, so a reader sees all of them or nothing.

use core::time::Duration;

/// The ending of the permit.
pub const PERMIT: &str = "permit";
/// The ending of the mark of the start.
pub const START: &str = "start";
/// The ending of the mark of the end.
pub const END: &str = "end";
/// Between the key and who took the permit.
pub const TAKEN: &str = "taken-";
/// Who took the permit, if it was this program.
pub const OURSELVES: &str = "bursar";

/// A mark of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The id in Slurm.
    pub id: u64,
    /// The node.
    pub node: String,
    /// What the script renamed the permit to.
    pub taken: String,
}

impl Start {
    /// Reads the text of a mark.
    pub fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (id, node, _time) = (words.next()?.parse().ok()?, words.next()?.to_owned(), words.next()?);
        Some(Self { id, node, taken: words.next()?.to_owned() })
    }
}

/// How a script says that its command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndKind {
    /// By itself.
    Exit,
    /// After Slurm or this program asked the script to end.
    Asked,
    /// The folder, a module or the prologue was not there.
    NotStarted,
}

/// A mark of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How.
    pub kind: EndKind,
    /// The exit code, as a shell has it.
    pub code: i32,
    /// From the start of the command to its end.
    pub wall: Duration,
    /// CPU time of the command and what it started.
    pub cpu: Duration,
    /// The first declared output that was not there, on the node.
    pub missing: Option<String>,
}

impl End {
    /// Reads the text of a mark: `KIND CODE START END`, the two lines of `times`, and a line with a missing output, which may be empty.
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split_whitespace();
        let kind = match words.next()? {
            "exit" => EndKind::Exit,
            "asked" => EndKind::Asked,
            "not-started" => EndKind::NotStarted,
            _ => return None,
        };
        let code = words.next()?.parse().ok()?;
        let mut time = || words.next()?.parse::<f64>().ok();
        let (start, end) = (time()?, time()?);
        let (_shell, children) = (lines.next()?, lines.next()?);
        let cpu = children.split_whitespace().filter_map(minutes).sum();
        let missing = lines.next().filter(|path| !path.is_empty()).map(str::to_owned);
        Some(Self { kind, code, wall: span(end - start), cpu, missing })
    }
}

/// A clock of a node may be set back.
fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// A time of the shell's `times`: `1m2.345s`.
fn minutes(text: &str) -> Option<Duration> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Duration::from_secs(minutes.parse::<u64>().ok()?.checked_mul(60)?).checked_add(span(seconds.parse().ok()?))
}
