//! A new run.
//!
//! Room: driver.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use mech_process::machine;
use sched_jobs::Demand;
use surface_jobfile::{Action, Job, Plan};
use surface_journal::{self as journal, Filter, Journal, NewJob, NewRun, Status};

use crate::view::text::{clean, listed};

use super::execute::{RunJournal, RunSetup};
use super::initial_state::InitialState;
use super::limits::{self, Machine};
use super::options::Options;
use super::plan::{self, Planned};
use super::record::Track;
use super::{dry, execute, learn, slurm, submit};
use crate::exit::{Exit, Failure, say};
use crate::out::print;
use crate::runs::{orphans, unrecorded};

/// Starts a run and waits until it has ended.
pub(crate) fn begin(options: &Options) -> Result<u8, Failure> {
    let planned = Planned::from_options(options)?;
    let plan = &planned.plan;
    let config = settle(plan, &planned.asked);
    let journal = open_journal(options)?;
    let file = planned.file.as_deref();
    let count = plan.jobs.len();
    let estimates = match &journal {
        Some(journal) => learn::estimates(journal, plan, file, !planned.is_single)?,
        None => vec![None; count],
    };
    let reasons = match &journal {
        Some(journal) if !options.force && plan.jobs.iter().any(|job| !job.outputs.is_empty()) => {
            learn::reasons_to_run(plan, &learn::KnownOutputs::of(journal, plan)?)
        }
        _ => vec![Some(String::new()); count],
    };
    let demands: Vec<Demand> = plan
        .jobs
        .iter()
        .zip(&estimates)
        .map(|(job, estimate)| submit::demand(job, estimate.as_ref(), planned.asked.jobs.is_some()))
        .collect();
    check_demands(plan, &demands, &config)?;
    check_flows(plan)?;
    check_programs(plan)?;
    check_cpus(plan)?;
    if options.no_journal && slurm::is_used(plan) {
        let message = "--no-journal keeps what a run leaves in a folder of this machine, which nodes of a cluster do not see; leave it out, or use `--on local`";
        return Err(Failure::usage(message.to_owned()));
    }
    let target = if options.dry_run { None } else { slurm::check(plan)? };
    if options.dry_run {
        print(&dry::text(plan, &demands, &estimates, &reasons, &config))?;
        return Ok(0);
    }
    let initial =
        reasons.iter().map(|reason| if reason.is_some() { InitialState::NEW } else { InitialState::Done }).collect();
    let keep = journal.is_some();
    let starts: HashSet<&str> =
        plan.jobs.iter().zip(&reasons).filter(|(_, why)| why.is_some()).map(|(job, _)| job.name.as_str()).collect();
    // Held until this run is in the journal: if two are started at once, one sees the other.
    let start_lock = file.filter(|_| !options.beside).map(StartLock::take).transpose()?;
    // A run without a journal must not run jobs twice either.
    let recorded = if keep {
        None
    } else {
        Journal::default_dir()
            .ok()
            .filter(|dir| dir.join("journal.db").exists())
            .and_then(|dir| Journal::open_to_read(&dir).ok())
    };
    for journal in journal.iter().chain(&recorded).chain(&unrecorded::all()) {
        if !options.beside {
            refuse_twice(journal, file, &starts)?;
        }
        mention_interrupted(journal, file, options.beside)?;
    }
    let journal = match journal {
        Some(journal) => {
            mention_growth(&journal)?;
            journal
        }
        None => unrecorded::begin()?,
    };
    let lock = journal.begin(NewRun {
        name: plan.name.clone(),
        file: planned.file.clone(),
        plan_json: plan::write(&planned, options.fail_fast, options.keep_incomplete)?,
        jobs: plan.jobs.iter().zip(&demands).map(|(job, demand)| new_job(job, demand, &planned)).collect(),
        ..NewRun::new(plan.name.clone())
    })?;
    drop(start_lock);
    let run_journal = RunJournal { journal, lock, keep };
    execute::execute(RunSetup {
        tracks: vec![Track::new(0, false); count],
        plan: Arc::new(planned.plan),
        is_single: planned.is_single,
        class: planned.class,
        fail_fast: options.fail_fast,
        keep_incomplete: options.keep_incomplete,
        overcommit: options.overcommit,
        target,
        config,
        estimates,
        demands,
        initial,
        run_journal,
        recovered: Vec::new(),
        ran_before: HashMap::new(),
        taken: Vec::new(),
        mode: options.mode(),
    })
}

/// All settings; prints variables of the environment that are not valid.
pub(crate) fn settle(plan: &Plan, asked: &super::options::LimitArgs) -> sched_jobs::Config {
    let wants_card = plan
        .jobs
        .iter()
        .filter(|job| !plan.is_on_slurm(job))
        .any(|job| job.vram_mb.is_some_and(|mb| mb > 0) || job.gpus.is_some_and(|gpus| gpus > 0));
    let environment = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let (mut config, bad) = limits::settle(&Machine::here(wants_card), environment, &plan.resources, asked);
    if slurm::is_used(plan) {
        config.limits.named.push((slurm::WITH_SLURM.to_owned(), slurm::window(plan)));
    }
    bad.iter().for_each(|setting| say!("bursar: {setting}"));
    config
}

/// Refuses jobs that never fit into the hard limits (CPU slots, named resources, graphics cards), before anything starts.
pub(crate) fn check_demands(plan: &Plan, demands: &[Demand], config: &sched_jobs::Config) -> Result<(), Failure> {
    let refused = plan
        .jobs
        .iter()
        .zip(demands)
        .find_map(|(job, demand)| config.limits.check_demand(&job.name, &slurm::counted(plan, job, demand)).err());
    refused.map_or(Ok(()), |error| Err(Failure::new(Exit::BadFile, error.to_string())))
}

/// Refuses CPUs that this machine does not have, before anything starts.
pub(crate) fn check_cpus(plan: &Plan) -> Result<(), Failure> {
    let online = machine::online_cpus();
    let missing = plan.jobs.iter().filter(|job| !plan.is_on_slurm(job)).find_map(|job| {
        let missing = job.cpus.iter().find(|cpu| !online.contains(&(**cpu as usize)))?;
        Some((&job.name, missing))
    });
    let Some((job, cpu)) = missing else { return Ok(()) };
    let has = machine::cpu_list(&online);
    let message = format!(
        "job `{}` is to run on CPU {cpu}, but this machine has CPUs {has}; name some of these in `cpus`, or leave it out",
        clean(job)
    );
    Err(Failure::new(Exit::BadFile, message))
}

/// Refuses flow files that cannot run, before anything starts. A file that another job makes is checked when its job starts.
pub(crate) fn check_flows(plan: &Plan) -> Result<(), Failure> {
    let made: HashSet<PathBuf> = plan.jobs.iter().flat_map(|job| job.output_paths(&plan.base)).collect();
    let mut seen = HashSet::new();
    for file in plan.jobs.iter().filter_map(|job| job.flow_path(&plan.base)) {
        if !made.contains(&file) && seen.insert(file.clone()) {
            crate::flow::valid(&file)?;
        }
    }
    Ok(())
}

/// Refuses Janus programs that do not compile, or do not take their arguments, before anything starts. A file that another job makes is checked when its job starts.
pub(crate) fn check_programs(plan: &Plan) -> Result<(), Failure> {
    let made: HashSet<PathBuf> = plan.jobs.iter().flat_map(|job| job.output_paths(&plan.base)).collect();
    let mut seen = HashSet::new();
    for job in &plan.jobs {
        let Some((file, options)) = job.exec_path(&plan.base) else { continue };
        if !made.contains(&file) && seen.insert((file.clone(), options)) {
            crate::exec::valid(&clean(&job.name), &file, options)?;
        }
    }
    Ok(())
}

fn open_journal(options: &Options) -> Result<Option<Journal>, Failure> {
    if options.no_journal {
        return Ok(None);
    }
    let dir = Journal::default_dir()?;
    if options.dry_run && !dir.exists() {
        return Ok(None); // a dry run creates nothing
    }
    let way_out = |error: journal::JournalError| {
        Failure::broken(format!(
            "{error}; set BURSAR_STATE_DIR to a directory that can be written, or use --no-journal"
        ))
    };
    Journal::open(&dir).map(Some).map_err(way_out)
}

fn new_job(job: &Job, demand: &Demand, planned: &Planned) -> NewJob {
    NewJob {
        name: job.name.clone(),
        // The history of one command is not an estimate for others of the same program.
        group: if planned.is_single { String::new() } else { job.group.clone() },
        command: match &job.action {
            Action::Shell { line, .. } => line.clone(),
            Action::Argv(argv) => argv.join(" "),
            Action::Flow(path) => format!("bursar flow run {path}"),
            Action::Exec { .. } => {
                job.action.argv().into_iter().filter(|word| *word != "--").collect::<Vec<_>>().join(" ")
            }
        },
        fingerprint: job.fingerprint(),
        demand: journal::Demand {
            cpu_slots: demand.cpu_slots,
            ram_mb: demand.ram_mb,
            vram_mb: demand.vram_mb.saturating_mul(demand.gpus.max(1).into()),
            named: job.named.iter().cloned().collect(),
        },
    }
}

/// Every this many runs a hint is printed.
const MANY_RUNS: u64 = 1_000;

/// Runs are kept until they are pruned.
fn mention_growth(journal: &Journal) -> Result<(), Failure> {
    let runs = journal.count()?;
    if runs > 0 && runs.is_multiple_of(MANY_RUNS) {
        let dir = journal.dir().display();
        say!("bursar: {dir} has {runs} runs; `bursar prune --older 30d` removes old ones");
    }
    Ok(())
}

/// The right to start a run of a file.
struct StartLock(#[expect(dead_code, reason = "closing it releases the lock")] fs::File);

impl StartLock {
    /// The lock is on the job file itself: it exists, and it must not be started twice at once.
    fn take(file: &Path) -> Result<StartLock, Failure> {
        let cannot = |error: io::Error| Failure::broken(format!("cannot lock {}: {error}", file.display()));
        let open = fs::File::open(file).map_err(cannot)?;
        open.lock().map_err(cannot)?;
        Ok(StartLock(open))
    }
}

/// While another process runs jobs of this file, they would run twice, and write each other's outputs.
fn refuse_twice(journal: &Journal, file: Option<&Path>, starts: &HashSet<&str>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    for status in [Status::Running, Status::Paused] {
        let runs = journal.runs(Filter { status: Some(status), limit: Some(50), ..Filter::default() })?;
        for run in runs.iter().filter(|run| run.file.as_deref() == Some(file)) {
            let open = journal.jobs(&run.id)?.into_iter().filter(|job| !job.state.is_terminal());
            let twice: Vec<String> = open.map(|job| job.name).filter(|name| starts.contains(name.as_str())).collect();
            if !twice.is_empty() {
                let (id, names) = (&run.id, listed(&twice, 1, |name| clean(name)));
                return Err(Failure::broken(format!(
                    "run {id} of this file is {status} (process {}), and these jobs have not ended: {names}. They would run twice; \
                     `bursar ps` shows it, `bursar cancel {id}` ends it, --beside starts the file anyway",
                    run.pid
                )));
            }
        }
    }
    Ok(())
}

/// A user who starts a file again may have meant to resume it. While jobs of it still run, they would run twice.
fn mention_interrupted(journal: &Journal, file: Option<&Path>, beside: bool) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let runs = journal.runs(Filter { status: Some(Status::Interrupted), limit: Some(50), ..Filter::default() })?;
    for run in runs.iter().filter(|run| !beside && run.file.as_deref() == Some(file)) {
        let jobs = orphans::of(journal, run)?;
        if !jobs.is_empty() {
            let (id, names) = (&run.id, orphans::names(&jobs));
            return Err(Failure::broken(format!(
                "run {id} of this file was interrupted, and its jobs still run: {names}. They would run twice; \
                 `bursar run --resume {id}` continues them, `bursar cancel {id}` ends them, --beside starts the file anyway"
            )));
        }
    }
    if let Some(run) = runs.iter().find(|run| run.file.as_deref() == Some(file)) {
        let (id, done, jobs) = (&run.id, run.counts.succeeded, run.jobs);
        say!(
            "bursar: run {id} of this file was interrupted after {done} of {jobs} jobs; `bursar run --resume {id}` continues it"
        );
    }
    Ok(())
}
