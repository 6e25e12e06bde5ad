//! The declared output files of a command: whether they exist, and what happens to them if it fails.
//!
//! Room: driver. Knows files; knows nothing of processes.
//!
//! # Invariants
//! - An attempt whose command exits with 0 succeeds only if every declared file exists.
//! - After an attempt that did not succeed, only regular files are removed, and only those that did not exist before it.
//!
//! # Why they hold
//! Every attempt ends through [`Watched::end`]. The files are checked before the command starts. For an attempt that an earlier
//! process of the program started it is not known which files existed before, so its files stay, with a warning.
//!
//! # Rejected
//! Removing a file that existed before and was changed: it may be a database that the command adds to. It stays, with a warning; a caller that
//! stores [`Made`] does not treat it as complete.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mech_process::How;

use policy_jobs::Cause;

use super::command::Command;
use super::words;
use crate::executor::Outcome;

/// Size and time of a file, by which a change is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes in it.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub changed_ns: i64,
}

/// A declared file after the success of its command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Made {
    /// Its path.
    pub path: PathBuf,
    /// Its stamp. None for a folder, into which others may write.
    pub stamp: Option<Stamp>,
}

impl Stamp {
    /// The stamp of the file at `path`; None if it does not exist. `Some(None)` for a folder: others may write into it.
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
    /// Its declared files, if all exist.
    ///
    /// # Errors
    /// The path of the first file that does not exist.
    pub fn made(&self) -> Result<Vec<Made>, &Path> {
        let made = |path: &PathBuf| Stamp::of(path).map(|stamp| Made { path: path.clone(), stamp });
        self.outputs.iter().map(|path| made(path).ok_or(path.as_path())).collect()
    }

    /// Warnings about its declared files, after an unsuccessful attempt that an earlier process of the program started.
    pub fn doubtful_outputs(&self) -> Vec<String> {
        doubtful(&self.outputs)
    }
}

/// Warnings about the existing files of an attempt that an earlier process started.
fn doubtful(outputs: &[PathBuf]) -> Vec<String> {
    let exists = |path: &&PathBuf| fs::symlink_metadata(path).is_ok();
    let warning = |path: &PathBuf| {
        let shown = path.display();
        format!("its output {shown} may be incomplete, and stays: it is not known whether it existed before the job")
    };
    outputs.iter().filter(exists).map(warning).collect()
}

/// The declared files of an attempt, before and after.
#[derive(Debug)]
pub struct Watched {
    outputs: Vec<PathBuf>,
    /// Their stamps before the attempt; None if unknown.
    before: Option<Vec<Option<Option<Stamp>>>>,
    keep: bool,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it succeeded: a command may exit with 0 and not have made its outputs.
    pub outcome: Outcome,
    /// The declared files, after a success.
    pub made: Vec<Made>,
    /// Messages for a person.
    pub warnings: Vec<String>,
}

impl Watched {
    /// The files of an attempt that starts now.
    pub fn before(command: &Command) -> Self {
        let before = command.outputs.iter().map(|path| Stamp::of(path)).collect();
        Self { before: Some(before), ..Self::found(command) }
    }

    /// The files of an attempt that an earlier process of the program started.
    pub fn found(command: &Command) -> Self {
        Self { outputs: command.outputs.clone(), before: None, keep: command.keep_incomplete }
    }

    /// Judges an attempt whose command ended like this.
    pub fn end(&self, how: &How) -> Verdict {
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

    /// Removes incomplete files: the next job would read them as complete ones.
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
                    warnings
                        .push(format!("its output {shown} is incomplete, and stays: only regular files are removed"));
                }
                _ => {} // unchanged, or a folder that existed before, with files of others
            }
        }
        warnings
    }
}
