//! One budget for all runs of a user on a machine.
//!
//! Room: interface.
//!
//! Every run keeps a record of what it uses in one small file, under one lock. It reads what the others use, decides what it
//! starts, writes what it uses, and releases the lock. There is no server: the file is all there is, and the last run leaves it empty.
//!
//! # Invariants
//! - What all runs use together never exceeds the hard limit of the run that started something last.
//! - A run that died uses nothing: its share is free at once, for the runs that wait.
//! - No run starts a job that takes what an older waiter of another run needs, once that one has waited for three aging intervals.
//! - A run that does not wait does not poll. A run that waits for memory that other programs hold checks twice a second.
//!
//! # Why they hold
//! `shared_budget.rs` decides and writes under the lock, before anything starts (`the_limit_holds_whatever_processes_do`). `alive.rs` knows a process
//! by its number *and* the time it started, and watches it by a descriptor (`a_killed_run_gives_back_at_once`). `fair.rs` counts
//! what is wanted as if it were held (`a_large_job_is_not_starved_by_another_runs_small_ones`). `notifier.rs` notifies the runs that wait.
//!
//! ```no_run
//! use sched_jobs::{Config, Jobs};
//! use surface_neighbours::{Settings, join};
//!
//! let config = Config::default();
//! let (budget, notifier) = join(Settings::new(&config))?;
//! let jobs = Jobs::builder().config(config).neighbours(budget).build();
//! let poked = jobs.clone();
//! let listener = notifier.listen(move || poked.poke())?;
//! // … submit, wait …
//! drop(listener); // before the jobs, which it holds
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alive;
mod budget_file;
mod dir;
mod error;
mod fair;
mod keeper_dir;
mod memory;
mod notifier;
mod record;
mod shared_budget;
mod view;

pub use error::JoinError;
pub use notifier::{Listener, Notifier};
pub use shared_budget::{Settings, SharedBudget, join};
pub use view::{Run, runs, runs_in};

/// Limit of runs at a time; further ones wait for one of them to end.
pub const RUNS_MAX: usize = 256;

/// Limit of named resources that a run can share.
pub const NAMED_MAX: usize = 24;

/// Nanoseconds on a clock that all processes of this machine share.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
