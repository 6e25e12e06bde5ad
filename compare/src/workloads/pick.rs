//! Choosing the next of n runnable entities by EEVDF, and queueing it again: 10, 1,000 and 100,000 of them, of different weights.
//!
//! Bar: faster than all others at each n, and at most 100 ns at 1,000.
//!
//! All choose the same entities; what they chose is compared. The others do less than ours: their numbers do not wrap around, no entity of a heap can leave while it
//! waits, and with two heaps or maps virtual time must not step back.

use std::cell::RefCell;
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

/// One that chooses, charges and queues again. It goes on where it stopped, so that filling it is not measured.
trait Chooser {
    /// The entity that runs next, which has run for so long when this returns.
    fn choose(&mut self, time: u64) -> u32;
}

/// Some rounds of a chooser, and a sum of what it chose so far.
struct Bench<C> {
    chooser: C,
    round: u64,
    sum: u64,
}

impl<C: Chooser> Bench<C> {
    fn new(chooser: C) -> Self {
        Bench { chooser, round: 0, sum: 0 }
    }

    fn go_on(&mut self, rounds: u64) -> u64 {
        for round in self.round..self.round + rounds {
            let entity = self.chooser.choose(ran(round));
            self.sum = self.sum.wrapping_mul(31).wrapping_add(entity.into());
        }
        self.round += rounds;
        self.sum
    }
}

struct Ours {
    queue: FairQueue,
    states: Vec<FairState>,
}

impl Ours {
    fn new(count: u32) -> Self {
        let mut queue = FairQueue::with_capacity(count);
        let mut states: Vec<_> = (0..count).map(|entity| FairState::new(weight(entity), SLICE)).collect();
        for (entity, state) in states.iter_mut().enumerate() {
            queue.join(entity as u32, state);
        }
        Ours { queue, states }
    }
}

impl Chooser for Ours {
    fn choose(&mut self, time: u64) -> u32 {
        let entity = self.queue.pick().expect("one of them is eligible");
        let state = &mut self.states[entity as usize];
        self.queue.charge(state, time);
        self.queue.put_back(state);
        entity
    }
}

/// What the others have in common: runtimes, deadlines, and the weighted mean.
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

/// One map, by deadline; the first that is eligible.
struct Map {
    peer: Peer,
    order: u64,
    tree: BTreeMap<(i64, u64), (i64, u32)>,
}

impl Map {
    fn new(count: u32) -> Self {
        let peer = Peer::new(count);
        let entities = peer.entities.iter().zip(0..);
        let tree = entities.map(|(&(_, runtime, deadline), entity)| ((deadline, entity.into()), (runtime, entity)));
        Map { tree: tree.collect(), order: count.into(), peer }
    }
}

impl Chooser for Map {
    fn choose(&mut self, time: u64) -> u32 {
        let now = self.peer.mean();
        let found = self.tree.iter().find(|(_, (runtime, _))| *runtime <= now);
        let (&key, &(_, entity)) = found.expect("one of them is eligible");
        self.tree.remove(&key);
        let (deadline, runtime) = self.peer.charge(entity, time);
        self.order += 1;
        self.tree.insert((deadline, self.order), (runtime, entity));
        entity
    }
}

/// Two maps: those that are eligible by deadline, the others by runtime. (Their values are not those of one map, so that each side has the code of its maps to itself,
/// inlined.)
struct Maps {
    peer: Peer,
    order: u64,
    eligible: BTreeMap<(i64, u64), (u32, i64)>,
    early: BTreeMap<(i64, u64), (u32, i64)>,
}

impl Maps {
    fn new(count: u32) -> Self {
        let peer = Peer::new(count);
        let entities = peer.entities.iter().zip(0..);
        let eligible = entities.map(|(&(_, runtime, deadline), entity)| ((deadline, entity.into()), (entity, runtime)));
        Maps { eligible: eligible.collect(), early: BTreeMap::new(), order: count.into(), peer }
    }
}

impl Chooser for Maps {
    fn choose(&mut self, time: u64) -> u32 {
        let now = self.peer.mean();
        while let Some(first) = self.early.first_entry()
            && first.key().0 <= now
        {
            let ((runtime, order), (entity, deadline)) = first.remove_entry();
            self.eligible.insert((deadline, order), (entity, runtime));
        }
        let (_, (entity, _)) = self.eligible.pop_first().expect("one of them is eligible");
        let (deadline, runtime) = self.peer.charge(entity, time);
        self.order += 1;
        self.early.insert((runtime, self.order), (entity, deadline));
        entity
    }
}

/// Two heaps: those that are eligible by deadline, the others by runtime.
struct Heaps {
    peer: Peer,
    order: u64,
    eligible: BinaryHeap<Reverse<(i64, u64, i64, u32)>>,
    early: BinaryHeap<Reverse<(i64, i64, u64, u32)>>,
}

impl Heaps {
    fn new(count: u32) -> Self {
        let peer = Peer::new(count);
        let entities = peer.entities.iter().zip(0..);
        let eligible =
            entities.map(|(&(_, runtime, deadline), entity)| Reverse((deadline, entity.into(), runtime, entity)));
        Heaps { eligible: eligible.collect(), early: BinaryHeap::new(), order: count.into(), peer }
    }
}

impl Chooser for Heaps {
    fn choose(&mut self, time: u64) -> u32 {
        let now = self.peer.mean();
        while let Some(&Reverse((runtime, deadline, order, entity))) = self.early.peek() {
            if runtime > now {
                break;
            }
            self.early.pop();
            self.eligible.push(Reverse((deadline, order, runtime, entity)));
        }
        let Reverse((.., entity)) = self.eligible.pop().expect("one of them is eligible");
        let (deadline, runtime) = self.peer.charge(entity, time);
        self.order += 1;
        self.early.push(Reverse((runtime, deadline, self.order, entity)));
        entity
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    // One map looks at every entity that is not eligible, so the rounds of many are fewer: a second each at most.
    let sizes: [(u32, usize, [&'static str; 3]); 3] = [
        (10, 1_000_000, ["BTreeMap, 10", "BTreeMaps, 10", "heaps, 10"]),
        (1_000, 1_000_000, ["BTreeMap, 1000", "BTreeMaps, 1000", "heaps, 1000"]),
        (100_000, 100_000, ["BTreeMap, 10^5", "BTreeMaps, 10^5", "heaps, 10^5"]),
    ];
    for (count, full, peers) in sizes {
        let rounds = plan.pick(full, full / 4);
        let mut own = Bench::new(Ours::new(count));
        let (mut map, mut maps) = (Bench::new(Map::new(count)), Bench::new(Maps::new(count)));
        let mut heaps = Bench::new(Heaps::new(count));
        // What each side came to after each of its rounds.
        let sums = [const { RefCell::new(Vec::new()) }; 4];
        let note = |side: usize, sum: u64| -> Result<(), Failure> {
            sums[side].borrow_mut().push(sum);
            Ok(())
        };
        let [own, theirs @ ..] = plan.best_of(
            rounds,
            [
                Side::new("ours", || note(0, own.go_on(rounds as u64))),
                Side::new(peers[0], || note(1, map.go_on(rounds as u64))),
                Side::new(peers[1], || note(2, maps.go_on(rounds as u64))),
                Side::new(peers[2], || note(3, heaps.go_on(rounds as u64))),
            ],
        )?;
        if sums.iter().any(|side| *side != sums[0]) {
            return Err("another entity was picked".into());
        }
        for (peer, theirs) in peers.into_iter().zip(theirs) {
            rows.push(Row::new(NAME, peer, [own, theirs], "ns", Bar::Times(1.0)));
        }
        if count == 1_000 {
            rows.push(Row::new(NAME, LIMIT, [own, 100.0], "ns", Bar::AtMost));
        }
    }
    Ok(rows)
}
