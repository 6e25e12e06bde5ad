//! Lanes: the queues of ready jobs.
//!
//! Room: decisions.
//!
//! # Invariant
//! `best` returns the job that the formula ranks first among those that may start, without visiting every job.
//!
//! # Why it holds
//! Jobs with the same base priority and the same demand are in one *lane*. Within a lane the formula gives a FIFO queue: a job that became ready earlier
//! ranks higher at all times, and either all jobs of the lane fit or none. So only the heads of lanes compete. Few lanes are
//! compared one by one; many are kept in a tree (`phases.rs`).
//!
//! When a job is paused or cancelled, its entry stays in the lane as a *stale* entry, with an old stamp. Stale entries are removed when they come to
//! the front or outnumber the others. The head of a lane is never stale.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::phases::{Least, Phases};
use crate::aging::{Aging, Rank, Time};

/// Above this many lanes in use, the tree is built.
const TREE_MIN_LANES: usize = 24;

/// How many lanes are found without a lookup in the table.
const RECENT_LANES: usize = 8;

/// The entry of a job in a lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) ready_since: Time,
    pub(super) id: u32,
    /// Equals the stamp of the job as long as the entry is valid.
    pub(super) stamp: u32,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) priority: i32,
    pub(super) demand: u32,
    needs: Least,
    queue: VecDeque<Entry>,
    stale: usize,
    /// Its index in `active`, if it has jobs.
    active_index: Option<u32>,
}

/// The head of a lane.
#[derive(Debug, Clone, Copy)]
struct Head {
    entry: Entry,
    lane: u32,
    priority: i32,
    demand: u32,
}

#[derive(Debug)]
pub(super) struct Lanes {
    aging: Aging,
    lanes: Vec<Lane>,
    by_key: HashMap<(i32, u32), u32>,
    /// The lanes that have jobs, each with what is needed to rank its head: contiguous, because every pick reads all of them.
    active: Vec<Head>,
    /// The tree of their heads, once there are many.
    phases: Option<Phases>,
    /// Entries that are not stale.
    live: usize,
    /// Recently used lanes.
    recent: [Option<((i32, u32), u32)>; RECENT_LANES],
}

impl Lanes {
    pub(super) fn new(aging: Aging) -> Self {
        Self {
            aging,
            lanes: Vec::new(),
            by_key: HashMap::new(),
            active: Vec::new(),
            phases: None,
            live: 0,
            recent: [None; RECENT_LANES],
        }
    }

    /// The lane of jobs with this base priority and demand.
    pub(super) fn lane(&mut self, priority: i32, demand: u32, needs: Least) -> u32 {
        let recent = &mut self.recent[priority.unsigned_abs() as usize % RECENT_LANES];
        if let Some((like, lane)) = *recent
            && like == (priority, demand)
        {
            return lane;
        }
        let lane = *self.by_key.entry((priority, demand)).or_insert_with(|| {
            let lane = Lane { priority, demand, needs, queue: VecDeque::new(), stale: 0, active_index: None };
            self.lanes.push(lane);
            u32::try_from(self.lanes.len() - 1).expect("fewer lanes than jobs")
        });
        *recent = Some(((priority, demand), lane));
        lane
    }

    pub(super) fn get(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    /// The first job of a lane that has some.
    pub(super) fn head(&self, lane: u32) -> Entry {
        self.lanes[lane as usize].queue[0]
    }

    /// The lanes that have jobs, with their heads.
    pub(super) fn heads(&self) -> impl Iterator<Item = (&Lane, Entry)> {
        self.active.iter().map(|&Head { lane, .. }| {
            let lane = &self.lanes[lane as usize];
            (lane, lane.queue[0])
        })
    }

    /// All entries, including stale ones.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Lane, Entry)> {
        self.active.iter().flat_map(|&Head { lane, .. }| {
            let lane = &self.lanes[lane as usize];
            lane.queue.iter().map(move |entry| (lane, *entry))
        })
    }

    /// A job joins its lane. Time is monotonic, so it belongs at the end, except among jobs that became ready at the same time.
    #[inline]
    pub(super) fn push(&mut self, lane: u32, entry: Entry) {
        let queue = &mut self.lanes[lane as usize].queue;
        let mut at = queue.len();
        queue.push_back(entry);
        self.live += 1;
        while at > 0 && (queue[at - 1].ready_since, queue[at - 1].id) > (entry.ready_since, entry.id) {
            queue.swap(at - 1, at);
            at -= 1;
        }
        if at == 0 {
            self.head_changed(lane);
        }
    }

    /// A job comes back to its position: before the jobs that became ready after it.
    pub(super) fn push_front(&mut self, lane: u32, entry: Entry) {
        let queue = &mut self.lanes[lane as usize].queue;
        queue.push_front(entry);
        let mut at = 0;
        while at + 1 < queue.len() && (queue[at + 1].ready_since, queue[at + 1].id) < (entry.ready_since, entry.id) {
            queue.swap(at, at + 1);
            at += 1;
        }
        self.live += 1;
        self.head_changed(lane);
    }

    /// Whether there are so many lanes that a tree is kept.
    #[cfg(test)]
    pub(super) fn has_tree(&self) -> bool {
        self.phases.is_some()
    }

    /// The number of jobs in all lanes.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// A job left its lane without being picked. Its stamp has already changed.
    pub(super) fn leave(&mut self, lane: u32, stamp_of: impl Fn(u32) -> u32) {
        let this = &mut self.lanes[lane as usize];
        this.stale += 1;
        self.live -= 1;
        let is_stale = |entry: &Entry| stamp_of(entry.id) != entry.stamp;
        if this.stale * 2 > this.queue.len() {
            this.queue.retain(|entry| !is_stale(entry));
            this.stale = 0;
            self.head_changed(lane);
        } else if is_stale(&this.queue[0]) {
            self.drop_stale(lane, stamp_of);
        }
    }

    fn drop_stale(&mut self, lane: u32, stamp_of: impl Fn(u32) -> u32) {
        let this = &mut self.lanes[lane as usize];
        while this.queue.front().is_some_and(|entry| stamp_of(entry.id) != entry.stamp) {
            this.queue.pop_front();
            this.stale -= 1;
        }
        self.head_changed(lane);
    }

    /// Takes the head of a lane.
    #[inline]
    pub(super) fn pop(&mut self, lane: u32, stamp_of: impl Fn(u32) -> u32) -> u32 {
        let this = &mut self.lanes[lane as usize];
        let entry = this.queue.pop_front().expect("only lanes with jobs are asked");
        debug_assert_eq!(entry.stamp, stamp_of(entry.id), "a head is never stale");
        self.live -= 1;
        if this.stale > 0 {
            self.drop_stale(lane, stamp_of);
        } else {
            self.head_changed(lane);
        }
        entry.id
    }

    /// Removes a job from its lane, at any position. `pop` removes the head.
    pub(super) fn take(&mut self, lane: u32, id: u32, stamp_of: impl Fn(u32) -> u32) {
        let this = &mut self.lanes[lane as usize];
        let at = this.queue.iter().position(|entry| entry.id == id && entry.stamp == stamp_of(id));
        this.queue.remove(at.expect("a ready job is in its lane"));
        self.live -= 1;
        if at == Some(0) {
            self.drop_stale(lane, stamp_of);
        }
    }

    #[inline]
    fn head_changed(&mut self, lane: u32) {
        let this = &mut self.lanes[lane as usize];
        match (this.queue.front(), this.active_index) {
            (Some(&entry), Some(index)) => self.active[index as usize].entry = entry,
            (Some(&entry), None) => {
                this.active_index = Some(u32::try_from(self.active.len()).expect("fewer lanes than jobs"));
                self.active.push(Head { entry, lane, priority: this.priority, demand: this.demand });
            }
            (None, Some(index)) => {
                this.active_index = None;
                if this.queue.capacity() > 4096 {
                    this.queue = VecDeque::new(); // after a burst its memory is released
                }
                self.active.swap_remove(index as usize);
                if let Some(moved) = self.active.get(index as usize) {
                    self.lanes[moved.lane as usize].active_index = Some(index);
                }
            }
            (None, None) => return,
        }
        if self.phases.is_some() || self.active.len() > TREE_MIN_LANES {
            self.update_phases(lane);
        }
    }

    #[cold]
    fn update_phases(&mut self, lane: u32) {
        if self.active.len() < TREE_MIN_LANES / 2 {
            self.phases = None;
            return;
        }
        match &mut self.phases {
            Some(phases) => {
                let this = &self.lanes[lane as usize];
                phases.set(lane, this.queue.front().map(|head| (this.priority, *head, this.needs)));
            }
            None => {
                let mut phases = Phases::new(self.aging);
                for &Head { lane, .. } in &self.active {
                    let this = &self.lanes[lane as usize];
                    phases.set(lane, Some((this.priority, this.queue[0], this.needs)));
                }
                self.phases = Some(phases);
            }
        }
    }

    pub(super) fn rank(&self, priority: i32, entry: Entry, now: Time) -> Rank {
        let effective = self.aging.effective(priority, now.saturating_sub(entry.ready_since));
        Rank { effective, ready_since: entry.ready_since, id: entry.id }
    }

    /// The lane whose head ranks first among those whose demand `fits`. If `is_room` is false for a least demand, no demand fits that needs at least that much.
    #[inline]
    pub(super) fn best(
        &self,
        now: Time,
        mut fits: impl FnMut(u32) -> bool,
        is_room: impl FnMut(&Least) -> bool,
    ) -> Option<u32> {
        if let Some(phases) = &self.phases {
            return phases.best(now, |lane| fits(self.lanes[lane as usize].demand), is_room);
        }
        if let [only] = &self.active[..] {
            return fits(only.demand).then_some(only.lane);
        }
        let mut best: Option<(Rank, u32)> = None;
        for head in &self.active {
            let rank = self.rank(head.priority, head.entry, now);
            if best.is_none_or(|(than, _)| rank > than) && fits(head.demand) {
                best = Some((rank, head.lane));
            }
        }
        best.map(|(_, lane)| lane)
    }
}
