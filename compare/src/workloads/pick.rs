//! Choosing the next of n runnable entities by EEVDF, and queueing it again: 10, 1,000 and 100,000 of them, of different weights.
//!
//! Bar: faster than both others at each n, and at most 100 ns at 1,000.
//!
//! All three choose the same entities; the sums of what they chose are compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use policy_cpu::{FairQueue, FairState, Weight};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};

pub const NAME: &str = "pick";

const SLICE: u64 = 3_000_000;

/// What an entity runs before it is queued again: less than a slice, and more.
fn ran(round: u64) -> u64 {
    1_000_000 + (round.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 43)
}

fn weight(entity: u32) -> Weight {
    Weight::clamped(512 + entity.wrapping_mul(7919) % 2048)
}

fn ours(count: u32, rounds: u64) -> u64 {
    let mut queue = FairQueue::with_capacity(count);
    let mut states: Vec<_> = (0..count).map(|entity| FairState::new(weight(entity), SLICE)).collect();
    for (entity, state) in states.iter_mut().enumerate() {
        queue.join(entity as u32, state);
    }
    let mut sum = 0_u64;
    for round in 0..rounds {
        let Some(entity) = queue.pick() else { break };
        let state = &mut states[entity as usize];
        sum = sum.wrapping_mul(31).wrapping_add(entity.into());
        queue.charge(state, ran(round));
        queue.put_back(state);
    }
    sum
}

/// What both others have in common: runtimes, deadlines, and the weighted mean.
struct Peer {
    entities: Vec<(Weight, i64, i64)>,
    sum: i128,
    weight: i128,
}

impl Peer {
    fn new(count: u32) -> Self {
        let entities: Vec<_> =
            (0..count).map(|entity| (weight(entity), 0, weight(entity).virtual_length(SLICE))).collect();
        let weight = entities.iter().map(|(weight, ..)| i128::from(weight.get())).sum();
        Peer { entities, sum: 0, weight }
    }

    fn mean(&self) -> i64 {
        match i64::try_from(self.sum) {
            Ok(sum) => sum.div_euclid(self.weight as i64),
            Err(_) => self.sum.div_euclid(self.weight) as i64,
        }
    }

    /// Charges an entity. Its deadline and its runtime afterwards.
    fn charge(&mut self, entity: u32, time: u64) -> (i64, i64) {
        let (weight, runtime, deadline) = &mut self.entities[entity as usize];
        let advance = weight.virtual_length(time);
        *runtime += advance;
        self.sum += i128::from(weight.get()) * i128::from(advance);
        if *runtime >= *deadline {
            *deadline = *runtime + weight.virtual_length(SLICE);
        }
        (*deadline, *runtime)
    }
}

/// By deadline; the first that is eligible.
fn with_btree(count: u32, rounds: u64) -> u64 {
    let mut peer = Peer::new(count);
    let mut order = 0_u64;
    let mut tree = BTreeMap::new();
    for entity in 0..count {
        let (_, runtime, deadline) = peer.entities[entity as usize];
        order += 1;
        tree.insert((deadline, order), (runtime, entity));
    }
    let mut sum = 0_u64;
    for round in 0..rounds {
        let now = peer.mean();
        let Some((&key, &(_, entity))) = tree.iter().find(|(_, (runtime, _))| *runtime <= now) else { break };
        tree.remove(&key);
        sum = sum.wrapping_mul(31).wrapping_add(entity.into());
        let (deadline, runtime) = peer.charge(entity, ran(round));
        order += 1;
        tree.insert((deadline, order), (runtime, entity));
    }
    sum
}

/// Two heaps: those that are eligible by deadline, the others by runtime.
fn with_heaps(count: u32, rounds: u64) -> u64 {
    let mut peer = Peer::new(count);
    let mut order = 0_u64;
    let mut eligible = BinaryHeap::new();
    let mut early = BinaryHeap::new();
    for entity in 0..count {
        let (_, runtime, deadline) = peer.entities[entity as usize];
        order += 1;
        eligible.push(Reverse((deadline, order, runtime, entity)));
    }
    let mut sum = 0_u64;
    for round in 0..rounds {
        let now = peer.mean();
        while let Some(&Reverse((runtime, deadline, order, entity))) = early.peek() {
            if runtime > now {
                break;
            }
            early.pop();
            eligible.push(Reverse((deadline, order, runtime, entity)));
        }
        let Some(Reverse((.., entity))) = eligible.pop() else { break };
        sum = sum.wrapping_mul(31).wrapping_add(entity.into());
        let (deadline, runtime) = peer.charge(entity, ran(round));
        order += 1;
        early.push(Reverse((runtime, deadline, order, entity)));
    }
    sum
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let sizes: [(u32, [&'static str; 2]); 3] = [
        (10, ["BTreeMap, 10", "heaps, 10"]),
        (1_000, ["BTreeMap, 1000", "heaps, 1000"]),
        (100_000, ["BTreeMap, 10^5", "heaps, 10^5"]),
    ];
    for (count, peers) in sizes {
        let rounds = plan.pick(2_000_000, 400_000) as u64;
        let expected = ours(count, rounds);
        let check = |sum: u64| if sum == expected { Ok(()) } else { Err(Failure::from("another entity was picked")) };
        let [own, btree, heaps] = plan.best_of(
            rounds as usize,
            [
                Side::new("ours", || check(ours(count, rounds))),
                Side::new(peers[0], || check(with_btree(count, rounds))),
                Side::new(peers[1], || check(with_heaps(count, rounds))),
            ],
        )?;
        rows.push(Row::new(NAME, peers[0], [own, btree], "ns", Bar::Times(1.0)));
        rows.push(Row::new(NAME, peers[1], [own, heaps], "ns", Bar::Times(1.0)));
        if count == 1_000 {
            rows.push(Row::new(NAME, LIMIT, [own, 100.0], "ns", Bar::AtMost));
        }
    }
    Ok(rows)
}
