//! What a run would start if others gave something back.
//!
//! Runs that share a machine must know of each other's waiting, not only of each other's use: else many small jobs of one would keep a large one of
//! another waiting for ever.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Core;
use super::room::{Lack, Need};
use crate::JobId;

/// A job that waits for what others hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
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
    /// The job that has waited longest for what others hold, and whether one waits only for the machine's memory.
    pub(super) fn wanted(&self) -> (Option<Wanted>, bool) {
        if let Some(&id) = self.resuming.front() {
            // It has its memory and lacks CPU slots; while it waits nothing else starts.
            let need = self.need(id);
            let mut wanted = self.as_wanted(id, need);
            (wanted.ram_mb, wanted.vram_mb, wanted.gpus, wanted.alone) = (0, 0, 0, false);
            wanted.named.clear();
            return (Some(wanted).filter(|_| self.room.could_come_back(need)), false);
        }
        let mut oldest = None;
        let mut lacks_memory = false;
        for (lane, head) in self.lanes.heads() {
            let need = &self.needs[lane.demand as usize];
            match self.room.lack(need) {
                Some(Lack::Others) => {
                    let age = (head.ready_since, head.id);
                    if oldest.is_none_or(|(known, _)| age < known) {
                        oldest = Some((age, need));
                    }
                }
                Some(Lack::Machine) => lacks_memory = true,
                Some(Lack::Own) | None => {}
            }
        }
        (oldest.map(|((_, id), need)| self.as_wanted(id, need)), lacks_memory)
    }

    fn as_wanted(&self, id: u32, need: &Need) -> Wanted {
        let names: Vec<_> = self.room.named().map(|(name, _)| name).collect();
        Wanted {
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
