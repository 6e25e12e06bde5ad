//! The folder of a run's keepers, where its jobs are found if the run is killed.
//!
//! Room: driver.
//!
//! # Invariant
//! What a run held stays counted while one of its jobs still runs, also after the run was killed; and it is counted once.
//!
//! # Why it holds
//! A run leaves a symbolic link to the folder of its keepers beside the budget file. Another run that finds it dead looks into that folder: while a keeper is alive, the record stays.
//! A resumed run has the same folder, and removes the record of the dead one when it joins.

use core::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Says whether a job that belongs to a folder still runs.
pub(crate) struct IsAlive(pub(crate) Box<dyn Fn(&Path) -> bool + Send>);

impl fmt::Debug for IsAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsAlive").finish_non_exhaustive()
    }
}

fn link(folder: &File, id: u64) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/home-{id:016x}", folder.as_raw_fd()))
}

/// Leaves a link: the keepers of run `id` are in `keeper_dir`.
pub(crate) fn leave(folder: &File, id: u64, keeper_dir: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(keeper_dir, link(folder, id))
}

/// The folder of the keepers of run `id`, if it left a link.
pub(crate) fn of(folder: &File, id: u64) -> Option<PathBuf> {
    fs::read_link(link(folder, id)).ok().filter(|keeper_dir| !keeper_dir.as_os_str().as_bytes().is_empty())
}

/// Removes that link.
pub(crate) fn remove(folder: &File, id: u64) {
    let _ = fs::remove_file(link(folder, id));
}

/// Removes the links of all other runs.
pub(crate) fn remove_all_but(folder: &File, known: &[u64]) {
    let Ok(entries) = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())) else { return };
    let owner = |name: &str| u64::from_str_radix(name.strip_prefix("home-")?, 16).ok();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| owner(&name)).filter(|id| !known.contains(id)).for_each(|id| remove(folder, id));
}
