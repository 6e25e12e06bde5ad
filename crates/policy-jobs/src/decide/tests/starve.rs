//! Large jobs under streams of smaller ones.
//!
//! Room: tests.
//!
//! The bound: from the moment a job is the oldest that is ready, it starts within three aging intervals and the longest time a job
//! runs. Streams may have any priorities, durations and rhythms. What higher priorities may do is outrank a job in a dispute over
//! equal amounts: that is rank, which aging settles, not size. So here, where a stream ranks higher, it takes less than the
//! large job of everything it takes.

use core::time::Duration;

use test_support::Dice;

use super::{MS, Scope, Spec, Stage, job, rules, with_cards};
use crate::aging::Time;
use crate::state::State;

/// How the next small job comes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rhythm {
    /// Many of them are always ready.
    Crowd,
    /// One arrives just before a running one ends.
    Relay,
    /// They come at random.
    Random,
    /// They come rarely, but so that something always runs.
    JobOptions,
}

#[derive(Debug)]
struct Setting {
    interval: Time,
    longest: Time,
    rhythm: Rhythm,
    priorities: &'static [i32],
    /// Whether each worker asks for one job only, as workers do, rather than for all.
    one_at_a_time: bool,
    large: Spec,
    larges: u64,
}

struct Sim {
    stage: Stage,
    dice: Dice,
    setting: Setting,
    running: Vec<(Time, u32)>,
    count: u32,
}

fn setting(dice: &Dice) -> (super::Rules, Setting) {
    let slots = 2 + dice.below(7) as u32;
    let mut rules = rules(slots);
    let interval = dice.one_of(&[100 * MS, 500 * MS, 10 * MS]);
    rules.aging.interval = Duration::from_nanos(interval);
    rules.aging.boost = dice.one_of(&[0, 1, 1, 1, 5]);
    rules.limits.ram_mb = dice.one_of(&[0, 1000, 1000, 1000]);
    rules.limits.vram_mb = dice.one_of(&[0, 1000]);
    rules.limits.named = vec![("licence".to_owned(), 6)];
    if dice.chance(10) {
        rules.aging.interval = Duration::ZERO; // then the usual interval counts
    }
    let interval = if rules.aging.interval.is_zero() { 500 * MS } else { interval };
    let has_cards = dice.chance(50);
    if has_cards {
        rules.limits.gpus =
            with_cards(1, dice.one_of(&[&[1000][..], &[1000, 1000], &[500, 1000, 1000, 800]])).limits.gpus;
    }
    let mut large =
        job("").cpu(2 + dice.below(u64::from(slots) - 1) as u32).ram(dice.one_of(&[0, 300, 900, 1000, 5000]));
    large.demand.vram_mb = dice.one_of(&[0, 0, 700, 1000, 2000]);
    if has_cards {
        // At least as many as there are cards of that size; none of the memory is a card to itself.
        large.demand.vram_mb = large.demand.vram_mb.min(1000);
        let most = if rules.limits.gpus.len() > 1 { 2 } else { 1 };
        large.demand.gpus = dice.one_of(&[0, 1, most]);
    }
    if dice.chance(30) {
        large = large.takes("licence", 2 + dice.below(5));
    }
    large.priority = dice.one_of(&[0, 0, -100]);
    let setting = Setting {
        interval,
        longest: interval * dice.one_of(&[1, 3, 20, 70, 200]) / 10,
        rhythm: dice.one_of(&[Rhythm::Crowd, Rhythm::Relay, Rhythm::Random, Rhythm::JobOptions]),
        priorities: dice.one_of(&[&[0][..], &[-3, 0], &[0, 1, 100], &[1_000_000], &[-1, 0, 1]]),
        one_at_a_time: dice.chance(50),
        large,
        larges: 1 + dice.below(3),
    };
    (rules, setting)
}

impl Sim {
    fn small(&mut self) {
        let (dice, large) = (&self.dice, &self.setting.large);
        let priority = dice.one_of(self.setting.priorities);
        let less = |dice: &Dice, than: u64, at_least: u64| {
            // Of equal amounts, rank decides: see above.
            let most = if priority > large.priority { than.saturating_sub(1) } else { than };
            if most <= at_least || dice.chance(30) {
                at_least.min(most)
            } else {
                at_least + dice.below(most - at_least + 1)
            }
        };
        let cpu = less(dice, u64::from(large.demand.cpu_slots), 1) as u32;
        let mut small =
            job(format!("small-{}", self.count)).cpu(cpu).ram(less(dice, large.demand.ram_mb, 0)).priority(priority);
        small.demand.vram_mb = less(dice, large.demand.vram_mb, 0);
        if large.demand.gpus > 0 && large.demand.vram_mb == 0 {
            small.demand.vram_mb = dice.one_of(&[0, 100, 400]); // the large one wants cards to itself
        }
        // Without memory of its own it would want whole cards, which is more than a share of one.
        if small.demand.vram_mb > 0 {
            small.demand.gpus = less(dice, large.demand.gpus.into(), 0) as u32;
        }
        for (name, amount) in &large.demand.named {
            let amount = less(dice, *amount, 0);
            small = small.takes(name, amount);
        }
        self.count += 1;
        self.stage.submit(small);
    }

    fn start(&mut self) {
        loop {
            let picked = self.stage.core.pick(self.stage.now);
            self.stage.drain();
            let Some(id) = picked else { break };
            let longest = self.setting.longest;
            let lasts = if self.dice.chance(50) { longest } else { 1 + self.dice.below(longest) };
            self.running.push((self.stage.now + lasts, id));
            // A worker that found a job is busy with it. Only the next event makes one ask again, but for other idle ones.
            if self.setting.one_at_a_time && self.dice.chance(30) {
                break;
            }
        }
    }

    fn oldest(&self) -> Option<u32> {
        let ready = (0..self.stage.core.len() as u32).filter(|id| self.stage.state(*id) == State::Ready);
        ready.min_by_key(|id| (self.stage.core.nodes[*id as usize].ready_since, *id))
    }
}

fn run(seed: u64) {
    let dice = Dice::new(seed);
    let (rules, setting) = setting(&dice);
    let context = format!("seed {seed}: {rules:?} {setting:?}");
    let bound = setting.interval * 3 + setting.longest;
    let mut sim = Sim { stage: Stage::new(rules), dice, setting, running: Vec::new(), count: 0 };
    if sim.dice.chance(15) {
        // A paused job keeps its memory all the while.
        let id = sim.stage.submit(job("paused").ram(400));
        sim.stage.pick();
        sim.stage.pause_running(id);
    }
    for _ in 0..sim.dice.below(12) {
        sim.small();
    }
    sim.start();
    let mut larges: Vec<u32> = Vec::new();
    let mut oldest: Option<(u32, Time)> = None;
    let mut arrives = 0;
    let end = (bound + sim.setting.interval) * (2 + sim.setting.larges) + 12 * sim.setting.longest;
    while sim.stage.now < end {
        // The oldest job, and since when.
        let now_oldest = sim.oldest();
        if now_oldest != oldest.map(|(id, _)| id) {
            oldest = now_oldest.map(|id| (id, sim.stage.now));
        }
        if let Some((id, since)) = oldest.filter(|(id, _)| larges.contains(id)) {
            let waited = sim.stage.now - since;
            let why = sim.stage.core.why(sim.stage.now, id, None);
            assert!(waited <= bound, "{context}\nlarge job {id} waited {waited} of {bound} ns as the oldest\n{why}");
        }
        // What comes next: an end, or an arrival.
        let ends = sim.running.iter().min().map(|(at, _)| *at);
        let comes = match sim.setting.rhythm {
            Rhythm::Crowd => None,
            Rhythm::Relay => ends.map(|at| at.saturating_sub(1).max(sim.stage.now)),
            Rhythm::Random => Some(arrives),
            Rhythm::JobOptions => sim.running.iter().max().map(|(at, _)| at.saturating_sub(1).max(sim.stage.now)),
        };
        if sim.setting.rhythm == Rhythm::Crowd {
            while sim.stage.core.counts()[State::Ready as usize] < 12 {
                sim.small();
            }
        }
        let at = [ends, comes].into_iter().flatten().min().unwrap_or(sim.stage.now + sim.setting.longest / 3 + 1);
        let at = at.max(sim.stage.now);
        let arrival = comes == Some(at) && ends != Some(at) || (ends.is_none() && comes.is_none());
        sim.stage.now = at;
        if arrival {
            sim.small();
            let longest = sim.setting.longest;
            arrives = at + 1 + sim.dice.below(longest / 3 + 1);
            if matches!(sim.setting.rhythm, Rhythm::Relay | Rhythm::JobOptions) {
                sim.start();
                sim.stage.now += 1; // else the next one would arrive at the same moment, for ever
            }
        }
        let now = sim.stage.now;
        let ended: Vec<u32> = sim.running.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        sim.running.retain(|(at, _)| *at > now);
        for id in ended {
            sim.stage.succeed(id);
            sim.start();
        }
        if (larges.len() as u64) < sim.setting.larges && sim.dice.chance(30) {
            let mut large = sim.setting.large.clone();
            large.name = format!("large-{}", larges.len());
            larges.push(sim.stage.submit(large));
        }
        sim.start();
        sim.stage.log.clear();
        let all_there = larges.len() as u64 == sim.setting.larges;
        if all_there && larges.iter().all(|id| sim.stage.core.attempt(*id) > 0) {
            return;
        }
    }
    // Time is up with jobs left. Then older ones were before them all the while, or the bound would have been missed; or some never came.
    let came = larges.len() as u64;
    assert!(oldest.is_some() || came < sim.setting.larges, "{context}");
}

#[test]
fn no_job_starves_under_any_stream_of_smaller_jobs() {
    for seed in 0..1_000 {
        run(seed);
    }
}

/// One large job that waits as the oldest, and small ones which start one after the other whenever they may. When it starts.
fn when_it_starts(rules: super::Rules, large: Spec, small: &Spec, lasts: Time, together: usize) -> Option<Time> {
    let mut stage = Stage::new(rules);
    let mut running: Vec<(Time, u32)> = Vec::new();
    for i in 0..together {
        let mut first = small.clone();
        first.name = format!("first-{i}");
        stage.submit(first);
    }
    for (i, id) in (1..).zip(stage.pick()) {
        running.push((lasts * i / together as Time, id));
    }
    let large = stage.submit(large);
    for i in 0..100_000_u32 {
        let (at, id) = *running.iter().min()?;
        let mut next = small.clone();
        next.name = format!("next-{i}");
        stage.now = at - 1;
        stage.submit(next);
        stage.now = at;
        running.retain(|(_, other)| *other != id);
        stage.succeed(id);
        for id in stage.pick() {
            if id == large {
                return Some(stage.now);
            }
            running.push((at + lasts, id));
        }
    }
    None
}

const BOUND: Time = 3 * 500 * MS;

#[test]
fn jobs_without_memory_do_not_delay_one_that_must_run_alone() {
    let lasts = 300 * MS;
    let at = when_it_starts(rules(4), job("large").ram(9_999), &job("small").ram(0), lasts, 2);
    assert!(at.is_some_and(|at| at <= BOUND + lasts), "{at:?}");
}

#[test]
fn a_large_job_that_would_fit_is_not_outranked_by_small_ones_for_ever() {
    let lasts = 300 * MS;
    let at = when_it_starts(rules(2), job("large").cpu(2), &job("small").priority(1_000), lasts, 1);
    assert!(at.is_some_and(|at| at <= BOUND + lasts), "{at:?}");
}

#[test]
fn starts_that_are_rare_do_not_let_a_large_job_wait_twice() {
    let lasts = 4_000 * MS;
    let at = when_it_starts(rules(2), job("large").cpu(2), &job("small"), lasts, 2);
    assert!(at.is_some_and(|at| at <= BOUND + lasts), "{at:?}");
}

#[test]
fn memory_of_a_paused_job_does_not_delay_a_large_one() {
    let mut stage = Stage::new(rules(4));
    let paused = stage.submit(job("paused").ram(1_500));
    stage.pick();
    stage.pause_running(paused);
    let small = stage.submit(job("small").ram(100));
    assert_eq!(stage.pick(), [small]);
    let large = stage.submit(job("large").ram(1_000)); // 548 are left, so it must run alone
    stage.now = BOUND;
    stage.submit(job("next").ram(0));
    assert!(stage.pick().is_empty(), "room is kept");
    stage.succeed(small);
    assert_eq!(stage.pick()[0], large);
}

#[test]
fn equal_demands_are_a_matter_of_rank_alone() {
    let mut stage = Stage::new(rules(1));
    let low = stage.submit(job("low"));
    for i in 0..20 {
        let high = stage.submit(job(format!("high-{i}")).priority(100));
        assert_eq!(stage.pick(), [high]);
        stage.now += 1_000 * MS;
        stage.succeed(high);
    }
    assert_eq!(stage.pick(), [low]);
}

#[test]
fn no_room_is_reserved_for_a_job_that_waits_for_a_paused_one() {
    let mut stage = Stage::new(rules(2));
    let holder = stage.submit(job("holder").takes("licence", 2));
    stage.pick();
    stage.pause_running(holder);
    let large = stage.submit(job("large").cpu(2).takes("licence", 1));
    stage.now = 10 * BOUND;
    let small = stage.submit(job("small"));
    assert_eq!(stage.pick(), [small], "what `large` lacks comes back when it is resumed, not when others wait");
    stage.succeed(small);
    stage.core.resume(stage.now, Scope::Job(holder)).unwrap();
    stage.succeed(holder);
    assert_eq!(stage.pick(), [large]);
}

#[test]
fn while_a_large_job_waits_smaller_ones_fill_in_around_it() {
    let mut stage = Stage::new(rules(4));
    let long = stage.submit(job("long").cpu(2).takes("licence", 2));
    assert_eq!(stage.pick(), [long]);
    let large = stage.submit(job("large").cpu(3).takes("licence", 1));
    stage.now = BOUND;
    let (wide, thin) = (stage.submit(job("wide").cpu(2)), stage.submit(job("thin").cpu(1)));
    assert!(stage.pick().is_empty(), "4 slots less 2 in use less 3 kept");
    stage.succeed(long);
    assert_eq!(stage.pick(), [large, thin]);
    stage.succeed(large);
    assert_eq!(stage.pick(), [wide]);
}
