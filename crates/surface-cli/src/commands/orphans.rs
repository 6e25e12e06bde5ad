//! Jobs that outlived their run: it was killed, and they go on below their keepers.
//!
//! # Invariant
//! Looking at such jobs disturbs no process. Ending them requires the lock of their run, so the run cannot be resumed meanwhile.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Duration;

use mech_process::{KeeperProgram, Keepers, Recovered, Report};
use sched_jobs::process::Processes;
use surface_journal::{Filter, JobRow, Journal, RunRow, Status};

use crate::exit::Failure;
use crate::run::{command_of, keepers_home, planned};

/// Interrupted runs that are looked at.
const LOOKED_AT: usize = 50;

/// The jobs of an interrupted run that still run.
///
/// # Errors
/// If the journal cannot be read.
pub(crate) fn of(journal: &Journal, run: &RunRow) -> Result<Vec<JobRow>, Failure> {
    if run.status != Status::Interrupted {
        return Ok(Vec::new());
    }
    // Not what the journal calls running: it may not have heard of a start before its run was killed.
    let Ok(seen) = Keepers::look(&keepers_home(&journal.folder(&run.id))) else { return Ok(Vec::new()) };
    let numbers: HashSet<usize> =
        seen.running.iter().filter_map(|token| Some(Processes::attempt_of(token)?.0)).collect();
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    Ok(journal.jobs(&run.id)?.into_iter().filter(|job| numbers.contains(&(job.job as usize))).collect())
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
    let mut names: Vec<String> = jobs.iter().take(NAMED).map(|job| crate::view::text::clean(&job.name)).collect();
    if jobs.len() > NAMED {
        names.push(format!("and {} more", jobs.len() - NAMED));
    }
    names.join(", ")
}

/// Ends jobs of an interrupted run, all or those of these names, and waits until they are gone. How many there were.
///
/// # Errors
/// If the run is resumed meanwhile, or its jobs cannot be reached.
pub(crate) fn end(journal: &Journal, run: &RunRow, wanted: &[String], now: bool) -> Result<usize, Failure> {
    let lock = journal.hold(&run.id)?;
    let plan = planned(journal, &run.id)?;
    let home = keepers_home(lock.folder());
    let cannot = |error: std::io::Error| Failure::broken(format!("cannot reach the jobs of run {}: {error}", run.id));
    let keepers = Keepers::new(KeeperProgram::this_one(["keep"]), &home).map_err(cannot)?;
    keepers.hold_ends(); // a resumed run is to learn how they ended
    let (tell, ends) = mpsc::channel();
    let mut count = 0;
    for one in Keepers::recover(&home).map_err(cannot)? {
        let Recovered::Running(survivor) = one else { continue };
        let job = Processes::attempt_of(survivor.token()).and_then(|(job, _)| plan.jobs.get(job));
        if !wanted.is_empty() && job.is_none_or(|job| !wanted.contains(&job.name)) {
            continue;
        }
        let grace = job.filter(|_| !now).map_or(Duration::ZERO, |job| command_of(job, &plan).grace);
        let tell = tell.clone();
        let listen = Box::new(move |report| {
            if let Report::Ended(_) = report {
                let _ = tell.send(()); // gone only if we are
            }
        });
        keepers.adopt(survivor, listen).map_err(cannot)?.cancel(grace);
        count += 1;
    }
    drop(tell);
    ends.iter().take(count).for_each(drop);
    Ok(count)
}
