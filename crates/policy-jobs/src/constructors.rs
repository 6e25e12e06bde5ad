//! Constructors of the values that users write: demands, limits, retries, aging.
//!
//! Room: values. Knows nothing of jobs.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::aging::Aging;
use crate::decide::Retry;
use crate::demand::{Demand, Gpu, Limits};

impl Demand {
    /// One CPU slot and 256 MB of memory, as a job has that says nothing.
    ///
    /// ```
    /// use policy_jobs::Demand;
    ///
    /// let demand = Demand::new().cpu_slots(4).ram_mb(2_000).vram_mb(6_000).takes("licence", 1);
    /// assert_eq!((demand.cpu_slots, demand.gpus), (4, 0));
    /// assert_eq!(demand.named, [("licence".to_owned(), 1)]);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// CPU slots.
    pub fn cpu_slots(self, cpu_slots: u32) -> Self {
        Self { cpu_slots, ..self }
    }

    /// Memory, in MB.
    pub fn ram_mb(self, ram_mb: u64) -> Self {
        Self { ram_mb, ..self }
    }

    /// Video memory, in MB, on each of its graphics cards.
    pub fn vram_mb(self, vram_mb: u64) -> Self {
        Self { vram_mb, ..self }
    }

    /// Graphics cards.
    pub fn gpus(self, gpus: u32) -> Self {
        Self { gpus, ..self }
    }

    /// So much of a named resource, besides others.
    pub fn takes(mut self, resource: impl Into<String>, amount: u64) -> Self {
        self.named.push((resource.into(), amount));
        self
    }
}

impl Limits {
    /// So many CPU slots; memory is not limited, and there are no graphics cards and no named resources.
    ///
    /// ```
    /// use policy_jobs::{Gpu, Limits};
    ///
    /// let limits = Limits::new(8).ram_mb(32_000).gpu(Gpu::new("0", 16_000)).resource("licence", 2);
    /// assert_eq!((limits.cpu_slots, limits.vram_mb, limits.gpus.len()), (8, 0, 1));
    /// ```
    pub fn new(cpu_slots: u32) -> Self {
        Self { cpu_slots, ram_mb: 0, vram_mb: 0, gpus: Vec::new(), named: Vec::new() }
    }

    /// Memory, in MB.
    pub fn ram_mb(self, ram_mb: u64) -> Self {
        Self { ram_mb, ..self }
    }

    /// Video memory, in MB, where no graphics card is known.
    pub fn vram_mb(self, vram_mb: u64) -> Self {
        Self { vram_mb, ..self }
    }

    /// One more graphics card.
    pub fn gpu(mut self, gpu: Gpu) -> Self {
        self.gpus.push(gpu);
        self
    }

    /// So much of a named resource, besides others.
    pub fn resource(mut self, name: impl Into<String>, amount: u64) -> Self {
        self.named.push((name.into(), amount));
        self
    }
}

impl Retry {
    /// So many further attempts: after one second, two, four… and never after more than five minutes.
    ///
    /// ```
    /// use core::time::Duration;
    /// use policy_jobs::Retry;
    ///
    /// let retry = Retry::times(5).backoff(Duration::from_millis(10)).at_most(Duration::from_secs(1));
    /// assert_eq!((retry.times, retry.longest), (5, Duration::from_secs(1)));
    /// ```
    pub fn times(times: u32) -> Self {
        Self { times, ..Self::default() }
    }

    /// The first pause. Each is twice the one before.
    pub fn backoff(self, backoff: Duration) -> Self {
        Self { backoff, ..self }
    }

    /// No pause is longer than this.
    pub fn at_most(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }
}

impl Aging {
    /// A job gains `boost` for every `interval` that it waits.
    pub fn new(interval: Duration, boost: u32) -> Self {
        Self { interval, boost }
    }
}
