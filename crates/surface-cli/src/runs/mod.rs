//! Existing runs: found by the names people type, with the states of their jobs.
//!
//! Room: surface.
//!
//! Below `bursar run`, which starts and resumes runs, and below the commands that show them.
//!
//! - `resolver.rs`: which run or job a word means; `unrecorded.rs`: journals of runs without a record.
//! - `orphans.rs`: jobs that outlived their run; `job_status.rs`: the current states of the jobs of an interrupted run.
//! - `command.rs`: the command of a job, and its limits.

mod command;
pub(crate) mod job_status;
pub(crate) mod orphans;
mod resolver;
pub(crate) mod unrecorded;

use std::path::{Path, PathBuf};

use surface_jobfile::Plan;
use surface_journal::{Journal, RunId};

pub(crate) use self::command::{command, limits, log_bytes_max};
pub(crate) use self::resolver::{Found, Intent, RunResolver, is_run};
use crate::exit::Failure;

/// The folder of the keepers of the run in `folder`.
pub(crate) fn keepers_dir(folder: &Path) -> PathBuf {
    folder.join("keepers")
}

/// The folder of the marks of jobs that go to Slurm, of the run in `folder`.
pub(crate) fn marks_dir(folder: &Path) -> PathBuf {
    folder.join("slurm")
}

/// The plan of a run, from the journal, which keeps more than the plan.
///
/// # Errors
/// If it has none that can be read.
pub(crate) fn kept_plan(journal: &Journal, run: &RunId) -> Result<Plan, Failure> {
    serde_json::from_str(&journal.plan_json(run)?).map_err(|error| {
        Failure::broken(format!("the plan that run {run} kept cannot be read: {error}; use the bursar that started it"))
    })
}
