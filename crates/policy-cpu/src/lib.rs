//! Who runs next on a CPU, with whose time: the decisions of a CPU scheduler, for kernels and runtimes.
//!
//! Room: interface.
//!
//! - **Fair shares**: [`FairQueue`], EEVDF over entities with weights and slices; or, to compare, another [`Policy`].
//! - **Shares of shares**: [`ShareTree`], the same over groups inside groups, for several CPUs.
//! - **Reserved time**: [`Refills`], a sporadic server; [`ContextSpec`], budget, period and deadline as something that can be bound, lent with a call, and revoked.
//! - **A whole machine**: [`Scheduler`], per-CPU queues of three classes (reserved by earliest deadline, fair, idle), wakes, migration and stealing, calls that take a
//!   context along, isolation leases, accounts.
//!
//! # Invariants
//! - No clock: every function that needs the time is told it.
//! - No allocation but in constructors. What they are given is all that they ever use.
//! - No `unsafe`, no `std`, no thread, no lock, no floating point.
//! - No handle reaches anything else than what it was made for: [`Id`]s carry a generation.
//!
//! A kernel with a lock for each CPU uses a [`FairQueue`] and [`Refills`] of its own under each; one with a single lock, or a simulator, uses the [`Scheduler`].
//!
//! ```
//! use policy_cpu::{Capacity, ContextSpec, Scheduler, ThreadSpec};
//!
//! let mut scheduler = Scheduler::new(Capacity::cpus(2), 0);
//! let process = scheduler.add_process()?;
//! let thread = scheduler.add_thread(&ThreadSpec::new(process))?;
//!
//! // 300 µs in every 5 ms, whatever else runs.
//! let context = scheduler.add_context(ContextSpec::new(300_000, 5_000_000), 0)?;
//! let _ = scheduler.bind(thread, Some(context), 0)?;
//!
//! let wake = scheduler.wake(thread, 10, None)?;
//! assert_eq!(wake.interrupt, Some(0)); // CPU 0 idles: interrupt it
//! let dispatch = scheduler.schedule(0, 12);
//! assert_eq!((dispatch.thread, dispatch.at_most), (Some(thread), Some(300_000)));
//! # Ok::<(), policy_cpu::Refused>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// So that the examples of the guide are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernel.md")]
struct Guide;

mod account;
mod context;
mod cpus;
mod fair;
mod ids;
mod lease;
mod node;
mod policy;
mod pool;
mod queue;
mod refills;
mod scheduler;
mod shares;
mod thread;
mod time;
mod tree;

pub use account::{CpuAccount, ThreadCpuAccount};
pub use context::{Context, ContextId, ContextSpec, Endpoint, Overrun, Session};
pub use cpus::{CPUS_MAX, CpuSet};
pub use fair::FairState;
pub use ids::{Id, Stale};
pub use lease::{Evidence, Housekeeping, Lease, LeaseError, LeaseId, LeaseMode, LeaseSpec, LeaseState};
pub use policy::Policy;
pub use queue::FairQueue;
pub use refills::{REFILLS_MAX, Refill, Refills};
pub use scheduler::{
    CALL_DEPTH_MAX, CallError, Capacity, Dispatch, Handoff, Interrupt, Notice, Refused, STEAL_LOOKS, Scheduler, Wake,
};
pub use shares::{DEPTH_MAX, GroupIndex, ShareError, ShareTree};
pub use thread::{Class, Latency, Location, Process, ProcessId, Thread, ThreadId, ThreadSpec};
pub use time::{CHARGE_MAX, Nanos, VirtualTime, Weight};
