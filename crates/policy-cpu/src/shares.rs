//! Shares of shares: groups inside groups, each with a weight, and EEVDF at every level.
//!
//! Room: decisions. Knows groups and weights; knows nothing of tasks, workers or clocks.
//!
//! ```text
//!   root ─┬─ its own work        weight 1
//!         ├─ group A             weight 2 ─── its own work
//!         └─ group B             weight 4 ─┬─ its own work    weight 1
//!                                          └─ group C         weight 9
//! ```
//!
//! Each group has a queue of what competes inside it: its own work, as one entity, and the groups in it. A pick goes down from the root, one level at a time. What ran is
//! charged at every level on the way.
//!
//! # Invariants
//! - A group gets no more than its share by opening groups inside it, whatever their weights: they divide what it has. Checked by
//!   `a_group_gains_nothing_by_groups_inside_it`.
//! - A group is in the queue of the one around it if and only if something inside it is runnable.
//! - No more than [`DEPTH_MAX`] levels, so every operation takes a bounded number of steps in each of them.
//!
//! # Several CPUs
//! Each CPU has a tree of its own, with the work that it can run. What a group got on other CPUs is charged to it here, too ([`ShareTree::charge_elsewhere`]): so on each CPU
//! the group that got least of the whole machine goes first. With work for every group on every CPU the shares of the machine are exact; a group that has work on one CPU only gets
//! as much of that as brings it nearest to its share.

use alloc::vec::Vec;
use core::fmt;

use crate::fair::{FairCore, FairState};
use crate::policy::Policy;
use crate::pool::Pool;
use crate::time::{Nanos, Weight};

/// The most levels of groups, the root included.
pub const DEPTH_MAX: u32 = 8;

/// A group of a [`ShareTree`]: a small number that is used again when the group is removed.
pub type GroupIndex = u32;

/// Why a group cannot be added. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareError {
    /// The group around it is at the last level.
    TooDeep,
    /// The tree was made for fewer groups.
    Full {
        /// For how many.
        limit: u32,
    },
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareError::TooDeep => write!(f, "groups are {DEPTH_MAX} levels deep at most"),
            ShareError::Full { limit } => write!(f, "the tree was made for {limit} groups"),
        }
    }
}

impl core::error::Error for ShareError {}

#[derive(Clone)]
struct Group {
    /// What competes inside: its own work and the groups in it.
    inside: FairCore,
    /// Itself, in the queue of the group around it.
    state: FairState,
    /// Its own work, in the queue of itself.
    own: FairState,
    parent: GroupIndex,
    /// The groups inside it are a list; the root, which is inside none, ends it.
    first_inside: GroupIndex,
    next: GroupIndex,
    previous: GroupIndex,
    level: u32,
    is_used: bool,
    /// Its own work is runnable.
    is_awake: bool,
}

impl Group {
    const fn new(parent: GroupIndex, level: u32, state: FairState, own: FairState) -> Self {
        Group {
            inside: FairCore::new(Policy::Eevdf),
            state,
            own,
            parent,
            first_inside: ShareTree::ROOT,
            next: ShareTree::ROOT,
            previous: ShareTree::ROOT,
            level,
            is_used: false,
            is_awake: false,
        }
    }
}

/// The groups of one CPU, and which of them runs.
#[derive(Clone)]
pub struct ShareTree {
    pool: Pool,
    groups: Vec<Group>,
    /// Whose own work runs.
    current: Option<GroupIndex>,
}

/// A group as an entity of the queue around it, and its own work as an entity of its own queue.
const fn as_entity(group: GroupIndex) -> u32 {
    2 * group
}
const fn own_work(group: GroupIndex) -> u32 {
    2 * group + 1
}

impl ShareTree {
    /// The group that all others are in.
    pub const ROOT: GroupIndex = 0;

    /// A tree for so many groups, the root included, which is there from the beginning: its own work has the weight of a normal group. Allocates here and in
    /// [`grow`](Self::grow) alone.
    pub fn with_capacity(groups: u32, slice: Nanos) -> Self {
        let limit = groups.max(1);
        let normal = FairState::new(Weight::NORMAL, slice);
        let unused = Group::new(Self::ROOT, 0, normal, normal);
        let mut groups = Vec::with_capacity(limit as usize);
        groups.resize(limit as usize, unused);
        groups[0].is_used = true;
        ShareTree { pool: Pool::with_capacity(2 * limit, limit), groups, current: None }
    }

    /// For how many groups there is room.
    pub fn capacity(&self) -> u32 {
        self.groups.len() as u32
    }

    /// Makes room for so many groups. Allocates.
    pub fn grow(&mut self, groups: u32) {
        if groups > self.capacity() {
            self.pool.grow(2 * groups, groups);
            let unused = Group::new(Self::ROOT, 0, self.groups[0].state, self.groups[0].own);
            self.groups.resize(groups as usize, unused);
        }
    }

    /// Adds a group with a number that is free, inside another. Its own work sleeps.
    pub fn add(
        &mut self,
        group: GroupIndex,
        parent: GroupIndex,
        weight: Weight,
        slice: Nanos,
    ) -> Result<(), ShareError> {
        let limit = self.capacity();
        if group >= limit || parent >= limit {
            return Err(ShareError::Full { limit });
        }
        let level = self.groups[parent as usize].level + 1;
        if level >= DEPTH_MAX {
            return Err(ShareError::TooDeep);
        }
        assert!(!self.groups[group as usize].is_used, "group {group} is there already");
        assert!(self.groups[parent as usize].is_used, "group {parent} is not there");
        let next = core::mem::replace(&mut self.groups[parent as usize].first_inside, group);
        if next != Self::ROOT {
            self.groups[next as usize].previous = group;
        }
        let added = Group::new(parent, level, FairState::new(weight, slice), FairState::new(Weight::NORMAL, slice));
        self.groups[group as usize] = Group { next, is_used: true, ..added };
        Ok(())
    }

    /// Whether a group of this number is there.
    pub fn contains(&self, group: GroupIndex) -> bool {
        self.groups.get(group as usize).is_some_and(|group| group.is_used)
    }

    /// Removes a group and those inside it. Says of each that it is gone: what its owner knows of it goes with it.
    pub fn remove(&mut self, group: GroupIndex, gone: &mut impl FnMut(GroupIndex)) {
        assert!(group != Self::ROOT, "the root stays");
        while self.groups[group as usize].first_inside != Self::ROOT {
            self.remove(self.groups[group as usize].first_inside, gone); // as deep as groups are
        }
        gone(group);
        self.sleep(group);
        let Group { parent, next, previous, .. } = self.groups[group as usize];
        if previous == Self::ROOT {
            self.groups[parent as usize].first_inside = next;
        } else {
            self.groups[previous as usize].next = next;
        }
        if next != Self::ROOT {
            self.groups[next as usize].previous = previous;
        }
        let gone = &mut self.groups[group as usize];
        debug_assert!(gone.inside.is_empty(), "a group was removed with something runnable inside");
        gone.is_used = false;
    }

    /// Whether the own work of a group is runnable.
    pub fn is_awake(&self, group: GroupIndex) -> bool {
        self.groups[group as usize].is_awake
    }

    /// Whether anything is runnable.
    pub fn is_empty(&self) -> bool {
        self.groups[0].inside.is_empty()
    }

    /// The group whose own work runs.
    pub const fn current(&self) -> Option<GroupIndex> {
        self.current
    }

    /// The own work of a group has become runnable. Says whether it should run instead of what runs. Nothing happens if it is known.
    pub fn wake(&mut self, group: GroupIndex) -> bool {
        let own = &mut self.groups[group as usize];
        if own.is_awake {
            return false;
        }
        assert!(own.is_used, "group {group} is not there");
        own.is_awake = true;
        let was_empty = own.inside.is_empty();
        let Group { inside, own, .. } = own;
        inside.join(&mut self.pool, own_work(group), own);
        let (mut joined, mut is_new) = (group, was_empty);
        while is_new && joined != Self::ROOT {
            let mut state = self.groups[joined as usize].state;
            let parent = self.groups[joined as usize].parent;
            let around = &mut self.groups[parent as usize].inside;
            is_new = around.is_empty();
            around.join(&mut self.pool, as_entity(joined), &mut state);
            self.groups[joined as usize].state = state;
            joined = parent;
        }
        self.goes_before_current(group)
    }

    /// Whether the own work of `group` goes before what runs: at the level where their ways part.
    fn goes_before_current(&self, group: GroupIndex) -> bool {
        let Some(current) = self.current else { return true };
        if current == group {
            return false;
        }
        let (mut new, mut old) = (group, current);
        let (mut new_state, mut old_state) = (&self.groups[new as usize].own, &self.groups[old as usize].own);
        while new != old {
            // The deeper one goes up first, until both are inside the same group.
            if self.groups[new as usize].level >= self.groups[old as usize].level {
                new_state = &self.groups[new as usize].state;
                new = self.groups[new as usize].parent;
            } else {
                old_state = &self.groups[old as usize].state;
                old = self.groups[old as usize].parent;
            }
        }
        self.groups[new as usize].inside.preempts(new_state, old_state)
    }

    /// The own work of a group is no longer runnable. If it ran, nothing runs now.
    pub fn sleep(&mut self, group: GroupIndex) {
        if !self.groups[group as usize].is_awake {
            return;
        }
        if self.current == Some(group) {
            self.put_back();
        }
        let Group { inside, own, is_awake, .. } = &mut self.groups[group as usize];
        *is_awake = false;
        inside.leave(&mut self.pool, own_work(group), own);
        let mut left = group;
        while left != Self::ROOT && self.groups[left as usize].inside.is_empty() {
            let mut state = self.groups[left as usize].state;
            let parent = self.groups[left as usize].parent;
            self.groups[parent as usize].inside.leave(&mut self.pool, as_entity(left), &mut state);
            self.groups[left as usize].state = state;
            left = parent;
        }
    }

    /// Charges what runs, at every level.
    pub fn charge(&mut self, ran: Nanos) {
        let Some(current) = self.current else { return };
        let Group { inside, own, .. } = &mut self.groups[current as usize];
        inside.charge(own, ran);
        let mut group = current;
        while group != Self::ROOT {
            let mut state = self.groups[group as usize].state;
            let parent = self.groups[group as usize].parent;
            self.groups[parent as usize].inside.charge(&mut state, ran);
            self.groups[group as usize].state = state;
            group = parent;
        }
    }

    /// Charges the own work of a group for time it had on another CPU, at every level at which it is runnable here.
    pub fn charge_elsewhere(&mut self, group: GroupIndex, ran: Nanos) {
        let Group { inside, own, .. } = &mut self.groups[group as usize];
        inside.charge_elsewhere(&mut self.pool, own_work(group), own, ran);
        let mut group = group;
        while group != Self::ROOT {
            let mut state = self.groups[group as usize].state;
            let parent = self.groups[group as usize].parent;
            let around = &mut self.groups[parent as usize].inside;
            around.charge_elsewhere(&mut self.pool, as_entity(group), &mut state, ran);
            self.groups[group as usize].state = state;
            group = parent;
        }
    }

    /// Lets what runs wait again.
    pub fn put_back(&mut self) {
        let Some(mut group) = self.current.take() else { return };
        let Group { inside, own, .. } = &mut self.groups[group as usize];
        inside.put_back(&mut self.pool, own);
        while group != Self::ROOT {
            let state = self.groups[group as usize].state;
            let parent = self.groups[group as usize].parent;
            self.groups[parent as usize].inside.put_back(&mut self.pool, &state);
            group = parent;
        }
    }

    /// Chooses whose own work runs next. What ran has to be put back before.
    pub fn pick(&mut self) -> Option<GroupIndex> {
        assert!(self.current.is_none(), "a group runs; put it back first");
        let mut group = Self::ROOT;
        for _ in 0..DEPTH_MAX {
            let entity = self.groups[group as usize].inside.pick(&mut self.pool)?;
            if entity == own_work(group) {
                self.current = Some(group);
                return self.current;
            }
            group = entity / 2;
        }
        unreachable!("`add` refuses deeper groups")
    }

    /// How long what runs may go on until a slice is served at some level, and another pick is due.
    pub fn slice_left(&self) -> Nanos {
        let Some(current) = self.current else { return 0 };
        let mut left = self.groups[current as usize].own.left_of_slice();
        let mut group = current;
        while group != Self::ROOT {
            left = left.min(self.groups[group as usize].state.left_of_slice());
            group = self.groups[group as usize].parent;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use vocab::SplitMix64;

    const SLICE: Nanos = 1_000_000;
    const SECOND: Nanos = 1_000_000_000;

    fn weight(times: u32) -> Weight {
        Weight::clamped(1024 * times)
    }

    /// Runs one CPU on which everything is runnable; what each group got by its own work.
    fn run(tree: &mut ShareTree, turn: Nanos, total: Nanos) -> Vec<Nanos> {
        let mut got = vec![0; tree.capacity() as usize];
        let mut time = 0;
        while time < total {
            tree.put_back();
            let group = tree.pick().expect("something is runnable");
            let until = time + tree.slice_left();
            while time < until {
                time += turn;
                got[group as usize] += turn;
                tree.charge(turn);
            }
        }
        got
    }

    #[track_caller]
    fn assert_shares(got: &[Nanos], shares: &[f64]) {
        let total: Nanos = got.iter().sum();
        for (group, (&got, &share)) in got.iter().zip(shares).enumerate() {
            let part = got as f64 / total as f64;
            assert!((part - share).abs() < 0.01, "group {group} got {part:.3}, its share is {share:.3}");
        }
    }

    #[test]
    fn groups_of_one_level_share_by_weight() {
        let mut tree = ShareTree::with_capacity(4, SLICE);
        for (group, times) in [(1, 1), (2, 2), (3, 4)] {
            tree.add(group, ShareTree::ROOT, weight(times), SLICE).unwrap();
            tree.wake(group);
        }
        assert_shares(&run(&mut tree, 20_000, SECOND), &[0.0, 1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0]);
        tree.wake(ShareTree::ROOT);
        assert_shares(&run(&mut tree, 20_000, SECOND), &[1.0 / 8.0, 1.0 / 8.0, 2.0 / 8.0, 4.0 / 8.0]);
    }

    #[test]
    fn a_group_gains_nothing_by_groups_inside_it() {
        let mut tree = ShareTree::with_capacity(5, SLICE);
        tree.add(1, ShareTree::ROOT, weight(1), SLICE).unwrap();
        tree.add(2, ShareTree::ROOT, weight(1), SLICE).unwrap();
        tree.add(3, 2, weight(1000), SLICE).unwrap();
        tree.add(4, 3, weight(1000), SLICE).unwrap();
        (1..5).for_each(|group| _ = tree.wake(group));
        let got = run(&mut tree, 50_000, 4 * SECOND);
        let inside: Nanos = got[2..].iter().sum();
        let part = inside as f64 / (inside + got[1]) as f64;
        assert!((part - 0.5).abs() < 0.005, "with groups inside it has {part:.3}");
        assert!(got[2] > 0 && got[3] > 0, "nothing inside starves: {got:?}");
    }

    #[test]
    fn what_sleeps_leaves_its_share_to_those_inside_the_same_group() {
        let mut tree = ShareTree::with_capacity(4, SLICE);
        tree.add(1, ShareTree::ROOT, weight(1), SLICE).unwrap();
        tree.add(2, ShareTree::ROOT, weight(1), SLICE).unwrap();
        tree.add(3, 2, weight(3), SLICE).unwrap();
        (1..4).for_each(|group| _ = tree.wake(group));
        assert_shares(&run(&mut tree, 20_000, SECOND), &[0.0, 0.5, 0.125, 0.375]);
        tree.put_back();
        tree.sleep(3);
        assert_shares(&run(&mut tree, 20_000, SECOND), &[0.0, 0.5, 0.5, 0.0]);
        tree.put_back();
        tree.sleep(2);
        assert_shares(&run(&mut tree, 20_000, SECOND), &[0.0, 1.0, 0.0, 0.0]);
        assert!(tree.wake(3) || !tree.is_empty());
        assert_shares(&run(&mut tree, 20_000, SECOND), &[0.0, 0.5, 0.0, 0.5]);
    }

    #[test]
    fn a_group_on_one_of_two_cpus_gets_as_much_of_it_as_brings_it_to_its_share() {
        // A has work on the first CPU only, B on both: equal weights, so each gets one CPU.
        let mut cpus = [ShareTree::with_capacity(3, SLICE), ShareTree::with_capacity(3, SLICE)];
        for tree in &mut cpus {
            tree.add(1, ShareTree::ROOT, weight(1), SLICE).unwrap();
            tree.add(2, ShareTree::ROOT, weight(1), SLICE).unwrap();
            tree.wake(2);
        }
        cpus[0].wake(1);
        let mut got = [[0; 3]; 2];
        for _ in 0..2000 {
            for cpu in 0..2 {
                cpus[cpu].put_back();
                let group = cpus[cpu].pick().unwrap();
                let ran = cpus[cpu].slice_left();
                cpus[cpu].charge(ran);
                got[cpu][group as usize] += ran;
                cpus[1 - cpu].charge_elsewhere(group, ran);
            }
        }
        let (a, b) = (got[0][1] + got[1][1], got[0][2] + got[1][2]);
        let part = a as f64 / (a + b) as f64;
        assert!((part - 0.5).abs() < 0.01, "{part:.3} of both CPUs");
    }

    #[test]
    fn a_tree_stays_true_whatever_wakes_sleeps_comes_and_goes() {
        for seed in 0..200 {
            let mut dice = SplitMix64::new(seed);
            let mut below = |limit: u32| (dice.next_u64() % u64::from(limit)) as u32;
            let mut tree = ShareTree::with_capacity(4, SLICE);
            for _ in 0..2_000 {
                let group = below(24);
                if group >= tree.capacity() {
                    tree.grow(group + 1);
                }
                match below(6) {
                    0 if !tree.contains(group) => {
                        let parent = (0..8).map(|_| below(24)).find(|&parent| tree.contains(parent)).unwrap_or(0);
                        let _ = tree.add(group, parent, weight(1 + below(9)), SLICE);
                    }
                    1 if tree.contains(group) => _ = tree.wake(group),
                    2 if tree.contains(group) => tree.sleep(group),
                    3 => {
                        tree.put_back();
                        if let Some(picked) = tree.pick() {
                            assert!(tree.is_awake(picked), "seed {seed}: {picked} sleeps and was picked");
                        } else {
                            assert!((0..tree.capacity()).all(|group| !tree.contains(group) || !tree.is_awake(group)));
                        }
                    }
                    4 => tree.charge(u64::from(below(2_000_000))),
                    5 if tree.contains(group) => tree.charge_elsewhere(group, u64::from(below(2_000_000))),
                    _ => {}
                }
                if below(20) == 0 && group != 0 && tree.contains(group) {
                    let before: vec::Vec<u32> = (1..tree.capacity()).filter(|&group| tree.contains(group)).collect();
                    let mut gone = vec![];
                    tree.remove(group, &mut |group| gone.push(group));
                    gone.sort_unstable();
                    let missing: vec::Vec<u32> = before.into_iter().filter(|&group| !tree.contains(group)).collect();
                    assert_eq!(gone, missing, "seed {seed}: what is gone is told");
                    let is_inside = |child: u32| tree.contains(child) && tree.groups[child as usize].parent == group;
                    assert!((1..tree.capacity()).all(|child| !is_inside(child)), "seed {seed}: it left some behind");
                }
            }
        }
    }

    #[test]
    #[should_panic = "group 2 is not there"]
    fn a_group_that_went_with_the_one_around_it_cannot_wake() {
        let mut tree = ShareTree::with_capacity(4, SLICE);
        tree.add(1, ShareTree::ROOT, weight(1), SLICE).unwrap();
        tree.add(2, 1, weight(1), SLICE).unwrap();
        tree.remove(1, &mut |_| {});
        tree.add(1, ShareTree::ROOT, weight(1), SLICE).unwrap();
        tree.wake(2); // it would run as if it were in the new group
    }

    #[test]
    fn groups_have_a_deepest_level() {
        let mut tree = ShareTree::with_capacity(20, SLICE);
        for level in 1..DEPTH_MAX {
            tree.add(level, level - 1, weight(1), SLICE).unwrap();
        }
        assert_eq!(tree.add(DEPTH_MAX, DEPTH_MAX - 1, weight(1), SLICE), Err(ShareError::TooDeep));
        assert_eq!(tree.add(30, 0, weight(1), SLICE), Err(ShareError::Full { limit: 20 }));
    }
}
