//! The quick pick, the pick by the formula, and the pick by a third, naive implementation of the rules.
//!
//! Room: tests.

use test_support::Dice;

use super::history::{History, Step};
use super::{Ended, MS, Rules, Stage, job, rules};
use crate::aging::Time;
use crate::decide::{CardUse, Core, Others};
use crate::state::State;

/// Plays the same history on both, and prints it if they differ.
fn play(seed: u64, steps: usize) -> usize {
    let mut from_a_tree = 0;
    let (mut history, rules) = History::new(seed);
    let rules_text = format!("{rules:?}");
    let mut quick = Stage::new(rules.clone());
    let mut slow = Stage::new(Rules { by_formula: true, ..rules });
    let mut reader = Reader::default();
    for number in 0..steps {
        let step = history.next(&quick);
        let context = || format!("seed {seed}, step {number}: {step:?}\n{rules_text}");
        if let Step::Others(others) = &step {
            reader.others = others.clone();
        }
        if matches!(step, Step::Pick) {
            loop {
                let expected = reader.expects(&mut quick, history.interval);
                let (one, other) = (quick.core.pick(quick.now), slow.core.pick(slow.now));
                assert_eq!(one, other, "{}\nquick pick and formula differ", context());
                if let Err(why) = expected.allows(one) {
                    panic!("{}\npicked {one:?}: {why}\n{expected:?}\n{:?}", context(), quick.core.room);
                }
                reader.picked = quick.now;
                let Some(id) = one else { break };
                from_a_tree += usize::from(quick.core.lanes.has_tree());
                // What it will use is no longer free, although it was not measured again.
                if let Some(free) = &mut reader.others.ram_free_mb {
                    *free = free.saturating_sub(quick.core.need(id).plain[1]);
                }
                for card in quick.core.held_cards(id).iter() {
                    let need = quick.core.need(id).cards.each_mb;
                    let share = if need == 0 { quick.core.rules.limits.gpus[card].vram_mb } else { need };
                    if let Some(CardUse { free_mb: Some(free), .. }) = reader.others.cards.get_mut(card) {
                        *free = free.saturating_sub(share);
                    }
                }
                assert_eq!(quick.core.held_cards(id), slow.core.held_cards(id), "{}\non the same cards", context());
            }
        } else {
            assert_eq!(quick.happen(&step), slow.happen(&step), "{}", context());
        }
        quick.drain();
        slow.drain();
        reader.look(&quick);
        let states = |stage: &Stage| (0..stage.core.len() as u32).map(|id| stage.state(id)).collect::<Vec<_>>();
        assert_eq!(states(&quick), states(&slow), "{}", context());
        assert_eq!(quick.log.len(), slow.log.len(), "{}", context());
        assert_eq!(quick.effects, slow.effects, "{}", context());
    }
    from_a_tree
}

/// A naive implementation of the rules, without lanes, trees and rooms.
#[derive(Default)]
struct Reader {
    others: Others,
    /// Since when the oldest ready jobs are ready, and since when they were seen to be the oldest.
    oldest: Option<(Time, Time)>,
    /// When jobs were last picked. The oldest is not looked for in between.
    picked: Time,
}

#[derive(Debug)]
struct Expected {
    /// The first by the formula among those that fit.
    first: Option<u32>,
    /// The oldest, if it has been that for so long that room may be kept for it; with those that are just as old.
    oldest: Vec<u32>,
    oldest_fits: bool,
    /// A resumed job waits for slots.
    a_resumed_job_waits: bool,
}

impl Reader {
    fn look(&mut self, stage: &Stage) {
        let ready = (0..stage.core.len() as u32).filter(|id| stage.state(*id) == State::Ready);
        let since = |id: u32| stage.core.nodes[id as usize].ready_since;
        let known = self.oldest;
        self.oldest = ready.map(since).min().map(|ready_since| {
            let seen = known.filter(|known| known.0 == ready_since).map(|known| known.1);
            (ready_since, seen.unwrap_or(ready_since.max(self.picked)))
        });
    }

    /// Whether enough cards have what the job needs on each, or have no job on them.
    fn cards_fit(&self, core: &Core, id: u32) -> bool {
        let need = core.need(id).cards;
        let holds = |id: &u32| core.state(*id) == State::Running || core.is_paused_from_running(*id);
        let would_do = |card: &usize| {
            let there = (0..core.len() as u32).filter(holds).filter(|id| core.held_cards(*id).has(*card));
            let on: Vec<u64> = there.map(|id| core.need(id).cards.each_mb).collect();
            let elsewhere = self.others.cards.get(*card).copied().unwrap_or_default();
            if need.each_mb == 0 {
                return on.is_empty() && elsewhere.held_mb == 0;
            }
            let vram_mb = match core.rules.limits.gpus[*card].vram_mb {
                0 => 1 << 40,
                mb => mb,
            };
            !on.contains(&0)
                && on.iter().sum::<u64>() + elsewhere.held_mb + need.each_mb <= vram_mb
                && elsewhere.free_mb.is_none_or(|free| need.each_mb <= free)
        };
        (0..core.rules.limits.gpus.len()).filter(would_do).count() >= need.count as usize
    }

    /// What the document and the decisions say about the next pick.
    fn expects(&mut self, stage: &mut Stage, interval: Time) -> Expected {
        let now = stage.now;
        stage.core.tick(now); // alarms that are due make jobs ready first
        stage.core.resume_waiting(now);
        self.look(stage);
        let core = &stage.core;
        let (limits, usage) = (&core.rules.limits, core.usage());
        let workers_used =
            (0..core.len() as u32).filter(|id| core.state(*id) == State::Running && core.is_local(*id)).count();
        let nothing_runs = usage.running == 0 && self.others.running == 0;
        let fits = |id: u32| {
            let need = core.need(id);
            let [cpu, ram, vram, worker] = need.plain;
            let licence: u64 = need.named.iter().map(|(_, amount)| amount).sum();
            let elsewhere = self.others.named.first().map_or(0, |(_, amount)| *amount);
            let soft = |wanted: u64, used: u64, others: u64, limit: u64| {
                wanted == 0 || nothing_runs || limit == 0 || used + others + wanted <= limit
            };
            let free = self.others.ram_free_mb.is_none_or(|free| wanted_fits(ram, free, nothing_runs));
            (cpu == 0 || usage.cpu_slots + self.others.cpu_slots + cpu <= u64::from(limits.cpu_slots))
                && (worker == 0 || workers_used < core.rules.workers)
                && soft(ram, usage.ram_mb, self.others.ram_mb, limits.ram_mb)
                && (!limits.gpus.is_empty() || soft(vram, usage.vram_mb, self.others.vram_mb, limits.vram_mb))
                && self.cards_fit(core, id)
                && free
                && (licence == 0 && need.named.is_empty() || usage.named[0].1 + elsewhere + licence <= 2)
        };
        let effective = |id: u32| {
            let node = &core.nodes[id as usize];
            let base = i128::from(core.lanes.get(node.lane).priority);
            let waited = (now - node.ready_since).checked_div(interval).unwrap_or(0);
            let key = (base + i128::from(waited) * i128::from(core.rules.aging.boost), node.ready_since, id);
            (core::cmp::Reverse(key.0), key.1, key.2)
        };
        let ready = (0..core.len() as u32).filter(|id| core.state(*id) == State::Ready);
        let first = ready.filter(|id| fits(*id)).min_by_key(|id| effective(*id));
        // The age of the oldest may be wrong by a quarter of an interval.
        let interval_or_half_second = if interval == 0 { 500_000_000 } else { interval };
        let long = |(_, seen): &(Time, Time)| now + interval_or_half_second / 4 >= seen + 2 * interval_or_half_second;
        let oldest = self.oldest.filter(long).map(|(since, _)| since);
        let as_old = |id: &u32| core.state(*id) == State::Ready && Some(core.nodes[*id as usize].ready_since) == oldest;
        let oldest: Vec<u32> = (0..core.len() as u32).filter(as_old).collect();
        let oldest_fits = oldest.iter().all(|id| fits(*id));
        let a_resumed_job_waits =
            core.resuming.iter().any(|id| core.nodes[*id as usize].is(super::super::graph::RESUMING));
        Expected { first, oldest, oldest_fits, a_resumed_job_waits }
    }
}

fn wanted_fits(wanted: u64, free: u64, nothing_runs: bool) -> bool {
    wanted == 0 || nothing_runs || wanted <= free
}

impl Expected {
    fn allows(&self, picked: Option<u32>) -> Result<(), &'static str> {
        if self.a_resumed_job_waits {
            return picked.map_or(Ok(()), |_| Err("a resumed job goes first"));
        }
        if picked == self.first {
            return Ok(());
        }
        if self.oldest.is_empty() {
            return Err("the formula ranks another one first, and no job has a reservation");
        }
        match picked {
            Some(id) if self.oldest.contains(&id) => Ok(()),
            // Another job that leaves room for the oldest, or none.
            _ if !self.oldest_fits => Ok(()),
            _ => Err("neither the first by the formula nor the oldest"),
        }
    }
}

#[test]
fn the_quick_pick_is_the_pick_of_the_formula() {
    let from_a_tree: usize = (0..400).map(|seed| play(seed, 300)).sum();
    assert!(from_a_tree > 2_000, "only {from_a_tree} picks were made from a tree of lanes");
}

#[test]
#[ignore = "minutes: more of the same"]
fn the_quick_pick_is_the_pick_of_the_formula_in_long_histories() {
    for seed in 10_000..14_000 {
        play(seed, 900);
    }
}

/// The order in which one worker runs jobs that end at once: picked one by one, or claimed in chains.
fn run_all(seed: u64, chains: bool) -> Vec<u32> {
    let dice = Dice::new(seed);
    let mut rules = rules(1 + dice.below(3) as u32);
    rules.workers = 1;
    let mut stage = Stage::new(rules);
    for i in 0..200 {
        let slots = 1 + dice.below(u64::from(stage.core.rules.limits.cpu_slots));
        stage.now += dice.below(900 * MS);
        stage.submit(
            job(format!("{i}")).priority(dice.below(4) as i32).cpu(slots as u32).ram(dice.one_of(&[0, 256, 4_000])),
        );
    }
    let mut order = Vec::new();
    while let Some(first) = stage.core.pick(stage.now) {
        let mut chain = vec![first];
        if chains {
            stage.core.claim(stage.now, first, 1 + dice.below(20) as usize, &mut chain);
        }
        for pair in chain.windows(2) {
            stage.core.hand_over(stage.now, pair[0], pair[1]);
        }
        stage.core.ended(stage.now, chain[chain.len() - 1], Ended::Succeeded);
        order.extend(chain);
    }
    assert_eq!(stage.core.open(), 0, "seed {seed}");
    order
}

#[test]
fn claimed_jobs_are_those_that_would_be_picked() {
    let mut claimed = 0;
    for seed in 0..200 {
        let (one_by_one, chained) = (run_all(seed, false), run_all(seed, true));
        assert_eq!(one_by_one, chained, "seed {seed}");
        claimed += usize::from(one_by_one.len() == 200);
    }
    assert_eq!(claimed, 200);
}
