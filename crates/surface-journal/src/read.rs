//! Reading runs, jobs and events.
//!
//! Room: driver.
//!
//! # Invariant
//! Reading changes nothing, and never waits for a writer: each function is one snapshot. That a run was interrupted is not written
//! anywhere: it is determined when the run is read, so no process need clean up after another.

use rusqlite::{Connection, Row, params};
use sched_jobs::State;

use crate::alive::Process;
use crate::ending::counts;
use crate::stored::{path_in, state, unsigned};
use crate::{Demand, Detail, EventRow, JobRow, Journal, JournalError, RunId, RunRow, Status};

/// Which runs to list, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only runs with this status.
    pub status: Option<Status>,
    /// Only runs that a process runs.
    pub live: bool,
    /// At most this many.
    pub limit: Option<usize>,
}

const RUN: &str = "seq, id, name, file, cwd, pid, pid_start, boot, began_ms, ended_ms, outcome, paused, jobs, counts,
    (SELECT at_ms FROM events WHERE run = seq ORDER BY n DESC LIMIT 1)";

impl Journal {
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

    /// The runs that pass `filter`, newest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn runs(&self, filter: Filter) -> Result<Vec<RunRow>, JournalError> {
        self.with(|db| {
            let transaction = db.transaction()?;
            let mut statement = transaction.prepare_cached(&format!("SELECT {RUN} FROM runs ORDER BY seq DESC"))?;
            let mut rows = statement.query([])?;
            let mut runs = Vec::new();
            while runs.len() < filter.limit.unwrap_or(usize::MAX)
                && let Some(row) = rows.next()?
            {
                let run = run_row(&transaction, row)?;
                if filter.status.is_none_or(|status| status == run.status) && (!filter.live || run.status.is_live()) {
                    runs.push(run);
                }
            }
            Ok(runs)
        })
    }

    /// One run.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn run(&self, id: &RunId) -> Result<RunRow, JournalError> {
        let seq = self.require(id)?;
        self.with(|db| {
            let mut statement = db.prepare_cached(&format!("SELECT {RUN} FROM runs WHERE seq = ?1"))?;
            statement.query_row([seq], |row| run_row(db, row))
        })
    }

    /// What [`begin`](Journal::begin) was given as the plan of a run.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn plan_json(&self, id: &RunId) -> Result<String, JournalError> {
        let seq = self.require(id)?;
        self.with(|db| db.query_row("SELECT plan FROM plans WHERE run = ?1", [seq], |row| row.get(0)))
    }

    /// The jobs of a run in their order, in their current states.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn jobs(&self, id: &RunId) -> Result<Vec<JobRow>, JournalError> {
        let seq = self.require(id)?;
        self.with(|db| {
            let mut statement = db.prepare_cached(
                "SELECT j.job, name, grp, command, print, cpu_slots, ram_mb, vram_mb, named,
                        state, attempt, ready_us, started_us, ended_us, token, pid, how, code,
                        peak_rss_kb, cpu_ms, wall_ms, waited_ms, progress, error, demand, peak_vram_mb, in_force
                 FROM jobs j LEFT JOIN latest l ON l.run = j.run AND l.job = j.job
                 WHERE j.run = ?1 ORDER BY j.job",
            )?;
            statement.query_map([seq], job_row)?.collect()
        })
    }

    /// Every move of every job of a run, in the order they were recorded.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn events(&self, id: &RunId) -> Result<Vec<EventRow>, JournalError> {
        self.events_after(id, 0)
    }

    /// The moves after the `n`-th: what is new for a program that watches.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn events_after(&self, id: &RunId, n: u64) -> Result<Vec<EventRow>, JournalError> {
        let seq = self.require(id)?;
        self.with(|db| {
            let mut statement = db.prepare_cached(
                "SELECT n, job, attempt, state, at_ms, offset_us, detail FROM events WHERE run = ?1 AND n > ?2
                 ORDER BY n",
            )?;
            statement.query_map(params![seq, n as i64], event_row)?.collect()
        })
    }
}

fn run_row(db: &Connection, row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let process = Process { pid: row.get(5)?, start: unsigned(row, 6)?, boot: row.get(7)? };
    let began_ms = unsigned(row, 8)?.unwrap_or(0);
    let ended_ms = unsigned(row, 9)?;
    let status = match row.get::<_, Option<String>>(10)?.as_deref() {
        Some("succeeded") => Status::Succeeded,
        Some("failed") => Status::Failed,
        Some(_) => Status::Cancelled,
        None if !process.is_alive() => Status::Interrupted,
        None if row.get(11)? => Status::Paused,
        None => Status::Running,
    };
    let jobs = row.get(12)?;
    let stored: Option<String> = row.get(13)?;
    let counts = match stored.and_then(|text| serde_json::from_str(&text).ok()) {
        Some(counts) => counts,
        None => counts(db, row.get(0)?, jobs)?,
    };
    Ok(RunRow {
        id: RunId::stored(row.get(1)?),
        name: row.get(2)?,
        file: path_in(row.get_ref(3)?),
        cwd: path_in(row.get_ref(4)?).unwrap_or_default(),
        status,
        pid: process.pid,
        began_ms,
        ended_ms,
        seen_ms: ended_ms.or(unsigned(row, 14)?).unwrap_or(began_ms),
        jobs,
        counts,
    })
}

fn job_row(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    let named: Option<String> = row.get(8)?;
    let demand: Option<String> = row.get(24)?;
    let fresh = row.get_ref(9)? == rusqlite::types::ValueRef::Null;
    Ok(JobRow {
        job: row.get(0)?,
        name: row.get(1)?,
        group: row.get(2)?,
        command: row.get(3)?,
        fingerprint: row.get::<_, i64>(4)? as u64,
        demand: Demand {
            cpu_slots: row.get(5)?,
            ram_mb: unsigned(row, 6)?.unwrap_or(0),
            vram_mb: unsigned(row, 7)?.unwrap_or(0),
            named: named.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        },
        state: if fresh { State::Queued } else { state(row, 9)? },
        attempt: row.get::<_, Option<u32>>(10)?.unwrap_or(0),
        ready_us: unsigned(row, 11)?,
        started_us: unsigned(row, 12)?,
        ended_us: unsigned(row, 13)?,
        progress: row.get(22)?,
        detail: Detail {
            token: row.get(14)?,
            pid: row.get(15)?,
            how: row.get(16)?,
            code: row.get(17)?,
            peak_rss_kb: unsigned(row, 18)?,
            peak_vram_mb: unsigned(row, 25)?,
            cpu_ms: unsigned(row, 19)?,
            wall_ms: unsigned(row, 20)?,
            waited_ms: unsigned(row, 21)?,
            error: row.get(23)?,
            in_force: row.get(26)?,
            demand: demand.and_then(|text| serde_json::from_str(&text).ok()),
        },
    })
}

fn event_row(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    let detail: Option<String> = row.get(6)?;
    Ok(EventRow {
        n: unsigned(row, 0)?.unwrap_or(0),
        job: row.get(1)?,
        attempt: row.get(2)?,
        state: state(row, 3)?,
        at_ms: unsigned(row, 4)?.unwrap_or(0),
        offset_us: unsigned(row, 5)?.unwrap_or(0),
        detail: detail.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    })
}
