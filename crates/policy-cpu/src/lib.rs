//! Who runs next on a CPU.
//!
//! Room: interface.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod account;
mod context;
mod cpus;
mod fair;
mod ids;
mod lease;
mod refills;
mod scheduler;
mod thread;
mod time;
mod tree;

pub use account::{CpuAccount, ThreadCpuAccount};
pub use context::{Context, ContextId, ContextSpec, Endpoint, Overrun};
pub use cpus::{CPUS_MAX, CpuSet};
pub use fair::{FairQueue, FairState};
pub use ids::{Id, Stale};
pub use lease::{Evidence, Housekeeping, Lease, LeaseError, LeaseId, LeaseMode, LeaseSpec, LeaseState};
pub use refills::{REFILLS_MAX, Refill, Refills};
pub use scheduler::{
    CALL_DEPTH_MAX, CallError, Capacity, Dispatch, Handoff, Interrupt, Notice, Refused, STEAL_LOOKS, Scheduler, Wake,
};
pub use thread::{Class, Latency, Location, Process, ProcessId, Thread, ThreadId, ThreadSpec};
pub use time::{CHARGE_MAX, Nanos, VirtualTime, Weight};
