//! Resources that were allocated over time.
//!
//! Room: decisions.
//!
//! A paused job releases its CPU slots and keeps its memory, as in the scheduler.

use super::spans::{Kind, Span};
use crate::JobRow;

/// What is allocated from `at_us` on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// Microseconds since the run began.
    pub at_us: u64,
    /// CPU slots.
    pub cpu_slots: u64,
    /// Memory.
    pub ram_mb: u64,
    /// Video memory.
    pub vram_mb: u64,
}

/// The levels of a run, each lasting until the next; at most `most` (and 8) of them, where each is the highest of its stretch.
pub fn usage(spans: &[Span], jobs: &[JobRow], most: usize) -> Vec<Level> {
    let mut changes: Vec<(u64, [i128; 3])> = Vec::with_capacity(spans.len() * 2);
    for span in spans {
        let Some(given) = jobs.get(span.job as usize).map(JobRow::given) else { continue };
        let cpu = match span.kind {
            Kind::Waiting => continue,
            Kind::Running => given.cpu_slots.into(),
            Kind::Paused => 0,
        };
        let amounts = [cpu, given.ram_mb.into(), given.vram_mb.into()];
        changes.push((span.from_us, amounts));
        changes.push((span.to_us, amounts.map(|amount| -amount)));
    }
    changes.sort_unstable_by_key(|(at_us, _)| *at_us);
    let mut levels: Vec<Level> = vec![Level::default()];
    let mut now = [0_i128; 3];
    for (at_us, amounts) in changes {
        for (total, amount) in now.iter_mut().zip(amounts) {
            *total += amount;
        }
        let [cpu_slots, ram_mb, vram_mb] = now.map(|total| u64::try_from(total).unwrap_or(0));
        let level = Level { at_us, cpu_slots, ram_mb, vram_mb };
        match levels.last_mut() {
            Some(last) if last.at_us == at_us => *last = level,
            _ => levels.push(level),
        }
    }
    thin(levels, most.max(8))
}

/// Stretches of equal width, two levels for each at most: the highest in it, and what holds after it if nothing changes for longer.
fn thin(levels: Vec<Level>, most: usize) -> Vec<Level> {
    if levels.len() <= most {
        return levels;
    }
    let end_us = levels.last().map_or(0, |level| level.at_us);
    let width = end_us.div_ceil(most as u64 / 2 - 2).max(1);
    let mut thinned: Vec<Level> = Vec::with_capacity(most);
    let mut before = Level::default();
    for level in levels {
        let at_us = level.at_us / width * width;
        match thinned.last_mut() {
            Some(last) if last.at_us == at_us => *last = highest(*last, level),
            last => {
                if let Some(after_us) = last.map(|last| last.at_us + width).filter(|after_us| *after_us < at_us) {
                    thinned.push(Level { at_us: after_us, ..before });
                }
                // What held before holds into this stretch, until its first change.
                let holds = if level.at_us == at_us { level } else { before };
                thinned.push(highest(Level { at_us, ..level }, holds));
            }
        }
        before = level;
    }
    // The end is exact: a period must not seem to continue after it.
    if thinned.last().is_some_and(|last| last.at_us < end_us) {
        thinned.push(before);
    }
    thinned
}

fn highest(one: Level, other: Level) -> Level {
    Level {
        at_us: one.at_us,
        cpu_slots: one.cpu_slots.max(other.cpu_slots),
        ram_mb: one.ram_mb.max(other.ram_mb),
        vram_mb: one.vram_mb.max(other.vram_mb),
    }
}
