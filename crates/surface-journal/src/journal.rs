//! The journal: where runs begin, are found again, and end.
//!
//! # Invariant
//! A run that `begin` returned is on the disk with all its jobs; a `begin` that failed leaves nothing.
//!
//! # Why it holds
//! Run and jobs are one transaction that is synced. The folder and its lock come first, so nobody can take the run between;
//! a failure removes the folder.

use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::alive::Process;
use crate::{
    Estimate, JobRow, JournalError, NewRun, Options, Outcome, Output, RunId, RunLock, Writer, history, outputs, place,
    read, schema,
};

/// The runs of a user: what was asked for, what happened, what it needed.
///
/// Several processes may use one directory at once. See the crate for an example.
pub struct Journal {
    dir: PathBuf,
    db: Mutex<Connection>,
    /// Where the database was copied to, if it could not be read where it is.
    _copy: Option<tempfile::TempDir>,
}

/// A run that goes on under a new process.
#[derive(Debug)]
pub struct Reopened {
    /// The right to write it.
    pub lock: RunLock,
    /// What [`begin`](Journal::begin) was given.
    pub plan_json: String,
    /// Every job as it was left: its state, its attempt, and the token its executor may find it by.
    pub jobs: Vec<JobRow>,
}

impl Journal {
    /// Opens the journal in `dir`, or makes one there.
    ///
    /// # Errors
    /// If the directory cannot be used, or the database is damaged, newer than this program, or another program's. Nothing is
    /// changed then.
    pub fn open(dir: &Path) -> Result<Journal, JournalError> {
        place::prepare(dir)?;
        let db = schema::open(&place::database(dir))?;
        Ok(Journal { dir: dir.to_owned(), db: Mutex::new(db), _copy: None })
    }

    /// Opens the journal in `dir` to look at it: one that cannot be written, or whose disk is full, is read as it is.
    ///
    /// # Errors
    /// As [`open`](Self::open); or if it cannot even be read. To write into a journal that is only read is an error, too.
    pub fn open_to_read(dir: &Path) -> Result<Journal, JournalError> {
        match Journal::open(dir) {
            Err(error) if (error.is_about_writing() || error.is_full()) && place::database(dir).exists() => {
                place::check_owners(dir)?;
                let (db, copy) = schema::open_to_read(&place::database(dir))?;
                Ok(Journal { dir: dir.to_owned(), db: Mutex::new(db), _copy: copy })
            }
            other => other,
        }
    }

    /// `$BURSAR_STATE_DIR`, else `$XDG_STATE_HOME/bursar`, else `~/.local/state/bursar`.
    ///
    /// # Errors
    /// If none of them says where.
    pub fn default_dir() -> Result<PathBuf, JournalError> {
        place::state_dir(|name| std::env::var_os(name), std::env::home_dir())
    }

    /// Where the journal is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder of a run: `logs/<job>.log` and whatever else its runner leaves there.
    pub fn folder(&self, run: &RunId) -> PathBuf {
        place::run_folder(&self.dir, run)
    }

    /// Begins a run: it is on the disk, with all its jobs queued, and in the hands of the caller.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it is there.
    pub fn begin(&self, new: NewRun) -> Result<RunLock, JournalError> {
        let (id, folder) = self.new_folder()?;
        let begun = RunLock::take(&id, &folder, new.pid).and_then(|lock| {
            place::make_folder(&folder.join("logs"), false)?;
            self.synced(|transaction| insert(transaction, &id, &new))?;
            Ok(lock)
        });
        if begun.is_err() {
            let _ = fs::remove_dir_all(&folder); // the first error is the one to tell
        }
        begun
    }

    /// A folder nobody has makes an id nobody has.
    fn new_folder(&self) -> Result<(RunId, PathBuf), JournalError> {
        let mut taken = 0;
        loop {
            let id = RunId::random(taken);
            let folder = self.folder(&id);
            match place::make_folder(&folder, false) {
                Ok(()) if self.seq(&id)?.is_none() => return Ok((id, folder)),
                // A run whose folder somebody removed by hand: its logs are gone, its rows are not.
                Ok(()) => taken += 1,
                Err(JournalError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::AlreadyExists && taken < 1_000 =>
                {
                    taken += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a run over: it is running again, under process `pid`.
    ///
    /// # Errors
    /// If there is no such run, or another process holds it.
    pub fn reopen(&self, run: &RunId, pid: u32) -> Result<Reopened, JournalError> {
        let folder = self.folder(run);
        // Looked for before and after: a folder must not be made for a run that is not there, and a run may be pruned just now.
        self.require(run)?;
        place::make_folder(&folder.join("logs"), true)?;
        place::check_owner(&folder)?;
        let lock = RunLock::take(run, &folder, pid)?;
        let seq = self.require(run)?;
        let process = Process::of(pid);
        let plan_json = self.synced(|transaction| {
            transaction.execute(
                "UPDATE runs SET pid = ?2, pid_start = ?3, boot = ?4, outcome = NULL, ended_ms = NULL, counts = NULL,
                        paused = 0 WHERE seq = ?1",
                params![seq, process.pid, process.start.map(|start| start as i64), process.boot],
            )?;
            transaction.query_row("SELECT plan FROM plans WHERE run = ?1", [seq], |row| row.get(0))
        })?;
        Ok(Reopened { lock, plan_json, jobs: self.jobs(run)? })
    }

    /// Holds the lock of a run without resuming it: no other process can resume it meanwhile.
    ///
    /// # Errors
    /// If there is no such run, or another process holds it.
    pub fn hold(&self, run: &RunId) -> Result<RunLock, JournalError> {
        self.require(run)?;
        RunLock::take(run, &self.folder(run), std::process::id())
    }

    /// A writer of the events of a run, with the usual options.
    ///
    /// # Errors
    /// If the database cannot be opened once more.
    pub fn writer(&self, run: &RunLock) -> Result<Writer, JournalError> {
        self.writer_with(run, Options::default())
    }

    /// A writer of the events of a run.
    ///
    /// # Errors
    /// If the database cannot be opened once more.
    pub fn writer_with(&self, run: &RunLock, options: Options) -> Result<Writer, JournalError> {
        let seq = self.require(run.id())?;
        Writer::start(&place::database(&self.dir), run.clone(), seq, options)
    }

    /// Says how a run ended. With a writer at work, use [`Writer::finish`], which waits for its events first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&self, run: &RunLock, outcome: Outcome) -> Result<(), JournalError> {
        let seq = self.require(run.id())?;
        self.synced(|transaction| end(transaction, seq, outcome, now_ms()))
    }

    /// The run that `text` names: its id, the beginning of its id with or without `r-`, or `latest` or `-` for the newest.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn find(&self, text: &str) -> Result<RunId, JournalError> {
        let newest = matches!(text, "latest" | "-");
        let wanted = text.to_ascii_lowercase();
        let wanted = if newest { String::new() } else { wanted.strip_prefix("r-").unwrap_or(&wanted).to_owned() };
        let missing = || JournalError::NoRun { wanted: text.to_owned() };
        if !newest && (wanted.is_empty() || !wanted.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            return Err(missing());
        }
        let mut candidates: Vec<RunId> = self.with(|db| {
            let mut statement = db.prepare_cached("SELECT id FROM runs WHERE id GLOB ?1 ORDER BY seq DESC LIMIT ?2")?;
            let rows =
                statement.query_map(params![format!("r-{wanted}*"), if newest { 1 } else { 10 }], |row| row.get(0))?;
            rows.map(|id| id.map(RunId::stored)).collect()
        })?;
        if let Some(exact) = candidates.iter().position(|id| id.as_str()[2..] == wanted) {
            return Ok(candidates.swap_remove(exact));
        }
        match candidates.len() {
            0 => Err(missing()),
            1 => Ok(candidates.swap_remove(0)),
            _ => Err(JournalError::Ambiguous { wanted: text.to_owned(), candidates }),
        }
    }

    /// What earlier successes of the same work needed.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn estimate(&self, fingerprint: u64) -> Result<Option<Estimate>, JournalError> {
        Ok(self.estimates(&[fingerprint])?.into_iter().next().flatten())
    }

    /// The same for many at once, in their order. For jobs without any, ask again with
    /// [`group_fingerprint`](crate::group_fingerprint).
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn estimates(&self, fingerprints: &[u64]) -> Result<Vec<Option<Estimate>>, JournalError> {
        self.with(|db| history::recall(db, fingerprints))
    }

    /// What is known of each of these files, in their order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn outputs(&self, paths: &[PathBuf]) -> Result<Vec<Option<Output>>, JournalError> {
        self.with(|db| outputs::recall(db, paths))
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, JournalError> {
        act(&mut self.db()).map_err(|error| JournalError::sqlite(&place::database(&self.dir), error))
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

    fn seq(&self, run: &RunId) -> Result<Option<i64>, JournalError> {
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

fn insert(db: &Connection, id: &RunId, new: &NewRun) -> rusqlite::Result<()> {
    let process = Process::of(new.pid);
    db.execute(
        "INSERT INTO runs (id, name, file, cwd, pid, pid_start, boot, began_ms, jobs)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            id.as_str(),
            new.name,
            new.file.as_deref().map(path_out),
            path_out(&new.cwd),
            process.pid,
            process.start.map(|start| start as i64),
            process.boot,
            now_ms() as i64,
            new.jobs.len() as i64,
        ],
    )?;
    let seq = db.last_insert_rowid();
    db.execute("INSERT INTO plans (run, plan) VALUES (?1, ?2)", params![seq, new.plan_json])?;
    let mut statement = db.prepare_cached(
        "INSERT INTO jobs (run, job, name, grp, command, print, group_print, cpu_slots, ram_mb, vram_mb, named)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for (place, job) in new.jobs.iter().enumerate() {
        let group = (!job.group.is_empty()).then(|| history::group_fingerprint(new.file.as_deref(), &job.group) as i64);
        let named = (!job.demand.named.is_empty()).then(|| serde_json::to_string(&job.demand.named).ok()).flatten();
        statement.execute(params![
            seq,
            place as i64,
            job.name,
            job.group,
            job.command,
            job.fingerprint as i64,
            group,
            job.demand.cpu_slots,
            job.demand.ram_mb as i64,
            job.demand.vram_mb as i64,
            named,
        ])?;
    }
    Ok(())
}

/// The last words on a run.
pub(crate) fn end(db: &Connection, seq: i64, outcome: Outcome, at_ms: u64) -> rusqlite::Result<()> {
    let jobs: u32 = db.query_row("SELECT jobs FROM runs WHERE seq = ?1", [seq], |row| row.get(0))?;
    let counts = serde_json::to_string(&read::counts(db, seq, jobs)?).ok();
    db.execute(
        "UPDATE runs SET outcome = ?2, ended_ms = ?3, paused = 0, counts = ?4 WHERE seq = ?1",
        params![seq, outcome.name(), at_ms as i64, counts],
    )?;
    history::forget(db)?;
    outputs::forget(db)
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Text if it is text, so that people can read the database; bytes otherwise, so that the path still works.
pub(crate) fn path_out(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => Value::Text(text.to_owned()),
        None => Value::Blob(path.as_os_str().as_bytes().to_vec()),
    }
}

pub(crate) fn path_in(value: ValueRef<'_>) -> Option<PathBuf> {
    let bytes = value.as_bytes_or_null().ok().flatten()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec())))
}
