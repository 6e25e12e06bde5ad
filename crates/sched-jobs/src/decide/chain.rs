//! Jobs that follow each other in the same room.
//!
//! Tiny jobs would spend most of their time at the scheduler's lock. So a worker that takes a job may *claim* those that it would take next, each when
//! the one before has ended: they leave their lanes in the order in which they would be picked, stay `Ready`, and hold nothing. When one of
//! them begins, it takes over the room of the one before.
//!
//! # Invariant
//! Claimed jobs need exactly what the job needs whose room they take over, so no limit is touched.

use super::graph::{CANCELING, CLAIMED, EXTRA, NONE, PAUSING, RESUMING};
use super::lanes::Entry;
use super::{Core, Ended};
use crate::aging::Time;
use crate::event::What;
use crate::state::Move;

impl Core {
    /// How many jobs stand in line and are claimed by nobody.
    pub(crate) fn in_line(&self) -> usize {
        self.lanes.len()
    }

    /// Claims up to `most` jobs that would be picked next if `first`, which was just picked, gave back its room.
    pub(crate) fn claim(&mut self, now: Time, first: u32, most: usize, into: &mut Vec<u32>) {
        if self.rules.by_formula || self.is_somebody_coming_back() || self.owed(now).is_some() {
            return;
        }
        let demand = self.lanes.get(self.nodes[first as usize].lane).demand;
        self.room.give_back(&self.needs[demand as usize]);
        for _ in 0..most {
            // What needs the same fits, since the first did.
            let fits = |other| other == demand || self.room.fits(&self.needs[other as usize], None);
            let best = self.lanes.best(now, fits, |least| self.room.has(least, None));
            let Some(lane) = best.filter(|lane| self.lanes.get(*lane).demand == demand) else { break };
            if self.is_noted(self.lanes.head(lane).id) {
                break; // it may be owed room before its turn comes: then it must stand in line
            }
            let nodes = &self.nodes;
            let id = self.lanes.pop(lane, |id| nodes[id as usize].stamp);
            self.nodes[id as usize].set(CLAIMED, true);
            into.push(id);
        }
        self.room.take(&self.needs[demand as usize]);
    }

    /// `before` succeeded, and `next`, which was claimed, began in its room.
    #[inline]
    pub(crate) fn hand_over(&mut self, now: Time, before: u32, next: u32) {
        let node = &mut self.nodes[before as usize];
        if node.flags & (PAUSING | CANCELING | RESUMING | EXTRA) == 0 {
            // As `conclude` would, without the questions that are answered already.
            node.stamp = node.stamp.wrapping_add(1);
            node.place = NONE;
            self.step(before, Move::Succeeded);
            self.tell(now, before, What::Succeeded);
            self.wake_dependents(now, before);
        } else {
            self.conclude(now, before, Ended::Well);
        }
        self.nodes[next as usize].set(CLAIMED, false);
        self.begin(now, next);
        let at = core::mem::replace(&mut self.nodes[before as usize].held_at, NONE);
        self.nodes[next as usize].held_at = at;
        self.holding[at as usize] = next;
    }

    /// A claimed job that nobody began goes back to its place in line.
    pub(crate) fn unclaim(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        node.set(CLAIMED, false);
        let entry = Entry { ready_since: node.ready_since, id, stamp: node.stamp };
        self.lanes.push_front(node.lane, entry);
        self.has_come_back(entry);
    }
}
