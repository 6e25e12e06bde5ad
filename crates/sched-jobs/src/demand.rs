//! What a job needs while it runs, and what all jobs together may use.

use core::fmt;
use std::sync::Arc;

/// What one job needs while it runs.
///
/// ```
/// use sched_jobs::Demand;
///
/// let demand = Demand::default();
/// assert_eq!((demand.cpu_slots, demand.ram_mb, demand.vram_mb), (1, 256, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Demand {
    /// CPU slots. More than the limit is refused at submit.
    pub cpu_slots: u32,
    /// Memory, in MB.
    pub ram_mb: u64,
    /// Video memory, in MB.
    pub vram_mb: u64,
    /// Named resources, such as `("licence", 1)`.
    pub named: Vec<(String, u64)>,
}

impl Default for Demand {
    fn default() -> Self {
        Self { cpu_slots: 1, ram_mb: 256, vram_mb: 0, named: Vec::new() }
    }
}

/// What all running jobs together may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// CPU slots: a hard limit, never exceeded.
    pub cpu_slots: u32,
    /// Memory, in MB: a soft limit. A job that is larger than it runs alone. 0 means unlimited.
    pub ram_mb: u64,
    /// Video memory, in MB: a soft limit. 0 means unlimited.
    pub vram_mb: u64,
    /// Named resources: hard limits.
    pub named: Vec<(String, u64)>,
}

/// Something there is only so much of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// CPU slots.
    Cpu,
    /// Memory.
    Ram,
    /// Video memory.
    Vram,
    /// Threads that run closures.
    Worker,
    /// A named resource.
    Named(Arc<str>),
}

impl Resource {
    /// The amount with its unit: `6.0 GB`, `2`.
    pub fn amount(&self, amount: u64) -> String {
        match self {
            Resource::Ram | Resource::Vram => megabytes(amount),
            _ => amount.to_string(),
        }
    }
}

/// Megabytes as people write them.
pub(crate) fn megabytes(mb: u64) -> String {
    if mb < 1000 { format!("{mb} MB") } else { format!("{}.{} GB", mb / 1000, mb % 1000 / 100) }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Cpu => f.write_str("CPU slots"),
            Resource::Ram => f.write_str("RAM"),
            Resource::Vram => f.write_str("VRAM"),
            Resource::Worker => f.write_str("a worker thread"),
            Resource::Named(name) => f.write_str(name),
        }
    }
}
