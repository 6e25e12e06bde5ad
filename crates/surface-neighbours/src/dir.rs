//! The folder of the budget file: it belongs to the user, and no other user can enter it.
//!
//! Room: driver.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::JoinError;

/// `$XDG_RUNTIME_DIR/bursar`, or `/tmp/bursar-<uid>` where there is no such folder.
pub(crate) fn default_dir() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(path) => path.join("bursar"),
        None => PathBuf::from(format!("/tmp/bursar-{}", user())),
    }
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Opens the folder, created if it is missing, with access for its owner only.
pub(crate) fn open(path: &Path) -> Result<File, JoinError> {
    let failed = |error| JoinError::Folder { path: path.to_owned(), error };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    // The descriptor is checked and used, not the path: the path could be changed to mean another folder in between.
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::DIRECTORY).bits();
    let folder = OpenOptions::new().read(true).custom_flags(flags as i32).open(path).map_err(failed)?;
    let about = folder.metadata().map_err(failed)?;
    if about.uid() != user() {
        return Err(JoinError::NotOurs { path: path.to_owned(), owner: about.uid(), user: user() });
    }
    if about.mode() & 0o077 != 0 {
        folder.set_permissions(std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(folder)
}
