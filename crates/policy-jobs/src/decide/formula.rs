//! The pick by the formula: rank every ready job, and take the first that may start.
//!
//! Room: decisions.
//!
//! The `simple` scheduler uses it, and the quick pick is tested against it: `the_quick_pick_is_the_pick_of_the_formula`.

use super::Core;
use super::cards::KeptCards;
use super::lanes::Entry;
use super::room::Kept;
use crate::aging::{Rank, Time};
use crate::state::State;

impl Core {
    /// The job, and the cards that are reserved for another job.
    pub(super) fn pick_by_formula(&mut self, now: Time) -> Option<(u32, Option<KeptCards>)> {
        let owed = self.owed(now);
        let kept = owed.and_then(|_| self.kept()).filter(|kept| !self.room.fits(kept.need, None));
        let ready = (0..).zip(&self.nodes).filter(|(_, node)| node.state == State::Ready);
        let may_start = ready.filter(|(id, _)| self.room.fits(self.need(*id), kept));
        let first = may_start.map(|(id, _)| self.rank_of(id, now)).max()?.id;
        let rather = owed.filter(|&owed| kept.is_none() && self.room.passes_over(self.need(first), self.need(owed)));
        Some((rather.unwrap_or(first), kept.and_then(Kept::cards)))
    }

    /// The rank of a ready job.
    pub(super) fn rank_of(&self, id: u32, now: Time) -> Rank {
        let node = &self.nodes[id as usize];
        let entry = Entry { ready_since: node.ready_since, id, stamp: node.stamp };
        self.lanes.rank(self.lanes.get(node.lane).priority, entry, now)
    }
}
