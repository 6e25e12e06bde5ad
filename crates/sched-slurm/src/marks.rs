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
//! | `K.prologue` | the script | has text: modules are loaded, or the prologue runs; empty: it has gone on to its last line, and the command begins; removed by this program: the command must not begin any more |
//! | `K.module-N` | the script | the module with this number could not be loaded |
//! | `K.end` | the script | how the command ended, when, and the CPU time it used; `bursar cancel` writes it for a script that was killed with its command |
//! | `K.ended-KIND-CODE` | the script | how the command ended, if `K.end` cannot be written: it is the permit, renamed once more, which needs no room on the disk |
//! | `K.frozen` | this program | Slurm was told to hold or to freeze it: the next process of the run thaws it |
//!
//! `K.start` and `K.end` are written under another name and renamed, so a reader sees all of them or nothing.

use core::time::Duration;

use crate::id::SlurmId;

/// The ending of the permit.
pub const PERMIT: &str = "permit";
/// The ending of the mark of the start.
pub const START: &str = "start";
/// The ending of the mark of a prologue that runs, or died.
pub const PROLOGUE: &str = "prologue";
/// What opens the ending of the mark of a module that could not be loaded.
pub const MODULE: &str = "module-";
/// The ending of the mark of the end.
pub const END: &str = "end";
/// What opens the ending of a mark of the end that is a name alone.
pub const ENDED: &str = "ended-";
/// Between the key and who took the permit.
pub const TAKEN: &str = "taken-";
/// Who took the permit, if it was this program.
pub const OURSELVES: &str = "bursar";

/// A mark of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The id in Slurm.
    pub id: SlurmId,
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
#[non_exhaustive]
pub enum EndKind {
    /// By itself.
    Exit,
    /// After Slurm or this program asked the script to end.
    Asked,
    /// It did not start: its folder is not there on the node.
    NoFolder,
    /// It did not start: a module could not be loaded.
    NoModule,
    /// It did not start: the prologue exited.
    Prologue,
    /// It did not start: the script could not write to the marks folder.
    NoSpace,
}

impl EndKind {
    const ALL: [Self; 6] = [Self::Exit, Self::Asked, Self::NoFolder, Self::NoModule, Self::Prologue, Self::NoSpace];

    /// As scripts write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Asked => "asked",
            Self::NoFolder => "no-folder",
            Self::NoModule => "no-module",
            Self::Prologue => "prologue",
            Self::NoSpace => "no-space",
        }
    }

    fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
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
    /// What was not there on the node: the first declared output, or the folder or module without which the command did not start.
    pub missing: Option<String>,
    /// Whether all of this is known; else only `kind` and `code`.
    pub is_whole: bool,
}

/// What a shell calls an end by SIGTERM.
const TERMINATED: i32 = 128 + 15;

impl End {
    /// Whether its command ended because it was asked to, given that it was. Slurm asks command and script, and the command may end before its script hears of it.
    pub fn was_asked(&self) -> bool {
        self.kind == EndKind::Asked || (self.kind == EndKind::Exit && self.code == TERMINATED)
    }

    /// Reads the text of a mark: `KIND CODE START END`, the two lines of `times`, and a line with a missing output, which may be empty.
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split_whitespace();
        let kind = EndKind::read(words.next()?)?;
        let code = words.next()?.parse().ok()?;
        let mut time = || words.next()?.parse::<f64>().ok();
        let (start, end) = (time()?, time()?);
        let (_shell, children) = (lines.next()?, lines.next()?);
        let cpu = children.split_whitespace().filter_map(minutes).sum();
        let missing = lines.next().filter(|path| !path.is_empty()).map(str::to_owned);
        Some(Self { kind, code, wall: span(end - start), cpu, missing, is_whole: true })
    }

    /// The text of a mark for a command that was asked to end and was killed with its script. It was not measured.
    pub fn killed() -> String {
        format!("{} 137 0 0\n0m0s 0m0s\n0m0s 0m0s\n\n", EndKind::Asked.word())
    }

    /// Reads a mark that is a name alone, from its ending.
    pub fn of_name(ending: &str) -> Option<Self> {
        let (kind, code) = ending.strip_prefix(ENDED)?.rsplit_once('-')?;
        let (kind, code) = (EndKind::read(kind)?, code.parse().ok()?);
        Some(Self { kind, code, wall: Duration::ZERO, cpu: Duration::ZERO, missing: None, is_whole: false })
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
