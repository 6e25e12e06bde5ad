//! One node of a tree: entries in the order of their deadlines, and how they are searched.
//!
//! Room: decisions. Knows deadlines and runtimes; knows nothing of other nodes.
//!
//! # Invariants
//! - The first `len` entries are in, and their deadlines never fall. (Of an inner node the first deadline means nothing; see `src/tree.rs`.)
//! - What is behind them means nothing. Searches look at it, a block at once, and then cut their result to `len`; moves overwrite it.
//!
//! # Why three arrays, and selections instead of branches
//! Where an entry is cannot be predicted, and a mispredicted branch costs as much as sixty instructions. So a block of eight is compared as a whole: a load, a comparison
//! and a selection each, of one cache line. A search of the deadlines, which are in order, takes two blocks: the one of each eighth entry, and then eight entries. One of
//! the runtimes, which are not, takes the blocks in turn, and is most often over in the first of an inner node.
//!
//! Functions that select are not inlined: in a loop of its caller the compiler makes branches of selections.

use core::hint::select_unpredictable;

use crate::time::VirtualTime;

/// Entries of a node.
pub(crate) const FAN: usize = BLOCK * BLOCK;
/// Entries that are compared at once, and moved at once.
const BLOCK: usize = 8;
/// The last block that is moved may begin at the last entry.
const ROOM: usize = FAN + BLOCK;
/// No node, no entity.
pub(crate) const NONE: u32 = u32::MAX;

/// An entity of a leaf, or a child of an inner node.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Of the entity. Of a child: nothing in it is earlier, and nothing before it is later.
    pub(crate) deadline: VirtualTime,
    /// Of the entity, or the smallest of the child.
    pub(crate) runtime: VirtualTime,
    /// The entity, or the child.
    pub(crate) link: u32,
}

/// A leaf, or an inner node. The order of its fields keeps what a small leaf uses in three cache lines.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Node {
    runtimes: [VirtualTime; ROOM],
    deadlines: [VirtualTime; ROOM],
    len: u32,
    /// The node above; for a free node, the next free one.
    pub(crate) parent: u32,
    pub(crate) is_leaf: bool,
    links: [u32; ROOM],
}

impl Node {
    pub(crate) const EMPTY: Node = Node {
        runtimes: [VirtualTime(0); ROOM],
        deadlines: [VirtualTime(0); ROOM],
        len: 0,
        parent: NONE,
        is_leaf: true,
        links: [NONE; ROOM],
    };

    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len() >= FAN
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    // `% FAN` lets the compiler leave out checks.

    pub(crate) fn link(&self, at: usize) -> u32 {
        self.links[at % FAN]
    }

    pub(crate) fn runtime(&self, at: usize) -> VirtualTime {
        self.runtimes[at % FAN]
    }

    pub(crate) fn set_runtime(&mut self, at: usize, runtime: VirtualTime) {
        self.runtimes[at % FAN] = runtime;
    }

    pub(crate) fn deadline(&self, at: usize) -> VirtualTime {
        self.deadlines[at % FAN]
    }

    pub(crate) fn set_deadline(&mut self, at: usize, deadline: VirtualTime) {
        self.deadlines[at % FAN] = deadline;
    }

    /// The smallest runtime of its entries; it has some.
    #[inline(never)]
    pub(crate) fn least_runtime(&self) -> VirtualTime {
        let runtimes = &self.runtimes[..self.len().min(FAN)];
        let Some(last) = runtimes.last_chunk::<BLOCK>() else {
            return runtimes.iter().copied().reduce(earlier).expect("it has entries");
        };
        // Four at a time, so that no comparison waits for the one before. The last block overlaps the one before it: the smallest of both is the same.
        let mut least = [0, 1, 2, 3].map(|nth| earlier(last[nth], last[nth + 4]));
        for block in runtimes.as_chunks::<BLOCK>().0 {
            least = [0, 1, 2, 3].map(|nth| earlier(earlier(block[nth], block[nth + 4]), least[nth]));
        }
        earlier(earlier(least[0], least[1]), earlier(least[2], least[3]))
    }

    /// Where an entry of this deadline goes: behind those that are not later.
    #[inline(never)]
    pub(crate) fn place_for(&self, deadline: VirtualTime) -> usize {
        let start = self.block_for(deadline);
        least(start + first(|nth| self.is_later(start + nth, deadline)), self.len())
    }

    /// The child in whose range a deadline is; it has some. The first has no lower end. (Of the last of a full node the next is the first; both answers are cut to the last.)
    #[inline(never)]
    pub(crate) fn child_for(&self, deadline: VirtualTime) -> usize {
        let start = self.block_for(deadline);
        least(start + first(|nth| self.is_later(start + nth + 1, deadline)), self.len() - 1)
    }

    /// Where the block begins that has the last entry which is not later; the first block if there is none.
    #[inline(always)]
    fn block_for(&self, deadline: VirtualTime) -> usize {
        if self.len() <= BLOCK {
            return 0; // without a look at cache lines that such a node does not use
        }
        let block = first(|block| block + 1 == BLOCK || self.is_later((block + 1) * BLOCK, deadline));
        BLOCK * least(block, (self.len() - 1) / BLOCK)
    }

    #[inline(always)]
    fn is_later(&self, at: usize, deadline: VirtualTime) -> bool {
        deadline.is_before(self.deadlines[at % FAN])
    }

    /// The first entry with a runtime of at most `limit`; something that is not below `len` if there is none.
    pub(crate) fn first_within(&self, limit: VirtualTime) -> usize {
        let len = self.len();
        let mut start = 0;
        for block in &self.runtimes.as_chunks::<BLOCK>().0[..FAN / BLOCK] {
            let found = first_of_block_within(block, limit);
            if found < BLOCK {
                return start + found;
            }
            start += BLOCK;
            if start >= len {
                break;
            }
        }
        FAN
    }

    /// The same behind an entry.
    pub(crate) fn first_within_after(&self, limit: VirtualTime, at: usize) -> Option<usize> {
        (at + 1..self.len()).find(|&at| !limit.is_before(self.runtimes[at]))
    }

    /// Where the entry of a child or an entity is. `hint` is looked at first.
    pub(crate) fn position_of(&self, link: u32, hint: usize) -> usize {
        let hint = hint % FAN;
        if hint < self.len() && self.links[hint] == link {
            return hint;
        }
        self.links[..self.len().min(FAN)].iter().position(|&other| other == link).expect("it is an entry")
    }

    #[inline(never)]
    pub(crate) fn insert(&mut self, at: usize, entry: Entry) {
        debug_assert!(self.len() < FAN && at <= self.len());
        for block in (0..(self.len() - at).div_ceil(BLOCK)).rev() {
            let from = (at + block * BLOCK) % FAN;
            self.move_block(from, from + 1);
        }
        self.put(at % FAN, entry);
        self.len += 1;
    }

    #[inline(never)]
    pub(crate) fn remove(&mut self, at: usize) {
        debug_assert!(at < self.len());
        self.len -= 1;
        for to in (at..self.len()).step_by(BLOCK) {
            self.move_block(to % FAN + 1, to % FAN);
        }
    }

    /// Replaces the entry at `at` by one that is not earlier, behind those that are not later than it.
    pub(crate) fn move_back(&mut self, at: usize, entry: Entry) {
        let mut at = at % FAN;
        let last = (self.len() - 1) % FAN;
        while at + BLOCK <= last && !self.is_later(at + BLOCK, entry.deadline) {
            self.move_block(at + 1, at);
            at += BLOCK;
        }
        while at < last && !self.is_later(at + 1, entry.deadline) {
            let next =
                Entry { deadline: self.deadlines[at + 1], runtime: self.runtimes[at + 1], link: self.links[at + 1] };
            self.put(at, next);
            at += 1;
        }
        self.put(at, entry);
    }

    /// Moves the entries from `at` on to the end of another node, which has room for them.
    pub(crate) fn move_tail(&mut self, at: usize, to: &mut Node) {
        let (len, start) = (self.len().min(FAN), to.len());
        let end = start + len - at;
        to.runtimes[start..end].copy_from_slice(&self.runtimes[at..len]);
        to.deadlines[start..end].copy_from_slice(&self.deadlines[at..len]);
        to.links[start..end].copy_from_slice(&self.links[at..len]);
        to.len = end as u32;
        self.len = at as u32;
    }

    #[inline(always)]
    fn put(&mut self, at: usize, entry: Entry) {
        self.runtimes[at] = entry.runtime;
        self.deadlines[at] = entry.deadline;
        self.links[at] = entry.link;
    }

    #[inline(always)]
    fn move_block(&mut self, from: usize, to: usize) {
        move_block(&mut self.runtimes, from, to);
        move_block(&mut self.deadlines, from, to);
        move_block(&mut self.links, from, to);
    }
}

#[inline(never)]
fn first_of_block_within(block: &[VirtualTime; BLOCK], limit: VirtualTime) -> usize {
    first(|nth| !limit.is_before(block[nth]))
}

/// The first of a block of which something is true; [`BLOCK`] if it is of none.
#[inline(always)]
fn first(is_it: impl Fn(usize) -> bool) -> usize {
    let mut first = BLOCK;
    for nth in (0..BLOCK).rev() {
        first = select_unpredictable(is_it(nth), nth, first);
    }
    first
}

#[inline(always)]
fn least(one: usize, two: usize) -> usize {
    select_unpredictable(one < two, one, two)
}

#[inline(always)]
fn earlier(one: VirtualTime, two: VirtualTime) -> VirtualTime {
    select_unpredictable(one.is_before(two), one, two)
}

/// As values, not as slices: so the compiler moves them in registers, where it would call `memmove`, which has to find out how many there are.
#[inline(always)]
fn move_block<T: Copy>(values: &mut [T; ROOM], from: usize, to: usize) {
    let (a, b, c, d) = (values[from], values[from + 1], values[from + 2], values[from + 3]);
    let (e, f, g, h) = (values[from + 4], values[from + 5], values[from + 6], values[from + 7]);
    (values[to], values[to + 1], values[to + 2], values[to + 3]) = (a, b, c, d);
    (values[to + 4], values[to + 5], values[to + 6], values[to + 7]) = (e, f, g, h);
}
