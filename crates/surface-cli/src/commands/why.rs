//! `bursar why JOB`: what it waits for, what it needs, which jobs hold it, when it may start; and what the system has in force for its command.
//!
//! Room: surface.

use std::time::Duration;

use clap::Args;
use sched_jobs::State;
use serde::Serialize;
use surface_journal::{JobRow, RunRow, Status};

use crate::control::{AskError, Request, Unanswered};
use crate::exit::{Exit, Failure};
use crate::out::{json, print};
use crate::runs::{Found, Intent, RunResolver, job_status, orphans};
use crate::view::text::{clean, megabytes, time, typed};

/// Limit of jobs explained in a group.
const EXPLAINED: usize = 20;

/// Options of `bursar why`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// A job (`image[8]`) or a group (`image`); without --run, in the newest run that has it
    job: String,
    /// The run: `r-7f3a`, its beginning, or `latest`
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// One JSON object for each job
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    run: &'a str,
    job: &'a str,
    state: String,
    why: String,
    /// What the system has in force for its command, or had.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let run = options.run.as_deref();
    // With --run, the word is a job even if it looks like a run.
    let Found { mut run, mut client, jobs } = resolver.find(run, Some(&options.job), Intent::Look)?;
    if jobs.is_empty() {
        let message = format!("`{}` is a run; name one of its jobs: `bursar show {}` lists them", options.job, run.id);
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut rows = Vec::new();
    if client.is_none() {
        (run, rows) = job_status::of(resolver.journal_of(&run.id), run)?;
    }
    let orphans = if client.is_some() { Vec::new() } else { orphans::of(resolver.journal_of(&run.id), &run)? };
    for job in jobs.iter().take(EXPLAINED) {
        let live = match &mut client {
            Some(client) => match client.ask(Request::Why { job: job.clone() }) {
                Ok(answer) => {
                    Some((answer.state.unwrap_or_default(), answer.text.unwrap_or_default(), answer.in_force))
                }
                Err(AskError { why: Unanswered::Gone, .. }) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        let (state, why, in_force) = match live {
            Some(answer) => answer,
            None => {
                let row = rows.iter().find(|row| row.name == *job);
                let row = row.ok_or_else(|| Failure::broken(format!("run {} has just ended; try again", run.id)))?;
                let why = match orphans.iter().any(|orphan| orphan.name == row.name) {
                    true => outlived(&run, row),
                    false => remembered(&run, row),
                };
                (row.state.name().to_owned(), why, row.detail.in_force.clone())
            }
        };
        if options.json {
            json(&Answer { run: run.id.as_str(), job, state, why, in_force })?;
        } else {
            print(&format!("{}.\n", clean(why.trim_end_matches('.'))))?;
            if let Some(words) = in_force {
                print(&format!("In force: {}.\n", clean(&words)))?;
            }
        }
    }
    if jobs.len() > EXPLAINED && !options.json {
        print(&format!("… and {} more of `{}`; name one\n", jobs.len() - EXPLAINED, clean(&options.job)))?;
    }
    Ok(Exit::Success)
}

/// The answer for a job that still runs without its run.
fn outlived(run: &RunRow, row: &JobRow) -> String {
    let (name, id) = (&row.name, &run.id);
    let process = row.detail.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    format!(
        "{name} does not wait: it still runs{process}, though its run was interrupted. `bursar run --resume {id}` continues it, \
         `bursar cancel {id} {}` ends it",
        typed(name)
    )
}

/// The answer for a run that is not active.
fn remembered(run: &RunRow, row: &JobRow) -> String {
    let name = &row.name;
    let resume = format!("bursar run --resume {}", run.id);
    let error = row.detail.error.as_ref().or(row.detail.how.as_ref());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    match row.state {
        State::Succeeded => {
            let mut parts: Vec<String> = Vec::new();
            parts.extend(row.detail.wall_ms.map(|ms| format!("in {}", time(Duration::from_millis(ms)))));
            parts.extend(row.detail.peak_rss_kb.map(|kb| format!("with {}", megabytes(kb.div_ceil(1000)))));
            parts.extend(row.detail.peak_vram_mb.map(|mb| format!("and {} of VRAM", megabytes(mb))));
            format!("{name} does not wait: it succeeded {}", parts.join(" ")).trim_end().to_owned()
        }
        State::Failed => format!("{name} does not wait: it failed{error}. Retry it with `{resume} --retry-failed`"),
        State::Cancelled => {
            format!("{name} does not wait: it was cancelled{error}. Retry it with `{resume} --retry-failed`")
        }
        _ if run.status == Status::Interrupted && row.detail.error.is_some() => {
            format!(
                "{name} waits for the run, which was interrupted while the job ran{error}. Resume it with `{resume}`"
            )
        }
        state if run.status == Status::Interrupted => {
            format!(
                "{name} waits for the run, which was interrupted while the job was {state}. Resume it with `{resume}`"
            )
        }
        state => format!("{name} is {state}, and run {} is {} but does not answer", run.id, run.status),
    }
}
