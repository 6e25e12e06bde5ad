//! The current states of the jobs of an interrupted run: from the journal, and from what their keepers recorded later.
//!
//! Room: driver.
//!
//! It only reads: a resumed run comes to the same result, and writes it down.
//!
//! # Invariant
//! No job of an interrupted run is shown as running unless a process of it runs.

use std::collections::HashMap;
use std::time::Duration;

use mech_process::{End, How, Keepers, Snapshot};
use sched_jobs::State;
use sched_jobs::process::{Processes, exit_code, words};
use sched_slurm::key::Key;
use sched_slurm::{Left, Remains};
use surface_jobfile::Plan;
use surface_journal::{Counts, JobRow, Journal, RunRow, Status};

use super::{command, keepers_dir, kept_plan, marks_dir};
use crate::exit::Failure;

/// The error of a job that is lost together with its keeper.
const LOST: &str = "it is not known how it ended, since its keeper process is gone, too";

/// What a keeper knows of an attempt.
#[derive(Clone, Copy)]
enum AttemptStatus<'a> {
    Runs,
    Ended(&'a End),
    Lost,
}

/// A run and its jobs in their current states.
///
/// # Errors
/// If the journal cannot be read.
pub(crate) fn of(journal: &Journal, mut run: RunRow) -> Result<(RunRow, Vec<JobRow>), Failure> {
    let mut rows = journal.jobs(&run.id)?;
    if let Some(seen) = seen(journal, &run) {
        let with_slurm = with_slurm(journal, &run);
        let mut known = newest(&seen);
        for (key, end) in &with_slurm {
            let what = end.as_ref().map_or(AttemptStatus::Runs, AttemptStatus::Ended);
            known.insert(key.job as usize, (key.attempt, what));
        }
        // Only jobs that succeeded are checked for their outputs.
        let in_slurm = with_slurm.iter().filter_map(|(_, end)| end.as_ref());
        let has_ended_well = seen.ended.iter().chain(in_slurm).any(|end| end.how == How::Exit(0));
        let plan = if has_ended_well { kept_plan(journal, &run.id).ok() } else { None };
        for row in &mut rows {
            let known = known.get(&(row.job as usize)).copied();
            // A live keeper may not have been able to record that it started something.
            let known = known.or((seen.alive == 0).then_some((row.attempt, AttemptStatus::Lost)));
            if let Some((attempt, known)) = known {
                update_row(row, attempt, known, plan.as_ref());
            }
        }
        run.counts = Counts::count(rows.iter().map(|row| row.state));
    }
    Ok((run, rows))
}

/// A run with its current counts.
///
/// # Errors
/// If the journal cannot be read.
pub(crate) fn of_run(journal: &Journal, run: RunRow) -> Result<RunRow, Failure> {
    // Its jobs need not be read if no keeper knows more than the journal.
    let is_as_written = |seen: &Snapshot| {
        let known = seen.ended.len() + seen.running.len() + seen.orphaned.len() + seen.lost.len();
        known == 0 && run.counts.running + run.counts.paused == 0
    };
    match seen(journal, &run) {
        Some(seen) if !is_as_written(&seen) => Ok(of(journal, run)?.0),
        _ => Ok(run),
    }
}

/// What keepers left of an interrupted run.
fn seen(journal: &Journal, run: &RunRow) -> Option<Snapshot> {
    let is_interrupted = run.status == Status::Interrupted;
    is_interrupted.then(|| Keepers::inspect(&keepers_dir(&journal.folder(&run.id))).ok()).flatten()
}

/// What scripts left that Slurm started for an interrupted run: each attempt, and its end if it has ended.
fn with_slurm(journal: &Journal, run: &RunRow) -> Vec<(Key, Option<End>)> {
    let marks = marks_dir(&journal.folder(&run.id));
    let left = sched_slurm::left(&marks).unwrap_or_default();
    if left.is_empty() {
        return Vec::new();
    }
    let plan = kept_plan(journal, &run.id).ok();
    let limit = |key: Key| Some(Duration::from_millis(plan.as_ref()?.jobs.get(key.job as usize)?.timeout_ms?));
    let kept = left.into_iter().filter(|left| left.what != Remains::Revoked);
    kept.map(|Left { key, was_cancelled, .. }| {
        let mark = sched_slurm::read_end(&marks, key);
        (key, mark.map(|mark| sched_slurm::ends::measured(key, &mark, limit(key), was_cancelled)))
    })
    .collect()
}

/// Of each job, the latest attempt that a keeper knows.
fn newest(seen: &Snapshot) -> HashMap<usize, (u32, AttemptStatus<'_>)> {
    let ended = seen.ended.iter().map(|end| (end.token.as_str(), AttemptStatus::Ended(end)));
    let running = seen.all_running().map(|token| (token, AttemptStatus::Runs));
    let lost = seen.lost.iter().map(|token| (token.as_str(), AttemptStatus::Lost));
    let mut newest: HashMap<usize, (u32, AttemptStatus<'_>)> = HashMap::new();
    for (token, known) in lost.chain(running).chain(ended) {
        let Some((job, attempt)) = Processes::attempt_of(token) else { continue };
        // A later process reuses an attempt number only after the earlier attempt was lost or cancelled.
        let is_open = |known: &AttemptStatus<'_>| {
            matches!(
                known,
                AttemptStatus::Lost | AttemptStatus::Ended(End { how: How::Cancelled | How::KeeperLost, .. })
            )
        };
        let rank = |(attempt, known): &(u32, AttemptStatus<'_>)| (*attempt, !is_open(known));
        let new = (attempt, known);
        if newest.get(&job).is_none_or(|old| rank(old) <= rank(&new)) {
            newest.insert(job, new);
        }
    }
    newest
}

/// Updates a row with what a keeper knows, if that is more than the journal knows.
fn update_row(row: &mut JobRow, attempt: u32, known: AttemptStatus<'_>, plan: Option<&Plan>) {
    let has_begun = matches!(row.state, State::Running | State::Paused);
    let knows_more = attempt > row.attempt || (attempt == row.attempt && !row.state.is_terminal());
    if !knows_more || (matches!(known, AttemptStatus::Lost) && attempt == row.attempt && !has_begun) {
        return;
    }
    row.attempt = attempt;
    let end = match known {
        AttemptStatus::Runs => return row.state = State::Running,
        AttemptStatus::Ended(end) if !matches!(end.how, How::Cancelled | How::KeeperLost) => end,
        // A resumed run retries it, unless the job says otherwise.
        AttemptStatus::Ended(End { how: How::Cancelled, .. }) => {
            (row.state, row.attempt) = (State::Queued, attempt + 1);
            return;
        }
        AttemptStatus::Ended(_) | AttemptStatus::Lost => {
            (row.state, row.attempt) = (State::Queued, attempt + 1);
            return row.detail.error = Some(LOST.to_owned());
        }
    };
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).ok();
    let detail = &mut row.detail;
    (detail.how, detail.code) = (Some(words(&end.how)), Some(exit_code(&end.how)));
    let peak_rss_kb = Some(end.peak_rss_kb).filter(|peak| *peak > 0); // on a cluster nothing measures it
    (detail.wall_ms, detail.cpu_ms, detail.peak_rss_kb) = (ms(end.wall), ms(end.cpu), peak_rss_kb);
    let job = plan.and_then(|plan| Some((plan.jobs.get(row.job as usize)?, plan)));
    let missing =
        job.and_then(|(job, plan)| command(job, plan, true).made().err().map(|path| path.display().to_string()));
    row.state = match (&end.how, missing) {
        (How::Exit(0), None) => State::Succeeded,
        (How::Exit(0), Some(path)) => {
            detail.error = Some(format!("exited with 0, but did not make its output {path}"));
            State::Failed
        }
        _ => State::Failed,
    };
}
