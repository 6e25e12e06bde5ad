//! How runs begin, are taken over by another process, and end.
//!
//! Room: driver.
//!
//! # Invariant
//! A run that `begin` returned is on the disk with all its jobs; a `begin` that failed leaves nothing.
//!
//! # Why it holds
//! Run and jobs are one transaction that is synced. The folder and its lock come first, so no other process can take the run in between;
//! a failure removes the folder.

use std::fs;
use std::path::PathBuf;

use rusqlite::{Connection, params};

use crate::alive::Process;
use crate::ending::end;
use crate::history::group_fingerprint;
use crate::stored::{now_ms, path_out};
use crate::{JobRow, Journal, JournalError, NewRun, Options, Outcome, RunId, RunLock, Writer, dirs};

/// A run that continues under a new process.
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
    /// Begins a run: it is on the disk, with all its jobs queued, and the caller holds its lock.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it is there.
    pub fn begin(&self, new: NewRun) -> Result<RunLock, JournalError> {
        let (id, folder) = self.new_folder()?;
        let begun = RunLock::take(&id, &folder, new.pid).and_then(|lock| {
            dirs::make_folder(&folder.join("logs"), false)?;
            self.synced(|transaction| insert(transaction, &id, &new))?;
            Ok(lock)
        });
        if begun.is_err() {
            let _ = fs::remove_dir_all(&folder); // the first error is reported
        }
        begun
    }

    /// A folder that did not exist makes an id that is not in use.
    fn new_folder(&self) -> Result<(RunId, PathBuf), JournalError> {
        let mut taken = 0;
        loop {
            let id = RunId::random(taken);
            let folder = self.folder(&id);
            match dirs::make_folder(&folder, false) {
                Ok(()) if self.seq(&id)?.is_none() => return Ok((id, folder)),
                // The folder of a run was removed by hand: its logs are gone, its rows are not.
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
        // Checked before and after: a folder must not be created for a run that does not exist, and a run may be pruned meanwhile.
        self.require(run)?;
        dirs::make_folder(&folder.join("logs"), true)?;
        dirs::check_owner(&folder)?;
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
        Writer::start(&dirs::database(self.dir()), run.clone(), seq, options)
    }

    /// Records how a run ended. With an active writer, use [`Writer::finish`], which waits for its events first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&self, run: &RunLock, outcome: Outcome) -> Result<(), JournalError> {
        let seq = self.require(run.id())?;
        self.synced(|transaction| end(transaction, seq, outcome, now_ms()))
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
    for (index, job) in new.jobs.iter().enumerate() {
        let group = (!job.group.is_empty()).then(|| group_fingerprint(new.file.as_deref(), &job.group) as i64);
        let named = (!job.demand.named.is_empty()).then(|| serde_json::to_string(&job.demand.named).ok()).flatten();
        statement.execute(params![
            seq,
            index as i64,
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
