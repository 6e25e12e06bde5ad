//! Where the journal lives, and who may look.
//!
//! # Invariant
//! What this file creates is for its owner only: directories 0700, the database 0600. A directory that was there already keeps
//! its mode: it may be somebody's `/tmp`.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::JournalError;

/// The database in `dir`.
pub(crate) fn database(dir: &Path) -> PathBuf {
    dir.join("journal.db")
}

/// The folder of a run in `dir`.
pub(crate) fn run_folder(dir: &Path, run: &crate::RunId) -> PathBuf {
    dir.join("runs").join(run.as_str())
}

/// The first that is set of `$BURSAR_STATE_DIR`, `$XDG_STATE_HOME/bursar` and `~/.local/state/bursar`.
pub(crate) fn state_dir(
    variable: impl Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
) -> Result<PathBuf, JournalError> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("BURSAR_STATE_DIR") {
        return Ok(dir);
    }
    // The XDG rules: a relative path is invalid and ignored.
    if let Some(dir) = set("XDG_STATE_HOME").filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("bursar"));
    }
    let home = home.filter(|home| !home.as_os_str().is_empty()).ok_or(JournalError::NoHome)?;
    Ok(home.join(".local/state/bursar"))
}

/// Creates the directory and what must be in it.
pub(crate) fn prepare(dir: &Path) -> Result<(), JournalError> {
    let fresh = !dir.exists();
    make_folder(&dir.join("runs"), true)?;
    if fresh {
        // SQLite syncs its files and their directory; that the directory is there at all is ours to keep over a power loss.
        // Where a directory cannot be synced, nothing better can be done.
        dir.ancestors().filter_map(|above| File::open(above).ok()).for_each(|above| drop(above.sync_all()));
    }
    let file = database(dir);
    // SQLite gives its side files the mode of the database, so the database must exist first.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(JournalError::io("create", &file)(error)),
    }
}

/// Creates a folder for its owner only.
pub(crate) fn make_folder(path: &Path, with_parents: bool) -> Result<(), JournalError> {
    DirBuilder::new().mode(0o700).recursive(with_parents).create(path).map_err(JournalError::io("create", path))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::state_dir;
    use crate::JournalError;

    fn with(set: &[(&str, &str)], home: Option<&str>) -> Result<PathBuf, JournalError> {
        let find = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        state_dir(find, home.map(PathBuf::from))
    }

    #[test]
    fn the_state_directory_is_the_first_that_is_set() {
        let all = [("BURSAR_STATE_DIR", "/a"), ("XDG_STATE_HOME", "/b")];
        assert_eq!(with(&all, Some("/home/u")).unwrap(), PathBuf::from("/a"));
        assert_eq!(with(&all[1..], Some("/home/u")).unwrap(), PathBuf::from("/b/bursar"));
        assert_eq!(with(&[], Some("/home/u")).unwrap(), PathBuf::from("/home/u/.local/state/bursar"));
        let odd = [("BURSAR_STATE_DIR", ""), ("XDG_STATE_HOME", "relative")];
        assert_eq!(with(&odd, Some("/home/u")).unwrap(), PathBuf::from("/home/u/.local/state/bursar"));
        assert!(with(&[], None).unwrap_err().to_string().contains("set BURSAR_STATE_DIR"));
    }
}
