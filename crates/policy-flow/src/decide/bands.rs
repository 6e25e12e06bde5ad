//! Run queues: which band is next, and which node inside a band.
//!
//! Room: decisions.
//!
//! # Invariant
//! While all bands have something to do they get turns in exactly their shares, over every cycle. While control has something to do, no two turns of other
//! bands follow each other. Inside a band, nodes are served round-robin.
//!
//! # Why it holds
//! Control has at least half of all turns. So the cycle can begin with control and put every turn of another band behind one of control's: with 4:2:1 it is
//! C H C N C H C. A band that is empty is passed over. After a turn of another band control comes first in any case; in a full cycle it does so
//! anyway.
//!
//! # Rejected
//! Smooth weighted round-robin over all three. With 2:1:1 it puts the other two side by side; control, which comes first between them, gets a turn too many.

use alloc::{collections::VecDeque, vec::Vec};

use super::Core;
use crate::policy::Band;

/// Run queues of nodes that wait for a turn, one for each band.
#[derive(Debug)]
pub(crate) struct Bands {
    queues: [VecDeque<u32>; 3],
    cycle: Vec<Band>,
    at: usize,
    control_was_last: bool,
}

/// The cycle of shares: the turns of control, and behind some of them, evenly spread, one of another band.
fn cycle([control, high, normal]: [u32; 3]) -> Vec<Band> {
    let others = high + normal;
    let mut cycle = Vec::with_capacity((control + others) as usize);
    let mut due = 0; // of high, in parts of both other bands; on a tie high comes first
    for turn in 0..control {
        cycle.push(Band::Control);
        let so_far = |turns: u32| (u64::from(turns) * u64::from(others)).div_ceil(u64::from(control));
        if so_far(turn + 1) > so_far(turn) {
            due += i64::from(high);
            let is_high = due * 2 >= i64::from(others);
            due -= if is_high { i64::from(others) } else { 0 };
            cycle.push(if is_high { Band::High } else { Band::Normal });
        }
    }
    cycle
}

impl Bands {
    /// # Panics
    /// If a share is 0, or control has less than half: the settings were checked before.
    pub(crate) fn new(shares: [u32; 3]) -> Self {
        assert!(shares.iter().all(|share| *share > 0) && shares[0] >= shares[1] + shares[2], "checked before");
        Self { queues: Default::default(), cycle: cycle(shares), at: 0, control_was_last: false }
    }

    pub(crate) fn push(&mut self, band: Band, node: u32) {
        self.queues[band as usize].push_back(node);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// The next turn. `stale` says whether a node has nothing to do in that band any more; such nodes leave the queue.
    pub(crate) fn pop(&mut self, mut stale: impl FnMut(Band, u32) -> bool) -> Option<(Band, u32)> {
        loop {
            let (band, at) = self.next()?;
            let node = self.queues[band as usize].pop_front()?;
            // A stale node costs no turn.
            if !stale(band, node) {
                self.at = at;
                self.control_was_last = band == Band::Control;
                return Some((band, node));
            }
        }
    }

    /// The band whose turn it is, and the position in the cycle after it.
    fn next(&self) -> Option<(Band, usize)> {
        let has = |band: Band| !self.queues[band as usize].is_empty();
        let after = |at: usize| if at + 1 == self.cycle.len() { 0 } else { at + 1 };
        if has(Band::Control) && !self.control_was_last {
            let in_place = self.cycle[self.at] == Band::Control;
            return Some((Band::Control, if in_place { after(self.at) } else { self.at }));
        }
        let mut at = self.at;
        for _ in 0..self.cycle.len() {
            let band = self.cycle[at];
            at = after(at);
            if has(band) {
                return Some((band, at));
            }
        }
        None
    }
}

impl Core {
    /// Moves an edge to another band.
    pub fn set_band(&mut self, edge: u32, band: Band) {
        let core = &mut self.edges[edge as usize];
        let before = core::mem::replace(&mut core.band, band);
        if before == band || !core.queued {
            return;
        }
        let target = core.facts.to;
        let node = &mut self.nodes[target as usize];
        let line = if core.facts.steers { &mut node.steer } else { &mut node.ready };
        line[before as usize].retain(|other| *other != edge);
        line[band as usize].push_back(edge);
        self.schedule(target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: fn(Band, u32) -> bool = |_, _| false;

    #[test]
    fn four_two_one_is_spread_over_a_cycle_of_seven() {
        use Band::{Control as C, High as H, Normal as N};
        assert_eq!(cycle([4, 2, 1]), [C, H, C, N, C, H, C]);
    }

    #[test]
    fn busy_bands_share_seven_thousand_turns_exactly() {
        let mut bands = Bands::new([4, 2, 1]);
        Band::ALL.iter().for_each(|band| bands.push(*band, *band as u32));
        let mut turns = [0; 3];
        for _ in 0..7_000 {
            let (band, node) = bands.pop(FRESH).unwrap();
            turns[band as usize] += 1;
            bands.push(band, node);
        }
        assert_eq!(turns, [4_000, 2_000, 1_000]);
    }

    #[test]
    fn busy_bands_share_turns_exactly_whatever_their_shares() {
        for (high, normal, more) in (1..=9).flat_map(|h| (1..=9).flat_map(move |n| (0..=6).map(move |m| (h, n, m)))) {
            let shares = [high + normal + more, high, normal];
            let mut bands = Bands::new(shares);
            Band::ALL.iter().for_each(|band| bands.push(*band, *band as u32));
            for round in 1..=3 {
                let mut turns = [0; 3];
                for _ in 0..shares.iter().sum::<u32>() {
                    let (band, node) = bands.pop(FRESH).unwrap();
                    turns[band as usize] += 1;
                    bands.push(band, node);
                }
                assert_eq!(turns, shares, "cycle {round}");
            }
        }
    }

    #[test]
    fn two_bands_share_in_their_own_ratio() {
        for (left, right, expected) in
            [(Band::Control, Band::Normal, [4_000, 1_000]), (Band::High, Band::Normal, [2_000, 1_000])]
        {
            let mut bands = Bands::new([4, 2, 1]);
            bands.push(left, 0);
            bands.push(right, 1);
            let mut turns = [0; 2];
            for _ in 0..expected.iter().sum::<usize>() {
                let (band, node) = bands.pop(FRESH).unwrap();
                turns[node as usize] += 1;
                bands.push(band, node);
            }
            assert_eq!(turns, expected);
        }
    }

    #[test]
    fn control_that_comes_at_any_moment_waits_for_no_second_turn_of_others() {
        for arrival in 0..100 {
            let mut bands = Bands::new([4, 2, 1]);
            bands.push(Band::High, 1);
            bands.push(Band::Normal, 2);
            for turn in 0..arrival + 2 {
                if turn == arrival {
                    bands.push(Band::Control, 0);
                }
                let (band, node) = bands.pop(FRESH).unwrap();
                assert!(
                    turn < arrival || band == Band::Control || turn > arrival,
                    "arrival {arrival}: {band} came first"
                );
                if band != Band::Control {
                    bands.push(band, node);
                }
            }
        }
    }

    #[test]
    fn nodes_of_a_band_take_turns_and_stale_ones_cost_no_turn() {
        let mut bands = Bands::new([4, 2, 1]);
        (0..3).for_each(|node| bands.push(Band::Normal, node));
        let mut order = Vec::new();
        for _ in 0..6 {
            let (band, node) = bands.pop(FRESH).unwrap();
            order.push(node);
            bands.push(band, node);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        assert_eq!(bands.pop(|_, node| node == 0), Some((Band::Normal, 1)));
        assert_eq!(bands.pop(|_, _| true), None);
        assert!(bands.is_empty());
    }
}
