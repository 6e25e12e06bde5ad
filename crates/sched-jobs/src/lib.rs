//! A graph of jobs within CPU slots, memory, video memory and named resources.
//!
//! Room: scheduler. `state.rs` moves a job from state to state, `decide/` says what runs next (no clock, no thread), `drive/`
//! has the threads, clocks and processes.
#![forbid(unsafe_code)]

mod aging;
mod config;
mod decide;
mod demand;
mod drive;
mod error;
mod event;
mod executor;
mod job;
mod state;
mod trace;
mod why;

pub use aging::Aging;
pub use config::{BadSetting, Config, Scheduler};
pub use decide::{CardUse, JobFacts, Others, Retry, Usage, Wanted};
pub use demand::{Demand, GPUS_MAX, Gpu, GpuDriver, Limits, Resource};
pub use drive::process;
pub use drive::{
    Builder, Ctx, Events, InputError, JobStatus, Jobs, Neighbours, Observer, Panics, Part, RunFailed, Summary, Target,
};
pub use error::{Cause, ControlError, SubmitError};
pub use event::{Event, What};
pub use executor::{Executor, Order, Outcome, Reporter, Ticket};
pub use job::{Job, JobError, JobId, Needed, Returns, Stopped};
pub use state::{IllegalMove, Move, State};
pub use trace::{BadTraceId, TraceId};
pub use why::{Holder, OnCards, Short, Waits, Why};
