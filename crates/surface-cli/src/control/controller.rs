//! How a run answers requests over its socket.
//!
//! Room: driver.
//!
//! Decides nothing.
//!
//! # Invariant
//! Whatever clients do, the scheduler is delayed for at most a fifth of the time, and memory stays bounded.
//!
//! # Why it holds
//! Requests that make the scheduler look at many jobs go through one [`Pace`]: one at a time, and after a look that took *t* there is none for four
//! times *t*. A subscriber has a queue of bounded length, and there are at most [`SUBSCRIBERS`].

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sched_jobs::{AttemptId, ControlError, JobId, JobStatus, Jobs, State, What};
use sched_slurm::Stand;

use surface_text::amounts::counted;

use super::event::{Event, Subject};
use super::lines::{JobLine, RunLine};
use super::server::{self, Controller, ServerHandle, send_line};
use super::wire::{Answer, Refusal, Reply, Request};

/// Subscribers at a time: each may keep a million events waiting.
pub(crate) const SUBSCRIBERS: usize = 8;
/// The longest pause between two looks.
const PACE_MAX: Duration = Duration::from_millis(500);

/// What else a request does, beside the scheduler.
pub(crate) trait Runner: Send + Sync {
    /// Jobs that are being cancelled get no more grace time.
    fn skip_grace(&self) {}
    /// What the system has in force for the command of a job, in words, if that runs and asked for anything.
    fn in_force(&self, job: JobId) -> Option<String> {
        let _ = job;
        None
    }
    /// Where an attempt is that was handed to another scheduler, in words.
    fn elsewhere(&self, attempt_id: AttemptId) -> Option<String> {
        let _ = attempt_id;
        None
    }
    /// Where such an attempt stands there.
    fn stand(&self, attempt_id: AttemptId) -> Option<Stand> {
        let _ = attempt_id;
        None
    }
    /// The attempts that are to be paused, and that the other scheduler has not paused; and why, if it does not answer.
    fn unpaused(&self) -> (Vec<AttemptId>, Option<String>) {
        Default::default()
    }
    /// Tells this to the person who sees the run.
    fn say(&self, text: &str) {
        let _ = text;
    }
    /// The whole run was paused, or resumed.
    fn run_paused(&self, paused: bool) {
        let _ = paused;
    }
}

/// Nothing else.
impl Runner for () {}

/// Serves the run `run` in `folder`, whose jobs are `jobs`.
///
/// # Errors
/// If the socket cannot be opened.
pub(crate) fn serve(folder: &Path, run: &str, jobs: Jobs, runner: Arc<dyn Runner>) -> io::Result<ServerHandle> {
    let pace = Pace::default();
    let controller =
        RunController { jobs, of: Subject::Run(run.to_owned()), runner, pace, subscribers: AtomicUsize::new(0) };
    server::open(folder, Arc::new(controller))
}

/// Allows one look at a time, and then pauses four times as long as the look took.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Option<Instant>>);

impl Pace {
    pub(crate) fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let mut open_from = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        std::thread::sleep(open_from.map_or(Duration::ZERO, |from| from.saturating_duration_since(began)));
        let began = Instant::now();
        let seen = look();
        *open_from = Some(Instant::now() + (began.elapsed() * 4).min(PACE_MAX));
        seen
    }
}

struct RunController {
    jobs: Jobs,
    of: Subject,
    runner: Arc<dyn Runner>,
    pace: Pace,
    subscribers: AtomicUsize,
}

impl Controller for RunController {
    fn respond(&self, request: Request, _: &AtomicBool) -> Result<Answer, Refusal> {
        let mut answer = Answer::default();
        match request {
            Request::Ps { all, limit } => answer.run = Some(self.pace.look(|| self.ps(all, limit))),
            Request::Status { job } => answer.job = Some(line(self.jobs.status(job)?)),
            Request::Why { job } => {
                let why = self.pace.look(|| self.jobs.why(job.as_str()))?;
                let status = self.jobs.status(job).ok();
                answer.in_force = status.as_ref().and_then(|status| self.runner.in_force(status.id));
                let elsewhere = status.and_then(|status| self.elsewhere(&status));
                let text = elsewhere.map_or_else(|| why.to_string(), |words| format!("{}: {words}", why.job));
                (answer.text, answer.state) = (Some(text), Some(why.state.name().to_owned()));
            }
            Request::Pause(target) => {
                let is_run = target.job.is_none();
                let single = target.job.clone().filter(|_| !target.subtree);
                self.jobs.pause(target.into_target())?;
                if is_run {
                    self.runner.run_paused(true);
                }
                self.refuse_unpaused(single)?;
            }
            Request::Resume(target) => {
                let is_run = target.job.is_none();
                self.jobs.resume(target.into_target())?;
                if is_run {
                    self.runner.run_paused(false);
                }
            }
            Request::Cancel { target, now } => {
                let single = target.job.clone().filter(|_| !target.subtree);
                let target = target.into_target();
                if let Some(job) = &single {
                    self.refuse_ended(job, "has ended already")?;
                }
                if now {
                    // Cancelled first: only jobs that are being cancelled lose their grace time.
                    self.jobs.cancel(target.clone())?;
                    self.runner.skip_grace();
                }
                self.jobs.cancel_and_wait(target)?;
                if let Some(job) = &single {
                    self.refuse_ended(job, "ended before it could be cancelled")?;
                }
            }
            Request::Retry { job } => self.jobs.retry(job)?,
            Request::Set { .. } | Request::Prometheus | Request::Subscribe | Request::Report { .. } => {
                return Err(Refusal::not_for("a run", "ask a flow"));
            }
        }
        Ok(answer)
    }

    fn subscribe(&self, client: &mut dyn Write, closing: &AtomicBool) -> io::Result<()> {
        if self.subscribers.fetch_add(1, SeqCst) >= SUBSCRIBERS {
            self.subscribers.fetch_sub(1, SeqCst);
            let message = format!("this run has {SUBSCRIBERS} subscribers already, the limit");
            return send_line(client, &Reply::error("busy", message));
        }
        let result = self.pass_on(client, closing);
        self.subscribers.fetch_sub(1, SeqCst);
        result
    }
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Refusal {
        let kind = match error {
            ControlError::UnknownJob { .. } => "unknown_job",
            ControlError::PauseTimeout { .. } => "pause_timeout",
            _ => "not_now",
        };
        Refusal::new(kind, error.to_string(), error.code())
    }
}

impl RunController {
    /// Refuses to call a job cancelled that succeeded or failed.
    fn refuse_ended(&self, job: &str, says: &str) -> Result<(), Refusal> {
        let state = self.jobs.status(job)?.state;
        if matches!(state, State::Succeeded | State::Failed) {
            return Err(Refusal::new("not_now", format!("{job} {says}: it {state}"), None));
        }
        Ok(())
    }

    /// Refuses to call paused what another scheduler has not paused: of this job, or of all.
    fn refuse_unpaused(&self, single: Option<String>) -> Result<(), Refusal> {
        let (mut unpaused, why) = self.runner.unpaused();
        if let Some(job) = single {
            let id = self.jobs.status(job)?.id;
            unpaused.retain(|attempt_id| attempt_id.job == id);
        }
        if unpaused.is_empty() {
            return Ok(());
        }
        let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        let jobs = counted(unpaused.len(), "job");
        let message = format!(
            "Slurm has not paused {jobs} yet{why}: commands may still run. It is asked again until it does; `bursar resume` takes that back"
        );
        self.runner.say(&message);
        Err(Refusal::new("not_paused", message, None))
    }

    /// Where a running job is, if another scheduler has it. What that has not paused may run, whatever is wanted.
    fn elsewhere(&self, status: &JobStatus) -> Option<String> {
        let attempt_id = AttemptId { job: status.id, attempt: status.attempts };
        let may_run = match status.state {
            State::Running => true,
            State::Paused => self.runner.stand(attempt_id) == Some(Stand::Unpaused),
            _ => false,
        };
        may_run.then(|| self.runner.elsewhere(attempt_id)).flatten()
    }

    /// A job as `ps` shows it.
    fn line(&self, status: JobStatus) -> JobLine {
        let attempt_id = AttemptId { job: status.id, attempt: status.attempts };
        let elsewhere = self.elsewhere(&status);
        let stand = elsewhere.as_ref().and_then(|_| self.runner.stand(attempt_id)).map(|stand| match stand {
            Stand::Waits => "pending",
            Stand::Unpaused => "pausing",
            _ => "running",
        });
        JobLine { elsewhere, stand: stand.map(str::to_owned), ..line(status) }
    }

    fn ps(&self, all: bool, limit: Option<usize>) -> RunLine {
        let limit = limit.unwrap_or(usize::MAX);
        let statuses = self.jobs.statuses();
        let counts = self.jobs.counts().into_iter().map(|(state, count)| (state.name().to_owned(), count)).collect();
        let usage = self.jobs.usage();
        let mut shown: Vec<JobStatus> =
            statuses.into_iter().filter(|status| all || !status.state.is_terminal()).collect();
        if !all {
            // Running jobs first.
            shown.sort_by_key(|status| match status.state {
                sched_jobs::State::Running => 0,
                sched_jobs::State::Paused => 1,
                sched_jobs::State::Ready => 2,
                _ => 3,
            });
        }
        let more = shown.len().saturating_sub(limit);
        shown.truncate(limit);
        RunLine {
            run: self.of.id().to_owned(),
            pid: std::process::id(),
            age_ms: self.jobs.now().as_millis() as u64,
            counts,
            cpu_slots: usage.cpu_slots,
            ram_mb: usage.ram_mb,
            vram_mb: usage.vram_mb,
            jobs: shown.into_iter().map(|status| self.line(status)).collect(),
            more,
            unpaused: self.runner.unpaused().0.len(),
        }
    }

    fn pass_on(&self, client: &mut dyn Write, closing: &AtomicBool) -> io::Result<()> {
        let mut events = self.jobs.events();
        send_line(client, &Reply::from(Ok(Answer::default())))?;
        let mut names: Vec<Box<str>> = Vec::new();
        loop {
            // Read before the queue is found empty, so events before the end are passed on.
            let closing = closing.load(SeqCst);
            let pause = if closing { Duration::ZERO } else { Duration::from_millis(100) };
            let event = match events.recv_timeout(pause) {
                Some(event) => event,
                None if closing => return Ok(()),
                None => continue,
            };
            let job = event.job.index();
            if job >= names.len() {
                names = self.jobs.statuses().into_iter().map(|status| status.name.into()).collect();
            }
            let name = names.get(job).map_or("?", |name| name);
            let Some(mut report) = Event::of_job(event.at(), name, event.what) else { continue };
            report.of = Some(&self.of);
            report.missed = Some(events.missed()).filter(|missed| *missed > 0);
            if matches!(event.what, What::Failed | What::Cancelled | What::Retrying { .. }) {
                let cause = self.jobs.status(event.job).ok().and_then(|status| status.cause);
                report.error = cause.map(|cause| cause.to_string().into());
            }
            send_line(client, &report)?;
        }
    }
}

fn line(status: JobStatus) -> JobLine {
    JobLine {
        index: status.id.index(),
        name: status.name,
        state: status.state.name().to_owned(),
        attempts: status.attempts,
        progress: status.progress,
        error: status.cause.map(|cause| cause.to_string()),
        elsewhere: None,
        stand: None,
    }
}
