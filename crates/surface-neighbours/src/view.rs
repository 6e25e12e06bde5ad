//! All runs of this user, from their records.
//!
//! Room: interface.

use std::path::Path;
use std::time::Duration;

use crate::alive::Watches;
use crate::budget_file::BudgetFile;
use crate::dir;
use crate::error::JoinError;
use crate::record::{CPU, RAM, Record, VRAM};

/// A run on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// Its process.
    pub pid: u32,
    /// How many jobs run.
    pub running: u64,
    /// CPU slots they hold.
    pub cpu_slots: u64,
    /// Memory they were promised, in MB.
    pub ram_mb: u64,
    /// How much of it they really use, as last measured.
    pub resident_mb: u64,
    /// Video memory they were promised, in MB.
    pub vram_mb: u64,
    /// How long its oldest job has waited for what other runs hold.
    pub waiting: Option<Duration>,
}

/// The runs of this user that are alive.
///
/// # Errors
/// If the folder of the budget file belongs to another user, or cannot be read.
pub fn runs() -> Result<Vec<Run>, JoinError> {
    runs_in(&dir::default_dir())
}

/// The runs that share in this folder.
///
/// # Errors
/// As [`runs`].
pub fn runs_in(folder: &Path) -> Result<Vec<Run>, JoinError> {
    let mut file = BudgetFile::open(folder)?;
    let read = file.lock().and_then(|mut table| table.read());
    let records = read.map_err(|error| JoinError::File { path: folder.to_owned(), error })?;
    let dead = Watches::default().dead(&records);
    let now = crate::now();
    let alive = records.into_iter().filter(|(slot, _)| !dead.contains(slot));
    Ok(alive.map(|(_, record)| as_run(&record, now)).collect())
}

fn as_run(record: &Record, now: u64) -> Run {
    Run {
        pid: record.pid,
        running: record.running,
        cpu_slots: record.held[CPU],
        ram_mb: record.held[RAM],
        resident_mb: record.resident_mb,
        vram_mb: record.held[VRAM],
        waiting: record.want.map(|want| Duration::from_nanos(now.saturating_sub(want.since))),
    }
}
