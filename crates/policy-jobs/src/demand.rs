//! What a job needs while it runs, and what all jobs together may use.
//!
//! Room: values.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// What one job needs while it runs.
///
/// ```
/// use policy_jobs::Demand;
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
    /// Video memory, in MB: on each of its cards.
    pub vram_mb: u64,
    /// Graphics cards. 0 means one card if it asks for video memory, else none. Without `vram_mb` it has whole cards for itself.
    pub gpus: u32,
    /// Named resources, such as `("licence", 1)`.
    pub named: Vec<(String, u64)>,
}

impl Default for Demand {
    fn default() -> Self {
        Self { cpu_slots: 1, ram_mb: 256, vram_mb: 0, gpus: 0, named: Vec::new() }
    }
}

/// What all running jobs together may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// CPU slots: a hard limit, never exceeded.
    pub cpu_slots: u32,
    /// Memory, in MB: a soft limit. A job that needs more runs alone. 0 means unlimited.
    pub ram_mb: u64,
    /// Video memory, in MB, where no card is known: a soft limit. 0 means unlimited.
    pub vram_mb: u64,
    /// Graphics cards, each with its own memory: hard limits. The first [`GPUS_MAX`] of them are used.
    pub gpus: Vec<Gpu>,
    /// Named resources: hard limits.
    pub named: Vec<(String, u64)>,
}

/// The limit of graphics cards of one scheduler.
pub const GPUS_MAX: usize = 64;

/// A graphics card that jobs may run on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gpu {
    /// Its id for its driver: an index, or a UUID.
    pub id: String,
    /// Memory of it that jobs may use, in MB. 0 means unknown: then it is not counted.
    pub vram_mb: u64,
    /// Its driver.
    pub driver: GpuDriver,
}

/// The driver of a graphics card. It decides by which variable a process gets its cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum GpuDriver {
    /// NVIDIA's.
    #[default]
    Cuda,
    /// AMD's.
    Rocm,
}

impl GpuDriver {
    /// The variable that lists the cards a process may see.
    ///
    /// Only this one is set: HIP reads `CUDA_VISIBLE_DEVICES`, too, and applies it after `ROCR_VISIBLE_DEVICES`.
    pub const fn variable(self) -> &'static str {
        match self {
            GpuDriver::Cuda => "CUDA_VISIBLE_DEVICES",
            GpuDriver::Rocm => "ROCR_VISIBLE_DEVICES",
        }
    }
}

impl Gpu {
    /// A card by its index or UUID, with so much memory, in MB.
    pub fn new(id: impl Into<String>, vram_mb: u64) -> Self {
        Self { id: id.into(), vram_mb, driver: GpuDriver::default() }
    }
}

/// A limited resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// CPU slots.
    Cpu,
    /// Memory.
    Ram,
    /// Video memory.
    Vram,
    /// Whole graphics cards.
    Gpu,
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
pub fn megabytes(mb: u64) -> String {
    if mb < 1000 { format!("{mb} MB") } else { format!("{}.{} GB", mb / 1000, mb % 1000 / 100) }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Cpu => f.write_str("CPU slots"),
            Resource::Ram => f.write_str("RAM"),
            Resource::Vram => f.write_str("VRAM"),
            Resource::Gpu => f.write_str("GPUs"),
            Resource::Worker => f.write_str("a worker thread"),
            Resource::Named(name) => f.write_str(name),
        }
    }
}
