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
mod refills;
mod time;
mod tree;

pub use account::{CpuAccount, ThreadCpuAccount};
pub use context::{Context, ContextId, ContextSpec, Endpoint, Overrun};
pub use cpus::{CPUS_MAX, CpuSet};
pub use fair::{FairQueue, FairState};
pub use ids::{Id, Stale};
pub use refills::{REFILLS_MAX, Refill, Refills};
pub use time::{CHARGE_MAX, Nanos, VirtualTime, Weight};
