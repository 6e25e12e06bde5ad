//! A job of a plan as the scheduler takes it.
//!
//! Room: surface.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sched_jobs::process::{Command, Processes, Stdin};
use sched_jobs::{Cause, Demand, Job, Outcome, Retry};
use sched_slurm::Slurm;
use surface_jobfile::{self as jobfile, Plan};
use surface_journal::Estimate;

use super::execute::RunSetup;
use super::initial_state::InitialState;
use super::learn;
use super::limits::AT_ONCE;
use super::slurm;
use crate::runs::{command, limits};

/// What a job takes, and whether its memory is an estimate.
pub(crate) fn demand(job: &jobfile::Job, estimate: Option<&Estimate>, counts_jobs: bool) -> Demand {
    let usual = Demand::default();
    let ram_mb = job.ram_mb.or_else(|| estimate.map(learn::ram_mb));
    let mut named = job.named.clone();
    named.extend(counts_jobs.then(|| (AT_ONCE.to_owned(), 1)));
    // No card, no memory on it: a job may override `[defaults]`.
    let vram_mb = if job.gpus == Some(0) { 0 } else { job.vram_mb.unwrap_or(usual.vram_mb) };
    Demand {
        cpu_slots: job.cpu.unwrap_or(usual.cpu_slots),
        ram_mb: ram_mb.unwrap_or(usual.ram_mb),
        vram_mb,
        gpus: job.gpus.unwrap_or(usual.gpus),
        named,
    }
}

/// One command instead of a file: it reads what we read, its two streams stay apart, and its output is copied before its log is cut.
pub(crate) fn single(job: &jobfile::Job, plan: &Plan, keep_incomplete: bool) -> Command {
    let mut command = command(job, plan, keep_incomplete);
    (command.stdin, command.splits_streams, command.log_bytes_max) = (Stdin::Client, true, None);
    command
}

/// All jobs of a run, each in its initial state.
pub(crate) fn jobs<'a>(
    setup: &'a RunSetup,
    was_on: &'a HashMap<String, Vec<String>>,
    processes: &'a Arc<Processes>,
    slurm: Option<&'a Arc<Slurm>>,
) -> impl Iterator<Item = Job> + 'a {
    let RunSetup { plan, initial, demands, estimates, keep_incomplete, is_single, class, .. } = setup;
    let highest = slurm::highest(plan);
    plan.jobs.iter().enumerate().map(move |(at, planned)| {
        let needs = planned.needs.iter().map(|need| plan.jobs[*need].name.as_str());
        let mut job = Job::new(planned.name.as_str()).needs_all(needs).priority(planned.priority);
        job = job.demand(slurm::counted(plan, planned, &demands[at]));
        if let Some(estimate) = &estimates[at] {
            job = job.expected(Duration::from_millis(estimate.wall_ms));
        }
        let usual = Retry::default();
        let backoff = planned.backoff_ms.map_or(usual.backoff, Duration::from_millis);
        let mut retry = Retry { times: planned.retries, backoff, longest: usual.longest.max(backoff) };
        // Jobs that already run go first: they hold their resources, whether these are counted or not.
        const FIRST: i32 = i32::MAX;
        let command = if *is_single { single } else { command };
        let execute = |job: Job| {
            let mut command = command(planned, plan, *keep_incomplete);
            match slurm.filter(|_| plan.is_on_slurm(planned)) {
                Some(slurm) => {
                    let request = slurm::request(planned, highest);
                    job.execute(slurm.clone(), Arc::new(sched_slurm::Job { command, request }))
                }
                None => {
                    command.limits = limits(planned, *class);
                    job.execute(processes.clone(), Arc::new(command))
                }
            }
        };
        match &initial[at] {
            InitialState::Done => return job.already_done(),
            InitialState::Open { attempts, forgiven } => {
                // The scheduler counts the attempts of this process; earlier processes have used up some of them.
                retry.times = retry.times.saturating_sub(attempts.saturating_sub(*forgiven));
                job = execute(job).attempts_made(*attempts);
            }
            InitialState::Found { token, attempt, forgiven, .. } => {
                retry.times = retry.times.saturating_add(*forgiven).saturating_sub(attempt - 1);
                job = execute(job).attempts_made(attempt - 1).found(token).priority(FIRST);
                if let Some(cards) = was_on.get(token) {
                    job = job.was_on(cards);
                }
            }
            InitialState::Failed { why, attempts } => {
                let token = format!("{at}/failed");
                processes.found_ended(&token, Outcome::Failed(Cause::Error(why.clone())));
                retry.times = 0;
                let before = attempts.saturating_sub(1);
                let work = Arc::new(command(planned, plan, *keep_incomplete));
                job = job.execute(processes.clone(), work).attempts_made(before).found(token).priority(FIRST);
            }
        }
        job.retry(retry)
    })
}
