//! Which job starts, and what it waits for.
//!
//! Room: decisions. Knows jobs and time as a number; knows nothing of clocks, threads, locks or user code.
//!
//! Time comes in as an argument of [`Core`], and what a driver must do goes out as [`Effect`]s. `sched-jobs` drives it on threads; a simulator can drive it
//! as well, because the same calls give the same answers.
//!
//! `state.rs` moves a job from state to state, `decide/` chooses. The other files are the values that go in and come out: what a job needs
//! ([`Demand`], [`Limits`]), how waiting raises rank ([`Aging`]), what happened ([`Event`]), what went wrong ([`SubmitError`], [`Cause`]), and why a job waits
//! ([`Why`]).
//!
//! ```
//! use policy_jobs::{Aging, Core, Demand, Ended, Limits, NewJob, Rules, RunsOn, State};
//! use core::time::Duration;
//!
//! let limits = Limits { cpu_slots: 1, ram_mb: 0, vram_mb: 0, gpus: vec![], named: vec![] };
//! let mut core = Core::new(Rules {
//!     limits,
//!     workers: 4,
//!     running_max: 4,
//!     aging: Aging::default(),
//!     pause_timeout: Duration::from_secs(1),
//!     by_formula: false,
//!     seed: 1,
//! });
//! let Demand { cpu_slots, ram_mb, vram_mb, .. } = Demand::default();
//! let job = |name, priority| NewJob {
//!     name, is_unnamed: false, needs: &[], cpu_slots, ram_mb, vram_mb, priority, runs_on: RunsOn::Worker, options: None,
//! };
//! let mut batch = core.draft(None);
//! core.add(&mut batch, &job("thumbnails", 0))?;
//! core.add(&mut batch, &job("preview", 10))?;
//! let jobs = core.seal(&batch)?;
//! core.admit(0, jobs);
//!
//! // There is one CPU slot: the job with the higher priority runs first, the other after its end.
//! assert_eq!(core.pick(0), Some(1));
//! assert_eq!(core.pick(0), None);
//! core.ended(5_000, 1, Ended::Succeeded);
//! assert_eq!(core.pick(5_000), Some(0));
//! assert_eq!((core.state(0), core.state(1)), (State::Running, State::Succeeded));
//! # Ok::<(), policy_jobs::SubmitError>(())
//! ```
#![cfg_attr(not(test), no_std)] // tests may read a clock
#![forbid(unsafe_code)]

extern crate alloc;

mod aging;
mod constructors;
mod decide;
mod demand;
mod error;
mod event;
mod id;
mod state;
mod trace;
mod why;

pub use aging::{Aging, Time};
pub use decide::{
    CardUse, Core, Draft, Effect, Ended, JobFacts, JobOptions, NewJob, Others, PendingDemand, Retry, Rules, RunsOn,
    Scope, Usage,
};
pub use demand::{Demand, GPUS_MAX, Gpu, GpuDriver, Limits, Resource, megabytes};
pub use error::{Cause, ControlError, SubmitError};
pub use event::{Event, Followed, What};
pub use id::{JobId, Needed};
pub use state::{IllegalMove, Move, State};
pub use trace::{BadTraceId, TraceId};
pub use why::{CardAvailability, Holder, ResourceShortage, Waits, Why};
