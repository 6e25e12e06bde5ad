//! The folder of the journal, and its access rights.
//!
//! Room: driver.
//!
//! # Invariant
//! What this file creates is for its owner only: directories 0700, the database 0600. A directory that was there already keeps
//! its mode. What belongs to another user is refused, whatever its mode.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
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
    check_owner(dir)?;
    make_folder(&dir.join("runs"), true)?;
    check_owner(&dir.join("runs"))?;
    if fresh {
        // SQLite syncs its files and their directory; we must sync the parents, so that the directory itself survives a power loss.
        // Where a directory cannot be synced, nothing better can be done.
        dir.ancestors().filter_map(|above| File::open(above).ok()).for_each(|above| drop(above.sync_all()));
    }
    let file = database(dir);
    // SQLite gives its side files the mode of the database, so the database must exist first.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(JournalError::io("create", &file)(error)),
    }
    check_owners(dir)
}

/// Refuses a directory with anything of another user in it that we would read.
pub(crate) fn check_owners(dir: &Path) -> Result<(), JournalError> {
    ["", "runs", "journal.db", "journal.db-wal", "journal.db-shm"]
        .iter()
        .try_for_each(|name| check_owner(&dir.join(name)))
}

/// Another user can write what that user owns: a plan of another user would run with our rights. A path that does not exist passes.
pub(crate) fn check_owner(path: &Path) -> Result<(), JournalError> {
    let user = rustix::process::geteuid().as_raw();
    // The link itself, too: its owner can change its target at any time.
    for about in [std::fs::symlink_metadata(path), std::fs::metadata(path)] {
        match about {
            Ok(about) if about.uid() != user => {
                return Err(JournalError::NotOurs { path: path.to_owned(), owner: about.uid(), user });
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(JournalError::io("look at", path)(error)),
        }
    }
    Ok(())
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
    fn what_belongs_to_another_user_is_refused_before_anything_is_read() {
        let is_root = rustix::process::geteuid().is_root();
        let refused = |dir: &std::path::Path, what: &str| {
            let error = crate::Journal::open(dir).expect_err("it is another user's");
            let text = error.to_string();
            assert!(matches!(error, JournalError::NotOurs { .. }) && text.contains(what), "{text}");
            assert!(text.contains("belongs to user") && text.contains("set BURSAR_STATE_DIR"), "{text}");
        };
        if !is_root {
            return refused("/".as_ref(), "/ belongs to user 0"); // only root can give a file to another user
        }
        const OTHER: u32 = 65_534;
        for name in ["", "journal.db", "journal.db-wal", "runs"] {
            let dir = tempfile::tempdir().unwrap();
            drop(crate::Journal::open(dir.path()).unwrap());
            let path = dir.path().join(name);
            if !path.exists() {
                std::fs::write(&path, "").unwrap();
            }
            std::os::unix::fs::chown(&path, Some(OTHER), None).unwrap();
            refused(dir.path(), name);
        }
        // A link of another's to what is ours.
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mine")).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("mine"), &link).unwrap();
        drop(crate::Journal::open(&link).unwrap());
        std::os::unix::fs::lchown(&link, Some(OTHER), None).unwrap();
        refused(&link, "link");
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
