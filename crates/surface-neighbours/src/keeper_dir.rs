//! Where the jobs of a run live on if the run is killed.
//!
//! # Invariant
//! What a run held stays counted while a job of it still runs, also after the run was killed; and it is counted once.
//!
//! # Why it holds
//! A run leaves a link beside the ledger to the folder where its jobs are kept. A run that finds it dead looks there: while a keeper lives, the record stays.
//! A run that goes on with those jobs has the same folder, and takes the record of the dead one away when it joins.

use core::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Tells whether something still runs that is kept in a folder.
pub(crate) struct IsAlive(pub(crate) Box<dyn Fn(&Path) -> bool + Send>);

impl fmt::Debug for IsAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsAlive").finish_non_exhaustive()
    }
}

fn link(folder: &File, id: u64) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/home-{id:016x}", folder.as_raw_fd()))
}

/// The jobs of run `id` are kept in `home`.
pub(crate) fn leave(folder: &File, id: u64, keeper_dir: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(keeper_dir, link(folder, id))
}

/// Where the jobs of run `id` are kept, if it said so.
pub(crate) fn of(folder: &File, id: u64) -> Option<PathBuf> {
    fs::read_link(link(folder, id)).ok().filter(|keeper_dir| !keeper_dir.as_os_str().as_bytes().is_empty())
}

/// Forgets that.
pub(crate) fn remove(folder: &File, id: u64) {
    let _ = fs::remove_file(link(folder, id));
}

/// Forgets those of all runs but these.
pub(crate) fn remove_all_but(folder: &File, known: &[u64]) {
    let Ok(entries) = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())) else { return };
    let owner = |name: &str| u64::from_str_radix(name.strip_prefix("home-")?, 16).ok();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| owner(&name)).filter(|id| !known.contains(id)).for_each(|id| remove(folder, id));
}
