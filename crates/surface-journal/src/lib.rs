//! What runs leave behind: the journal, estimates for the next run, and reports.
//!
//! Room: surface. Knows files, SQLite and HTML; knows nothing of schedulers and processes.
//!
//! A plan is text that only the caller understands.
//!
//! - [`Journal`]: a SQLite database of runs, jobs and events, shared by every process of a user.
//! - [`Writer`]: records the events of one run without waiting for the disk, and reports how many of them are on the disk.
//! - [`Estimate`]: what earlier successes of the same command needed.
//! - [`report`]: one run as one HTML file.
//!
//! ```
//! use surface_journal::{Journal, Moved, NewJob, NewRun, Outcome, State, Status};
//!
//! # let dir = std::env::temp_dir().join(format!("bursar-doc-{}", std::process::id()));
//! let journal = Journal::open(&dir)?;
//! let run = journal.begin(NewRun { jobs: vec![NewJob::new("hello", "echo hello")], ..NewRun::new("greeting") })?;
//!
//! let writer = journal.writer(&run)?;
//! writer.record(Moved::new(0, 1, State::Ready));
//! writer.record(Moved::new(0, 1, State::Running));
//! writer.record(Moved::new(0, 1, State::Succeeded));
//! writer.finish(Outcome::Succeeded)?; // waits for the disk
//!
//! let id = journal.find("latest")?;
//! assert_eq!(journal.run(&id)?.status, Status::Succeeded);
//! assert_eq!(journal.jobs(&id)?[0].state, State::Succeeded);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alive;
mod bound;
mod dirs;
mod ending;
mod error;
mod event;
mod history;
mod id;
mod journal;
mod lock;
mod outputs;
mod prune;
mod read;
pub mod report;
mod rows;
mod runs;
mod schema;
mod stored;
mod writer;

pub use error::JournalError;
pub use event::{Demand, Detail, Event, Moved};
pub use history::{Estimate, group_fingerprint};
pub use id::RunId;
pub use journal::Journal;
pub use lock::RunLock;
pub use outputs::{FileStamp, Output, Outputs};
pub use prune::Prune;
pub use read::Filter;
pub use rows::{Counts, EventRow, JobRow, NewJob, NewRun, Outcome, RunRow, Status};
pub use runs::Reopened;
pub use sched_jobs::State;
pub use writer::{Options, Writer};
