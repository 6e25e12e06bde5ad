//! One node of a tree: entries in the order of their deadlines, and how they are searched.
//!
//! Room: decisions. Knows deadlines and runtimes; knows nothing of other nodes.

use crate::time::VirtualTime;

/// Entries of a node.
pub(crate) const FAN: usize = 64;
/// Entries that are compared at once.
const BLOCK: usize = 8;
/// No node, no entity.
pub(crate) const NONE: u32 = u32::MAX;

/// An entity of a leaf, or a child of an inner node.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Of the entity, or the smallest of the child.
    pub(crate) deadline: VirtualTime,
    /// Of the entity, or the smallest of the child.
    pub(crate) runtime: VirtualTime,
    /// The entity, or the child.
    pub(crate) link: u32,
}

/// A leaf, or an inner node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) entries: [Entry; FAN],
    pub(crate) len: u32,
    /// The node above; for a free node, the next free one.
    pub(crate) parent: u32,
    pub(crate) is_leaf: bool,
}

impl Node {
    pub(crate) const EMPTY: Node = Node {
        entries: [Entry { deadline: VirtualTime(0), runtime: VirtualTime(0), link: NONE }; FAN],
        len: 0,
        parent: NONE,
        is_leaf: true,
    };

    pub(crate) fn len(&self) -> usize {
        (self.len as usize).min(FAN) // the bound lets the compiler leave out checks
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == FAN
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len()]
    }

    /// Where an entry of this deadline goes: behind those that are not later. Counts the blocks that begin not later, and then within the last of these: without a
    /// branch that could be mispredicted, and no step waits for the last, as it would in a search by halves.
    pub(crate) fn place_for(&self, deadline: VirtualTime) -> usize {
        let len = self.len();
        let is_not_later = |at: usize| usize::from((at < len) & !deadline.is_before(self.entries[at % FAN].deadline));
        let start = BLOCK * (1..FAN / BLOCK).map(|block| is_not_later(block * BLOCK)).sum::<usize>();
        start + (start..start + BLOCK).map(is_not_later).sum::<usize>()
    }

    /// The first entry with a runtime of at most `limit`. Looks at a block at once: most often the first one has it, at a place that cannot be predicted.
    pub(crate) fn first_within(&self, limit: VirtualTime) -> Option<usize> {
        let len = self.len();
        for start in (0..len).step_by(BLOCK) {
            let within = |nth: usize| u32::from(!limit.is_before(self.entries[(start + nth) % FAN].runtime)) << nth;
            let mask = (0..BLOCK).map(within).sum::<u32>();
            let found = start + mask.trailing_zeros() as usize;
            if mask != 0 {
                return (found < len).then_some(found);
            }
        }
        None
    }

    /// Where the entry of a child or an entity is. `hint` is looked at first.
    pub(crate) fn position_of(&self, link: u32, hint: u8) -> usize {
        let hint = usize::from(hint);
        if self.entries[hint % FAN].link == link && hint < self.len() {
            return hint;
        }
        self.entries().iter().position(|entry| entry.link == link).expect("a child is an entry of its parent")
    }

    pub(crate) fn insert(&mut self, at: usize, entry: Entry) {
        let len = self.len();
        debug_assert!(len < FAN && at <= len);
        self.entries.copy_within(at..len, at + 1);
        self.entries[at] = entry;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, at: usize) -> Entry {
        let len = self.len();
        let removed = self.entries[at];
        self.entries.copy_within(at + 1..len, at);
        self.len -= 1;
        removed
    }

    /// Replaces the entry at `at` by one that is not earlier, behind those that are not later than it.
    pub(crate) fn move_back(&mut self, mut at: usize, entry: Entry) {
        let entries = &mut self.entries[..(self.len as usize).min(FAN)];
        while at + 1 < entries.len() && !entry.deadline.is_before(entries[at + 1].deadline) {
            entries[at] = entries[at + 1];
            at += 1;
        }
        entries[at] = entry;
    }

    /// The smallest runtime of its entries; it has some.
    pub(crate) fn least_runtime(&self) -> VirtualTime {
        let first = self.entries[0].runtime;
        let least = self.entries().iter().fold(0, |least, entry| {
            let other = entry.runtime.since(first);
            core::hint::select_unpredictable(other < least, other, least)
        });
        first.plus(least)
    }
}
