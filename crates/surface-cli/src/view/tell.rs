//! One event, one line: for pipes and files, or as JSON for programs.
//!
//! Room: surface, pure. These lines are an interface: scripts read them. Fields and words are added, never changed.
//!
//! Plain: seconds since the run began, a word, the job, and what there is to say.
//!
//! ```text
//!     0.104  started   storyboard
//!     2.204  done      storyboard: 2.1 s
//!     9.100  failed    image[3]: exited with 3; attempt 3, 1.2 s; log /home/…/logs/3.3.log
//! ```
//!
//! JSON: an object a line. Always `v` (1), `at_ms`, `event`; of a job also `job` and `attempt`. The events: `run_started` (`run`, `name`,
//! `jobs`), `ready`, `started`, `progress` (`done`, 0 to 1), `paused`, `resumed`, `retrying` (`error`, `after_ms`, `log`), `succeeded`
//! (`ran_ms`; absent if it had been done before), `failed` and `canceled` (`error`, `ran_ms`, `log`), `revived`, `waiting` (`why`),
//! `run_ended` (`run`, `outcome`: `succeeded`, `failed` or `interrupted`; `succeeded`, `failed`, `canceled`, `ran_ms`).

use std::path::PathBuf;
use std::time::Duration;

use sched_jobs::{State, What};
use serde::Serialize;

use super::board::Change;
use super::text::time;

/// An event with everything there is to say about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Told {
    pub(crate) v: u32,
    pub(crate) at_ms: u64,
    pub(crate) event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jobs: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ran_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) succeeded: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) canceled: Option<u32>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Told {
    pub(crate) fn new(at: Duration, event: &'static str) -> Told {
        Told { v: 1, at_ms: at.as_millis() as u64, event, ..Told::default() }
    }

    /// What happened to a job. `None` for what nobody needs to know.
    pub(crate) fn of(at: Duration, job: &str, what: What, change: Option<Change>) -> Option<Told> {
        let mut told = Told::new(at, event_name(what)?);
        told.job = Some(job.to_owned());
        told.attempt = change.map_or(0, |change| change.attempt);
        told.ran_ms = change.and_then(|change| change.ran).map(|ran| ran.as_millis() as u64);
        match what {
            What::Progress(done) => told.done = Some(done),
            What::Retrying { attempt, after_ms } => (told.attempt, told.after_ms) = (attempt, Some(after_ms)),
            _ => {}
        }
        Some(told)
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// For people and `grep`. `None` for what would only be noise.
    pub(crate) fn plain(&self) -> Option<String> {
        let ran = self.ran_ms.map(Duration::from_millis);
        let log = self.log.as_ref().map(|log| format!("; log {}", log.display())).unwrap_or_default();
        let error = self.error.as_deref().unwrap_or("no reason given");
        let attempt = if self.attempt > 1 { format!("attempt {}, ", self.attempt) } else { String::new() };
        let (word, rest) = match self.event {
            "started" if self.attempt > 1 => ("started", format!("attempt {}", self.attempt)),
            "started" => ("started", String::new()),
            "succeeded" => match ran {
                Some(ran) => ("done", format!("{attempt}{}", time(ran))),
                None => ("done", "already".to_owned()),
            },
            "failed" => ("failed", format!("{error}; {attempt}{}{log}", time(ran.unwrap_or_default()))),
            "canceled" => ("canceled", format!("{error}{log}")),
            "retrying" => {
                let after = Duration::from_millis(self.after_ms.unwrap_or(0).into());
                ("retrying", format!("attempt {} failed: {error}; again in {}{log}", self.attempt, time(after)))
            }
            "paused" | "resumed" => (self.event, String::new()),
            "revived" => ("revived", "it is tried again".to_owned()),
            "waiting" => ("waiting", self.why.clone().unwrap_or_default()),
            _ => return None,
        };
        let job = self.job.as_deref().unwrap_or_default();
        let colon = if rest.is_empty() { "" } else { ": " };
        let (seconds, millis) = (self.at_ms / 1000, self.at_ms % 1000);
        Some(format!("{seconds:>5}.{millis:03}  {word:<9} {job}{colon}{rest}"))
    }
}

fn event_name(what: What) -> Option<&'static str> {
    Some(match what {
        What::Ready => "ready",
        What::Started { .. } => "started",
        What::Progress(_) => "progress",
        What::Paused => "paused",
        What::Resumed => "resumed",
        What::Retrying { .. } => "retrying",
        What::Succeeded => State::Succeeded.name(),
        What::Failed => State::Failed.name(),
        What::Canceled => State::Canceled.name(),
        What::Revived => "revived",
        _ => return None,
    })
}
