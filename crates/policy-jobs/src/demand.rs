//! What a job needs while it runs, and what all jobs together may use.

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
    /// Graphics cards. 0 means one if it asks for video memory, else none. Without video memory they are its own, whole.
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
    /// Memory, in MB: a soft limit. A job that is larger than it runs alone. 0 means unlimited.
    pub ram_mb: u64,
    /// Video memory, in MB, where no card is known: a soft limit. 0 means unlimited.
    pub vram_mb: u64,
    /// Graphics cards, each with its own memory: hard limits. The first [`GPUS_MAX`] of them are used.
    pub gpus: Vec<Gpu>,
    /// Named resources: hard limits.
    pub named: Vec<(String, u64)>,
}

/// The most graphics cards that one scheduler hands out.
pub const GPUS_MAX: usize = 64;

/// A graphics card that jobs may run on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gpu {
    /// What its driver knows it by: an index, or a UUID.
    pub id: String,
    /// Memory that jobs may use of it, in MB. 0 means that nobody knows: then it is not counted.
    pub vram_mb: u64,
    /// Which driver that is.
    pub driver: GpuDriver,
}

/// What a graphics card is driven by, which decides how a process is told its cards.
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
    /// The variable by which a process is told which cards it may see.
    ///
    /// Only this one is set: HIP reads `CUDA_VISIBLE_DEVICES`, too, and counts from what `ROCR_VISIBLE_DEVICES` left.
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

/// Something there is only so much of.
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
