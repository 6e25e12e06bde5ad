//! The journal: a database in a folder, and one transaction at a time on it.
//!
//! Room: driver.
//!
//! Other modules build on it: `runs` begins and ends runs, `read` and `prune` list and delete them, `history` and `outputs` keep what later runs need.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::{JournalError, RunId, dirs, schema};

/// The runs of a user: what was asked for, what happened, what it needed.
///
/// Several processes may use one directory at once. See the crate for an example.
pub struct Journal {
    dir: PathBuf,
    db: Mutex<Connection>,
    /// Where the database was copied to, if it could not be read where it is.
    _copy: Option<tempfile::TempDir>,
}

impl Journal {
    /// Opens the journal in `dir`, or makes one there.
    ///
    /// # Errors
    /// If the directory cannot be used, or the database is damaged, newer than this program, or another program's. Nothing is
    /// changed then.
    pub fn open(dir: &Path) -> Result<Journal, JournalError> {
        dirs::prepare(dir)?;
        let db = schema::open(&dirs::database(dir))?;
        Ok(Journal { dir: dir.to_owned(), db: Mutex::new(db), _copy: None })
    }

    /// Opens the journal in `dir` for reading: one that cannot be written, or whose disk is full, is read as it is.
    ///
    /// # Errors
    /// As [`open`](Self::open); or if it cannot even be read. To write into a journal that is only read is an error, too.
    pub fn open_to_read(dir: &Path) -> Result<Journal, JournalError> {
        match Journal::open(dir) {
            Err(error) if (error.is_about_writing() || error.is_full()) && dirs::database(dir).exists() => {
                dirs::check_owners(dir)?;
                let (db, copy) = schema::open_to_read(&dirs::database(dir))?;
                Ok(Journal { dir: dir.to_owned(), db: Mutex::new(db), _copy: copy })
            }
            other => other,
        }
    }

    /// `$BURSAR_STATE_DIR`, else `$XDG_STATE_HOME/bursar`, else `~/.local/state/bursar`.
    ///
    /// # Errors
    /// If none of them is set.
    pub fn default_dir() -> Result<PathBuf, JournalError> {
        dirs::state_dir(|name| std::env::var_os(name), std::env::home_dir())
    }

    /// Where the journal is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder of a run: `logs/<job>.log` and whatever else its runner leaves there.
    pub fn folder(&self, run: &RunId) -> PathBuf {
        dirs::run_folder(&self.dir, run)
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, JournalError> {
        act(&mut self.db()).map_err(|error| JournalError::sqlite(&dirs::database(&self.dir), error))
    }

    /// One transaction that is on the disk when this returns.
    pub(crate) fn synced<T>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, JournalError> {
        self.with(|db| {
            db.pragma_update(None, "synchronous", "FULL")?;
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = act(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        // A panic in between rolled its transaction back.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn seq(&self, run: &RunId) -> Result<Option<i64>, JournalError> {
        self.with(|db| {
            db.prepare_cached("SELECT seq FROM runs WHERE id = ?1")?
                .query_row([run.as_str()], |row| row.get(0))
                .optional()
        })
    }

    pub(crate) fn require(&self, run: &RunId) -> Result<i64, JournalError> {
        self.seq(run)?.ok_or_else(|| JournalError::NoRun { wanted: run.to_string() })
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("dir", &self.dir).finish_non_exhaustive()
    }
}
