//! Runs without a record: their journal is in a folder of their own, which is removed after a success.
//!
//! Room: driver.
//!
//! # Invariant
//! While such a run, or a job of it, still runs, every command knows it like any other. After its success nothing of it is left.
//!
//! # Why it holds
//! It has a whole journal, created in the folder for temporary files under a name that other commands look for. A run that did not succeed, or was killed,
//! leaves that folder for commands that show it, resume it or end its jobs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use surface_journal::Journal;

use crate::exit::Failure;

/// Limit of such folders that are read: a folder full of old ones must not make every command slow.
const LOOKED_AT: usize = 64;

fn prefix() -> String {
    format!("bursar-run-{}-", rustix::process::geteuid().as_raw())
}

/// A journal for one run.
pub(crate) fn begin() -> Result<Journal, Failure> {
    let made = tempfile::Builder::new().prefix(&prefix()).tempdir();
    let folder = made.map(tempfile::TempDir::keep).map_err(|error| {
        let dir = std::env::temp_dir();
        Failure::broken(format!(
            "cannot make a folder in {}: {error}; set TMPDIR to one that can be written",
            dir.display()
        ))
    })?;
    Ok(Journal::open(&folder)?)
}

/// Whether the journal in `folder` is that of such a run.
pub(crate) fn is_one(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix()))
}

/// The journals of such runs that are there.
pub(crate) fn all() -> Vec<Journal> {
    let me = rustix::process::geteuid().as_raw();
    let is_ours = |path: &Path| fs::symlink_metadata(path).is_ok_and(|about| about.is_dir() && about.uid() == me);
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return Vec::new() };
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_one(path) && is_ours(path));
    // A folder that is just being removed or created is skipped.
    let open = |folder: PathBuf| folder.join("journal.db").exists().then(|| Journal::open_to_read(&folder).ok())?;
    folders.take(LOOKED_AT).filter_map(open).collect()
}

/// Removes a run and its journal.
pub(crate) fn forget(journal: Journal) {
    let folder = journal.dir().to_owned();
    drop(journal);
    let _ = fs::remove_dir_all(folder); // what cannot be removed is found by `bursar runs`
}
