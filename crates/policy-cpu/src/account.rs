//! What was used, and by whom.
//!
//! Room: values. Knows nothing of clocks.
//!
//! # Invariant
//! Each interval of a CPU is charged exactly once: to the thread that ran, or to idle. So over all accounts the charges add up to the time that passed, times the CPUs.

use crate::time::Nanos;

/// What one thread used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadCpuAccount {
    /// Time on a CPU, up to the last charge.
    pub runtime: Nanos,
    /// Since when it is on a CPU without having been charged.
    pub last_start: Option<Nanos>,
    /// How often it got a CPU.
    pub switches: u64,
    /// How often it lost one although it could have gone on.
    pub preemptions: u64,
    /// How often it gave one up.
    pub voluntary_blocks: u64,
}

/// What one CPU did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuAccount {
    /// Time in threads.
    pub busy: Nanos,
    /// Time without one.
    pub idle: Nanos,
    /// How often another thread ran than before.
    pub switches: u64,
    /// How often it was interrupted because of a thread that another CPU woke.
    pub interrupts: u64,
    /// How many threads it took from other CPUs.
    pub steals: u64,
    /// How many queues of other CPUs it looked at to find them.
    pub steal_looks: u64,
    /// How many threads came here from another CPU, by steals, wakes and migrations.
    pub arrivals: u64,
    /// How often the clock went back. Such an interval is charged as zero.
    pub clock_steps_back: u64,
}
