//! Removing old runs.
//!
//! Room: driver.
//!
//! # Invariant
//! A run that a process holds is never pruned: pruning takes its lock. A process that resumes it meanwhile finds it held, or gone.
//!
//! History stays: it is bounded by itself.

use std::fs;
use std::path::Path;

use crate::stored::now_ms;
use crate::{Filter, Journal, JournalError, RunId, RunLock};

/// Which runs to remove: those that neither rule keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prune {
    /// Keep this many of the newest.
    pub keep: Option<usize>,
    /// Keep those whose last activity is no older than this.
    pub older_than_ms: Option<u64>,
}

impl Journal {
    /// Removes old runs with their folders, and returns their ids. Without any rule nothing is removed.
    ///
    /// # Errors
    /// If a run cannot be removed; those before it are gone.
    pub fn prune(&self, rule: Prune) -> Result<Vec<RunId>, JournalError> {
        if rule == Prune::default() {
            return Ok(Vec::new());
        }
        let now = now_ms();
        let mut gone = Vec::new();
        for (newer, run) in self.runs(Filter::default())?.into_iter().enumerate() {
            let kept = rule.keep.is_some_and(|keep| newer < keep)
                || rule.older_than_ms.is_some_and(|age| now.saturating_sub(run.seen_ms) <= age);
            if !kept && !run.status.is_live() && self.remove(&run.id)? {
                gone.push(run.id);
            }
        }
        Ok(gone)
    }

    /// How many runs are kept.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn count(&self) -> Result<u64, JournalError> {
        let count: i64 = self.with(|db| db.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)))?;
        Ok(count as u64)
    }

    /// Removes the logs of a run, which stays known. False if a process holds it.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove_logs(&self, run: &RunId) -> Result<bool, JournalError> {
        let folder = self.folder(run);
        let _lock = match RunLock::take(run, &folder, std::process::id()) {
            Ok(lock) => lock,
            Err(JournalError::Held { .. }) => return Ok(false),
            Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        remove_all(&folder.join("logs"))?;
        Ok(true)
    }

    /// Removes a run, with its folder. False if a process holds it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, run: &RunId) -> Result<bool, JournalError> {
        let folder = self.folder(run);
        let _lock = match RunLock::take(run, &folder, std::process::id()) {
            Ok(lock) => Some(lock),
            Err(JournalError::Held { .. }) => return Ok(false),
            // The folder was removed by hand: no process can hold a lock in it.
            Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let seq = self.require(run)?;
        // First what needs no disk space to be removed: on a full disk the database needs some.
        remove_all(&folder.join("logs"))?;
        self.synced(|transaction| {
            for sql in [
                "DELETE FROM events WHERE run = ?1",
                "DELETE FROM latest WHERE run = ?1",
                "DELETE FROM jobs WHERE run = ?1",
                "DELETE FROM plans WHERE run = ?1",
                "DELETE FROM runs WHERE seq = ?1",
            ] {
                transaction.execute(sql, [seq])?;
            }
            Ok(())
        })?;
        remove_all(&folder)?;
        Ok(true)
    }

    /// Shrinks the database file, if much of it is unused and little is left to be copied. Without disk space for the copy nothing is done.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn compact(&self) -> Result<(), JournalError> {
        let done = self.with(|db| {
            let number = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0));
            let page_bytes = number("PRAGMA page_size")?;
            let unused_bytes = number("PRAGMA freelist_count")?.saturating_mul(page_bytes);
            let kept_bytes = number("PRAGMA page_count")?.saturating_mul(page_bytes) - unused_bytes;
            if unused_bytes >= WORTH_BYTES && unused_bytes >= kept_bytes && kept_bytes <= COPIED_BYTES_MAX {
                db.execute_batch("VACUUM")?;
                db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            Ok(())
        });
        match done {
            Err(JournalError::Full { .. } | JournalError::Busy { .. }) => Ok(()), // optional
            done => done,
        }
    }
}

/// Less unused space in the database than this is left there.
const WORTH_BYTES: i64 = 1 << 20;
/// A larger database is not copied: other runs could not write meanwhile.
const COPIED_BYTES_MAX: i64 = 256 << 20;

/// Removes a folder, if it is there.
fn remove_all(folder: &Path) -> Result<(), JournalError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(JournalError::io("remove", folder)(error)),
        _ => Ok(()),
    }
}
