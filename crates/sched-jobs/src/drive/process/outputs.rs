//! The files that a command says it makes: are they there, and what becomes of them if it fails.
//!
//! # Invariants
//! - An attempt whose command exits with 0 succeeds only if every file it declared is there.
//! - Of an attempt that does not succeed, only regular files are removed that were not there before it.
//!
//! # Why they hold
//! An attempt ends through [`Watched::end`], whatever its end. The files are looked at before the command starts. Of an attempt that an earlier
//! life of the program started it is not known what was there before, so its files stay, and that is told.
//!
//! # Rejected
//! To remove a file that was there and was changed: it may be a database that the command adds to. It stays and is told of; a caller that
//! remembers [`Made`] does not take it for whole.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mech_process::How;

use policy_jobs::Cause;

use super::command::Command;
use super::words;
use crate::executor::Outcome;

/// What tells whether a file is still the one it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes in it.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub changed_ns: i64,
}

/// A file that a command declared, as it is after the command's success.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Made {
    /// Where.
    pub path: PathBuf,
    /// What it looks like. None for a folder, into which others may write.
    pub stamp: Option<Stamp>,
}

impl Stamp {
    /// What is at `path` now; None if nothing is there. Of a folder nothing is told: others may write into it.
    pub fn of(path: &Path) -> Option<Option<Stamp>> {
        let found = fs::metadata(path).ok()?;
        Some((!found.is_dir()).then(|| Self::read(&found)))
    }

    fn read(found: &Metadata) -> Self {
        let changed_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Self { size: found.size(), changed_ns }
    }
}

impl Command {
    /// What its declared files look like, if all are there; else the first that is missing.
    ///
    /// # Errors
    /// The path of a file that is not there.
    pub fn made(&self) -> Result<Vec<Made>, &Path> {
        let made = |path: &PathBuf| Stamp::of(path).map(|stamp| Made { path: path.clone(), stamp });
        self.outputs.iter().map(|path| made(path).ok_or(path.as_path())).collect()
    }

    /// What a person should know of its declared files after an attempt did not succeed that an earlier life of the program started.
    pub fn doubtful_outputs(&self) -> Vec<String> {
        doubtful(&self.outputs)
    }
}

/// Of an attempt that an earlier life started: its files that are there.
fn doubtful(outputs: &[PathBuf]) -> Vec<String> {
    let is_there = |path: &&PathBuf| fs::symlink_metadata(path).is_ok();
    let tell = |path: &PathBuf| {
        let shown = path.display();
        format!("its output {shown} may be incomplete, and stays: whether it was there before the job is not known")
    };
    outputs.iter().filter(is_there).map(tell).collect()
}

/// The declared files of an attempt, before and after.
pub(super) struct Watched {
    outputs: Vec<PathBuf>,
    /// What they were like before; None if that is not known.
    before: Option<Vec<Option<Option<Stamp>>>>,
    keep: bool,
}

/// What an attempt's end means.
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) made: Vec<Made>,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
}

impl Watched {
    /// Of an attempt that starts now.
    pub(super) fn before(command: &Command) -> Self {
        let before = command.outputs.iter().map(|path| Stamp::of(path)).collect();
        Self { before: Some(before), ..Self::found(command) }
    }

    /// Of an attempt that an earlier life of the program started.
    pub(super) fn found(command: &Command) -> Self {
        Self { outputs: command.outputs.clone(), before: None, keep: command.keep_incomplete }
    }

    /// The command ended so.
    pub(super) fn end(&self, how: &How) -> Verdict {
        let (mut outcome, mut made) = (words::outcome(how), Vec::new());
        if outcome == Outcome::Succeeded {
            for path in &self.outputs {
                match Stamp::of(path) {
                    Some(stamp) => made.push(Made { path: path.clone(), stamp }),
                    None => {
                        let text = format!("exited with 0, but did not make its output {}", path.display());
                        outcome = Outcome::Failed(Cause::Error(text));
                        break;
                    }
                }
            }
        }
        if outcome == Outcome::Succeeded {
            return Verdict { outcome, made, warnings: Vec::new() };
        }
        Verdict { outcome, made: Vec::new(), warnings: self.remove_incomplete() }
    }

    /// Half a file is taken for a whole one by whatever reads it next.
    fn remove_incomplete(&self) -> Vec<String> {
        if self.keep {
            return Vec::new();
        }
        let Some(before) = &self.before else { return doubtful(&self.outputs) };
        let mut warnings = Vec::new();
        for (path, before) in self.outputs.iter().zip(before) {
            let shown = path.display();
            match (before, Stamp::of(path)) {
                (None, Some(Some(_))) if fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) => {
                    warnings.push(match fs::remove_file(path) {
                        Ok(()) => format!("its incomplete output {shown} was removed"),
                        Err(error) => format!("its output {shown} is incomplete, and cannot be removed: {error}"),
                    });
                }
                (Some(Some(before)), Some(Some(now))) if *before != now => {
                    warnings.push(format!("its output {shown} was there before, and is changed and incomplete now"));
                }
                (None, Some(_)) => {
                    warnings.push(format!("its output {shown} is incomplete, and stays: only plain files are removed"));
                }
                _ => {} // not touched, or a folder that was there, which may have what others wrote
            }
        }
        warnings
    }
}
