//! Errors of submissions, jobs and requests. Every error names the value, the limit and the way out.
//!
//! Room: values.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::JobId;
use crate::demand::megabytes;
use crate::state::State;

/// Why a job was refused. A refused job leaves nothing behind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubmitError {
    /// The name is empty, or longer than 4,096 bytes.
    BadName {
        /// The name, cut if it is long.
        name: String,
        /// How long it is, in bytes.
        bytes: usize,
    },
    /// The key is empty, or longer than 4,096 bytes.
    BadKey {
        /// The job.
        job: String,
        /// How long the key is, in bytes.
        bytes: usize,
    },
    /// There is already a job with that name.
    Duplicate {
        /// The name.
        name: String,
    },
    /// It needs a job that was not submitted.
    MissingDependency {
        /// The job.
        job: String,
        /// What it needs.
        dependency: String,
    },
    /// It needs itself.
    NeedsItself {
        /// The job.
        job: String,
    },
    /// The dependencies of a workflow have a cycle.
    Cycle {
        /// Their names: each needs the next, and the last the first.
        jobs: Vec<String>,
    },
    /// 3001: it needs more than the hard limit.
    NeverFits {
        /// The job.
        job: String,
        /// What it needs: `CPU slots`, or a named resource.
        resource: String,
        /// How much.
        wanted: u64,
        /// The limit.
        hard_limit: u64,
    },
    /// 3001: it needs graphics cards that do not exist here.
    NoCard {
        /// The job.
        job: String,
        /// How many it needs.
        wanted: u32,
        /// Video memory that it needs on each, in MB; 0 for whole cards.
        vram_mb: u64,
        /// How many there are.
        cards: u32,
        /// How many of them have that much memory.
        fit: u32,
        /// The memory of the largest, in MB.
        largest_mb: u64,
    },
    /// It needs a named resource that was not declared.
    UnknownResource {
        /// The job.
        job: String,
        /// The resource.
        resource: String,
        /// The declared ones.
        known: Vec<String>,
    },
    /// 3002: a dependency has already failed or was cancelled.
    DependencyFailed {
        /// The job.
        job: String,
        /// The dependency.
        dependency: String,
        /// How that ended.
        state: State,
    },
    /// The limit of jobs is reached.
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// A closure that runs only once cannot be retried.
    OnceOnly {
        /// The job.
        job: String,
        /// The requested retries.
        retries: u32,
    },
    /// A job was submitted by the iterator that produces the jobs of a batch.
    Nested,
    /// The scheduler is shutting down.
    ShuttingDown,
}

impl SubmitError {
    /// The number of this kind of error, where it has one.
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::NeverFits { .. } | Self::NoCard { .. } => Some(3001),
            Self::DependencyFailed { .. } => Some(3002),
            _ => None,
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = self.code() {
            write!(f, "[{code}] ")?;
        }
        match self {
            Self::BadName { bytes: 0, .. } => write!(f, "a job needs a name; give it one that is not empty"),
            Self::BadName { name, bytes } => {
                write!(f, "the name `{name}…` has {bytes} bytes, the limit is 4096; choose a shorter one")
            }
            Self::BadKey { job, bytes: 0 } => {
                write!(f, "the key of job `{job}` is empty; give it one, or none")
            }
            Self::BadKey { job, bytes } => {
                write!(f, "the key of job `{job}` has {bytes} bytes, the limit is 4096; choose a shorter one")
            }
            Self::Duplicate { name } => write!(f, "there is already a job `{name}`; choose another name"),
            Self::MissingDependency { job, dependency } => {
                write!(f, "job `{job}` needs `{dependency}`, which was not submitted; submit that one first")
            }
            Self::NeedsItself { job } => write!(f, "job `{job}` needs itself; remove it from its own needs"),
            Self::Cycle { jobs } => {
                write!(f, "jobs need each other in a cycle: ")?;
                for job in jobs {
                    write!(f, "{job} -> ")?;
                }
                write!(f, "{}; remove one of these needs", jobs.first().map_or("", String::as_str))
            }
            Self::NeverFits { job, resource, wanted, hard_limit } => write!(
                f,
                "job `{job}` wants {wanted} {resource} but the hard limit is {hard_limit}; lower what it wants or raise the limit"
            ),
            Self::NoCard { job, wanted, cards: 0, .. } => write!(
                f,
                "job `{job}` wants {wanted} GPUs, and no card is known here; say how many there are, as `gpus = {wanted}` under [resources]"
            ),
            Self::NoCard { job, wanted, cards, .. } if wanted > cards => {
                write!(f, "job `{job}` wants {wanted} GPUs, and there are {cards}; lower `gpus`")
            }
            Self::NoCard { job, wanted: 1, vram_mb, largest_mb, .. } => write!(
                f,
                "job `{job}` needs {} of VRAM on one card; the largest has {}; lower `vram`, or spread it over more cards with `gpus`",
                megabytes(*vram_mb),
                megabytes(*largest_mb)
            ),
            Self::NoCard { job, wanted, vram_mb, cards, fit, largest_mb } => write!(
                f,
                "job `{job}` needs {} of VRAM on each of {wanted} cards; {fit} of {cards} have that much, and the largest has {}; lower `vram` or `gpus`",
                megabytes(*vram_mb),
                megabytes(*largest_mb)
            ),
            Self::UnknownResource { job, resource, known } if known.is_empty() => {
                write!(
                    f,
                    "job `{job}` wants `{resource}`, but no named resource was declared; declare how much of it there is"
                )
            }
            Self::UnknownResource { job, resource, known } => {
                write!(f, "job `{job}` wants `{resource}`, which was not declared; there are: {}", known.join(", "))
            }
            Self::DependencyFailed { job, dependency, state } => {
                let ended = if *state == State::Cancelled { "was already cancelled" } else { "has already failed" };
                write!(f, "job `{job}` needs `{dependency}`, which {ended}; retry that one first")
            }
            Self::TooMany { limit } => {
                write!(f, "there are already {limit} jobs, the limit of one scheduler; start another scheduler")
            }
            Self::OnceOnly { job, retries } => {
                write!(
                    f,
                    "job `{job}` asks for {retries} retries but its closure runs only once; use `run` instead of `run_once`"
                )
            }
            Self::Nested => {
                write!(f, "a batch is being submitted by this thread; submit further jobs before or after it")
            }
            Self::ShuttingDown => write!(f, "the scheduler is shutting down and accepts no more jobs"),
        }
    }
}

impl core::error::Error for SubmitError {}

/// Why a job ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// It returned an error, or its command did not succeed.
    Error(String),
    /// It returned an error that no further attempt would fix (`JobError::permanent`), so it was not retried.
    Permanent(String),
    /// It panicked.
    Panic {
        /// The message.
        message: String,
        /// Where: `file:line:column`, if that is known.
        at: Option<String>,
    },
    /// It was cancelled on request.
    Asked,
    /// It was cancelled for this reason.
    Stopped(String),
    /// 3003: it was asked to pause and reached no checkpoint in time, so it was cancelled.
    PauseTimeout {
        /// How long it was given.
        waited: Duration,
    },
    /// 3004: a dependency, direct or indirect, failed or was cancelled.
    Ancestor {
        /// That job.
        id: JobId,
        /// Its name.
        name: String,
        /// How it ended.
        state: State,
    },
}

impl Cause {
    /// The number of this kind, where it has one.
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::PauseTimeout { .. } => Some(3003),
            Self::Ancestor { .. } => Some(3004),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = self.code() {
            write!(f, "[{code}] ")?;
        }
        match self {
            Self::Error(message) => f.write_str(message),
            Self::Permanent(message) => write!(f, "{message} (a permanent error, so it is not retried)"),
            Self::Panic { message, at: Some(at) } => write!(f, "panicked at {at}: {message}"),
            Self::Panic { message, at: None } => write!(f, "panicked: {message}"),
            Self::Asked => f.write_str("cancelled on request"),
            Self::Stopped(why) => write!(f, "cancelled: {why}"),
            Self::PauseTimeout { waited } => write!(
                f,
                "it was asked to pause, reached no checkpoint within {} ms and was cancelled; call `ctx.progress` more often or raise the pause timeout",
                waited.as_millis()
            ),
            Self::Ancestor { name, state: State::Failed, .. } => write!(f, "`{name}`, which it needs, failed"),
            Self::Ancestor { name, .. } => write!(f, "`{name}`, which it needs, was cancelled"),
        }
    }
}

/// Why a request about a job was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// There is no such job.
    UnknownJob {
        /// What was asked for.
        name: String,
    },
    /// There is no such part.
    UnknownPart {
        /// What was asked for.
        name: String,
    },
    /// The job is in a state that does not allow the request.
    NotNow {
        /// The job.
        job: String,
        /// Its state.
        state: State,
        /// The request: `pause`, `resume`, `retry`.
        request: &'static str,
    },
    /// 3003: the job reached no checkpoint in time and was cancelled instead of paused.
    PauseTimeout {
        /// The job.
        job: String,
        /// How long it was given.
        waited: Duration,
    },
}

impl ControlError {
    /// The number of this kind of error, where it has one.
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::PauseTimeout { .. } => Some(3003),
            _ => None,
        }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownJob { name } => write!(f, "there is no job `{name}`"),
            Self::UnknownPart { name } => write!(f, "there is no part `{name}`; `Jobs::part` makes one"),
            Self::NotNow { job, state, request } => {
                let way_out = match *request {
                    "pause" => "only jobs that are queued, ready or running can be paused",
                    "resume" => "only paused jobs can be resumed",
                    _ => "only failed or cancelled jobs can be retried",
                };
                write!(f, "job `{job}` is {state}; {way_out}")
            }
            Self::PauseTimeout { job, waited } => write!(
                f,
                "[3003] job `{job}` reached no checkpoint within {} ms and was cancelled; call `ctx.progress` more often or raise the pause timeout",
                waited.as_millis()
            ),
        }
    }
}

impl core::error::Error for ControlError {}
