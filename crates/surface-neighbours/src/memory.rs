//! Memory that is really free: promised to no job, and used by no other program.
//!
//! Room: driver.
//!
//! Memory that a job was promised and does not use yet looks free to the system, but is not. So the free memory is what the system has
//! available, less what is promised and not used, less a reserve. It is read at most ten times a second, all figures at
//! one moment: what was available and what was used belong together.

use core::fmt;

use mech_process::machine::memory_total_mb;

use crate::record::{RAM, Record};

const FRESH_NS: u64 = 100_000_000;

/// Where figures come from.
pub(crate) struct Sources {
    pub(crate) available_mb: Box<dyn FnMut() -> Option<u64> + Send>,
    pub(crate) resident_mb: Box<dyn FnMut() -> u64 + Send>,
    /// Of each card: its id, how much it has, how much of that is used.
    pub(crate) vram_mb: Box<dyn FnMut() -> Vec<(String, u64, u64)> + Send>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct Memory {
    sources: Sources,
    reserve_mb: u64,
    looked_at: Option<u64>,
    available_mb: Option<u64>,
    resident_mb: u64,
    vram_mb: Vec<(String, u64, u64)>,
}

impl Memory {
    pub(crate) fn new(sources: Sources, reserve_mb: u64) -> Self {
        Self { sources, reserve_mb, looked_at: None, available_mb: None, resident_mb: 0, vram_mb: Vec::new() }
    }

    /// Reads the figures, unless they are fresh.
    pub(crate) fn look(&mut self, now: u64) {
        if self.looked_at.is_some_and(|at| now.saturating_sub(at) < FRESH_NS) {
            return;
        }
        self.looked_at = Some(now);
        self.available_mb = (self.sources.available_mb)();
        self.resident_mb = (self.sources.resident_mb)();
        self.vram_mb = (self.sources.vram_mb)();
    }

    /// What our jobs use of the memory they were promised.
    pub(crate) fn resident_mb(&self) -> u64 {
        self.resident_mb
    }

    /// What could be promised now, given what we have promised already.
    pub(crate) fn free_mb(&self, promised: u64, others: &[(usize, Record)]) -> Option<u64> {
        let unused = |promised: u64, resident: u64| promised.saturating_sub(resident);
        let theirs = others.iter().map(|(_, run)| unused(run.held[RAM], run.resident_mb));
        let unused = theirs.fold(unused(promised, self.resident_mb), u64::saturating_add);
        Some(self.available_mb?.saturating_sub(unused).saturating_sub(self.reserve_mb))
    }

    /// The same for a graphics card. How much of it each process uses is not asked, so it is exact only if jobs use what they were
    /// promised, or other programs use none.
    pub(crate) fn card_free_mb(&self, id: &str, number: u64, promised: u64, others: &[(usize, Record)]) -> Option<u64> {
        let (_, total, used) = self.vram_mb.iter().find(|(known, ..)| known == id)?;
        let promised = others.iter().fold(promised, |sum, (_, run)| sum.saturating_add(run.held_of(number)));
        Some(total.saturating_sub((*used).max(promised)))
    }
}

/// Memory that is left to the system whatever jobs want: 256 MB, or a twentieth of a small machine.
pub(crate) fn usual_reserve_mb() -> u64 {
    memory_total_mb().map_or(256, |total| (total / 20).min(256))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Named;
    use crate::record::tests::sample;

    fn memory(available: u64, resident: u64, used_of_card: Option<u64>) -> Memory {
        let sources = Sources {
            available_mb: Box::new(move || Some(available)),
            resident_mb: Box::new(move || resident),
            vram_mb: Box::new(move || used_of_card.map(|used| ("a".to_owned(), 8000, used)).into_iter().collect()),
        };
        let mut memory = Memory::new(sources, 100);
        memory.look(0);
        memory
    }

    #[test]
    fn what_is_promised_and_not_used_is_not_free() {
        let theirs = [(0, Record { held: [0, 3000, 0], resident_mb: 1000, ..sample() })];
        assert_eq!(memory(10_000, 500, None).free_mb(1500, &theirs), Some(10_000 - 1000 - 2000 - 100));
    }

    #[test]
    fn jobs_that_use_more_than_promised_take_nothing_from_the_others() {
        let theirs = [(0, Record { held: [0, 100, 0], resident_mb: 9000, ..sample() })];
        assert_eq!(memory(1000, 900, None).free_mb(200, &theirs), Some(900));
    }

    #[test]
    fn memory_of_a_card_is_what_is_neither_used_nor_promised() {
        let named = vec![Named { name: 21, held: 2000, wanted: 0, limit: 0 }];
        let theirs = [(0, Record { named, ..sample() })];
        assert_eq!(memory(0, 0, Some(500)).card_free_mb("a", 21, 3000, &theirs), Some(3000));
        assert_eq!(memory(0, 0, Some(7000)).card_free_mb("a", 21, 3000, &theirs), Some(1000));
        assert_eq!(
            memory(0, 0, Some(500)).card_free_mb("a", 22, 3000, &theirs),
            Some(5000),
            "theirs is on another card"
        );
        assert_eq!(memory(0, 0, None).card_free_mb("a", 21, 3000, &theirs), None);
    }

    #[test]
    fn it_looks_ten_times_a_second_at_most() {
        let mut looks = 0;
        let (count, counted) = std::sync::mpsc::channel();
        let sources = Sources {
            available_mb: Box::new(move || count.send(()).ok().map(|()| 1)),
            resident_mb: Box::new(|| 0),
            vram_mb: Box::new(Vec::new),
        };
        let mut memory = Memory::new(sources, 0);
        for ms in 0..1000 {
            memory.look(ms * 1_000_000);
            looks += counted.try_iter().count();
        }
        assert_eq!(looks, 10);
    }
}
