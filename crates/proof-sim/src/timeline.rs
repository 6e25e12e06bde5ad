//! Which thread ran where, for pictures.
//!
//! Room: values.

use std::ops::Range;

use policy_cpu::Nanos;

/// The most spans that are kept. A picture shows fewer.
const SPANS_MAX: usize = 200_000;

/// A thread on a CPU, from a moment to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub cpu: u32,
    /// Who, by its number in [`Report::threads`](crate::Report::threads).
    pub thread: u32,
    /// When.
    pub time: Range<Nanos>,
}

/// Spans within a window of time.
#[derive(Debug)]
pub(crate) struct Recorder {
    window: Range<Nanos>,
    /// By CPU: who runs, and since when.
    running: Vec<Option<(u32, Nanos)>>,
    spans: Vec<Span>,
}

impl Recorder {
    pub(crate) fn new(cpus: usize, window: Range<Nanos>) -> Self {
        Recorder { window, running: vec![None; cpus], spans: Vec::new() }
    }

    /// From now on that thread runs there, or none.
    pub(crate) fn runs(&mut self, cpu: u32, thread: Option<u32>, now: Nanos) {
        let before = &mut self.running[cpu as usize];
        if before.map(|(thread, _)| thread) == thread {
            return;
        }
        if let Some((thread, since)) = std::mem::replace(before, thread.map(|thread| (thread, now))) {
            self.add(cpu, thread, since..now);
        }
    }

    fn add(&mut self, cpu: u32, thread: u32, time: Range<Nanos>) {
        let time = time.start.max(self.window.start)..time.end.min(self.window.end);
        if !time.is_empty() && self.spans.len() < SPANS_MAX {
            self.spans.push(Span { cpu, thread, time });
        }
    }

    /// The spans so far, in the order of their ends; those that last, up to now.
    pub(crate) fn spans(&self, now: Nanos) -> Vec<Span> {
        let mut all = Recorder { window: self.window.clone(), running: Vec::new(), spans: self.spans.clone() };
        for (cpu, running) in self.running.iter().enumerate() {
            if let Some((thread, since)) = *running {
                all.add(cpu as u32, thread, since..now);
            }
        }
        all.spans
    }
}
