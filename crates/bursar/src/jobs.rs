//! Jobs: a graph of heavy work within CPU slots, memory, video memory and resources of your own.
//!
//! Room: interface.
//!
//! A [task](crate#tasks-and-nurseries) is cheap and belongs to the code that started it. A *job* is dear: it may take minutes and gigabytes, waits for other jobs, waits
//! for room, can be paused, retried and asked [why it waits](Jobs::why).
//!
//! ```
//! use bursar::jobs::{Job, Jobs};
//!
//! let jobs = Jobs::builder().cpu_slots(4).ram_mb(8_000).vram_mb(16_000).build();
//! let board = jobs.submit(Job::new("storyboard").priority(100).run(|ctx| ctx.progress(1.0)))?;
//! let render = |i: u64| Job::new(format!("image-{i}")).needs(&board).vram_mb(6_000).try_run(move |ctx| {
//!     ctx.progress(0.5)?; // a checkpoint: here it stands still while it is paused, and ends if it is cancelled
//!     Ok(i * i)
//! });
//! let images = jobs.submit_all((0..8).map(render))?;
//! jobs.submit(Job::new("compose").needs_all(&images).ram_mb(2_000).try_run(|ctx| {
//!     let last = ctx.input::<u64>("image-7")?; // what a job returns, those that need it can read
//!     Ok(assert_eq!(*last, 49))
//! }))?;
//! println!("{}", jobs.why("compose")?); // compose waits for image-0 (queued), image-1 (queued)… and 3 more
//! assert_eq!(jobs.wait()?.succeeded, 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which job runs next
//!
//! Of the ready jobs that fit, the one with the highest *effective priority*: its own, and one more for every half second it has waited ([`Aging`]). Among equals, the one that was ready earlier,
//! then the one that was submitted earlier. CPU slots and named resources are never exceeded. Memory is a soft limit: a job larger than all of it runs when nothing else does.
//! Video memory is, too, unless the [cards](JobsBuilder::gpus) are known: then each job gets [cards](Ctx::gpus) with enough free, and none is promised beyond its memory.
//! A job that does not fit while others pass it by gets a reservation after a while: room is kept for it, so no job starves.
//!
//! # Parts, keys and retries
//!
//! A program that serves requests has one scheduler, and a [`Part`] of it for each request: its jobs are waited for, paused and cancelled apart, and carry its [`TraceId`].
//! A job with a [key](Job::key) can be submitted again by a caller that does not know whether it was heard: it runs once. An error that is
//! [permanent](JobError::permanent) is not retried.
//!
//! ```
//! use bursar::jobs::{Job, JobError, Jobs};
//!
//! let jobs = Jobs::builder().cpu_slots(4).build();
//! let film = jobs.part("film-7");
//! for _ in 0..2 { // the second time changes nothing
//!     film.submit(Job::new("render").key("film-7/render").retries(3).run(|ctx| match ctx.attempt() {
//!         1 => Err(JobError::permanent("no such scene")),
//!         _ => Ok(()),
//!     }))?;
//! }
//! let failed = film.wait().unwrap_err();
//! assert_eq!(failed.summary.failed, 1);
//! let status = &film.statuses()[0];
//! assert_eq!((status.attempts, status.trace_id), (1, Some(film.trace_id())));
//! assert!(status.ended >= status.started);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Closures and everything else
//!
//! Closures run as [thread tasks](crate::task::TaskBuilder::on_thread), one for each CPU slot, or as fibers ([`Job::light`]), and may open a [`nursery`](crate::nursery) for the small things inside: cancelling and pausing
//! reach those, and [`Job::budget`] limits them. A [flow can be a job](FlowJob), and jobs a [node of a flow](crate::flow::jobs_for). A [seeded](crate::Builder::seeded) run decides over jobs, too. Work that is not a closure is done by an
//! [`Executor`]; [`process`] has one for commands, as whole trees of processes that are frozen, measured and ended as one, and found again after this program was killed.
//!
//! The command `bursar run` is made of these parts, a file format, and a journal.
#[cfg(feature = "flow")]
#[doc(inline)]
pub use crate::bridge::FlowJob;
#[cfg(feature = "process")]
#[doc(inline)]
pub use sched_jobs::process;
#[doc(inline)]
pub use sched_jobs::{
    Aging, AttemptId, BadSetting, BadTraceId, Builder as JobsBuilder, CardAvailability, CardUse, Cause, Config,
    ControlError, Ctx, Demand, Event, Events, Executor, Facts, GPUS_MAX, Gpu, GpuDriver, Holder, IllegalMove,
    InputError, Job, JobError, JobFacts, JobId, JobStatus, Jobs, Limits, Move, Needed, Neighbours, Observer, Order,
    Others, Outcome, Panics, Part, PendingDemand, Reporter, Resource, ResourceShortage, Retry, Returns, RunFailed,
    Scheduler, State, Stopped, SubmitError, Summary, Target, TraceId, Usage, Waits, What, Why,
};
