//! The tree of lanes compared with a plain scan.
//!
//! Room: tests.

use core::time::Duration;
use std::collections::BTreeMap;

use test_support::Dice;

use crate::aging::{Aging, Rank, Time};
use crate::decide::lanes::Entry;
use crate::decide::phases::Phases;

fn aging(interval_ns: u64, boost: u32) -> Aging {
    Aging { interval: Duration::from_nanos(interval_ns), boost }
}

/// What jobs of a lane need.
fn needs_of(lane: u32) -> [u64; 4] {
    [u64::from(lane % 5), u64::from(lane * 37 % 400), u64::from(lane % 3), 1]
}

#[test]
fn the_tree_finds_what_a_scan_finds() {
    for seed in 0..300 {
        let dice = Dice::new(seed);
        let interval = dice.one_of(&[0, 1, 5, 100, 1_000_000]);
        let aging = aging(interval, dice.one_of(&[0, 1, 2, u32::MAX]));
        let mut tree = Phases::new(aging);
        let mut heads: BTreeMap<u32, (i32, Entry)> = BTreeMap::new();
        let lanes = 1 + dice.below(80);
        let mut now: Time = dice.one_of(&[0, 0, u64::from(u32::MAX) << 20]);
        for step in 0..400 {
            now += dice.one_of(&[0, 0, 1, interval, interval / 2 + 1, 3 * interval]);
            let lane = dice.below(lanes) as u32;
            if dice.chance(30) {
                heads.remove(&lane);
                tree.set(lane, None);
            } else {
                let priority = if dice.chance(5) { dice.one_of(&[i32::MIN, i32::MAX]) } else { dice.below(4) as i32 };
                let ready_since = now - dice.below(5 * interval + 2).min(now);
                let entry = Entry { ready_since, id: step, stamp: 0 };
                heads.insert(lane, (priority, entry));
                tree.set(lane, Some((priority, entry, needs_of(lane))));
            }
            let closed: Vec<u32> = (0..dice.below(lanes)).map(|_| dice.below(lanes) as u32).collect();
            let rank = |priority, entry: &Entry| {
                let effective = aging.effective(priority, now - entry.ready_since);
                Rank { effective, ready_since: entry.ready_since, id: entry.id }
            };
            let open = heads.iter().filter(|(lane, _)| !closed.contains(lane));
            let scanned = open.max_by_key(|(_, (priority, entry))| rank(*priority, entry)).map(|(lane, _)| *lane);
            let found = tree.best(now, |lane| !closed.contains(&lane), |_| true);
            assert_eq!(found, scanned, "seed {seed}, step {step}, at {now}: {heads:?}");
            // And among those that find room.
            let free = [dice.below(5), dice.below(400), 9, 9];
            let fits = |needs: &[u64; 4]| needs.iter().zip(free).all(|(needs, free)| *needs <= free);
            let open = heads.iter().filter(|(lane, _)| fits(&needs_of(**lane)));
            let scanned = open.max_by_key(|(_, (priority, entry))| rank(*priority, entry)).map(|(lane, _)| *lane);
            let found = tree.best(now, |lane| fits(&needs_of(lane)), fits);
            assert_eq!(found, scanned, "seed {seed}, step {step}, at {now}, free {free:?}: {heads:?}");
        }
    }
}

#[test]
fn of_ten_thousand_lanes_that_fit_few_are_visited() {
    const LANES: u32 = 10_000;
    let dice = Dice::new(1);
    let mut tree = Phases::new(aging(1_000, 1));
    for lane in 0..LANES {
        let entry = Entry { ready_since: dice.below(1_000_000), id: lane, stamp: 0 };
        tree.set(lane, Some((dice.below(500) as i32, entry, needs_of(lane))));
    }
    let mut most = 0;
    for now in (1_000_000..1_002_000).step_by(7) {
        tree.visited.set(0);
        assert!(tree.best(now, |_| true, |_| true).is_some());
        most = most.max(tree.visited.get());
    }
    // A path of such a tree has some 2 ln 10,000 = 18 nodes, the longest about twice as many; a search takes two of them.
    assert!(most <= 100, "{most} of {LANES} nodes were looked at");
}

#[test]
fn a_full_machine_is_detected_at_the_root() {
    let mut tree = Phases::new(aging(1_000, 1));
    for lane in 0..10_000 {
        let entry = Entry { ready_since: 0, id: lane, stamp: 0 };
        tree.set(lane, Some((lane as i32, entry, [1 + u64::from(lane % 7), 0, 0, 1])));
    }
    assert_eq!(tree.best(5, |_| false, |least| least[0] == 0), None);
    assert_eq!(tree.visited.get(), 1);
}
