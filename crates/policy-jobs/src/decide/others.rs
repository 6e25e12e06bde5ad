//! What other runs and programs on this machine use.
//!
//! Room: values.

use alloc::string::String;
use alloc::vec::Vec;

use super::cards::CardUse;

/// What other runs on this machine use, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// How many jobs they run.
    pub running: usize,
    /// CPU slots they hold.
    pub cpu_slots: u64,
    /// Memory they were promised, in MB.
    pub ram_mb: u64,
    /// Video memory they were promised, in MB.
    pub vram_mb: u64,
    /// Memory that is really free on this machine and promised to no run, in MB; `None` if unknown.
    pub ram_free_mb: Option<u64>,
    /// Memory that could be free if no other program ran, in MB. A job that needs no more than this waits for it, even if nothing else runs here. `None`: a job that runs
    /// alone does not wait.
    pub ram_most_mb: Option<u64>,
    /// Video memory that is really free, in MB; `None` if unknown.
    pub vram_free_mb: Option<u64>,
    /// What they hold of each of our cards, in our order; missing cards are free.
    pub cards: Vec<CardUse>,
    /// Named resources they hold.
    pub named: Vec<(String, u64)>,
    /// How much of the CPU slots, memory and video memory above is not held but reserved for a run that has waited longer than
    /// this one. `None` if there is no such run.
    pub kept: Option<[u64; 3]>,
}
