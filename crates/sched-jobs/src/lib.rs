//! A graph of jobs within CPU slots, memory, video memory and named resources.
//!
//! Room: scheduler. What runs next is decided by `policy-jobs`, which has no clock and no thread; `drive/` has the threads, clocks and processes, and asks it.
#![forbid(unsafe_code)]

mod config;
mod ctx;
mod drive;
mod error;
mod executor;
mod job;

pub use config::{BadSetting, Config, Scheduler};
pub use ctx::{Ctx, InputError, Stopped};
#[cfg(feature = "process")]
pub use drive::process;
pub use drive::{
    Builder, Events, Facts, JobStatus, Jobs, Neighbours, Observer, Panics, Part, RunFailed, Summary, Target,
};
pub use error::JobError;
pub use executor::{Executor, Order, Outcome, Reporter, Ticket};
pub use job::{Job, Returns};
pub use policy_jobs::{
    Aging, BadTraceId, CardUse, Cause, ControlError, Demand, Event, Followed, GPUS_MAX, Gpu, GpuDriver, Holder,
    IllegalMove, JobFacts, JobId, Limits, Move, Needed, OnCards, Others, Resource, Retry, Short, State, SubmitError,
    TraceId, Usage, Waits, Wanted, What, Why,
};
