//! A run that is resumed after its process was killed, interrupted or lost with the machine.
//!
//! Room: driver.
//!
//! # Invariant
//! A job that succeeded, according to the journal or a keeper, is not run again; a job that still runs is not started a second time.
//!
//! # Why it holds
//! The lock of the run comes first, so no other process starts anything. Then keepers are asked: each start had a token, and for each token
//! there is a keeper that runs it or a record of its end, unless keeper and tree are gone together. What is found is matched by token,
//! not by what the journal says, which may be some milliseconds behind.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mech_process::{How, Keepers, Recovered};
use sched_jobs::process::{Processes, exit_code, words};
use sched_jobs::{Demand, State};
use sched_slurm::{Left, Remains};
use surface_jobfile::{Job, OnCrash, Plan};
use surface_journal::{Detail, Event as Entry, Filter, JobRow, Journal, Moved, Outputs, RunRow, Status};

use crate::view::text::{clean, typed};

use super::execute::{self, RunJournal, RunSetup};
use super::initial_state::{self, InitialState, KeeperStatus, KnownAttempt};
use super::options::Options;
use super::record::{self, Track};
use super::{begin, learn, plan, slurm, submit};
use crate::exit::{Failure, say};
use crate::runs::{RunResolver, command, keepers_dir, marks_dir, unrecorded};

/// Resumes a run and waits until it has ended.
pub(crate) fn resume(options: &Options, wanted: Option<&str>) -> Result<u8, Failure> {
    let resolver = RunResolver::open()?;
    let row = match wanted {
        Some(text) => resolver.run(text)?,
        None => newest(&resolver, options.retry_failed)?,
    };
    let id = row.id.clone();
    let dir = resolver.journal_of(&id).dir().to_owned();
    let keep = !unrecorded::is_one(&dir);
    drop(resolver);
    let journal = Journal::open(&dir)?; // to write
    match row.status {
        Status::Succeeded => {
            say!("bursar: run {id} has succeeded; there is nothing left to do");
            return Ok(0);
        }
        Status::Failed | Status::Cancelled if !options.retry_failed => {
            let message = format!(
                "run {id} has ended: {} of {} jobs failed, {} were cancelled; `bursar run --resume {id} --retry-failed` retries them",
                row.counts.failed, row.jobs, row.counts.cancelled
            );
            return Err(Failure::broken(message));
        }
        _ => {}
    }
    let reopened = journal.reopen(&id, std::process::id())?;
    let (plan, extra) = plan::read(&reopened.plan_json).map_err(|error| {
        Failure::broken(format!("the plan of run {id} cannot be read: {error}; start its file again with `bursar run`"))
    })?;
    if plan.jobs.len() != reopened.jobs.len() {
        let (planned, kept) = (plan.jobs.len(), reopened.jobs.len());
        return Err(Failure::broken(format!(
            "run {id} has {planned} jobs in its plan and {kept} in the journal; start its file again"
        )));
    }
    let keepers = keepers_dir(reopened.lock.folder());
    let marks = marks_dir(reopened.lock.folder());
    let with_slurm = sched_slurm::left(&marks).map_err(|error| {
        Failure::broken(format!("cannot look for jobs that are with Slurm in {}: {error}", marks.display()))
    })?;
    let target = slurm::reach(&plan)?;
    let recovered = Keepers::recover(&keepers).map_err(|error| {
        Failure::broken(format!("cannot look for jobs that still run in {}: {error}", keepers.display()))
    })?;
    let asked = options.asked.clone().over(extra.asked.clone());
    let found = sort(&plan, &reopened.jobs, recovered, &with_slurm, options.retry_failed);
    let estimates = learn::estimates(&journal, &plan, row.file.as_deref(), !extra.is_single)?;
    let demands: Vec<Demand> = plan
        .jobs
        .iter()
        .zip(&estimates)
        .map(|(job, estimate)| submit::demand(job, estimate.as_ref(), asked.jobs.is_some()))
        .collect();
    let config = begin::settle(&plan, &asked);
    let done = found.initial.iter().filter(|state| **state == InitialState::Done).count();
    let running =
        found.initial.iter().filter(|state| matches!(state, InitialState::Found { ended: false, .. })).count();
    if let Some(file) = row.file.as_deref().filter(|file| is_changed(file, &plan)) {
        let file = file.display().to_string();
        say!(
            "bursar: {} has changed since run {id} began, which continues with its old plan; `bursar run {}` starts the new one",
            clean(&file),
            typed(&clean(&file))
        );
    }
    if !found.lost.is_empty() {
        let names = found.lost.join(", ");
        say!(
            "bursar: it is not known how these jobs ended, since their keeper processes are gone, too; they are started again: {names}"
        );
    }
    if !found.gone.is_empty() {
        say!("bursar: outputs of these jobs are missing, so they are started again: {}", found.gone.join(", "));
    }
    if !options.quiet {
        let total = plan.jobs.len();
        say!("bursar: resuming run {id}: {done} of {total} jobs are done, {running} still run");
    }
    execute::execute(RunSetup {
        plan: Arc::new(plan),
        // Its output went elsewhere before: it is a job like any other now.
        is_single: false,
        class: options.class.or(extra.class),
        fail_fast: options.fail_fast || (extra.fail_fast && !options.keep_going),
        keep_incomplete: options.keep_incomplete || extra.keep_incomplete,
        overcommit: options.overcommit,
        target,
        config,
        estimates,
        demands,
        initial: found.initial,
        tracks: found.tracks,
        run_journal: RunJournal { journal, lock: reopened.lock, keep },
        ran_before: ran_before(&found.recovered),
        recovered: found.recovered,
        taken: found.taken,
        mode: options.mode(),
    })
}

/// Whether a file now describes the jobs of a plan differently. A file that cannot be read does not.
fn is_changed(file: &std::path::Path, plan: &Plan) -> bool {
    let Ok(now) = surface_jobfile::load(file) else { return false };
    let by_name: HashMap<&str, &Job> = now.jobs.iter().map(|job| (job.name.as_str(), job)).collect();
    // A run may be only a part of its file, where a job has another number.
    let needs = |plan: &Plan, job: &Job| -> Vec<String> {
        job.needs.iter().map(|need| plan.jobs[*need].name.clone()).collect()
    };
    plan.jobs.iter().any(|job| {
        by_name.get(job.name.as_str()).is_none_or(|new| {
            let same = Job { needs: job.needs.clone(), ..(*new).clone() } == *job;
            !same || needs(&now, new) != needs(plan, job)
        })
    })
}

/// The run that is meant if none is named.
fn newest(resolver: &RunResolver, retry_failed: bool) -> Result<RunRow, Failure> {
    let runs = resolver.runs(Filter { limit: Some(1_000), ..Filter::default() })?;
    let fits = |status| match status {
        Status::Interrupted => true,
        Status::Failed | Status::Cancelled => retry_failed,
        _ => false,
    };
    runs.into_iter().find(|run| fits(run.status)).ok_or_else(|| {
        let what = if retry_failed { "was interrupted or failed" } else { "was interrupted" };
        Failure::not_found(format!("no run {what}; `bursar runs` lists all"))
    })
}

struct Sorted {
    initial: Vec<InitialState>,
    tracks: Vec<Track>,
    recovered: Vec<Recovered>,
    taken: Vec<Entry>,
    /// Jobs that ran, and whose keepers are gone: they are started again.
    lost: Vec<String>,
    /// Jobs that succeeded, and whose outputs are missing: they are started again.
    gone: Vec<String>,
}

/// Matches the journal with what keepers have.
fn sort(plan: &Plan, rows: &[JobRow], recovered: Vec<Recovered>, with_slurm: &[Left], retry_failed: bool) -> Sorted {
    let mut known = newest_known(&recovered);
    known.extend(known_to_slurm(with_slurm));
    let ends: HashMap<&str, &mech_process::End> = recovered
        .iter()
        .filter_map(|one| match one {
            Recovered::Ended(end) => Some((end.token.as_str(), end)),
            Recovered::Running(_) => None,
        })
        .collect();
    let (mut taken, mut lost) = (Vec::new(), Vec::new());
    let mut states = Vec::with_capacity(rows.len());
    let mut tracks = Vec::with_capacity(rows.len());
    for (at, (row, job)) in rows.iter().zip(&plan.jobs).enumerate() {
        // What never had a permit of Slurm has not begun.
        let is_on_slurm = plan.is_on_slurm(job);
        let fails_if_lost = job.on_crash == OnCrash::Fail && !is_on_slurm;
        let mut state = initial_state::of(row, job.retries, known.get(&at), retry_failed, fails_if_lost);
        let has_run = initial_state::has_run(row);
        let is_lost = known.get(&at).map_or(has_run, |known| known.what == KeeperStatus::Lost);
        if is_lost && !is_on_slurm && matches!(state, InitialState::Open { .. }) {
            lost.push(clean(&job.name).to_string());
        }
        let mut is_recorded = state.is_over();
        if let InitialState::Found { token, attempt, ended: true, .. } = &state
            && let Some(end) = ends.get(token.as_str()).filter(|end| end.how == How::Exit(0))
            && let Ok(made) = command(job, plan, true).made()
        {
            if !made.is_empty() {
                let files = made.iter().map(record::made_file).collect();
                taken.push(Outputs { fingerprint: job.fingerprint(), is_whole: true, inputs: None, files }.into());
            }
            taken.push(Entry::from(Moved::new(at as u32, *attempt, State::Succeeded).with(detail(end))));
            state = InitialState::Done;
            is_recorded = true;
        }
        let attempts = match &state {
            InitialState::Done | InitialState::Failed { .. } => row.attempt,
            InitialState::Open { attempts, .. } => *attempts,
            InitialState::Found { attempt, .. } => attempt - 1,
        };
        // Its start is in the journal, with its true time.
        let is_running = matches!(&state, InitialState::Found { attempt, ended: false, .. } if *attempt == row.attempt);
        let mut track = Track::new(attempts, is_recorded);
        track.is_adopted = is_running && row.state == State::Running;
        tracks.push(track);
        states.push(state);
    }
    let gone = reopen(plan, rows, &mut states, &mut tracks);
    Sorted { initial: states, tracks, recovered, taken, lost, gone }
}

/// Reopens jobs that are done, but whose outputs are missing while a job that needs them is not done. Returns their names.
fn reopen(plan: &Plan, rows: &[JobRow], states: &mut [InitialState], tracks: &mut [Track]) -> Vec<String> {
    let mut dependents = vec![Vec::new(); plan.jobs.len()];
    for (at, job) in plan.jobs.iter().enumerate() {
        job.needs.iter().for_each(|need| dependents[*need].push(at));
    }
    let mut gone = Vec::new();
    // In reverse topological order: a reopened job needs the outputs of those before it.
    for at in plan.order().unwrap_or_default().into_iter().rev() {
        let job = &plan.jobs[at];
        let is_needed = || dependents[at].iter().any(|&other| !states[other].is_over());
        if states[at] == InitialState::Done && is_needed() && command(job, plan, true).made().is_err() {
            gone.push(clean(&job.name).to_string());
            let attempts = rows[at].attempt;
            (states[at], tracks[at]) =
                (InitialState::Open { attempts, forgiven: attempts }, Track::new(attempts, false));
        }
    }
    gone.reverse();
    gone
}

/// For each job, the latest attempt that keepers know.
fn newest_known(recovered: &[Recovered]) -> HashMap<usize, KnownAttempt> {
    let mut known: HashMap<usize, KnownAttempt> = HashMap::new();
    for one in recovered {
        let (token, what) = match one {
            Recovered::Running(survivor) => (survivor.token(), KeeperStatus::Runs),
            Recovered::Ended(end) if end.how == How::Cancelled => (end.token.as_str(), KeeperStatus::Cancelled),
            Recovered::Ended(end) if end.how == How::KeeperLost => (end.token.as_str(), KeeperStatus::Lost),
            Recovered::Ended(end) => (end.token.as_str(), KeeperStatus::Ended),
        };
        let Some((job, attempt)) = Processes::attempt_of(token) else { continue };
        // A later process reuses an attempt number only after the earlier attempt was cancelled.
        let rank =
            |known: &KnownAttempt| (known.attempt, !matches!(known.what, KeeperStatus::Cancelled | KeeperStatus::Lost));
        let new = KnownAttempt { token: token.to_owned(), attempt, what };
        if known.get(&job).is_none_or(|old| rank(old) < rank(&new)) {
            known.insert(job, new);
        }
    }
    known
}

/// For each job that went to Slurm, the latest attempt with marks.
fn known_to_slurm(left: &[Left]) -> HashMap<usize, KnownAttempt> {
    let mut known = HashMap::new();
    // In rising order: of two attempts at a job the later stays.
    for Left { key, what, was_cancelled } in left {
        let what = match what {
            Remains::Waits | Remains::Began => KeeperStatus::Runs,
            Remains::Ended if !was_cancelled => KeeperStatus::Ended,
            Remains::Ended | Remains::Revoked => KeeperStatus::Cancelled,
        };
        known.insert(key.job as usize, KnownAttempt { token: key.token(), attempt: key.attempt, what });
    }
    known
}

/// How long each job that still runs has run.
fn ran_before(recovered: &[Recovered]) -> HashMap<usize, Duration> {
    let running = recovered.iter().filter_map(|one| match one {
        Recovered::Running(survivor) => Some((Processes::attempt_of(survivor.token())?.0, survivor.wall())),
        Recovered::Ended(_) => None,
    });
    running.collect()
}

fn detail(end: &mech_process::End) -> Detail {
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Detail {
        token: Some(end.token.clone()),
        how: Some(words(&end.how)),
        code: Some(exit_code(&end.how)),
        peak_rss_kb: Some(end.peak_rss_kb),
        cpu_ms: Some(ms(end.cpu)),
        wall_ms: Some(ms(end.wall)),
        ..Detail::default()
    }
}
