//! Laws that hold after every step of every history.
//!
//! Room: tests.

use std::collections::BTreeMap;

use test_support::Dice;

use super::history::{History, PARTS, Step};
use super::{Spec, Stage, What};
use crate::decide::graph::{CLAIMED, NONE};
use crate::state::State;

/// The state of each job, from its events alone.
#[derive(Default)]
struct Reported {
    lives: BTreeMap<u32, Vec<What>>,
    seen: usize,
}

impl Reported {
    /// A life cycle has one end, and only a new life cycle comes after it.
    fn apply(&mut self, stage: &Stage, context: &str) {
        for event in &stage.log[self.seen..] {
            let life = self.lives.entry(event.job.0).or_default();
            let over = life.last().is_some_and(|last| is_end(*last));
            match event.what {
                What::Submitted => assert!(life.is_empty(), "{context}\n{event:?} comes first"),
                What::Revived => assert!(over, "{context}\n{event:?} begins a life that is not over"),
                what => assert!(!over, "{context}\n{what:?} of {:?} after its end: {life:?}", event.job),
            }
            life.push(event.what);
            let part = stage.core.part_of(event.job.0).map(|part| stage.core.part_trace(part));
            assert_eq!(event.trace_id(), part, "{context}\n{event:?} has the id of its part");
        }
        self.seen = stage.log.len();
    }

    /// The state from the events agrees with the real state.
    fn agrees(&self, stage: &Stage, context: &str) {
        for (&id, life) in &self.lives {
            let said = life.iter().rev().find(|what| !matches!(what, What::Progress(_)));
            let state = stage.state(id);
            let agrees = match said.expect("it was submitted") {
                What::Succeeded => state == State::Succeeded,
                What::Failed => state == State::Failed,
                What::Cancelled => state == State::Cancelled,
                What::Paused => state == State::Paused,
                What::Started { .. } => state == State::Running,
                What::Ready => state == State::Ready,
                What::Submitted | What::Revived | What::Retrying { .. } => state == State::Queued,
                What::Resumed => matches!(state, State::Queued | State::Ready | State::Running),
                _ => true,
            };
            assert!(agrees, "{context}\njob {id} is {state}, but was context {life:?}");
        }
        assert_eq!(self.lives.len(), stage.core.len(), "{context}\nevery job was announced");
    }
}

fn is_end(what: What) -> bool {
    matches!(what, What::Succeeded | What::Failed | What::Cancelled)
}

/// Recomputes every sum and compares it.
fn check(stage: &Stage, specs: &BTreeMap<String, Spec>, context: &str) {
    let core = &stage.core;
    let mut counts = [0; 7];
    let (mut running, mut cpu, mut ram, mut vram, mut licence, mut workers) = (0, 0, 0, 0, 0, 0);
    let mut cards = vec![(0, 0, false); core.rules.limits.gpus.len()];
    let mut ready = Vec::new();
    for id in 0..core.len() as u32 {
        let (state, spec) = (stage.state(id), &specs[&*core.name(id)]);
        counts[state as usize] += 1;
        let keeps = core.is_paused_from_running(id);
        if state == State::Running || keeps {
            // Its own need; the first of a chain holds what the largest in it needs.
            let held = &core.needs[core.held[core.nodes[id as usize].held_at as usize] as usize];
            if stage.chain.first() != Some(&id) {
                assert_eq!(held, core.need(id), "{context}\njob {id} holds what it does not need");
            }
            if state == State::Running {
                running += 1;
                cpu += held.plain[0];
                workers += usize::from(spec.local);
            }
            ram += held.plain[1];
            let on: Vec<usize> = core.held_cards(id).iter().collect();
            assert_eq!(on.len(), held.cards.count as usize, "{context}\njob {id} has the cards it asked for");
            for card in on {
                let whole = held.cards.each_mb == 0;
                let share = if whole { core.rules.limits.gpus[card].vram_mb } else { held.cards.each_mb };
                cards[card] = (cards[card].0 + share, cards[card].1 + 1, cards[card].2 || whole);
            }
            vram += held.plain[2];
            licence += held.named.iter().map(|(_, amount)| amount).sum::<u64>();
        }
        if state == State::Ready && !core.nodes[id as usize].is(CLAIMED) {
            ready.push(id);
        }
        let unmet = core.needs_of(id).filter(|need| stage.state(*need) != State::Succeeded).count();
        if !state.is_terminal() {
            assert_eq!(core.nodes[id as usize].unmet as usize, unmet, "{context}\njob {id} waits for so many");
        }
        if matches!(state, State::Ready | State::Running) {
            assert_eq!(unmet, 0, "{context}\njob {id} is {state} before what it needs has succeeded");
        }
        if !state.is_terminal() {
            let bad = |need: &u32| matches!(stage.state(*need), State::Failed | State::Cancelled);
            assert_eq!(core.needs_of(id).find(bad), None, "{context}\njob {id} waits for one that ended badly");
        }
    }
    assert_eq!(core.counts(), counts, "{context}");
    for (number, (gpu, (used, jobs, whole))) in core.rules.limits.gpus.iter().zip(&cards).enumerate() {
        assert!(gpu.vram_mb == 0 || *used <= gpu.vram_mb, "{context}\ncard {number} over its memory: {used}");
        assert!(!whole || *jobs == 1, "{context}\ncard {number} is shared with a job that has it to itself");
    }
    assert_eq!(core.room.cards.figures(), cards, "{context}\nwhat is on a card is what its jobs need");
    if !cards.is_empty() {
        vram = cards.iter().map(|(used, ..)| used).sum();
    }
    let usage = core.usage();
    assert_eq!(
        (usage.running, usage.cpu_slots, usage.ram_mb, usage.vram_mb, usage.named[0].1),
        (running, cpu, ram, vram, licence),
        "{context}\nwhat is in use is what those that run need and paused ones keep"
    );
    assert!(cpu <= u64::from(core.rules.limits.cpu_slots) && licence <= 2, "{context}\n{usage:?} over a hard limit");
    assert!(workers <= core.rules.workers, "{context}\n{workers} closures on {} workers", core.rules.workers);
    let alive = |id: u32, stamp: u32| core.nodes[id as usize].stamp == stamp;
    let mut in_line: Vec<u32> =
        core.lanes.entries().map(|(_, e)| e).filter(|e| alive(e.id, e.stamp)).map(|e| e.id).collect();
    in_line.sort_unstable();
    assert_eq!(in_line, ready, "{context}\nready jobs stand in line once, and no others");
    for (_, head) in core.lanes.heads() {
        assert!(alive(head.id, head.stamp), "{context}\na head is a husk");
    }
    let claimed: Vec<u32> = stage.chain.iter().skip(1).copied().collect();
    for id in &claimed {
        let held = &core.needs[core.held[core.nodes[stage.chain[0] as usize].held_at as usize] as usize];
        assert!(
            stage.state(*id) == State::Ready && held.with(core.need(*id)) == *held,
            "{context}\nclaimed: {claimed:?}"
        );
    }
    assert!(
        claimed.iter().all(|id| !core.is_reserved_for(*id)),
        "{context}\nthe reservation is for a job that is not in a lane"
    );
    assert_eq!(core.in_line(), ready.len(), "{context}");
    let mut holding = core.holding.clone();
    holding.sort_unstable();
    let holds = |id: &u32| stage.state(*id) == State::Running || core.is_paused_from_running(*id);
    assert_eq!(holding, (0..core.len() as u32).filter(holds).collect::<Vec<_>>(), "{context}");
}

/// Each part counts its own jobs, each key has one job, and the times of a job are those of its current life cycle.
fn check_parts(stage: &Stage, context: &str) {
    let core = &stage.core;
    let ids = || 0..core.len() as u32;
    for part in 0..PARTS {
        let own: Vec<u32> = ids().filter(|id| core.part_of(*id) == Some(part)).collect();
        assert_eq!(core.part_jobs(part).collect::<Vec<_>>(), own, "{context}\nthe jobs of part {part}");
        let open = own.iter().filter(|id| !stage.state(**id).is_terminal()).count();
        assert_eq!(core.part_open(part), open, "{context}\njobs of part {part} that have not ended");
    }
    let mut with_keys: Vec<u32> = core.keys.values().copied().collect();
    with_keys.sort_unstable();
    with_keys.dedup();
    assert_eq!(with_keys.len(), core.keys.len(), "{context}\na key has one job");
    assert!(
        with_keys.last().is_none_or(|last| (*last as usize) < core.len()),
        "{context}\na key of a batch that is gone"
    );
    for id in ids() {
        let (state, [ready, started, ended]) = (stage.state(id), core.times(id));
        let was_done = core.attempt(id) == 0 && state == State::Succeeded;
        assert_eq!(
            ended.is_some(),
            state.is_terminal() && !was_done,
            "{context}\njob {id} is {state}, ended {ended:?}"
        );
        assert_eq!(started.is_some(), core.attempt(id) > 0, "{context}\njob {id} started {started:?}");
        assert!(ended.is_none_or(|ended| started <= Some(ended) && ended <= stage.now), "{context}\njob {id}");
        if matches!(state, State::Ready | State::Running) {
            assert!(ready.is_some_and(|ready| ready <= stage.now), "{context}\njob {id} is {state}, ready {ready:?}");
        }
        assert_eq!(core.paused_from(id).is_some(), state == State::Paused, "{context}\njob {id}");
        assert_eq!(core.slot(id), NONE, "{context}\njob {id} is somewhere, and no driver said where");
        if !state.is_terminal() && !core.holding.contains(&id) {
            assert_eq!(core.nodes[id as usize].held_at, NONE, "{context}\njob {id} holds nothing");
        }
    }
}

/// The rule of the soft limits, for a job that was just picked.
fn check_soft(stage: &Stage, picked: u32, specs: &BTreeMap<String, Spec>, context: &str) {
    let (usage, limits, demand) =
        (stage.core.usage(), &stage.core.rules.limits, &specs[&*stage.core.name(picked)].demand);
    let within = |used: u64, wanted: u64, limit: u64| wanted == 0 || limit == 0 || used <= limit;
    let ram = within(usage.ram_mb, demand.ram_mb, limits.ram_mb);
    let vram = !limits.gpus.is_empty() || within(usage.vram_mb, demand.vram_mb, limits.vram_mb);
    assert!(
        usage.running == 1 || (ram && vram),
        "{context}\njob {picked} exceeds a soft limit beside others: {usage:?}"
    );
}

fn live(seed: u64, steps: usize) {
    let (mut history, mut rules) = History::new(seed);
    rules.by_formula = Dice::new(!seed).chance(25);
    if rules.by_formula && seed.is_multiple_of(2) {
        (rules.workers, rules.running_max) = (1, 1);
    }
    history.with_chains = !rules.by_formula && seed.is_multiple_of(2);
    let mut stage = Stage::new(rules);
    let (mut by_events, mut specs) = (Reported::default(), BTreeMap::new());
    let mut go = |stage: &mut Stage, step: Step, number: usize| {
        let context = format!("seed {seed}, step {number}: {step:?}");
        if let Step::Submit(batch, _) = &step {
            specs.extend(batch.iter().map(|spec| (spec.name.clone(), spec.clone())));
        }
        if matches!(step, Step::Pick) {
            // One by one, to look at the soft limits in between.
            while let Some(id) = stage.core.pick(stage.now) {
                check_soft(stage, id, &specs, &context);
            }
            stage.drain();
        } else {
            let before = (stage.core.len(), stage.core.counts(), stage.log.len());
            let (_, refused) = stage.happen(&step);
            if refused.is_some() && matches!(step, Step::Submit(..)) {
                let after = (stage.core.len(), stage.core.counts(), stage.log.len());
                assert_eq!(before, after, "{context}\na refused submit leaves no trace");
            }
        }
        by_events.apply(stage, &context);
        check(stage, &specs, &context);
        by_events.agrees(stage, &context);
        check_parts(stage, &context);
        if let Step::End(id, 3) = step {
            assert!(stage.state(id).is_terminal(), "{context}\na permanent failure is not retried");
        }
    };
    for number in 0..steps {
        let step = history.next(&stage);
        go(&mut stage, step, number);
    }
    // And all of it comes to an end.
    for round in 0.. {
        if stage.core.open() == 0 {
            break;
        }
        assert!(round < 10_000, "seed {seed}: these do not end: {:?}", stage.core.counts());
        for step in history.finish(&stage) {
            let was_pick = matches!(step, Step::Pick);
            go(&mut stage, step, steps + round);
            let counts = stage.core.counts();
            if was_pick && counts[State::Ready as usize] > 0 {
                assert!(
                    counts[State::Running as usize] > 0,
                    "seed {seed}: nothing runs, yet nothing starts: {counts:?}"
                );
            }
        }
    }
    let usage = stage.core.usage();
    assert_eq!(
        (usage.running, usage.cpu_slots, usage.ram_mb, usage.vram_mb, usage.named[0].1),
        (0, 0, 0, 0, 0),
        "seed {seed}"
    );
}

#[test]
fn laws_hold_after_every_step() {
    for seed in 0..300 {
        live(seed, 250);
    }
}

#[test]
#[ignore = "minutes: more of the same"]
fn laws_hold_after_every_step_of_long_histories() {
    for seed in 1_000..6_000 {
        live(seed, 700);
    }
}
