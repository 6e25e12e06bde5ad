//! The run itself: from a plan and the initial states of its jobs to the exit code.
//!
//! Room: driver.
//!
//! # Invariant
//! When this returns, nothing of the run is running, and everything that happened is on the disk; or the user was told that it is not, and
//! keepers hold the ends that the journal lacks.
//!
//! # Why it holds
//! The end of a run has one order: every job has ended; no thread acts on it any more; the journal is on the disk; only then are keepers told that
//! their ends are known. If the journal cannot be written, they are not: their socket just closes, as if we had been killed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use mech_process::{KeeperProgram, Keepers, Recovered};
use sched_jobs::process::{Class, Processes};
use sched_jobs::{Config, Demand, GpuDriver, Jobs, State, Summary, Waits};
use sched_slurm::Slurm;
use surface_jobfile::Plan;
use surface_journal::{Estimate, Event as Entry, Journal, JournalError, Outcome, RunLock};

use super::frontend::Frontend;
use super::initial_state::InitialState;
use super::record::{Recorder, Track};
use super::signal_handler::{self, Notice, SignalHandler, StopState};
use super::{cards, follow, share, slurm, submit};
use crate::exit::{Exit, Failure, say};
use crate::out::now_ms;
use crate::runs::{keepers_dir, log_bytes_max, marks_dir, unrecorded};
use crate::signals;
use crate::streams::{stderr, stdout};
use crate::view::run::{Ended, RunInfo};
use crate::view::text::clean;
use crate::view::{Mode, log_path};

/// The journal of a run.
pub(crate) struct RunJournal {
    /// Where it is recorded.
    pub(crate) journal: Journal,
    /// The right to write it.
    pub(crate) lock: RunLock,
    /// Whether the journal stays after a success; else it is this run's alone.
    pub(crate) keep: bool,
}

/// How often the use of graphics cards is measured: often enough for jobs that are worth a card, and cheap.
const VRAM_INTERVAL: Duration = Duration::from_millis(500);

/// How long the end of a run may take without a word.
const CLOSE_QUIET: Duration = Duration::from_secs(1);

/// Everything that is decided before a run starts.
pub(crate) struct RunSetup {
    pub(crate) plan: Arc<Plan>,
    pub(crate) is_single: bool,
    /// The class of jobs that do not say their own.
    pub(crate) class: Option<Class>,
    pub(crate) fail_fast: bool,
    pub(crate) keep_incomplete: bool,
    pub(crate) overcommit: bool,
    /// How jobs go to Slurm, if any does.
    pub(crate) target: Option<slurm::Target>,
    pub(crate) config: Config,
    pub(crate) estimates: Vec<Option<Estimate>>,
    pub(crate) demands: Vec<Demand>,
    pub(crate) initial: Vec<InitialState>,
    pub(crate) tracks: Vec<Track>,
    pub(crate) run_journal: RunJournal,
    /// Jobs that keepers of an earlier process have.
    pub(crate) recovered: Vec<Recovered>,
    /// How long jobs that still run have run, by index.
    pub(crate) ran_before: HashMap<usize, Duration>,
    /// Successes that only keepers knew of, for the journal.
    pub(crate) taken: Vec<Entry>,
    pub(crate) mode: Mode,
}

/// Runs it, and returns the exit code.
pub(crate) fn execute(mut setup: RunSetup) -> Result<u8, Failure> {
    let (recovered, taken) = (std::mem::take(&mut setup.recovered), std::mem::take(&mut setup.taken));
    let RunSetup { plan, run_journal, .. } = &setup;
    let folder = run_journal.lock.folder().to_owned();
    let (notices, inbox) = mpsc::channel();
    let writer = run_journal.journal.writer_with(&run_journal.lock, writing())?;
    for entry in taken {
        writer.record(entry);
    }
    let recorder = Arc::new(Recorder::new(writer, setup.tracks.clone(), plan, setup.class, notices.clone()));
    let processes = processes(&folder, &recorder)?;
    let slurm = match setup.target.take() {
        Some(target) => {
            let pause_timeout = setup.config.pause_timeout.max(slurm::PAUSE_TIMEOUT);
            setup.config.pause_timeout = pause_timeout;
            let id = setup.run_journal.lock.id().as_str();
            Some(slurm::open(target, id, &folder, pause_timeout, &recorder)?)
        }
        None => None,
    };
    let RunSetup { plan, config, run_journal, .. } = &setup;
    let ends = recovered_ends(&recovered);
    let was_on = if config.limits.gpus.is_empty() { HashMap::new() } else { cards_of(&recovered) };
    take_over(&processes, recovered, &setup.initial);
    let observer = Arc::clone(&recorder);
    let builder = Jobs::builder().config(config.clone()).observe(move |event, facts| observer.on_event(event, facts));
    let watch = (!config.limits.gpus.is_empty()).then(|| processes.watch_vram(VRAM_INTERVAL)).transpose();
    let watch = watch.map_err(cannot("start a thread"))?;
    let (builder, notifier) =
        share::join(builder, config, &setup.demands, &processes, &keepers_dir(&folder), setup.overcommit);
    let jobs = builder.build();
    let listener = share::listen(notifier, &jobs);

    // One command has the terminal for itself.
    let mut frontend = Frontend::open(&jobs, (!setup.is_single).then(|| run_info(&setup, &folder)));
    frontend.serve(&folder, run_journal.lock.id().as_str(), &jobs, &processes, slurm.as_ref(), &recorder);
    let stop_state = Arc::new(StopState::default());
    let signals = signal_handler::listen_for_signals(notices.clone()).map_err(cannot("listen for signals"))?;
    let handler = SignalHandler {
        run: setup.run_journal.lock.id().to_string(),
        jobs: jobs.clone(),
        processes: Arc::clone(&processes),
        slurm: slurm.clone(),
        recorder: Arc::clone(&recorder),
        stop_state: Arc::clone(&stop_state),
        fail_fast: setup.fail_fast,
        say: frontend.say_fn(),
    };
    let handler_thread = signal_handler::start(handler, inbox).map_err(cannot("start a thread"))?;
    let followers = if setup.is_single && !setup.initial[0].is_over() {
        let log = log_path(&folder.join("logs"), 0, 1);
        let err = log.with_extension("err");
        let most = log_bytes_max(&plan.jobs[0]).unwrap_or(u64::MAX);
        let notices = notices.clone();
        let closed = move || drop(notices.send(Notice::OutputClosed)); // fails only after the end of the run
        let started = follow::follow(&log, most, stdout(), closed)
            .and_then(|out| Ok([out, follow::follow(&err, most, stderr(), || ())?]));
        Some((log, started.map_err(cannot("read the log"))?))
    } else {
        None
    };

    let submitted = jobs.submit_all(submit::jobs(&setup, &was_on, &processes, slurm.as_ref()));
    let summary = match &submitted {
        Ok(_) => Some(wait(&jobs, setup.is_single)),
        Err(_) => None,
    };

    drop(listener);
    drop(watch);
    let passed_on = followers.map(|(log, streams)| (log, streams.map(follow::LogFollower::finish)));
    let _ = notices.send(Notice::Over); // the handler runs until it gets this
    let _ = handler_thread.join();
    signals.close();
    let is_all_well = summary.is_some_and(|summary| summary.failed + summary.cancelled == 0);
    let signal = stop_state.signal.get().filter(|_| !is_all_well);
    let unwritten = frontend.close(match (signal, is_all_well) {
        (Some(_), _) => Ended::Interrupted { late: recorder.late_count() },
        (None, true) => Ended::Succeeded,
        (None, false) => Ended::Failed,
    });
    let outcome = match summary {
        _ if signal.is_some() => None, // to be resumed
        Some(summary) => Some(outcome(summary)),
        None => Some(Outcome::Failed),
    };
    let broken = stop_state.take_broken().or(recorder.finish(outcome).err());
    for warning in recorder.take_warnings() {
        say!("bursar: {warning}");
    }
    close(jobs, processes, &folder, &ends, broken.as_ref());
    close_slurm(slurm);
    if broken.is_none() {
        // Nothing of the run runs, and every end is on the disk. A script that Slurm starts now finds no permit.
        let _ = fs::remove_dir_all(marks_dir(&folder));
    }
    if let Err(error) = submitted {
        return Err(Failure::new(Exit::BadFile, error.to_string()));
    }
    if let Some(error) = broken {
        let run = run_journal.lock.id();
        let message =
            format!("not everything is recorded: {error}; fix that, then `bursar run --resume {run}` continues");
        return Err(Failure::broken(message));
    }
    let (command, words) = recorder.last().filter(|_| setup.is_single).unzip();
    if let Some(words) = words.flatten() {
        say!("bursar: {} {}", clean(&plan.name), clean(&words));
    }
    if let Some((log, [Err(error), _])) = passed_on.filter(|_| is_all_well) {
        return Err(Failure::broken(format!(
            "{} succeeded, but not all that it printed could be written to standard output: {error}; {} has it",
            clean(&plan.name),
            log.display()
        )));
    }
    if let Some(error) = unwritten.filter(|_| is_all_well) {
        let message = format!("all jobs succeeded, but not all events could be written to standard output: {error}");
        return Err(Failure::broken(message));
    }
    if !run_journal.keep && is_all_well {
        unrecorded::forget(setup.run_journal.journal);
    }
    let signal = signal.or(stop_state.output_closed().filter(|_| !is_all_well));
    Ok(code(signal, is_all_well, command))
}

/// Keepers hold every end until it is on the disk, so a kill loses nothing that is in memory: many events may share a commit.
fn writing() -> surface_journal::Options {
    let mut options = surface_journal::Options::default();
    options.linger = Duration::from_millis(25);
    options.sync_events = 4_096;
    options
}

fn run_info(setup: &RunSetup, folder: &Path) -> RunInfo {
    let expected = setup.estimates.iter().map(|known| known.map(|known| Duration::from_millis(known.wall_ms)));
    RunInfo {
        plan: Arc::clone(&setup.plan),
        run: setup.run_journal.lock.id().to_string(),
        keeps: setup.run_journal.keep,
        limits: setup.config.limits.clone(),
        expected: expected.collect(),
        ran_before: setup.ran_before.clone(),
        logs: Some(folder.join("logs")),
        mode: setup.mode,
    }
}

fn code(signal: Option<i32>, is_all_well: bool, command: Option<i32>) -> u8 {
    match (signal, is_all_well, command) {
        (Some(signal), ..) => signals::code(signal),
        (_, true, _) => 0,
        (_, false, Some(code)) => u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1),
        (_, false, None) => Exit::Failed as u8,
    }
}

fn outcome(summary: Summary) -> Outcome {
    match summary {
        Summary { failed: 0, cancelled: 0, .. } => Outcome::Succeeded,
        Summary { failed: 0, .. } => Outcome::Cancelled,
        _ => Outcome::Failed,
    }
}

fn cannot(what: &'static str) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::broken(format!("cannot {what}: {error}"))
}

fn processes(folder: &Path, recorder: &Arc<Recorder>) -> Result<Arc<Processes>, Failure> {
    let keepers =
        Keepers::new(KeeperProgram::this_one(["keep"]), &keepers_dir(folder)).map_err(cannot("start keepers"))?;
    let life = format!("{:x}-{:x}", now_ms(), std::process::id());
    let (logs, news_recorder) = (folder.join("logs"), Arc::clone(recorder));
    let processes = Processes::new(
        keepers,
        life,
        Box::new(move |attempt| log_path(&logs, attempt.job.index(), attempt.attempt)),
        Box::new(move |attempt, news| news_recorder.on_news(attempt, news)),
    );
    recorder.watch(Arc::downgrade(&processes));
    Ok(processes)
}

fn recovered_ends(recovered: &[Recovered]) -> Vec<String> {
    let tokens = recovered.iter().filter_map(|one| match one {
        Recovered::Ended(end) => Some(end.token.clone()),
        Recovered::Running(_) => None,
    });
    tokens.collect()
}

/// The graphics cards of each command that still runs, by its token. It cannot change to others, so it must get these again.
fn cards_of(recovered: &[Recovered]) -> HashMap<String, Vec<String>> {
    let running = recovered.iter().filter_map(|one| match one {
        Recovered::Running(survivor) => Some(survivor),
        Recovered::Ended(_) => None,
    });
    let variables = [GpuDriver::Cuda, GpuDriver::Rocm].map(GpuDriver::variable);
    let cards = running.map(|survivor| {
        let ids = variables
            .iter()
            .filter_map(|name| survivor.variable(name))
            .flat_map(|value| cards::ids(&value).collect::<Vec<_>>());
        (survivor.token().to_owned(), ids.collect())
    });
    cards.collect()
}

/// Hands over jobs that continue; jobs that run and do not belong to the run any more are ended.
fn take_over(processes: &Processes, recovered: Vec<Recovered>, initial: &[InitialState]) {
    let wanted: HashSet<&str> = initial
        .iter()
        .filter_map(|initial| match initial {
            InitialState::Found { token, .. } => Some(token.as_str()),
            _ => None,
        })
        .collect();
    for one in recovered {
        match one {
            Recovered::Running(survivor) if !wanted.contains(survivor.token()) => processes.end_survivor(survivor),
            one => processes.found([one]),
        }
    }
}

/// Waits for the end. With one command, the user learns why it does not start.
fn wait(jobs: &Jobs, is_single: bool) -> Summary {
    let summary = |ended: Result<Summary, sched_jobs::RunFailed>| ended.unwrap_or_else(|failed| failed.summary);
    if is_single {
        if let Some(ended) = jobs.wait_timeout(Duration::from_secs(1)) {
            return summary(ended);
        }
        for job in jobs.statuses().iter().filter(|job| job.state == State::Ready) {
            if let Ok(why) = jobs.why(job.id)
                && matches!(why.waits, Waits::Room { .. })
            {
                say!("bursar: {why}");
            }
        }
    }
    summary(jobs.wait())
}

/// Drops the executor of Slurm, which may be making a call. If that takes long, a person is told.
fn close_slurm(slurm: Option<Arc<Slurm>>) {
    let Some(slurm) = slurm else { return };
    let (closed, is_closed) = mpsc::channel::<()>();
    let waits = std::thread::Builder::new().name("bursar-close".to_owned()).spawn(move || {
        if is_closed.recv_timeout(CLOSE_QUIET) == Err(mpsc::RecvTimeoutError::Timeout) {
            say!(
                "bursar: the run is recorded; waiting until Slurm answers a call or that is given up, 20 s at most. Jobs that did not begin may stay in its queue, where they do nothing"
            );
        }
    });
    drop(slurm);
    drop(closed);
    let _ = waits.map(std::thread::JoinHandle::join); // it only prints
}

/// Drops everything, in the one right order.
fn close(jobs: Jobs, processes: Arc<Processes>, folder: &Path, ends: &[String], broken: Option<&JournalError>) {
    drop(jobs);
    if broken.is_some() {
        // Not dropped: otherwise its keepers would end, and they hold what the journal does not have.
        std::mem::forget(processes);
        return;
    }
    drop(processes);
    let dir = keepers_dir(folder);
    let _ = Keepers::forget(&dir, ends.iter().map(String::as_str)); // if it fails, they are read once more
    let _ = fs::remove_dir(dir); // unless something is in it
}
