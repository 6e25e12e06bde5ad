//! The job that a run would start if other runs released something.
//!
//! Room: decisions.
//!
//! Runs that share a machine must know what the others wait for, not only what they use. Otherwise many small jobs of one run would starve a large job of
//! another.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Core;
use super::room::{BlockedBy, Need};
use crate::JobId;

/// A job that waits for something that other runs hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDemand {
    /// The job.
    pub job: JobId,
    /// CPU slots.
    pub cpu_slots: u64,
    /// Memory, in MB.
    pub ram_mb: u64,
    /// Video memory, in MB: on all its cards together.
    pub vram_mb: u64,
    /// Graphics cards.
    pub gpus: u32,
    /// Named resources.
    pub named: Vec<(String, u64)>,
    /// Whether it is larger than a soft limit, so that it starts only when nothing else runs.
    pub alone: bool,
}

impl Core {
    /// The job that has waited longest for something that other runs hold, and whether a job waits only for memory of the machine.
    pub(super) fn pending_demand(&self) -> (Option<PendingDemand>, bool) {
        if let Some(&id) = self.resuming.front() {
            // It has its memory and needs CPU slots; while it waits no other job starts.
            let need = self.need(id);
            let mut pending = self.pending_demand_of(id, need);
            (pending.ram_mb, pending.vram_mb, pending.gpus, pending.alone) = (0, 0, 0, false);
            pending.named.clear();
            return (Some(pending).filter(|_| self.room.could_resume(need)), false);
        }
        let mut oldest = None;
        let mut lacks_memory = false;
        for (lane, head) in self.lanes.heads() {
            let need = &self.needs[lane.demand as usize];
            match self.room.blocked_by(need) {
                Some(BlockedBy::Others) => {
                    let age = (head.ready_since, head.id);
                    if oldest.is_none_or(|(known, _)| age < known) {
                        oldest = Some((age, need));
                    }
                }
                Some(BlockedBy::Machine) => lacks_memory = true,
                Some(BlockedBy::Own) | None => {}
            }
        }
        (oldest.map(|((_, id), need)| self.pending_demand_of(id, need)), lacks_memory)
    }

    fn pending_demand_of(&self, id: u32, need: &Need) -> PendingDemand {
        let names: Vec<_> = self.room.named().map(|(name, _)| name).collect();
        PendingDemand {
            job: JobId(id),
            cpu_slots: need.plain[super::room::CPU],
            ram_mb: need.plain[super::room::RAM],
            vram_mb: need.plain[super::room::VRAM],
            gpus: need.cards.count,
            named: need.named.iter().map(|&(i, n)| (names[usize::from(i)].to_string(), n)).collect(),
            alone: self.room.must_be_alone(need),
        }
    }
}
