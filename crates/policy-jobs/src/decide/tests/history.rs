//! Random histories: everything that users, executors and time can do to a scheduler, in any order.
//!
//! Room: tests.

use core::time::Duration;

use test_support::Dice;

use super::{Ended, MS, Rules, Scope, Spec, Stage, job, rules, with_cards};
use crate::aging::Time;
use crate::decide::{CardUse, Others};
use crate::error::Cause;
use crate::state::State;

/// One thing that happens. What it is about is chosen beforehand, so that several schedulers can go through the same.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A batch, to the part of that number, if any.
    Submit(Vec<Spec>, Option<u32>),
    Pick,
    /// A worker picks a job and claims at most so many that follow it.
    Chain(usize),
    /// A running or paused attempt ends: it succeeds, fails, stops on request, or fails permanently.
    End(u32, u8),
    /// A running job pauses.
    StandStill(u32),
    Pause(Scope),
    Resume(Scope),
    Cancel(Scope),
    Retry(u32),
    Time(Time),
    Others(Others),
}

/// How many parts there are.
pub(super) const PARTS: u32 = 3;

pub(super) struct History {
    pub(super) dice: Dice,
    /// How many different priorities there are: few make few lanes, many make a tree of them.
    priorities: u64,
    with_others: bool,
    /// How many graphics cards there are.
    cards: usize,
    /// Whether many jobs are ready most of the time.
    crowded: bool,
    /// Whether workers claim jobs ahead.
    pub(super) with_chains: bool,
    pub(super) interval: Time,
    submitted: u32,
}

impl History {
    pub(super) fn new(seed: u64) -> (Self, Rules) {
        let dice = Dice::new(seed);
        let mut rules = rules(1 + dice.below(6) as u32);
        rules.limits.ram_mb = dice.one_of(&[0, 1000]);
        rules.limits.vram_mb = dice.one_of(&[0, 1000]);
        rules.aging.boost = dice.one_of(&[0, 1, 1, 3, u32::MAX]);
        let interval = dice.one_of(&[0, 1, 7, 10 * MS, 500 * MS]);
        rules.aging.interval = Duration::from_nanos(interval);
        rules.seed = seed;
        if dice.chance(50) {
            let sizes = [&[1000][..], &[1000, 500], &[1000; 8], &[2000, 1000, 0, 500]];
            rules.limits.gpus = with_cards(1, dice.one_of(&sizes)).limits.gpus;
        }
        let cards = rules.limits.gpus.len();
        let crowded = dice.chance(35);
        let priorities = if crowded { 100 } else { dice.one_of(&[1, 3, 100]) };
        let with_others = dice.chance(15);
        (Self { dice, priorities, with_others, cards, crowded, with_chains: false, interval, submitted: 0 }, rules)
    }

    fn any(&mut self, stage: &Stage, wanted: impl Fn(State) -> bool) -> Option<u32> {
        let found: Vec<u32> = (0..stage.core.len() as u32).filter(|id| wanted(stage.state(*id))).collect();
        (!found.is_empty()).then(|| self.dice.one_of(&found))
    }

    fn scope(&mut self, stage: &Stage, wanted: impl Fn(State) -> bool) -> Option<Scope> {
        let id = self.any(stage, wanted)?;
        Some(match self.dice.below(20) {
            0 => Scope::Run,
            1..5 => Scope::Subtree(id),
            5 => Scope::Part(self.dice.below(PARTS.into()) as u32),
            _ => Scope::Job(id),
        })
    }

    fn spec(&mut self, stage: &Stage, batch: &[Spec]) -> Spec {
        let dice = &self.dice;
        let mut spec = job(format!("job-{}", self.submitted)).cpu(dice.below(4) as u32);
        self.submitted += 1;
        spec.demand.ram_mb = dice.one_of(&[0, 100, 100, 400, 1000, 3000]);
        spec.demand.vram_mb = dice.one_of(&[0, 0, 0, 500, if self.cards > 0 { 1000 } else { 2000 }]);
        if self.cards > 0 {
            spec.demand.gpus = dice.one_of(&[0, 0, 0, 0, 1, if self.cards > 1 { 2 } else { 1 }]);
        }
        if dice.chance(25) {
            spec = spec.takes("licence", dice.below(4));
        }
        spec.priority = dice.below(self.priorities) as i32;
        if dice.chance(2) {
            spec.priority = dice.one_of(&[i32::MIN, i32::MAX]);
        }
        spec.local = dice.chance(70);
        if dice.chance(30) {
            spec = spec.retries(1 + dice.below(2) as u32, 1 + dice.below(20));
        }
        spec.done = dice.chance(2);
        if dice.chance(10) {
            spec = spec.key(&format!("key-{}", dice.below(30)));
        }
        let known = stage.core.len() as u64;
        let needs = if self.crowded { dice.below(8) / 7 } else { dice.below(4) };
        for _ in 0..needs {
            if known > 0 && dice.chance(60) {
                let recent = known.saturating_sub(1 + dice.below(known.min(15)));
                spec = spec.needs(&stage.core.name(recent as u32));
            } else if !batch.is_empty() {
                spec = spec.needs(&batch[dice.below(batch.len() as u64) as usize].name);
            }
        }
        spec
    }

    fn others(&mut self) -> Others {
        if self.dice.chance(40) {
            return Others::default();
        }
        let card = |dice: &Dice| CardUse {
            held_mb: dice.one_of(&[0, 0, 300, 1 << 50]),
            free_mb: dice.one_of(&[None, None, Some(400), Some(5000)]),
        };
        let cards = (0..self.cards).map(|_| card(&self.dice)).collect();
        Others {
            running: self.dice.below(3) as usize,
            cpu_slots: self.dice.below(4),
            ram_mb: self.dice.below(600),
            vram_mb: self.dice.below(600),
            ram_free_mb: self.dice.one_of(&[None, Some(150), Some(5000)]),
            ram_most_mb: None,
            vram_free_mb: None,
            cards,
            named: vec![("licence".to_owned(), self.dice.below(3))],
            kept: None,
        }
    }

    /// What happens next.
    pub(super) fn next(&mut self, stage: &Stage) -> Step {
        let holds = |state| matches!(state, State::Running | State::Paused);
        let step = match self.dice.below(100) {
            0..22 => {
                let is_line_long = stage.core.in_line() > 60;
                let many = if self.crowded && !is_line_long { 90 } else { 10 };
                let count = if self.dice.chance(many) { 8 } else { self.dice.below(3) };
                let mut batch = Vec::new();
                for _ in 0..count {
                    let spec = self.spec(stage, &batch);
                    batch.push(spec);
                }
                if self.dice.chance(30) {
                    batch.reverse(); // dependencies that are submitted after their dependents
                }
                let part = self.dice.chance(50).then(|| self.dice.below(PARTS.into()) as u32);
                Some(Step::Submit(batch, part))
            }
            22..32 if self.with_chains => Some(Step::Chain(1 + self.dice.below(8) as usize)),
            22..42 => Some(Step::Pick),
            42..62 => {
                let held = (0..stage.core.len() as u32)
                    .filter(|id| stage.state(*id) == State::Running || stage.core.is_paused_from_running(*id));
                let held: Vec<u32> = held.collect();
                let how = self.dice.one_of(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3]);
                (!held.is_empty()).then(|| Step::End(self.dice.one_of(&held), how))
            }
            62..68 => self.any(stage, |state| state == State::Running).map(Step::StandStill),
            68..76 => self.scope(stage, |state| !state.is_terminal()).map(Step::Pause),
            76..83 => self.scope(stage, holds).map(Step::Resume),
            83..87 => self.scope(stage, |_| true).map(Step::Cancel),
            87..90 => self.any(stage, |state| state.is_terminal()).map(Step::Retry),
            90..92 if self.with_others => Some(Step::Others(self.others())),
            _ => {
                let interval = self.interval;
                Some(Step::Time(match self.dice.below(6) {
                    0 => 0,
                    1 => 1,
                    2 => interval,
                    3 => interval * (1 + self.dice.below(4)) - stage.now.checked_rem(interval).unwrap_or(0),
                    4 => self.dice.below(3 * interval + 2),
                    _ => self.dice.below(40 * MS),
                }))
            }
        };
        step.unwrap_or(Step::Time(1))
    }

    /// What brings everything to its end: the rest of a history.
    pub(super) fn finish(&mut self, stage: &Stage) -> Vec<Step> {
        let mut steps =
            vec![Step::Retry(u32::MAX), Step::Others(Others::default()), Step::Resume(Scope::Run), Step::Pick];
        for id in 0..stage.core.len() as u32 {
            let was_cancelled = stage.core.is_paused_from_running(id) && stage.core.is_cancelling(id);
            if stage.state(id) == State::Running || was_cancelled {
                steps.push(Step::End(id, 0));
            }
        }
        steps.push(Step::Time(200 * MS));
        steps
    }
}

impl Stage {
    /// Some of what a worker claimed was run; what was not begun goes back to its lane.
    fn take_back(&mut self) {
        let chain = core::mem::take(&mut self.chain);
        let begun = chain.len().min(1 + (self.log.len() + self.core.len()) % 9);
        for pair in chain[..begun].windows(2) {
            self.core.hand_over(self.now, pair[0], pair[1]);
        }
        if begun > 0 {
            self.core.trim_held(chain[begun - 1]);
        }
        for id in chain[begun..].iter().rev() {
            self.core.unclaim(*id);
        }
    }

    /// Applies a step. Returns what was picked, and what was refused.
    pub(super) fn happen(&mut self, step: &Step) -> (Vec<u32>, Option<String>) {
        let now = self.now;
        let mut picked = Vec::new();
        match step {
            // Whatever else happens, a worker may be in the middle of what it claimed.
            Step::Pick | Step::Submit(..) | Step::Time(_) | Step::Others(_) => {}
            Step::End(id, _) if self.chain.first() != Some(id) => {}
            _ => self.take_back(),
        }
        let refused = match step {
            Step::Chain(most) => {
                if let Some(first) = self.core.pick(now) {
                    self.chain.push(first);
                    self.core.claim(now, first, *most, &mut self.chain);
                }
                None
            }
            Step::Submit(batch, part) => self.try_submit_to(*part, batch).err().map(|error| error.to_string()),
            Step::Pick => {
                picked.extend(core::iter::from_fn(|| self.core.pick(now)));
                None
            }
            Step::End(id, how) => {
                // What a step is about may have changed since it was chosen.
                if self.state(*id) == State::Running || self.core.is_paused_from_running(*id) {
                    let how = match how {
                        0 => Ended::Succeeded,
                        1 => Ended::Failed(Cause::Error("no".to_owned())),
                        3 => Ended::Failed(Cause::Permanent("never".to_owned())),
                        _ => Ended::Stopped,
                    };
                    self.core.ended(now, *id, how);
                }
                None
            }
            Step::StandStill(id) => {
                self.core.paused(now, *id);
                None
            }
            Step::Pause(scope) => self.core.pause(now, *scope).err().map(|error| error.to_string()),
            Step::Resume(scope) => self.core.resume(now, *scope).err().map(|error| error.to_string()),
            Step::Cancel(scope) => {
                self.core.cancel(now, *scope);
                None
            }
            Step::Retry(u32::MAX) => None, // a request about no job
            Step::Retry(id) => self.core.retry(now, *id).err().map(|error| error.to_string()),
            Step::Time(time) => {
                self.now += time;
                None
            }
            Step::Others(others) => {
                self.core.set_others(others);
                None
            }
        };
        self.drain();
        (picked, refused)
    }
}
