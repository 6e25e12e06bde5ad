//! The pick, written as the rule says it: look at every ready job, rank it, take the first that may start.
//!
//! This is what the `simple` scheduler uses, and what the quick pick is tested against: `the_quick_pick_is_the_pick_of_the_formula`.

use super::Core;
use super::lanes::Entry;
use crate::aging::{Rank, Time};
use crate::state::State;

impl Core {
    pub(super) fn pick_by_formula(&mut self, now: Time) -> Option<u32> {
        let owed = self.owed(now);
        let kept = owed.map(|owed| self.need(owed)).filter(|need| !self.room.fits(need, None));
        let ready = (0..).zip(&self.nodes).filter(|(_, node)| node.state == State::Ready);
        let may_start = ready.filter(|(id, _)| self.room.fits(self.need(*id), kept));
        let first = may_start.map(|(id, _)| self.rank_of(id, now)).max()?.id;
        let rather = owed.filter(|&owed| kept.is_none() && self.room.passes_over(self.need(first), self.need(owed)));
        Some(rather.unwrap_or(first))
    }

    /// Where a ready job stands in line.
    pub(super) fn rank_of(&self, id: u32, now: Time) -> Rank {
        let node = &self.nodes[id as usize];
        let entry = Entry { ready_since: node.ready_since, id, stamp: node.stamp };
        self.lanes.rank(self.lanes.get(node.lane).priority, entry, now)
    }
}
