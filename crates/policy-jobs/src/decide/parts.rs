//! Parts of a graph: jobs that were submitted through one handle, counted separately.
//!
//! Room: decisions.
//!
//! # Invariants
//! - `open` of a part is the number of its jobs that have not ended.
//! - A job without a part costs nothing here: one bit of its flags says so.
//!
//! # Why they hold
//! `open` rises when a job is admitted or revived. It falls in `Core::end`, the only function that makes a job terminal; a job that succeeds within a chain
//! is also ended there if it has a part. The jobs of a batch have consecutive numbers, so a batch is one range, however large it is.
//!
//! Checked after every step of random histories by `laws_hold_after_every_step`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;

use super::Core;
use super::graph::{NONE, PART};
use crate::trace::TraceId;

#[derive(Debug)]
struct Part {
    name: Box<str>,
    trace: TraceId,
    jobs: Vec<Range<u32>>,
    open: usize,
}

#[derive(Debug, Default)]
pub(super) struct Parts {
    all: Vec<Part>,
    by_name: HashMap<Box<str>, u32>,
    /// Ranges of jobs with their part, in the order of job numbers.
    ranges: Vec<(Range<u32>, u32)>,
    has_ended: bool,
}

impl Parts {
    /// These jobs, which have the highest numbers so far, belong to that part.
    pub(super) fn add(&mut self, part: u32, jobs: Range<u32>) {
        if part == NONE || jobs.is_empty() {
            return;
        }
        let own = &mut self.all[part as usize].jobs;
        match own.last_mut() {
            Some(last) if last.end == jobs.start => last.end = jobs.end,
            _ => own.push(jobs.clone()),
        }
        match self.ranges.last_mut() {
            Some((last, of)) if *of == part && last.end == jobs.start => last.end = jobs.end,
            _ => self.ranges.push((jobs, part)),
        }
    }

    fn of(&self, id: u32) -> u32 {
        let after = self.ranges.partition_point(|(jobs, _)| jobs.start <= id);
        self.ranges[after - 1].1
    }
}

impl Core {
    /// The part with that name. If there is none, a new one with that trace id.
    pub fn part(&mut self, name: &str, trace: TraceId) -> u32 {
        if let Some(&part) = self.parts.by_name.get(name) {
            return part;
        }
        let part = self.parts.all.len() as u32;
        self.parts.all.push(Part { name: name.into(), trace, jobs: Vec::new(), open: 0 });
        self.parts.by_name.insert(name.into(), part);
        part
    }

    /// The part with that name.
    pub fn find_part(&self, name: &str) -> Option<u32> {
        self.parts.by_name.get(name).copied()
    }

    /// The part that a job belongs to.
    #[inline]
    pub fn part_of(&self, id: u32) -> Option<u32> {
        self.nodes[id as usize].is(PART).then(|| self.parts.of(id))
    }

    /// The name of a part.
    pub fn part_name(&self, part: u32) -> &str {
        &self.parts.all[part as usize].name
    }

    /// The trace id of a part.
    pub fn part_trace(&self, part: u32) -> TraceId {
        self.parts.all[part as usize].trace
    }

    /// The trace id of the part that a job belongs to.
    pub fn trace_id(&self, id: u32) -> Option<TraceId> {
        self.trace_of(id).given()
    }

    /// The trace id in the events of a job.
    pub(super) fn trace_of(&self, id: u32) -> TraceId {
        self.part_of(id).map_or(TraceId::NONE, |part| self.part_trace(part))
    }

    pub(super) fn has_parts(&self) -> bool {
        !self.parts.all.is_empty()
    }

    /// The number of jobs of a part that have not ended.
    pub fn part_open(&self, part: u32) -> usize {
        self.parts.all[part as usize].open
    }

    /// The jobs of a part, in the order of submission.
    pub fn part_jobs(&self, part: u32) -> impl Iterator<Item = u32> {
        self.parts.all[part as usize].jobs.iter().cloned().flatten().filter(|id| *id < self.admitted)
    }

    /// Whether a part has ended since the last call.
    #[inline]
    pub fn take_part_ended(&mut self) -> bool {
        core::mem::take(&mut self.parts.has_ended)
    }

    /// A job of a part begins a life cycle.
    #[cold]
    pub(super) fn opens_in_part(&mut self, id: u32) {
        let part = self.parts.of(id);
        self.parts.all[part as usize].open += 1;
    }

    /// A job of a part has ended.
    #[cold]
    pub(super) fn ends_in_part(&mut self, id: u32) {
        let part = self.parts.of(id);
        let open = &mut self.parts.all[part as usize].open;
        *open -= 1;
        self.parts.has_ended |= *open == 0;
    }
}
