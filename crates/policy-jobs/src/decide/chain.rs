//! Chains: jobs that run one after the other in the same room, claimed at once.
//!
//! Room: decisions.
//!
//! Tiny jobs would spend most of their time at the scheduler's lock. So a worker that takes a job may *claim* the jobs that it would take next. Claimed jobs
//! leave their lanes in the order in which they would be picked, stay `Ready`, and hold nothing. When one of
//! them begins, it takes over the room of the job before.
//!
//! # Invariant
//! What a chain holds covers every job in it, so no limit is exceeded when one job takes over from another. No job in a chain has a graphics
//! card: such jobs are never tiny, and each must know its cards before it begins.

use alloc::vec::Vec;

use super::cards::CardSet;
use super::graph::{CANCELLING, CLAIMED, EXTRA, PART, PAUSING, RESUMING};
use super::lanes::Entry;
use super::{Core, Ended};
use crate::aging::Time;
use crate::event::What;
use crate::state::Move;

impl Core {
    /// The number of ready jobs that are not claimed.
    #[inline]
    pub fn in_line(&self) -> usize {
        self.lanes.len()
    }

    /// Claims up to `most` jobs that would be picked next if `first`, which was just picked, released its room. The chain holds what the largest of them
    /// needs, until [`trim_held`](Self::trim_held) is called.
    pub fn claim(&mut self, now: Time, first: u32, most: usize, into: &mut Vec<u32>) {
        if self.rules.by_formula || self.has_resuming() || self.owed(now).is_some() {
            return;
        }
        let at = self.nodes[first as usize].held_at as usize;
        let mut held = self.held[at];
        if self.needs[held as usize].cards.count > 0 {
            return;
        }
        self.room.give_back(&self.needs[held as usize], CardSet::NONE);
        for _ in 0..most {
            // The held demand fits: it was just released.
            let fits = |other| other == held || self.room.fits(&self.needs[other as usize], None);
            let Some(lane) = self.lanes.best(now, fits, |least| self.room.has(least, None)) else { break };
            if self.is_reserved_for(self.lanes.head(lane).id) {
                break; // it may be owed room before its turn comes: then it must be in its lane
            }
            let demand = self.lanes.get(lane).demand;
            if self.needs[demand as usize].cards.count > 0 {
                break;
            }
            if demand != held {
                let both = self.larger_of(held, demand);
                if both != held && !self.room.fits(&self.needs[both as usize], None) {
                    break;
                }
                held = both;
            }
            let nodes = &self.nodes;
            let id = self.lanes.pop(lane, |id| nodes[id as usize].stamp);
            self.nodes[id as usize].set(CLAIMED, true);
            into.push(id);
        }
        self.held[at] = held;
        self.room.take(&self.needs[held as usize], CardSet::NONE);
    }

    /// The demand that covers both.
    fn larger_of(&mut self, one: u32, other: u32) -> u32 {
        if let Some(&known) = self.larger.get(&(one, other)) {
            return known;
        }
        let both = self.needs[one as usize].with(&self.needs[other as usize]);
        let id = *self.need_ids.entry(both.clone()).or_insert_with(|| {
            self.needs.push(both);
            self.needs.len() as u32 - 1
        });
        self.larger.insert((one, other), id);
        id
    }

    /// This job runs and its chain is over: from now on it holds its own demand only.
    #[inline]
    pub fn trim_held(&mut self, id: u32) {
        let node = &self.nodes[id as usize];
        let (at, own) = (node.held_at as usize, self.lanes.get(node.lane).demand);
        let held = core::mem::replace(&mut self.held[at], own);
        if held != own {
            self.room.give_back(&self.needs[held as usize], CardSet::NONE);
            self.room.take(&self.needs[own as usize], CardSet::NONE);
        }
    }

    /// `before` succeeded, and `next`, which was claimed, began in its room.
    #[inline]
    pub fn hand_over(&mut self, now: Time, before: u32, next: u32) {
        let node = &mut self.nodes[before as usize];
        let at = node.held_at;
        if node.flags & (PAUSING | CANCELLING | RESUMING | EXTRA | PART) == 0 {
            // As `conclude`, without the checks that cannot succeed here.
            node.stamp = node.stamp.wrapping_add(1);
            self.step(before, Move::Succeeded);
            self.nodes[before as usize].set_ended(now);
            self.emit(now, before, What::Succeeded);
            self.wake_dependents(now, before);
        } else {
            self.conclude(now, before, Ended::Succeeded);
        }
        self.nodes[next as usize].set(CLAIMED, false);
        self.begin(now, next);
        self.nodes[next as usize].held_at = at;
        self.holding[at as usize] = next;
    }

    /// A claimed job that was not begun goes back to its position in its lane.
    pub fn unclaim(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        node.set(CLAIMED, false);
        let entry = Entry { ready_since: node.ready_since, id, stamp: node.stamp };
        self.lanes.push_front(node.lane, entry);
        self.rejoined(entry);
    }
}
