//! Every event of a run is written into the journal, once.
//!
//! Room: driver.
//!
//! # Invariants
//! - No end is lost: a keeper keeps the end of its command until the journal has it on the disk.
//! - A job that succeeded is never recorded as anything else, and a job that Ctrl-C ended is recorded as not done.
//!
//! # Why they hold
//! Each end arrives once, with what the command used, in [`Recorder::on_event`], under the scheduler's lock. What `on_event` records gets a number; the keeper's copy is dropped when the
//! journal reports that this number is on the disk. A job that succeeds while it is being cancelled had
//! ended before the request reached it: its effect exists, so the success is recorded.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mech_process::How;
use sched_jobs::process::{Class, CommandEnd, InForce, Made, News, Processes, Stamp, exit_code, words};
use sched_jobs::{AttemptId, Cause, Event, Facts, Followed, Outcome as JobOutcome, State, What};
use sched_slurm::{Slurm, SlurmId};
use surface_journal::{Detail, Event as Entry, FileStamp, JournalError, Moved, Outcome, Outputs, Writer};

use super::signal_handler::Notice;
use crate::runs::limits;

/// Writes what happens to the jobs of one run.
pub(crate) struct Recorder {
    inner: Mutex<Inner>,
    processes: OnceLock<Weak<Processes>>,
    slurm: OnceLock<Weak<Slurm>>,
    notices: Sender<Notice>,
    interrupted: AtomicBool,
    names: Vec<String>,
    plan: Arc<surface_jobfile::Plan>,
    /// The class of jobs that do not say their own.
    class: Option<Class>,
    /// For jobs that declare outputs: the command's fingerprint, and the files.
    declared: HashMap<usize, (u64, Vec<PathBuf>)>,
}

struct Inner {
    writer: Option<Writer>,
    tracks: Vec<Track>,
    /// Tokens whose ends are in the journal under that number, perhaps not on the disk.
    unsettled: VecDeque<(u64, String)>,
    warnings: Vec<String>,
    last: Option<(i32, Option<String>)>,
    /// Jobs that were interrupted, and succeeded.
    late_count: u32,
}

/// How a command ended, for the journal.
struct Ended {
    token: String,
    detail: Detail,
    code: i32,
    made: Vec<(PathBuf, Option<FileStamp>)>,
}

/// A file that a job made, for the journal.
pub(crate) fn made_file(made: &Made) -> (PathBuf, Option<FileStamp>) {
    let stamp = made.stamp.map(|Stamp { size, changed_ns }| FileStamp { size, changed_ns });
    (made.path.clone(), stamp)
}

/// The state of a job, as the journal knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Track {
    pub(crate) job: Followed,
    /// The journal knows its end from an earlier process of the run; nothing is recorded unless it is retried.
    pub(crate) is_recorded: bool,
    /// The journal knows from an earlier process of the run that it runs: its start is not recorded again.
    pub(crate) is_adopted: bool,
    ready_at_us: u64,
    pid: Option<u32>,
}

impl Track {
    /// A job that is as the journal has it.
    pub(crate) fn new(attempt: u32, is_recorded: bool) -> Track {
        Track { job: Followed::after(attempt), is_recorded, is_adopted: false, ready_at_us: 0, pid: None }
    }
}

impl Recorder {
    /// Writes with `writer`, for jobs in the states of `tracks`.
    pub(crate) fn new(
        writer: Writer,
        tracks: Vec<Track>,
        plan: &Arc<surface_jobfile::Plan>,
        class: Option<Class>,
        notices: Sender<Notice>,
    ) -> Recorder {
        let broken = notices.clone();
        // At once: the next end, which would also show it, may be hours away, or never come.
        writer.on_error(move |error| drop(broken.send(Notice::JournalBroken(error)))); // fails only after the end of the run
        let inner = Inner {
            writer: Some(writer),
            tracks,
            unsettled: VecDeque::new(),
            warnings: Vec::new(),
            last: None,
            late_count: 0,
        };
        Recorder {
            inner: Mutex::new(inner),
            processes: OnceLock::new(),
            slurm: OnceLock::new(),
            notices,
            interrupted: AtomicBool::new(false),
            class,
            plan: Arc::clone(plan),
            names: plan.jobs.iter().map(|job| job.name.clone()).collect(),
            declared: plan
                .jobs
                .iter()
                .enumerate()
                .filter(|(_, job)| !job.outputs.is_empty())
                .map(|(at, job)| (at, (job.fingerprint(), job.output_paths(&plan.base))))
                .collect(),
        }
    }

    /// Sets the processes whose ends are to be settled.
    pub(crate) fn watch(&self, processes: Weak<Processes>) {
        let _ = self.processes.set(processes); // set once
    }

    /// Sets the executor of Slurm, whose ends are to be settled, too.
    pub(crate) fn watch_slurm(&self, slurm: Weak<Slurm>) {
        let _ = self.slurm.set(slurm); // set once
    }

    /// These ends are on the disk.
    fn settle<'a>(&self, tokens: impl Iterator<Item = &'a String>) {
        let processes = self.processes.get().and_then(Weak::upgrade);
        let slurm = self.slurm.get().and_then(Weak::upgrade);
        for token in tokens {
            processes.iter().for_each(|processes| processes.settle(token));
            slurm.iter().for_each(|slurm| slurm.settle(token));
        }
    }

    /// The token of an attempt that starts now.
    fn token(&self, attempt: AttemptId) -> Option<String> {
        let is_on_slurm = self.plan.jobs.get(attempt.job.index()).is_some_and(|job| self.plan.is_on_slurm(job));
        if is_on_slurm {
            return Some(self.slurm.get()?.upgrade()?.token(attempt));
        }
        Some(self.processes.get()?.upgrade()?.token(attempt))
    }

    /// The command of a job has begun on a node of a cluster.
    pub(crate) fn on_placed(&self, attempt: AttemptId, node: &str, id: SlurmId) {
        if let Some(writer) = &self.inner().writer {
            let words = format!("on node {node}, as Slurm job {id}");
            writer.record(Entry::InForce { job: attempt.job.index() as u32, words });
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a cancelled job counts as interrupted: it is not done, and a resumed run runs it.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
    }

    /// The whole run was paused, or resumed.
    pub(crate) fn run_paused(&self, paused: bool) {
        if let Some(writer) = &self.inner().writer {
            writer.record(Entry::RunPaused(paused));
        }
    }

    /// The exit code of the last command that ended, as a shell would give it; and a message, if it did not just exit.
    pub(crate) fn last(&self) -> Option<(i32, Option<String>)> {
        self.inner().last.clone()
    }

    /// How many jobs succeeded after they were asked to end, because the run was interrupted.
    pub(crate) fn late_count(&self) -> u32 {
        self.inner().late_count
    }

    /// Warnings of keepers for people.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().warnings)
    }

    /// What is in force for a job, in words, beside what was asked for.
    pub(crate) fn in_force_words(&self, job: usize, in_force: &InForce) -> Option<String> {
        in_force.words(&limits(self.plan.jobs.get(job)?, self.class))
    }

    /// Handles news of a command other than its end.
    pub(crate) fn on_news(&self, attempt: AttemptId, news: News<'_>) {
        let job = attempt.job.index();
        let settled = {
            let mut inner = self.inner();
            match news {
                News::Began { pid } => {
                    inner.tracks[job].pid = u32::try_from(pid).ok();
                    return;
                }
                News::InForce(in_force) => {
                    if let (Some(words), Some(writer)) = (self.in_force_words(job, in_force), &inner.writer) {
                        writer.record(Entry::InForce { job: job as u32, words });
                    }
                    return;
                }
                News::Warning(text) => {
                    let text = format!("{}: {text}", self.names[job]);
                    inner.warnings.push(text);
                    return;
                }
                _ => {} // `News::Ended`: it was seen
            }
            inner.settled()
        };
        self.settle(settled.iter());
    }

    /// Records an event of the scheduler, under its lock.
    pub(crate) fn on_event(&self, event: &Event, facts: Facts<'_>) {
        let job = event.job.index();
        let mut inner = self.inner();
        let ended = facts.measured::<CommandEnd>(event.job).map(|end| inner.end_of(job, end));
        let track = &mut inner.tracks[job];
        let has_run = track.job.has_begun();
        track.job.take(event.what);
        let at_us = u64::try_from(event.at().as_micros()).unwrap_or(u64::MAX);
        match event.what {
            What::Ready => {
                track.ready_at_us = at_us;
                if track.is_adopted {
                    return;
                }
                let next = track.job.attempt + 1;
                inner.write(job, Moved::new(job as u32, next, State::Ready));
            }
            What::Started { attempt } => {
                let waited_ms = at_us.saturating_sub(track.ready_at_us) / 1_000;
                if std::mem::take(&mut track.is_adopted) {
                    return;
                }
                let token = self.token(AttemptId { job: event.job, attempt });
                let detail = Detail { token, waited_ms: Some(waited_ms), ..Detail::default() };
                self.mark(&inner, job, None);
                inner.write(job, Moved::new(job as u32, attempt, State::Running).with(detail));
            }
            What::Progress(done) => {
                let progress = Entry::Progressed { job: job as u32, fraction: f64::from(done) };
                inner.writer.as_ref().map(|writer| writer.record(progress));
            }
            What::Paused => {
                let attempt = track.shown_attempt();
                inner.write(job, Moved::new(job as u32, attempt, State::Paused));
            }
            What::Resumed => {
                let (attempt, state) = (track.shown_attempt(), track.job.state);
                inner.write(job, Moved::new(job as u32, attempt, state));
            }
            What::Retrying { attempt, .. } => {
                // If no command has ended, only the scheduler knows why.
                let cause = facts.cause(event.job).filter(|_| ended.is_none()).map(ToString::to_string);
                inner.end(job, attempt, State::Failed, ended, cause);
                inner.write(job, Moved::new(job as u32, attempt + 1, State::Queued));
            }
            What::Revived => {
                track.is_recorded = false;
                let next = track.job.attempt + 1;
                inner.write(job, Moved::new(job as u32, next, State::Queued));
            }
            What::Succeeded => self.ended(&mut inner, job, has_run, ended, None),
            What::Failed => {
                let cause = facts.cause(event.job).map(ToString::to_string);
                self.ended(&mut inner, job, has_run, ended, cause);
                if !inner.tracks[job].is_recorded {
                    let _ = self.notices.send(Notice::Failed); // fails only after the end of the run
                }
            }
            What::Cancelled => {
                let cause = facts.cause(event.job).map(ToString::to_string);
                self.ended(&mut inner, job, has_run, ended, cause);
            }
            _ => {}
        }
    }

    /// Marks the outputs of a job as complete, or as incomplete.
    fn mark(&self, inner: &Inner, job: usize, made: Option<Vec<(PathBuf, Option<FileStamp>)>>) {
        if let (Some((fingerprint, paths)), Some(writer)) = (self.declared.get(&job), &inner.writer) {
            let is_whole = made.is_some();
            // Before it starts: a file that changes while the job runs counts as changed, whatever the job read of it.
            let inputs = (!is_whole).then(|| self.plan.sources_hash(job));
            let files = made.unwrap_or_else(|| paths.iter().map(|path| (path.clone(), None)).collect());
            writer.record(Outputs { fingerprint: *fingerprint, is_whole, inputs, files });
        }
    }

    /// A job has ended; `cause` is why it was cancelled, or could not be started.
    fn ended(&self, inner: &mut Inner, job: usize, has_run: bool, mut ended: Option<Ended>, cause: Option<String>) {
        let Followed { state, attempt, .. } = inner.tracks[job].job;
        if let Some(ended) = ended.as_mut().filter(|ended| ended.code == 0) {
            self.mark(inner, job, Some(std::mem::take(&mut ended.made)));
        }
        if state == State::Cancelled && self.interrupted.load(Ordering::SeqCst) {
            match ended {
                Some(ended) if ended.code == 0 => {
                    inner.end(job, attempt, State::Succeeded, Some(ended), None);
                    inner.late_count += 1;
                }
                ended if has_run => {
                    let token = ended.map(|ended| ended.token);
                    inner.write_end(job, Moved::new(job as u32, attempt + 1, State::Queued), token);
                }
                _ => {} // it is queued in the journal, and that is true
            }
            return;
        }
        let error = match (state, &ended) {
            (State::Cancelled, _) | (State::Failed, None) => cause,
            (State::Succeeded, None) if attempt == 0 => {
                let how = Detail { how: Some("up to date".to_owned()), ..Detail::default() };
                return inner.write(job, Moved::new(job as u32, 0, state).with(how));
            }
            _ => None,
        };
        inner.end(job, attempt, state, ended, error);
    }

    /// Records the end of the run; with `None` it can be resumed. After that no end need be kept anywhere else.
    pub(crate) fn finish(&self, outcome: Option<Outcome>) -> Result<(), JournalError> {
        let (writer, unsettled) = {
            let mut inner = self.inner();
            (inner.writer.take(), std::mem::take(&mut inner.unsettled))
        };
        if let Some(writer) = writer {
            match outcome {
                Some(outcome) => writer.finish(outcome)?,
                None => writer.flush()?,
            }
        }
        self.settle(unsettled.iter().map(|(_, token)| token));
        Ok(())
    }
}

impl Track {
    /// What leads to an attempt belongs to it.
    fn shown_attempt(&self) -> u32 {
        self.job.attempt + u32::from(!self.job.has_begun())
    }
}

impl Inner {
    /// What the journal keeps of the end of a command.
    fn end_of(&mut self, job: usize, CommandEnd { end, outcome, made, peak_vram_mb, .. }: &CommandEnd) -> Ended {
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (code, how) = match (&end.how, outcome) {
            // It exited with 0, but its outputs are missing.
            (How::Exit(0), JobOutcome::Failed(Cause::Error(why))) => (1, why.clone()),
            (how, _) => (exit_code(how), words(how)),
        };
        let detail = Detail {
            pid: self.tracks[job].pid.take(),
            how: Some(how),
            code: Some(code),
            // On a cluster nothing measures it.
            peak_rss_kb: Some(end.peak_rss_kb).filter(|peak| *peak > 0),
            peak_vram_mb: *peak_vram_mb,
            cpu_ms: Some(ms(end.cpu)),
            wall_ms: Some(ms(end.wall)),
            ..Detail::default()
        };
        let is_plain = matches!(end.how, How::Exit(_) | How::Cancelled);
        self.last = Some((code, detail.how.clone().filter(|_| !is_plain)));
        Ended { token: end.token.clone(), detail, code, made: made.iter().map(made_file).collect() }
    }

    fn write(&mut self, job: usize, moved: Moved) {
        self.write_end(job, moved, None);
    }

    /// Records a move; the keeper may drop its copy of the end under `token` when this is on the disk.
    fn write_end(&mut self, job: usize, moved: Moved, token: Option<String>) {
        if self.tracks[job].is_recorded {
            return; // it ends as it did before
        }
        let Some(writer) = &self.writer else { return };
        let number = writer.record(moved);
        self.unsettled.extend(token.map(|token| (number, token)));
    }

    fn end(&mut self, job: usize, attempt: u32, state: State, ended: Option<Ended>, error: Option<String>) {
        let (mut detail, token) = ended.map_or((Detail::default(), None), |ended| (ended.detail, Some(ended.token)));
        detail.error = error.or_else(|| detail.how.clone().filter(|_| state == State::Failed));
        self.write_end(job, Moved::new(job as u32, attempt, state).with(detail), token);
    }

    /// Tokens whose ends are on the disk.
    fn settled(&mut self) -> Vec<String> {
        let Some(writer) = self.writer.as_ref().filter(|_| !self.unsettled.is_empty()) else { return Vec::new() };
        let flushed = writer.flushed();
        let count = self.unsettled.iter().take_while(|(number, _)| *number <= flushed).count();
        self.unsettled.drain(..count).map(|(_, token)| token).collect()
    }
}
