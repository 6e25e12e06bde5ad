//! A DAG of jobs within limits of CPU slots, memory, video memory and named resources.
//!
//! Room: interface.
//!
//! `policy-jobs`, which has no clock and no thread, decides what runs next; `drive/` has the threads, clocks and processes.
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
pub use executor::{AttemptId, Executor, Order, Outcome, Reporter};
pub use job::{Job, Returns};
pub use policy_jobs::{
    Aging, BadTraceId, CardAvailability, CardUse, Cause, ControlError, Demand, Event, Followed, GPUS_MAX, Gpu,
    GpuDriver, Holder, IllegalMove, JobFacts, JobId, Limits, Move, Needed, Others, PendingDemand, Resource,
    ResourceShortage, Retry, State, SubmitError, TraceId, Usage, Waits, What, Why,
};
