//! Events for programs: one JSON object a line, of runs and flows alike. `--json` prints them, and subscribers of a socket get them.
//!
//! Room: values.
//!
//! This is an interface: fields and words are added, never changed. [`HELP`] is its documentation.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use sched_jobs::{State, What};
use serde::Serialize;

use super::lines::{FlowLine, Totals};

/// `bursar help events`, and `docs/events.md`.
pub(crate) const HELP: &str = "\
# Events

`bursar run --json` and `bursar flow run --json` print one JSON object a line, and so does the socket of a run after `subscribe`.

Every event has `v` (1), `at_ms` (since the run or flow began), `event`, and `run` or `flow`: its id, as in `r-7f3a` and `f-7f3a`.

| event | of | other fields |
|---|---|---|
| `run_started` | a run | `name`, `pid`, `jobs`: how many |
| `flow_started` | a flow | `name`, `pid`, `nodes`, `edges`: how many |
| `ready`, `paused`, `resumed`, `revived` | a job | `job`, `attempt` |
| `started` | a job | `job`, `attempt` |
| `progress` | a job | `job`, `done`: from 0 to 1 |
| `waiting` | a job | `job`, `why` |
| `retrying` | a job | `job`, `attempt`, `error`, `ran_ms`, `after_ms`: the pause before the next attempt, `log` |
| `succeeded` | a job | `job`, `attempt`, `ran_ms`: absent if the job was up to date |
| `failed`, `cancelled` | a job | `job`, `attempt`, `error`, `ran_ms`, `log` |
| `failed` | a node | `node`, `error`: the latest, `errors`: how many so far |
| `printed` | a flow | `text`: a line of a node that prints |
| `stats` | a flow | `stats`: all counters, once a second if anything changed |
| `said` | both | `text`: a message for people |
| `run_ended` | a run | `outcome`: succeeded, failed or interrupted; `ran_ms`; how many jobs: `succeeded`, `failed`, `cancelled` |
| `flow_ended` | a flow | `outcome`: done, stopped, late, failed, lost, interrupted or killed; `ran_ms`; `error`; `stats`; how many messages: \
`put`, `delivered`, `lost`, `failed`, `unwanted`, `unconnected`, `held`, `dropped`, `replaced`, `coalesced`, `waiting`; `errors` |

Unknown fields are left out. Over a socket an event has no `ran_ms` and no `log`, and `missed` is how many events were lost so far because they were read too slowly.
";

/// An event with all its fields.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Event<'a> {
    pub(crate) v: u32,
    pub(crate) at_ms: u64,
    pub(crate) event: &'static str,
    #[serde(flatten)]
    pub(crate) of: Option<&'a Subject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jobs: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) edges: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ran_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Cow<'a, str>>,
    /// Counts of messages have `errors`, too; an event never has both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'static str>,
    #[serde(flatten)]
    pub(crate) counts: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<&'a FlowLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<u64>,
}

/// The subject of an event: the id of a run or of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Subject {
    Run(String),
    Flow(String),
}

impl Subject {
    pub(crate) fn id(&self) -> &str {
        let (Subject::Run(id) | Subject::Flow(id)) = self;
        id
    }
}

/// The counts at the end: jobs of a run, or messages of a flow.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Counts {
    Jobs { succeeded: u32, failed: u32, cancelled: u32 },
    Messages(Totals),
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> Event<'a> {
    pub(crate) fn new(at: Duration, event: &'static str) -> Event<'a> {
        Event { v: 1, at_ms: at.as_millis() as u64, event, ..Event::default() }
    }

    /// An event of a job. `None` for events that are not published.
    pub(crate) fn of_job(at: Duration, job: impl Into<Cow<'a, str>>, what: What) -> Option<Event<'a>> {
        let mut event = Event::new(at, name(what)?);
        event.job = Some(job.into());
        match what {
            What::Started { attempt } => event.attempt = attempt,
            What::Progress(done) => event.done = Some(done),
            What::Retrying { attempt, after_ms } => (event.attempt, event.after_ms) = (attempt, Some(after_ms)),
            _ => {}
        }
        Some(event)
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn name(what: What) -> Option<&'static str> {
    Some(match what {
        What::Ready => "ready",
        What::Started { .. } => "started",
        What::Progress(_) => "progress",
        What::Paused => "paused",
        What::Resumed => "resumed",
        What::Retrying { .. } => "retrying",
        What::Succeeded => State::Succeeded.name(),
        What::Failed => State::Failed.name(),
        What::Cancelled => State::Cancelled.name(),
        What::Revived => "revived",
        _ => return None,
    })
}
