//! One event of a run, one line: for pipes and files.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//! These lines are an interface: scripts read them. Words are added, never changed.
//!
//! Seconds since the run began, a word, the job, and details.
//!
//! ```text
//!     0.104  started   storyboard
//!     2.204  done      storyboard: 2.1 s
//!     9.100  failed    image[3]: exited with 3; attempt 3, 1.2 s; log /home/…/logs/3.3.log
//! ```

use std::time::Duration;

use sched_jobs::What;

use super::board::Change;
use crate::control::event::Event;
use crate::view::text::{stamp, time};

/// The event of a job, with what the board knows of it. `None` for events that are not shown.
pub(crate) fn job_event(at: Duration, job: &str, what: What, change: Option<Change>) -> Option<Event<'static>> {
    let mut event = Event::of_job(at, job.to_owned(), what)?;
    if let Some(Change { attempt, ran, .. }) = change {
        event.attempt = if event.attempt == 0 { attempt } else { event.attempt };
        event.ran_ms = ran.map(|ran| ran.as_millis() as u64);
    }
    Some(event)
}

/// For people and `grep`. `None` for what would only be noise.
pub(crate) fn plain(event: &Event<'_>) -> Option<String> {
    let ran = event.ran_ms.map(Duration::from_millis);
    let log = event.log.as_ref().map(|log| format!("; log {}", log.display())).unwrap_or_default();
    let error = event.error.as_deref().unwrap_or("no reason given");
    let attempt = if event.attempt > 1 { format!("attempt {}, ", event.attempt) } else { String::new() };
    let (word, rest) = match event.event {
        "started" if event.attempt > 1 => ("started", format!("attempt {}", event.attempt)),
        "started" => ("started", String::new()),
        "succeeded" => match ran {
            Some(ran) => ("done", format!("{attempt}{}", time(ran))),
            None => ("done", "already".to_owned()),
        },
        "failed" => ("failed", format!("{error}; {attempt}{}{log}", time(ran.unwrap_or_default()))),
        "cancelled" => ("cancelled", format!("{error}{log}")),
        "retrying" => {
            let after = Duration::from_millis(event.after_ms.unwrap_or(0).into());
            ("retrying", format!("attempt {} failed: {error}; again in {}{log}", event.attempt, time(after)))
        }
        "paused" | "resumed" => (event.event, String::new()),
        "revived" => ("revived", "it is retried".to_owned()),
        "waiting" => ("waiting", event.why.clone().unwrap_or_default()),
        _ => return None,
    };
    let job = event.job.as_deref().unwrap_or_default();
    let colon = if rest.is_empty() { "" } else { ": " };
    Some(format!("{}{word:<9} {job}{colon}{rest}", stamp(Duration::from_millis(event.at_ms))))
}
