//! Cancelling attempts that a process left behind which was killed.
//!
//! Room: driver.

use core::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cluster::{CallError, Cluster};
use super::folder::{Folder, Left, left as left_in};
use crate::batch::key_of;
use crate::id::SlurmId;
use crate::key::Key;
use crate::rows::Row;

/// How long commands that were asked to end may take; after half of it they are killed.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Why attempts could not be cancelled.
#[derive(Debug)]
#[non_exhaustive]
pub enum CancelError {
    /// The marks folder cannot be used.
    Folder(io::Error),
    /// Slurm did not do it.
    Slurm(CallError),
    /// They were asked to end, and have not.
    StillRunning(usize),
}

impl fmt::Display for CancelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => error.fmt(f),
            Self::Slurm(error) => error.fmt(f),
            Self::StillRunning(count) => write!(
                f,
                "{count} of them still run {} s after they were asked to end; see `squeue --me`",
                END_TIMEOUT.as_secs()
            ),
        }
    }
}

impl std::error::Error for CancelError {}

/// Cancels these attempts and waits until none runs. Returns those that were cancelled; the others ended by themselves.
///
/// # Errors
/// See [`CancelError`].
pub fn cancel_left(cluster: &dyn Cluster, marks: &Path, left: &[Left]) -> Result<Vec<Key>, CancelError> {
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let folder = Folder::open(marks).map_err(CancelError::Folder)?;
    let (mut cancelled, mut running) = (Vec::new(), Vec::new());
    for Left { key, .. } in left {
        folder.mark_cancelled(*key);
        match folder.revoke(*key).map_err(CancelError::Folder)? {
            true => cancelled.push(*key),
            false => running.push(*key),
        }
    }
    let began = Instant::now();
    let mut asked = false;
    loop {
        let rows = cluster.queue().map_err(CancelError::Slurm)?;
        let key_of = |row: &Row| key_of(&row.comment, row.id, folder.path());
        let is_ours = |key: Key| cancelled.contains(&key) || running.contains(&key);
        let ids: Vec<SlurmId> = rows.iter().filter(|row| key_of(row).is_some_and(is_ours)).map(|row| row.id).collect();
        let now = began.elapsed() > END_TIMEOUT / 2;
        if !ids.is_empty() && (!asked || now) {
            cluster.cancel(&ids, now).map_err(CancelError::Slurm)?;
            asked = true;
        }
        let is_listed = |key: &Key| rows.iter().any(|row| key_of(row) == Some(*key));
        let ended = |key: &Key| folder.end(*key, true).is_some() || (asked && !is_listed(key));
        if running.iter().all(ended) {
            // What was killed with its script marks nothing: without a mark it would look as if it still ran.
            running.iter().try_for_each(|key| folder.mark_killed(*key)).map_err(CancelError::Folder)?;
            break;
        }
        if began.elapsed() > END_TIMEOUT {
            return Err(CancelError::StillRunning(running.len()));
        }
        asked |= ids.is_empty(); // Slurm does not know them any more
        std::thread::sleep(Duration::from_millis(200));
    }
    let by_themselves = left_in(marks).map_err(CancelError::Folder)?;
    let by_itself = |key: &Key| by_themselves.iter().any(|left| left.key == *key && !left.was_cancelled);
    cancelled.extend(running.into_iter().filter(|key| !by_itself(key)));
    Ok(cancelled)
}
