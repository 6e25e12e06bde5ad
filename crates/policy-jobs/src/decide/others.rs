//! What others on this machine use.

use alloc::string::String;
use alloc::vec::Vec;

use super::cards::CardUse;

/// What others on this machine use, as far as we know.
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
    /// Memory that is really free on this machine and promised to nobody, in MB; `None` if nobody knows.
    pub ram_free_mb: Option<u64>,
    /// Memory that could be free if no other program ran, in MB. A job that needs no more than this waits for it, also if nothing else runs here. `None`: a job that runs
    /// alone does not wait.
    pub ram_most_mb: Option<u64>,
    /// Video memory that is really free, in MB; `None` if nobody knows.
    pub vram_free_mb: Option<u64>,
    /// What they hold of each of our cards, in our order; those that are missing are free.
    pub cards: Vec<CardUse>,
    /// Named resources they hold.
    pub named: Vec<(String, u64)>,
    /// How much of the CPU slots, memory and video memory above nobody holds, because it is kept for a run that has waited longer than
    /// this one. `None` if none has.
    pub kept: Option<[u64; 3]>,
}
