//! Ready jobs, in line.
//!
//! # Invariant
//! `best` returns the job that the formula ranks first among those that may start, without looking at every job.
//!
//! # Why it holds
//! Jobs of one base priority and one demand stand in one *lane*. Among them the formula is a queue: who is ready earlier ranks
//! higher at every moment, and they fit or do not fit together. So only the heads of lanes compete. Few lanes are
//! compared one by one; many are kept in a tree (`phases.rs`).
//!
//! Entries of jobs that were paused or cancelled stay behind as husks, told by their stamp, and are swept when they come to
//! the front or outnumber the others. A head is never a husk.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::phases::{Least, Phases};
use crate::aging::{Aging, Rank, Time};

/// Above this many lanes in use, the tree is built.
const FEW: usize = 24;

/// How many lanes are found without a look at the table.
const RECENT: usize = 8;

/// A job's place in a lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) ready_since: Time,
    pub(super) id: u32,
    /// Equals the job's own stamp as long as this place is its place.
    pub(super) stamp: u32,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) priority: i32,
    pub(super) demand: u32,
    needs: Least,
    queue: VecDeque<Entry>,
    husks: usize,
    /// Where it stands in `active`, if it has jobs.
    place: Option<u32>,
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
    /// The lanes that have jobs, each with what is needed to rank its head: side by side, because every pick looks at all of them.
    active: Vec<Head>,
    /// Their heads, once there are many.
    phases: Option<Phases>,
    /// Entries that are not husks.
    live: usize,
    /// Lanes that were asked for lately.
    recent: [Option<((i32, u32), u32)>; RECENT],
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
            recent: [None; RECENT],
        }
    }

    /// The lane of jobs with this base priority and demand.
    pub(super) fn lane(&mut self, priority: i32, demand: u32, needs: Least) -> u32 {
        let recent = &mut self.recent[priority.unsigned_abs() as usize % RECENT];
        if let Some((like, lane)) = *recent
            && like == (priority, demand)
        {
            return lane;
        }
        let lane = *self.by_key.entry((priority, demand)).or_insert_with(|| {
            let lane = Lane { priority, demand, needs, queue: VecDeque::new(), husks: 0, place: None };
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

    /// Every entry, husks too.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Lane, Entry)> {
        self.active.iter().flat_map(|&Head { lane, .. }| {
            let lane = &self.lanes[lane as usize];
            lane.queue.iter().map(move |entry| (lane, *entry))
        })
    }

    /// A job joins its lane. Times never run backwards, so it belongs at the end, but for those ready at the same moment.
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

    /// A job comes back to where it stood: before those that became ready after it.
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

    /// How many jobs stand in line.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The job of this entry left its lane without being chosen. Its stamp has changed already.
    pub(super) fn leave(&mut self, lane: u32, stamp_of: impl Fn(u32) -> u32) {
        let this = &mut self.lanes[lane as usize];
        this.husks += 1;
        self.live -= 1;
        let is_husk = |entry: &Entry| stamp_of(entry.id) != entry.stamp;
        if this.husks * 2 > this.queue.len() {
            this.queue.retain(|entry| !is_husk(entry));
            this.husks = 0;
            self.head_changed(lane);
        } else if is_husk(&this.queue[0]) {
            self.drop_husks(lane, stamp_of);
        }
    }

    fn drop_husks(&mut self, lane: u32, stamp_of: impl Fn(u32) -> u32) {
        let this = &mut self.lanes[lane as usize];
        while this.queue.front().is_some_and(|entry| stamp_of(entry.id) != entry.stamp) {
            this.queue.pop_front();
            this.husks -= 1;
        }
        self.head_changed(lane);
    }

    /// Takes the head of a lane.
    #[inline]
    pub(super) fn pop(&mut self, lane: u32, stamp_of: impl Fn(u32) -> u32) -> u32 {
        let this = &mut self.lanes[lane as usize];
        let entry = this.queue.pop_front().expect("only lanes with jobs are asked");
        debug_assert_eq!(entry.stamp, stamp_of(entry.id), "a head is never a husk");
        self.live -= 1;
        if this.husks > 0 {
            self.drop_husks(lane, stamp_of);
        } else {
            self.head_changed(lane);
        }
        entry.id
    }

    /// Takes one job out of its lane, wherever it stands. `pop` when it is the head.
    pub(super) fn take(&mut self, lane: u32, id: u32, stamp_of: impl Fn(u32) -> u32) {
        let this = &mut self.lanes[lane as usize];
        let at = this.queue.iter().position(|entry| entry.id == id && entry.stamp == stamp_of(id));
        this.queue.remove(at.expect("a ready job stands in its lane"));
        self.live -= 1;
        if at == Some(0) {
            self.drop_husks(lane, stamp_of);
        }
    }

    #[inline]
    fn head_changed(&mut self, lane: u32) {
        let this = &mut self.lanes[lane as usize];
        match (this.queue.front(), this.place) {
            (Some(&entry), Some(place)) => self.active[place as usize].entry = entry,
            (Some(&entry), None) => {
                this.place = Some(u32::try_from(self.active.len()).expect("fewer lanes than jobs"));
                self.active.push(Head { entry, lane, priority: this.priority, demand: this.demand });
            }
            (None, Some(place)) => {
                this.place = None;
                if this.queue.capacity() > 4096 {
                    this.queue = VecDeque::new(); // a burst is over; its memory is not kept for ever
                }
                self.active.swap_remove(place as usize);
                if let Some(moved) = self.active.get(place as usize) {
                    self.lanes[moved.lane as usize].place = Some(place);
                }
            }
            (None, None) => return,
        }
        if self.phases.is_some() || self.active.len() > FEW {
            self.keep_phases(lane);
        }
    }

    #[cold]
    fn keep_phases(&mut self, lane: u32) {
        if self.active.len() < FEW / 2 {
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

    /// The lane whose head ranks first among those whose demand `fits`; none does of those that need at least what there `is_room` for
    /// not.
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
