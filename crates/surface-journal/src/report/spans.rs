//! From moves to spans of time: what each job did when.
//!
//! Room: decisions.
//!
//! # Invariant
//! The spans of one job do not overlap, and follow each other in the order of its events.

use std::collections::BTreeMap;

use sched_jobs::State;

use crate::EventRow;

/// What a job does during a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is ready and waits for room.
    Waiting,
    /// It runs.
    Running,
    /// It ran, and is paused.
    Paused,
}

/// A period in the life of a job, in microseconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Which job.
    pub job: u32,
    /// What it does.
    pub kind: Kind,
    /// From when.
    pub from_us: u64,
    /// To when; never before `from_us`.
    pub to_us: u64,
    /// The state that followed; the state it is still in, if none followed.
    pub then: State,
}

/// When a job first ran, and when it last stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first start of any attempt.
    pub from_us: u64,
    /// The end of the last.
    pub to_us: u64,
}

/// The spans of all jobs, in the order they ended. What is still open ends at `until_us`.
pub fn spans(events: &[EventRow], until_us: u64) -> Vec<Span> {
    let mut open: BTreeMap<u32, Span> = BTreeMap::new();
    let mut spans = Vec::new();
    for event in events {
        let before = open.remove(&event.job).map(|span| {
            let span = Span { to_us: event.offset_us.max(span.from_us), then: event.state, ..span };
            spans.push(span);
            span.kind
        });
        let kind = match event.state {
            State::Ready => Some(Kind::Waiting),
            State::Running => Some(Kind::Running),
            // Paused before it ran, it holds nothing and only waits longer.
            State::Paused => before.map(|before| if before == Kind::Running { Kind::Paused } else { before }),
            _ => None,
        };
        if let Some(kind) = kind {
            let from_us = event.offset_us;
            open.insert(event.job, Span { job: event.job, kind, from_us, to_us: from_us, then: event.state });
        }
    }
    spans.extend(open.into_values().map(|span| Span { to_us: until_us.max(span.from_us), ..span }));
    spans
}

/// From the first start to the last stop of each of `jobs` jobs; `None` for those that never ran.
pub fn extents(spans: &[Span], jobs: usize) -> Vec<Option<Extent>> {
    let mut extents: Vec<Option<Extent>> = vec![None; jobs];
    for span in spans.iter().filter(|span| span.kind != Kind::Waiting) {
        if let Some(extent) = extents.get_mut(span.job as usize) {
            let old = extent.unwrap_or(Extent { from_us: span.from_us, to_us: span.to_us });
            *extent = Some(Extent { from_us: old.from_us.min(span.from_us), to_us: old.to_us.max(span.to_us) });
        }
    }
    extents
}

/// A lane for each job, so that no two in a lane overlap, and no more lanes than jobs that ran at once.
pub fn lanes(extents: &[Option<Extent>]) -> Vec<Option<u32>> {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    let mut order: Vec<(Extent, usize)> =
        extents.iter().enumerate().filter_map(|(job, extent)| extent.map(|extent| (extent, job))).collect();
    order.sort_by_key(|(extent, job)| (extent.from_us, extent.to_us, *job));
    let mut lanes = vec![None; extents.len()];
    let mut busy: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
    let mut many = 0;
    for (extent, job) in order {
        while let Some(&Reverse((until, lane))) = busy.peek()
            && until <= extent.from_us
        {
            busy.pop();
            free.push(Reverse(lane));
        }
        let lane = free.pop().map_or_else(
            || {
                many += 1;
                many - 1
            },
            |Reverse(lane)| lane,
        );
        busy.push(Reverse((extent.to_us, lane)));
        lanes[job] = Some(lane);
    }
    lanes
}
