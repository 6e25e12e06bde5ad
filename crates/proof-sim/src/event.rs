//! What happens next, and when.
//!
//! Room: mechanism.
//!
//! A heap of sixteen bytes an entry: a time, and what happens packed into the rest, with a count in between, so that of two events at the same time the one that was
//! scheduled first comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use policy_cpu::Nanos;

/// Something that happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The timer of a CPU fires, unless another was set since.
    Timer { cpu: u32, epoch: u32 },
    /// An interrupt arrives at a CPU.
    Interrupt { cpu: u32 },
    /// A thread that sleeps is due, unless it has been woken since.
    Wake { thread: u32 },
}

#[derive(Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u32, Event)>>,
    count: u32,
}

impl Events {
    pub(crate) fn add(&mut self, at: Nanos, event: Event) {
        self.count = self.count.wrapping_add(1);
        self.heap.push(Reverse((at, self.count, event)));
    }

    /// The next event that is not after `until`.
    pub(crate) fn next(&mut self, until: Nanos) -> Option<(Nanos, Event)> {
        let Reverse((at, _, _)) = self.heap.peek()?;
        if *at > until {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
