//! A search tree over the heads of many lanes, which finds the best one without visiting all.
//!
//! Room: decisions.
//!
//! # Invariant
//! `best` is the head that the formula ranks first at `now` among those that may start.
//!
//! # Why it holds
//! Write `now = q * interval + p` and `ready_since = a * interval + b`. Then
//! `floor((now - ready_since) / interval)` is `q - a` if `b <= p`, else `q - a - 1`. So with `fixed = base - a * boost`, which does not change
//! with time, the effective priority is `fixed + q * boost`, less one `boost` for heads whose *phase* `b` is greater than `p`.
//! The tree is ordered by phase, and each node has the best `fixed` of its subtree. So it answers for any `now`: heads with a phase up to `p`
//! compete with `fixed`, all others with one boost less. Subtrees that cannot win are
//! skipped. If the best head does not fit, the search continues with the next best, so it is exact. Each node also has the least demand of
//! its subtree, for each resource: if not even that is free, no head below fits, and the subtree is not visited. So a full machine is detected at the root.
//!
//! The tree is a treap: its shape depends only on the numbers of the lanes, so equal histories give equal trees.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::lanes::Entry;
use super::room::PLAIN;
use crate::aging::{Aging, Time};

const NONE: u32 = u32::MAX;

/// The part of a rank that does not change with time. The greatest ranks first.
type FixedRank = (i128, Reverse<Time>, Reverse<u32>);

/// What is needed of each plain resource.
pub(super) type Least = [u64; PLAIN];

#[derive(Debug, Clone, Copy)]
struct Node {
    phase: Time,
    fixed: FixedRank,
    /// The best of this subtree.
    best: FixedRank,
    needs: Least,
    /// For each resource, the least that a head in this subtree needs.
    least: Least,
    left: u32,
    right: u32,
    present: bool,
}

/// A treap whose nodes are lanes.
#[derive(Debug)]
pub(super) struct Phases {
    aging: Aging,
    nodes: Vec<Node>,
    root: u32,
    /// How many nodes searches have visited.
    #[cfg(test)]
    pub(super) visited: core::cell::Cell<usize>,
}

const LOWEST: FixedRank = (i128::MIN, Reverse(Time::MAX), Reverse(u32::MAX));
const ABSENT: Node = Node {
    phase: 0,
    fixed: LOWEST,
    best: LOWEST,
    needs: [0; PLAIN],
    least: [0; PLAIN],
    left: NONE,
    right: NONE,
    present: false,
};

/// The heap priority of a lane in the treap.
fn weight(lane: u32) -> u64 {
    let mut x = u64::from(lane).wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Phases {
    pub(super) fn new(aging: Aging) -> Self {
        Self {
            aging,
            nodes: Vec::new(),
            root: NONE,
            #[cfg(test)]
            visited: core::cell::Cell::default(),
        }
    }

    /// Sets the head of `lane`; `None` if the lane is empty.
    pub(super) fn set(&mut self, lane: u32, head: Option<(i32, Entry, Least)>) {
        if self.nodes.len() <= lane as usize {
            self.nodes.resize(lane as usize + 1, ABSENT);
        }
        if self.nodes[lane as usize].present {
            let key = (self.nodes[lane as usize].phase, lane);
            self.root = self.without(self.root, key);
            self.nodes[lane as usize] = ABSENT;
        }
        let Some((priority, entry, needs)) = head else { return };
        let interval = self.aging.interval_ns();
        let (age, phase) = match interval {
            0 => (0, 0),
            _ => (entry.ready_since / interval, entry.ready_since % interval),
        };
        let fixed = i128::from(priority) - i128::from(age) * i128::from(self.aging.boost);
        let fixed = (fixed, Reverse(entry.ready_since), Reverse(entry.id));
        let (best, least, present) = (fixed, needs, true);
        self.nodes[lane as usize] = Node { phase, fixed, best, needs, least, left: NONE, right: NONE, present };
        let (left, right) = self.split(self.root, (phase, lane));
        let left = self.merge(left, lane);
        self.root = self.merge(left, right);
    }

    fn best_of(&self, node: u32) -> FixedRank {
        if node == NONE { LOWEST } else { self.nodes[node as usize].best }
    }

    fn refresh(&mut self, node: u32) -> u32 {
        let this = self.nodes[node as usize];
        let best = this.fixed.max(self.best_of(this.left)).max(self.best_of(this.right));
        let mut least = this.needs;
        for below in [this.left, this.right] {
            if below != NONE {
                let below = self.nodes[below as usize].least;
                least.iter_mut().zip(below).for_each(|(least, below)| *least = below.min(*least));
            }
        }
        let this = &mut self.nodes[node as usize];
        (this.best, this.least) = (best, least);
        node
    }

    /// Splits a subtree into the nodes before `key` and the others.
    fn split(&mut self, node: u32, key: (Time, u32)) -> (u32, u32) {
        if node == NONE {
            return (NONE, NONE);
        }
        let this = self.nodes[node as usize];
        if (this.phase, node) < key {
            let (left, right) = self.split(this.right, key);
            self.nodes[node as usize].right = left;
            (self.refresh(node), right)
        } else {
            let (left, right) = self.split(this.left, key);
            self.nodes[node as usize].left = right;
            (left, self.refresh(node))
        }
    }

    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NONE {
            return right;
        }
        if right == NONE {
            return left;
        }
        if weight(left) > weight(right) {
            let below = self.merge(self.nodes[left as usize].right, right);
            self.nodes[left as usize].right = below;
            self.refresh(left)
        } else {
            let below = self.merge(left, self.nodes[right as usize].left);
            self.nodes[right as usize].left = below;
            self.refresh(right)
        }
    }

    fn without(&mut self, node: u32, key: (Time, u32)) -> u32 {
        assert!(node != NONE, "a lane that is present is in the tree");
        let this = self.nodes[node as usize];
        if (this.phase, node) == key {
            return self.merge(this.left, this.right);
        }
        if key < (this.phase, node) {
            let below = self.without(this.left, key);
            self.nodes[node as usize].left = below;
        } else {
            let below = self.without(this.right, key);
            self.nodes[node as usize].right = below;
        }
        self.refresh(node)
    }

    /// The lane whose head ranks first at `now` among those that `may_start`. If `is_room` is false for the least demand of a subtree, no head in it may start.
    pub(super) fn best(
        &self,
        now: Time,
        mut may_start: impl FnMut(u32) -> bool,
        mut is_room: impl FnMut(&Least) -> bool,
    ) -> Option<u32> {
        let phase_now = now.checked_rem(self.aging.interval_ns()).unwrap_or(0);
        let mut search =
            Search { tree: self, phase_now, found: None, may_start: &mut may_start, is_room: &mut is_room };
        search.visit(self.root, false);
        search.found.map(|(_, lane)| lane)
    }
}

/// One search in the tree.
struct Search<'a, F, G> {
    tree: &'a Phases,
    phase_now: Time,
    found: Option<(FixedRank, u32)>,
    may_start: &'a mut F,
    is_room: &'a mut G,
}

impl<F: FnMut(u32) -> bool, G: FnMut(&Least) -> bool> Search<'_, F, G> {
    /// The rank at `now`: one boost less if the phase is `ahead`.
    fn counted(&self, fixed: FixedRank, ahead: bool) -> FixedRank {
        let late = if ahead { i128::from(self.tree.aging.boost) } else { 0 };
        (fixed.0.saturating_sub(late), fixed.1, fixed.2)
    }

    /// Searches a subtree for a better head; `ahead` if all its phases are known to be greater than the current one.
    fn visit(&mut self, node: u32, ahead: bool) {
        if node == NONE || self.found.is_some_and(|(than, _)| self.promise(node, ahead) <= than) {
            return;
        }
        #[cfg(test)]
        self.tree.visited.update(|count| count + 1);
        let this = self.tree.nodes[node as usize];
        if !(self.is_room)(&this.least) {
            return;
        }
        let itself_ahead = this.phase > self.phase_now;
        let own = self.counted(this.fixed, itself_ahead);
        // The most promising subtree first: what it finds lets us skip the rest.
        let left = (self.promise(this.left, ahead), this.left, ahead);
        let right = (self.promise(this.right, itself_ahead), this.right, itself_ahead);
        let (first, second) = if left.0 >= right.0 { (left, right) } else { (right, left) };
        let own_first = own >= first.0;
        if own_first {
            self.try_one(own, node);
        }
        self.visit(first.1, first.2);
        if !own_first {
            self.try_one(own, node);
        }
        self.visit(second.1, second.2);
    }

    fn try_one(&mut self, own: FixedRank, node: u32) {
        if self.found.is_none_or(|(than, _)| own > than) && (self.may_start)(node) {
            self.found = Some((own, node));
        }
    }

    /// An upper bound for the rank of the heads in a subtree.
    fn promise(&self, node: u32, ahead: bool) -> FixedRank {
        self.counted(self.tree.best_of(node), ahead)
    }
}
