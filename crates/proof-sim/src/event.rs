//! What happens next, and when.
//!
//! Room: mechanism.
//!
//! Whatever may happen has a *slot*: the timer of a CPU, an interrupt that is on its way to it, the wake of a thread that sleeps, the next request of a ring. A slot
//! has at most one time. The earliest is found by a tournament: a complete binary tree in which each node is the smaller of two, so setting a slot changes one path and
//! takes no branch. Nothing in it is ever out of date. It is as large as the slots that were ever set need.
//!
//! *Rejected:* a heap of events. Every interrupt leaves a timer behind in it that is no longer true, and comparing entries is half the time of a simulation.
//!
//! # Invariants
//! - Time and slot share a word, 48 bits and 16: up to 78 hours, and 65,536 slots. Both are refused beyond.
//! - Of events at the same time the one with the smaller slot comes first. So a seed decides everything.

use policy_cpu::Nanos;

const SLOT_BITS: u32 = 16;
/// The slots that there may be.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// The end of time.
pub(crate) const TIME_MAX: Nanos = (1 << (64 - SLOT_BITS)) - 1;

/// Something that happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// An interrupt arrives at a CPU.
    Interrupt { cpu: u32 },
    /// The timer of a CPU fires.
    Timer { cpu: u32 },
    /// A request is put into a ring.
    Submit { ring: u32 },
    /// A thread that sleeps is due.
    Wake { thread: u32 },
}

/// See the head of the file.
pub(crate) struct Events {
    /// The root is the first; the children of `i` are `2i` and `2i + 1`. Twice as many as there are leaves, which are a power of two.
    nodes: Vec<u64>,
    cpus: u32,
    rings: u32,
}

impl Events {
    /// For so many CPUs, rings and threads.
    pub(crate) fn new(cpus: u32, rings: u32, threads: u32) -> Self {
        let slots = 2 * cpus as usize + rings as usize + threads as usize;
        assert!(slots <= SLOTS_MAX, "{slots} CPUs, rings and threads to simulate; the limit is {SLOTS_MAX}");
        Events { nodes: vec![u64::MAX; 4], cpus, rings }
    }

    const fn slot(&self, event: Event) -> u32 {
        match event {
            Event::Interrupt { cpu } => cpu,
            Event::Timer { cpu } => self.cpus + cpu,
            Event::Submit { ring } => 2 * self.cpus + ring,
            Event::Wake { thread } => 2 * self.cpus + self.rings + thread,
        }
    }

    const fn event(&self, slot: u32) -> Event {
        match slot {
            cpu if cpu < self.cpus => Event::Interrupt { cpu },
            slot if slot < 2 * self.cpus => Event::Timer { cpu: slot - self.cpus },
            slot if slot < 2 * self.cpus + self.rings => Event::Submit { ring: slot - 2 * self.cpus },
            slot => Event::Wake { thread: slot - 2 * self.cpus - self.rings },
        }
    }

    fn put(&mut self, slot: u32, word: u64) {
        if slot as usize >= self.nodes.len() / 2 {
            self.grow(slot as usize + 1);
        }
        let nodes = &mut self.nodes[..];
        let mask = nodes.len() - 1; // tells the compiler that no index is too large
        let mut at = nodes.len() / 2 + slot as usize;
        nodes[at & mask] = word;
        // To the top, also where nothing changes any more: how far that is cannot be predicted.
        let mut least = word;
        while at > 1 {
            least = least.min(nodes[(at ^ 1) & mask]);
            at /= 2;
            nodes[at & mask] = least;
        }
    }

    /// Makes room for so many slots.
    #[cold]
    fn grow(&mut self, slots: usize) {
        let old = std::mem::take(&mut self.nodes);
        let leaves = slots.next_power_of_two();
        self.nodes = vec![u64::MAX; 2 * leaves];
        self.nodes[leaves..leaves + old.len() / 2].copy_from_slice(&old[old.len() / 2..]);
        for at in (1..leaves).rev() {
            self.nodes[at] = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
        }
    }

    /// Sets when something happens, instead of what was set before.
    #[inline]
    pub(crate) fn set(&mut self, at: Nanos, event: Event) {
        assert!(at < TIME_MAX, "a simulation of more than 78 hours");
        let slot = self.slot(event);
        self.put(slot, at << SLOT_BITS | u64::from(slot));
    }

    /// It does not happen.
    pub(crate) fn clear(&mut self, event: Event) {
        self.put(self.slot(event), u64::MAX);
    }

    /// The next event that is not after `until`. A timer stays set: what follows sets or clears it.
    pub(crate) fn next(&mut self, until: Nanos) -> Option<(Nanos, Event)> {
        let first = self.nodes[1];
        let (at, slot) = (first >> SLOT_BITS, (first % (1 << SLOT_BITS)) as u32);
        if first == u64::MAX || at > until {
            return None;
        }
        let event = self.event(slot);
        if !matches!(event, Event::Timer { .. }) {
            self.put(slot, u64::MAX);
        }
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times_and_only_as_set_last() {
        let mut events = Events::new(3, 1, 5);
        for thread in 0..5 {
            events.set(100 - u64::from(thread), Event::Wake { thread });
        }
        events.set(3, Event::Timer { cpu: 2 });
        events.set(200, Event::Wake { thread: 4 });
        events.clear(Event::Wake { thread: 0 });
        events.set(5, Event::Submit { ring: 0 });
        let order: Vec<_> = std::iter::from_fn(|| {
            let next = events.next(150);
            events.clear(Event::Timer { cpu: 2 });
            next
        })
        .collect();
        let wake = |at, thread| (at, Event::Wake { thread });
        assert_eq!(
            order,
            [(3, Event::Timer { cpu: 2 }), (5, Event::Submit { ring: 0 }), wake(97, 3), wake(98, 2), wake(99, 1)]
        );
        assert_eq!(events.next(200), Some(wake(200, 4)));
        assert_eq!(events.next(TIME_MAX), None);
    }
}
