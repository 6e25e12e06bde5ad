//! The fair queue beside the definition of EEVDF, written down as it stands in the text, without a tree, a sum that is kept, or a zero that moves.

use policy_cpu::{FairQueue, FairState, Nanos, VirtualTime, Weight};
use test_support::Dice;

/// An entity of the reference, in exact numbers.
#[derive(Clone)]
struct Slow {
    weight: i128,
    slice: Nanos,
    runtime: i128,
    deadline: i128,
    lag: i128,
    /// When it was queued, by a count; none while it runs or sleeps.
    queued: Option<u64>,
    is_in: bool,
}

/// `V`, eligibility and the pick, by looking at every entity.
struct Reference {
    entities: Vec<Slow>,
    start: i128,
    count: u64,
}

impl Reference {
    fn weight(&self) -> i128 {
        self.entities.iter().filter(|entity| entity.is_in).map(|entity| entity.weight).sum()
    }

    /// The weighted mean, rounded down; the last one if the queue is empty.
    fn virtual_time(&mut self) -> i128 {
        let weight = self.weight();
        if weight > 0 {
            let sum: i128 =
                self.entities.iter().filter(|entity| entity.is_in).map(|entity| entity.weight * entity.runtime).sum();
            self.start = sum.div_euclid(weight);
        }
        self.start
    }

    fn pick(&mut self) -> Option<usize> {
        let now = self.virtual_time();
        let eligible =
            self.entities.iter().enumerate().filter(|(_, entity)| entity.queued.is_some() && entity.runtime <= now);
        let picked = eligible.min_by_key(|(_, entity)| (entity.deadline, entity.queued)).map(|(index, _)| index)?;
        self.entities[picked].queued = None;
        Some(picked)
    }

    fn queue(&mut self, entity: usize) {
        self.count += 1;
        self.entities[entity].queued = Some(self.count);
    }

    /// `is_back`: it comes back to the queue it left, where its debt was paid meanwhile.
    fn join(&mut self, index: usize, is_back: bool) {
        let (now, others) = (self.virtual_time(), self.weight());
        let entity = &mut self.entities[index];
        let lag = if others == 0 { 0 } else { entity.lag * (others + entity.weight) / others };
        let left_at = if is_back { entity.runtime } else { i128::MAX };
        entity.runtime = if lag < 0 { (now - lag).min(left_at.max(now)) } else { now - lag };
        entity.deadline = entity.runtime + stretched(entity.weight, entity.slice);
        entity.is_in = true;
        self.queue(index);
    }

    fn leave(&mut self, index: usize) {
        let now = self.virtual_time();
        let entity = &mut self.entities[index];
        entity.lag = (now - entity.runtime).min(stretched(entity.weight, entity.slice));
        entity.is_in = false;
        entity.queued = None;
    }

    fn charge(&mut self, index: usize, ran: Nanos) {
        let entity = &mut self.entities[index];
        entity.runtime += stretched(entity.weight, ran);
        if entity.runtime >= entity.deadline {
            entity.deadline = entity.runtime + stretched(entity.weight, entity.slice);
        }
    }
}

/// Virtual time of so much real time. The rounding is part of the definition.
fn stretched(weight: i128, real: Nanos) -> i128 {
    i128::from(Weight::clamped(weight as u32).virtual_length(real))
}

/// One random history of so many entities on both; panics where they differ.
fn compare(seed: u64, steps: u32, counts: &[u64]) {
    let dice = Dice::new(seed);
    let count = counts[dice.below(counts.len() as u64) as usize];
    // Near the wrap-around, too.
    let start = [0, u64::MAX - 1_000_000, 1 << 63, u64::MAX / 3][dice.below(4) as usize];
    let mut queue = FairQueue::with_capacity(count as u32).starting_at(VirtualTime::from_bits(start));
    let mut reference = Reference { entities: Vec::new(), start: i128::from(start), count: 0 };
    let mut states = Vec::new();
    for _ in 0..count {
        let weight = [1024, 1024, 1 + dice.below(100) as u32, 1 << dice.below(21)][dice.below(4) as usize];
        let slice = [3_000_000, 750_000, 1 + dice.below(20_000_000)][dice.below(3) as usize];
        states.push(FairState::new(Weight::clamped(weight), slice));
        let (weight, queued) = (i128::from(weight), None);
        reference.entities.push(Slow { weight, slice, runtime: 0, deadline: 0, lag: 0, queued, is_in: false });
    }
    let mut running: Option<usize> = None;
    for step in 0..steps {
        match dice.below(10) {
            0 | 1 => {
                let index = dice.below(count) as usize;
                if !reference.entities[index].is_in {
                    // One that was never in has left no queue.
                    let is_back = states[index] != FairState::new(states[index].weight(), states[index].slice())
                        && dice.chance(50);
                    if is_back {
                        queue.rejoin(index as u32, &mut states[index]);
                    } else {
                        queue.join(index as u32, &mut states[index]);
                    }
                    reference.join(index, is_back);
                }
            }
            2 => {
                let index = dice.below(count) as usize;
                if reference.entities[index].is_in {
                    assert!(queue.leave(index as u32, &mut states[index]));
                    reference.leave(index);
                    if running == Some(index) {
                        running = None;
                    }
                }
            }
            _ => {
                if let Some(index) = running.take() {
                    let ran = [1_000_000, 1, dice.below(5_000_000), 3_000_000][dice.below(4) as usize];
                    queue.charge(&mut states[index], ran);
                    reference.charge(index, ran);
                    queue.put_back(&states[index]);
                    reference.queue(index);
                }
                let picked = queue.pick().map(|entity| entity as usize);
                assert_eq!(picked, reference.pick(), "seed {seed}, step {step}");
                running = picked;
            }
        }
    }
}

#[test]
fn picks_are_those_of_the_definition() {
    // Each history is a few dozen steps; with all features of the optimiser ten times as many.
    let histories = if cfg!(debug_assertions) { 10_000 } else { 100_000 };
    for seed in 0..histories {
        compare(seed, 60, &[1, 2, 3, 5, 8, 20, 60]);
    }
    // Longer ones, in trees of two levels, too.
    for seed in 0..20 {
        compare(1 << 32 | seed, 5_000, &[5, 20, 60, 200, 500]);
    }
}
