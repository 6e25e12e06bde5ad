//! Everything that happens goes into the journal, once.
//!
//! # Invariants
//! - No end is lost: a keeper keeps the end of its command until the journal has it on the disk.
//! - A job that ended well is never written as anything else, and one that Ctrl-C ended is written as not done.
//!
//! # Why they hold
//! An end comes in once: with what the command used, by [`Recorder::see`], under the scheduler's lock. What `see` records gets a number; the keeper's copy is given up when the
//! journal says that this number is on the disk. Whoever ends in a success while it is being cancelled had
//! ended before the request reached it: its effect is there, so that is what is written.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mech_process::How;
use sched_jobs::process::{CommandEnd, Made, News, Processes, Stamp, exit_code, words};
use sched_jobs::{Cause, Event, Facts, Followed, Outcome as JobOutcome, State, Ticket, What};
use surface_journal::{Detail, Event as Entry, JournalError, Look, Moved, Outcome, Outputs, Writer};

use super::steward::Notice;

/// Writes what happens to the jobs of one run.
pub(crate) struct Recorder {
    book: Mutex<Book>,
    processes: OnceLock<Weak<Processes>>,
    notices: Sender<Notice>,
    interrupted: AtomicBool,
    names: Vec<String>,
    plan: Arc<surface_jobfile::Plan>,
    /// Of jobs that declare outputs: the command's fingerprint, and the files.
    declared: HashMap<usize, (u64, Vec<PathBuf>)>,
}

struct Book {
    writer: Option<Writer>,
    tracks: Vec<Track>,
    /// Tokens whose ends are in the journal under that number, perhaps not on the disk.
    unsettled: VecDeque<(u64, String)>,
    warnings: Vec<String>,
    last: Option<(i32, Option<String>)>,
}

/// How a command ended, for the journal.
struct Ended {
    token: String,
    detail: Detail,
    code: i32,
    made: Vec<(PathBuf, Option<Look>)>,
}

/// A file that a job made, for the journal.
pub(crate) fn made_file(made: &Made) -> (PathBuf, Option<Look>) {
    let look = made.stamp.map(|Stamp { size, changed_ns }| Look { size, changed_ns });
    (made.path.clone(), look)
}

/// Where a job is, as the journal knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Track {
    pub(crate) job: Followed,
    /// The journal knows its end from an earlier life of the run; nothing is new until somebody has it tried again.
    pub(crate) is_told: bool,
    /// The journal knows that it runs, from an earlier life of the run: that it does so again is no news.
    pub(crate) is_adopted: bool,
    ready_at_us: u64,
    pid: Option<u32>,
}

impl Track {
    /// A job that is as the journal has it.
    pub(crate) fn new(attempt: u32, is_told: bool) -> Track {
        Track { job: Followed::after(attempt), is_told, is_adopted: false, ready_at_us: 0, pid: None }
    }
}

impl Recorder {
    /// Writes with `writer`, for jobs that stand as `tracks` say.
    pub(crate) fn new(
        writer: Writer,
        tracks: Vec<Track>,
        plan: &Arc<surface_jobfile::Plan>,
        notices: Sender<Notice>,
    ) -> Recorder {
        let broken = notices.clone();
        // At once: the next end, which would show it too, may be hours away, or not come.
        writer.on_error(move |error| drop(broken.send(Notice::JournalBroken(error)))); // gone only when the run is over
        let book = Book { writer: Some(writer), tracks, unsettled: VecDeque::new(), warnings: Vec::new(), last: None };
        Recorder {
            book: Mutex::new(book),
            processes: OnceLock::new(),
            notices,
            interrupted: AtomicBool::new(false),
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

    /// Whose ends are to be settled.
    pub(crate) fn watch(&self, processes: Weak<Processes>) {
        let _ = self.processes.set(processes); // said once
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on what is cancelled was interrupted: it is not done, and a resumed run does it.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
    }

    /// The whole run was paused, or goes on.
    pub(crate) fn run_paused(&self, paused: bool) {
        if let Some(writer) = &self.book().writer {
            writer.record(Entry::RunPaused(paused));
        }
    }

    /// The code of the last command that ended, as a shell would give it; and what to say of it, if it did not just exit.
    pub(crate) fn last(&self) -> Option<(i32, Option<String>)> {
        self.book().last.clone()
    }

    /// What keepers want people to read.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.book().warnings)
    }

    /// Hears what becomes of a command, beside its end.
    pub(crate) fn hear(&self, ticket: Ticket, news: News<'_>) {
        let job = ticket.job.index();
        let settled = {
            let mut book = self.book();
            match news {
                News::Began { pid } => {
                    book.tracks[job].pid = u32::try_from(pid).ok();
                    return;
                }
                News::Warning(text) => {
                    let text = format!("{}: {text}", self.names[job]);
                    book.warnings.push(text);
                    return;
                }
                _ => {} // `News::Ended`: it was seen
            }
            book.settled()
        };
        if let Some(processes) = self.processes.get().and_then(Weak::upgrade) {
            settled.iter().for_each(|token| processes.settle(token));
        }
    }

    /// Sees an event of the scheduler, under its lock.
    pub(crate) fn see(&self, event: &Event, facts: Facts<'_>) {
        let job = event.job.index();
        let mut book = self.book();
        let ended = facts.measured::<CommandEnd>(event.job).map(|end| book.end_of(job, end));
        let track = &mut book.tracks[job];
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
                book.write(job, Moved::new(job as u32, next, State::Ready));
            }
            What::Started { attempt } => {
                let waited_ms = at_us.saturating_sub(track.ready_at_us) / 1_000;
                if std::mem::take(&mut track.is_adopted) {
                    return;
                }
                let token = self.processes.get().and_then(Weak::upgrade);
                let token = token.map(|processes| processes.token(Ticket { job: event.job, attempt }));
                let detail = Detail { token, waited_ms: Some(waited_ms), ..Detail::default() };
                self.mark(&book, job, None);
                book.write(job, Moved::new(job as u32, attempt, State::Running).with(detail));
            }
            What::Progress(done) => {
                let progress = Entry::Progressed { job: job as u32, fraction: f64::from(done) };
                book.writer.as_ref().map(|writer| writer.record(progress));
            }
            What::Paused => {
                let attempt = track.shown_attempt();
                book.write(job, Moved::new(job as u32, attempt, State::Paused));
            }
            What::Resumed => {
                let (attempt, state) = (track.shown_attempt(), track.job.state);
                book.write(job, Moved::new(job as u32, attempt, state));
            }
            What::Retrying { attempt, .. } => {
                // Without a command that ended, the scheduler alone knows why.
                let cause = facts.cause(event.job).filter(|_| ended.is_none()).map(ToString::to_string);
                book.end(job, attempt, State::Failed, ended, cause);
                book.write(job, Moved::new(job as u32, attempt + 1, State::Queued));
            }
            What::Revived => {
                track.is_told = false;
                let next = track.job.attempt + 1;
                book.write(job, Moved::new(job as u32, next, State::Queued));
            }
            What::Succeeded => self.ended(&mut book, job, has_run, ended, None),
            What::Failed => {
                let cause = facts.cause(event.job).map(ToString::to_string);
                self.ended(&mut book, job, has_run, ended, cause);
                if !book.tracks[job].is_told {
                    let _ = self.notices.send(Notice::Failed); // gone only when the run is over
                }
            }
            What::Cancelled => {
                let cause = facts.cause(event.job).map(ToString::to_string);
                self.ended(&mut book, job, has_run, ended, cause);
            }
            _ => {}
        }
    }

    /// The outputs of a job are whole, or not any more.
    fn mark(&self, book: &Book, job: usize, made: Option<Vec<(PathBuf, Option<Look>)>>) {
        if let (Some((fingerprint, paths)), Some(writer)) = (self.declared.get(&job), &book.writer) {
            let is_whole = made.is_some();
            // Before it starts: what is changed while it runs is changed, whatever the job saw of it.
            let inputs = (!is_whole).then(|| self.plan.sources_look(job));
            let files = made.unwrap_or_else(|| paths.iter().map(|path| (path.clone(), None)).collect());
            writer.record(Outputs { fingerprint: *fingerprint, is_whole, inputs, files });
        }
    }

    /// A life is over; `cause` says why it was cancelled, or could not even be started.
    fn ended(&self, book: &mut Book, job: usize, has_run: bool, mut ended: Option<Ended>, cause: Option<String>) {
        let Followed { state, attempt, .. } = book.tracks[job].job;
        if let Some(ended) = ended.as_mut().filter(|ended| ended.code == 0) {
            self.mark(book, job, Some(std::mem::take(&mut ended.made)));
        }
        if state == State::Cancelled && self.interrupted.load(Ordering::SeqCst) {
            match ended {
                Some(ended) if ended.code == 0 => book.end(job, attempt, State::Succeeded, Some(ended), None),
                ended if has_run => {
                    let token = ended.map(|ended| ended.token);
                    book.write_end(job, Moved::new(job as u32, attempt + 1, State::Queued), token);
                }
                _ => {} // it is queued in the journal, and that is true
            }
            return;
        }
        let error = match (state, &ended) {
            (State::Cancelled, _) | (State::Failed, None) => cause,
            (State::Succeeded, None) if attempt == 0 => {
                let how = Detail { how: Some("up to date".to_owned()), ..Detail::default() };
                return book.write(job, Moved::new(job as u32, 0, state).with(how));
            }
            _ => None,
        };
        book.end(job, attempt, state, ended, error);
    }

    /// The last word on the run; `None` leaves it to be resumed. Then no end need be kept anywhere else.
    pub(crate) fn finish(&self, outcome: Option<Outcome>) -> Result<(), JournalError> {
        let (writer, unsettled) = {
            let mut book = self.book();
            (book.writer.take(), std::mem::take(&mut book.unsettled))
        };
        if let Some(writer) = writer {
            match outcome {
                Some(outcome) => writer.finish(outcome)?,
                None => writer.flush()?,
            }
        }
        if let Some(processes) = self.processes.get().and_then(Weak::upgrade) {
            unsettled.iter().for_each(|(_, token)| processes.settle(token));
        }
        Ok(())
    }
}

impl Track {
    /// What leads to an attempt belongs to it.
    fn shown_attempt(&self) -> u32 {
        self.job.attempt + u32::from(!self.job.has_begun())
    }
}

impl Book {
    /// What the journal keeps of the end of a command.
    fn end_of(&mut self, job: usize, CommandEnd { end, outcome, made, peak_vram_mb, .. }: &CommandEnd) -> Ended {
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (code, how) = match (&end.how, outcome) {
            // It said that all is well, and it is not.
            (How::Exit(0), JobOutcome::Failed(Cause::Error(why))) => (1, why.clone()),
            (how, _) => (exit_code(how), words(how)),
        };
        let detail = Detail {
            pid: self.tracks[job].pid.take(),
            how: Some(how),
            code: Some(code),
            peak_rss_kb: Some(end.peak_rss_kb),
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

    /// Records a move; the keeper's copy of an end under `token` may go when it is on the disk.
    fn write_end(&mut self, job: usize, moved: Moved, token: Option<String>) {
        if self.tracks[job].is_told {
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

    /// Tokens whose ends are on the disk by now.
    fn settled(&mut self) -> Vec<String> {
        let Some(writer) = self.writer.as_ref().filter(|_| !self.unsettled.is_empty()) else { return Vec::new() };
        let flushed = writer.flushed();
        let count = self.unsettled.iter().take_while(|(number, _)| *number <= flushed).count();
        self.unsettled.drain(..count).map(|(_, token)| token).collect()
    }
}
