//! Jobs that outlived their run: it was killed, and they still run under their keepers, or without them if they were killed, too.
//!
//! Room: driver.
//!
//! # Invariant
//! Looking at such jobs disturbs no process. Ending them requires the lock of their run, so the run cannot be resumed meanwhile.

use std::collections::HashSet;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use mech_process::{How, KeeperProgram, Keepers, Recovered, Report};
use sched_jobs::State;
use sched_jobs::process::Processes;
use sched_slurm::{Left, Remains};
use surface_jobfile::{Incomplete, Job};
use surface_journal::{Detail, Filter, JobRow, Journal, Moved, RunRow, Status};

use super::{command, keepers_dir, kept_plan, marks_dir};
use crate::cluster::cluster;
use crate::exit::Failure;
use crate::view::text::{clean, listed};

/// Limit of interrupted runs that are checked.
const LOOKED_AT: usize = 50;

/// The jobs of an interrupted run that still run.
///
/// # Errors
/// If the journal cannot be read.
pub(crate) fn of(journal: &Journal, run: &RunRow) -> Result<Vec<JobRow>, Failure> {
    if run.status != Status::Interrupted {
        return Ok(Vec::new());
    }
    // Not the jobs that are running according to the journal: a start may not have been recorded before the run was killed.
    let folder = journal.folder(&run.id);
    let Ok(seen) = Keepers::inspect(&keepers_dir(&folder)) else { return Ok(Vec::new()) };
    let mut numbers: HashSet<usize> =
        seen.all_running().filter_map(|token| Some(Processes::attempt_of(token)?.0)).collect();
    numbers.extend(with_slurm(&marks_dir(&folder)).iter().map(|left| left.key.job as usize));
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    Ok(journal.jobs(&run.id)?.into_iter().filter(|job| numbers.contains(&(job.job as usize))).collect())
}

/// Attempts that are with Slurm: they wait there, or run.
fn with_slurm(marks: &Path) -> Vec<Left> {
    let mut left = sched_slurm::left(marks).unwrap_or_default();
    left.retain(|left| matches!(left.what, Remains::Waits | Remains::Began));
    left
}

/// Interrupted runs with jobs that still run, newest first.
///
/// # Errors
/// If the journal cannot be read.
pub(crate) fn all(journal: &Journal) -> Result<Vec<(RunRow, Vec<JobRow>)>, Failure> {
    let interrupted = Filter { status: Some(Status::Interrupted), limit: Some(LOOKED_AT), ..Filter::default() };
    let mut found = Vec::new();
    for run in journal.runs(interrupted)? {
        let jobs = of(journal, &run)?;
        if !jobs.is_empty() {
            found.push((run, jobs));
        }
    }
    Ok(found)
}

/// Their names, for a message.
pub(crate) fn names(jobs: &[JobRow]) -> String {
    const NAMED: usize = 5;
    listed(jobs, NAMED, |job| clean(&job.name))
}

/// The result of ending jobs.
pub(crate) struct Ended {
    /// How many there were.
    pub(crate) count: usize,
    /// What people should know of files.
    pub(crate) warnings: Vec<String>,
}

/// Ends jobs of an interrupted run, all or those of these names, waits until they are gone, and records them as cancelled.
///
/// # Errors
/// If the run is resumed meanwhile, its jobs cannot be reached, or the journal cannot be written.
pub(crate) fn end(journal: &Journal, run: &RunRow, wanted: &[String], now: bool) -> Result<Ended, Failure> {
    let lock = journal.hold(&run.id)?;
    let plan = kept_plan(journal, &run.id)?;
    let dir = keepers_dir(lock.folder());
    let cannot = |error: std::io::Error| Failure::broken(format!("cannot reach the jobs of run {}: {error}", run.id));
    let keepers = Keepers::new(KeeperProgram::this_one(["keep"]), &dir).map_err(cannot)?;
    keepers.hold_ends(); // a resumed run is to learn how they ended
    let is_named = |job: &Job| wanted.is_empty() || wanted.contains(&job.name);
    let job_of = |token: &str| Processes::attempt_of(token).and_then(|(job, _)| plan.jobs.get(job));
    let is_wanted = |token: &str| wanted.is_empty() || job_of(token).is_some_and(is_named);
    let mut orphaned = Keepers::inspect(&dir).map_err(cannot)?.orphaned;
    orphaned.retain(|token| is_wanted(token));
    let (report_end, ends) = mpsc::channel();
    let mut count = 0;
    for one in Keepers::recover_some(&dir, is_wanted).map_err(cannot)? {
        let Recovered::Running(survivor) = one else { continue };
        let job = job_of(survivor.token());
        let grace = job.filter(|_| !now).map_or(Duration::ZERO, |job| command(job, &plan, true).grace);
        let report_end = report_end.clone();
        let listen = Box::new(move |report| {
            if let Report::Ended(end) = report {
                let _ = report_end.send(end); // gone only if we are
            }
        });
        keepers.adopt(survivor, listen).map_err(cannot)?.cancel(grace);
        count += 1;
    }
    drop(report_end);
    let mut with_slurm = with_slurm(&marks_dir(lock.folder()));
    with_slurm.retain(|left| plan.jobs.get(left.key.job as usize).is_some_and(is_named));
    let cancelled_in_slurm = if with_slurm.is_empty() {
        Vec::new()
    } else {
        sched_slurm::cancel_left(&*cluster(&plan)?, &marks_dir(lock.folder()), &with_slurm)
            .map_err(|error| Failure::broken(format!("cannot cancel the jobs of run {} in Slurm: {error}", run.id)))?
    };
    // What ended by itself meanwhile is not cancelled: a resumed run learns how from its keeper.
    let mut cancelled: Vec<String> = orphaned;
    cancelled.extend(ends.iter().take(count).filter(|end| end.how == How::Cancelled).map(|end| end.token));
    let mut ended = Ended { count: cancelled.len() + cancelled_in_slurm.len(), warnings: Vec::new() };
    let writer = journal.writer(&lock)?;
    let attempts = cancelled.into_iter().filter_map(|token| Some((Processes::attempt_of(&token)?, token)));
    let in_slurm = cancelled_in_slurm.iter().map(|key| ((key.job as usize, key.attempt), key.token()));
    for ((number, attempt), token) in attempts.chain(in_slurm) {
        let error = Some("cancelled on request, after its run was interrupted".to_owned());
        let detail = Detail { token: Some(token), error, ..Detail::default() };
        writer.record(Moved::new(number as u32, attempt, State::Cancelled).with(detail));
        if let Some(job) = plan.jobs.get(number).filter(|job| job.incomplete == Incomplete::Remove) {
            let left = command(job, &plan, true).doubtful_outputs();
            ended.warnings.extend(left.into_iter().map(|text| format!("{}: {text}", job.name)));
        }
    }
    writer.flush()?;
    Ok(ended)
}
