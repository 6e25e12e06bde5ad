//! What goes into the journal at the start of a run, and what comes out.
//!
//! Room: values.

use std::path::PathBuf;

use sched_jobs::State;
use serde::{Deserialize, Serialize};

use crate::event::state_name;
use crate::{Demand, Detail, RunId};

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewRun {
    /// What people call it.
    pub name: String,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// Where it was started.
    pub cwd: PathBuf,
    /// Everything the caller needs to continue it, as text the journal does not read.
    pub plan_json: String,
    /// The process that runs it.
    pub pid: u32,
    /// Its jobs. Elsewhere a job is identified by its index in this list.
    pub jobs: Vec<NewJob>,
}

impl NewRun {
    /// A run of this process in its current directory, without jobs.
    pub fn new(name: impl Into<String>) -> NewRun {
        NewRun {
            name: name.into(),
            file: None,
            cwd: std::env::current_dir().unwrap_or_default(),
            plan_json: String::from("{}"),
            pid: std::process::id(),
            jobs: Vec::new(),
        }
    }
}

/// A job of a run that begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// Its name in the file.
    pub name: String,
    /// Jobs made from one entry of the file share it; empty if there is none.
    pub group: String,
    /// What is run, for people to read.
    pub command: String,
    /// The same for the same work: the key of its history.
    pub fingerprint: u64,
    /// What it asks for.
    pub demand: Demand,
}

impl NewJob {
    /// A job without group, fingerprint and demand.
    pub fn new(name: impl Into<String>, command: impl Into<String>) -> NewJob {
        NewJob {
            name: name.into(),
            group: String::new(),
            command: command.into(),
            fingerprint: 0,
            demand: Demand::default(),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every job succeeded.
    Succeeded,
    /// A job failed.
    Failed,
    /// A user cancelled it.
    #[serde(alias = "canceled")]
    Cancelled,
}

impl Outcome {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A process runs it.
    Running,
    /// A process runs it, and waits for a resume.
    Paused,
    /// Its process is gone, and it had not ended. It can be resumed.
    Interrupted,
    /// Every job succeeded.
    Succeeded,
    /// A job failed.
    Failed,
    /// A user cancelled it.
    #[serde(alias = "canceled")]
    Cancelled,
}

impl Status {
    /// In one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Paused => "paused",
            Status::Interrupted => "interrupted",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Whether a process runs it.
    pub const fn is_live(self) -> bool {
        matches!(self, Status::Running | Status::Paused)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// How many jobs are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "they are the states")]
pub struct Counts {
    pub queued: u32,
    pub ready: u32,
    pub running: u32,
    pub paused: u32,
    pub succeeded: u32,
    pub failed: u32,
    #[serde(alias = "canceled")]
    pub cancelled: u32,
}

impl Counts {
    /// The number of jobs in `state`.
    pub fn of(mut self, state: State) -> u32 {
        *self.of_mut(state)
    }

    /// The number of jobs that have ended.
    pub fn ended(self) -> u32 {
        self.succeeded + self.failed + self.cancelled
    }

    /// How many of these are in each state.
    pub fn count(states: impl IntoIterator<Item = State>) -> Counts {
        let mut counts = Counts::default();
        states.into_iter().for_each(|state| *counts.of_mut(state) += 1);
        counts
    }

    pub(crate) fn of_mut(&mut self, state: State) -> &mut u32 {
        match state {
            State::Queued => &mut self.queued,
            State::Ready => &mut self.ready,
            State::Running => &mut self.running,
            State::Paused => &mut self.paused,
            State::Succeeded => &mut self.succeeded,
            State::Failed => &mut self.failed,
            State::Cancelled => &mut self.cancelled,
        }
    }
}

/// A run, as the journal knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its name for commands.
    pub id: RunId,
    /// What people call it.
    pub name: String,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// Where it was started.
    pub cwd: PathBuf,
    /// Its status when it was read.
    pub status: Status,
    /// The process that runs it, or ran it last.
    pub pid: u32,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// The last activity: its end, or its latest event, or its beginning.
    pub seen_ms: u64,
    /// How many jobs it has.
    pub jobs: u32,
    /// How many of them are in each state.
    pub counts: Counts,
}

/// A job in its current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its index in the run.
    pub job: u32,
    /// Its name in the file.
    pub name: String,
    /// Jobs made from one entry of the file share it.
    pub group: String,
    /// What is run.
    pub command: String,
    /// The key of its history.
    pub fingerprint: u64,
    /// What it asks for.
    pub demand: Demand,
    /// Its state.
    #[serde(with = "state_name")]
    pub state: State,
    /// The latest attempt; 0 if there was none.
    pub attempt: u32,
    /// When that attempt was ready, in microseconds since the run began.
    pub ready_us: Option<u64>,
    /// When it first ran.
    pub started_us: Option<u64>,
    /// When it ended.
    pub ended_us: Option<u64>,
    /// The progress it reported, 0 to 1.
    pub progress: Option<f64>,
    /// What else is known of the latest attempt.
    pub detail: Detail,
}

impl JobRow {
    /// Attempts that began. One that is still queued or ready has a number, but has not begun.
    pub fn attempts_begun(&self) -> u32 {
        match self.state {
            State::Queued | State::Ready => self.attempt.saturating_sub(1),
            _ => self.attempt,
        }
    }

    /// What it was given; what it asked for, if nothing else is recorded.
    pub fn given(&self) -> &Demand {
        self.detail.demand.as_ref().unwrap_or(&self.demand)
    }
}

/// One move of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// Its number in the run, from 1.
    pub n: u64,
    /// Which job.
    pub job: u32,
    /// Which attempt.
    pub attempt: u32,
    /// The state of the job then.
    #[serde(with = "state_name")]
    pub state: State,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Microseconds since the run began.
    pub offset_us: u64,
    /// Other details.
    pub detail: Detail,
}
