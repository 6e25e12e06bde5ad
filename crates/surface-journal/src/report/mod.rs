//! One run as one HTML file: what happened, why it took so long, what it used.
//!
//! Room: surface.
//!
//! # Invariant
//! The file is self-contained: style, script and data are in it, it uses no network (its own policy forbids that), and no text of a job
//! can become part of the page. Its size is bounded by the number of jobs, not by what they wrote.
//!
//! Checked by `a_job_cannot_write_into_the_page` and `ten_thousand_jobs_stay_under_ten_megabytes`.

mod critical;
mod page;
mod spans;
mod text;
mod usage;

pub use critical::{Link, critical_path};
pub use spans::{Extent, Kind, Span, extents, lanes, spans};
pub use usage::{Level, usage};

use crate::{EventRow, JobRow, RunRow};

/// What was there to be used; 0 is "no limit".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPU slots.
    pub cpu_slots: u64,
    /// Memory.
    pub ram_mb: u64,
    /// Video memory.
    pub vram_mb: u64,
}

/// The data of a report.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The run.
    pub run: &'a RunRow,
    /// All its jobs in their order.
    pub jobs: &'a [JobRow],
    /// All its events in their order.
    pub events: &'a [EventRow],
    /// Pairs of a dependency and its dependent.
    pub edges: &'a [(u32, u32)],
    /// What there was.
    pub limits: Limits,
}

/// The report of a run.
///
/// ```
/// # use surface_journal::{Journal, Moved, NewJob, NewRun, State};
/// use surface_journal::report::{self, Facts, Limits};
/// # let dir = std::env::temp_dir().join(format!("bursar-doc-report-{}", std::process::id()));
/// # let journal = Journal::open(&dir)?;
/// # let run = journal.begin(NewRun { jobs: vec![NewJob::new("hello", "echo hello")], ..NewRun::new("greeting") })?;
/// # drop(run);
/// let id = journal.find("latest")?;
/// let (run, jobs, events) = (journal.run(&id)?, journal.jobs(&id)?, journal.events(&id)?);
/// let html = report::html(&Facts { run: &run, jobs: &jobs, events: &events, edges: &[], limits: Limits::default() });
/// assert!(html.starts_with("<!doctype html>"));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn html(facts: &Facts<'_>) -> String {
    page::write(facts)
}
