//! The fair queue of one CPU, for callers that have a lock and entities of their own.
//!
//! Room: interface.
//!
//! What it does is in `src/fair.rs`.

use crate::fair::{FairCore, FairState};
use crate::policy::Policy;
use crate::pool::Pool;
use crate::time::{Nanos, VirtualTime, Weight};

/// The runnable entities of one CPU, and which of them runs.
#[derive(Clone)]
pub struct FairQueue {
    pool: Pool,
    core: FairCore,
}

impl FairQueue {
    /// A queue for entities that are numbered below `entities`. Allocates here, and never again.
    pub fn with_capacity(entities: u32) -> Self {
        FairQueue { pool: Pool::with_capacity(entities, 1), core: FairCore::new(Policy::Eevdf) }
    }

    /// The same, in another order. Its entities are made by [`FairState::under`].
    #[must_use]
    pub fn ordered_by(mut self, policy: Policy) -> Self {
        assert!(self.core.is_empty(), "the policy of a queue that is used cannot be set");
        self.core.policy = policy;
        self
    }

    /// The same, with virtual time that starts elsewhere, as after a long life.
    #[must_use]
    pub fn starting_at(mut self, base: VirtualTime) -> Self {
        assert!(self.core.is_empty(), "the virtual time of a queue that is used cannot be set");
        self.core.base = base;
        self
    }

    /// How many entities are in, the one that runs included.
    pub fn len(&self) -> u32 {
        self.core.len()
    }

    /// Whether no entity is in.
    pub fn is_empty(&self) -> bool {
        self.core.is_empty()
    }

    /// How many entities wait for the CPU.
    pub fn waiting(&self) -> u32 {
        self.core.waiting()
    }

    /// The sum of the weights of all entities that are in.
    pub const fn weight(&self) -> u64 {
        self.core.weight()
    }

    /// The entity that runs.
    pub const fn current(&self) -> Option<u32> {
        self.core.current()
    }

    /// Whether the entity waits in this queue.
    pub fn contains(&self, entity: u32) -> bool {
        self.pool.contains(entity) && self.core.current() != Some(entity)
    }

    /// The weighted mean of all runtimes, rounded down.
    pub fn virtual_time(&self) -> VirtualTime {
        self.core.virtual_time()
    }

    /// What an entity of this queue is owed, in virtual time: positive if it got less than its share.
    pub fn lag(&self, state: &FairState) -> i64 {
        self.core.lag(state)
    }

    /// What an entity of this queue is owed, in nanoseconds of the CPU.
    pub fn lag_ns(&self, state: &FairState) -> i64 {
        self.core.lag_ns(state)
    }

    /// Whether an entity of this queue may be picked.
    pub fn is_eligible(&self, state: &FairState) -> bool {
        self.core.is_eligible(state)
    }

    /// Adds an entity that became runnable. It gets back the lag it left its last queue with.
    pub fn join(&mut self, entity: u32, state: &mut FairState) {
        self.core.join(&mut self.pool, entity, state);
    }

    /// The same for the queue that the entity left last: virtual time that passed here since then has paid its debt.
    pub fn rejoin(&mut self, entity: u32, state: &mut FairState) {
        self.core.rejoin(&mut self.pool, entity, state);
    }

    /// Removes an entity that blocks, ends or moves, whether it runs or waits. Its lag goes with it. Returns whether it was in.
    pub fn leave(&mut self, entity: u32, state: &mut FairState) -> bool {
        self.core.leave(&mut self.pool, entity, state)
    }

    /// Chooses the entity that runs next and takes it out of those that wait. No entity may be running.
    pub fn pick(&mut self) -> Option<u32> {
        self.core.pick(&mut self.pool)
    }

    /// Which entity [`pick`](Self::pick) would choose, if the one that runs were not here.
    pub fn peek(&self) -> Option<u32> {
        self.core.peek(&self.pool)
    }

    /// Charges the entity that runs. Returns whether its slice is served, and it asked for the next.
    pub fn charge(&mut self, state: &mut FairState, ran: Nanos) -> bool {
        self.core.charge(state, ran)
    }

    /// Lets the entity that runs wait again.
    pub fn put_back(&mut self, state: &FairState) {
        self.core.put_back(&mut self.pool, state);
    }

    /// Whether an entity that just joined should run instead of the one that runs.
    pub fn preempts(&self, joined: &FairState, current: &FairState) -> bool {
        self.core.preempts(joined, current)
    }

    /// Gives an entity another weight. Its lag in nanoseconds stays, as far as it may be kept.
    pub fn reweigh(&mut self, entity: u32, state: &mut FairState, weight: Weight) {
        self.core.reweigh(&mut self.pool, entity, state, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use vocab::SplitMix64;

    const SLICE: Nanos = 3_000_000;

    fn normal() -> FairState {
        FairState::new(Weight::NORMAL, SLICE)
    }

    #[test]
    fn equal_entities_take_turns() {
        let mut queue = FairQueue::with_capacity(3);
        let mut states = [normal(); 3];
        for (entity, state) in states.iter_mut().enumerate() {
            queue.join(entity as u32, state);
        }
        let mut ran = Vec::new();
        for _ in 0..9 {
            let entity = queue.pick().unwrap();
            ran.push(entity);
            let state = &mut states[entity as usize];
            assert!(queue.charge(state, SLICE));
            queue.put_back(state);
        }
        assert_eq!(ran, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn weights_are_shares() {
        let mut queue = FairQueue::with_capacity(3);
        let mut states = [1024, 2048, 4096].map(|weight| FairState::new(Weight::clamped(weight), SLICE));
        let mut got = [0_u64; 3];
        for (entity, state) in states.iter_mut().enumerate() {
            queue.join(entity as u32, state);
        }
        for _ in 0..7_000 {
            let entity = queue.pick().unwrap() as usize;
            got[entity] += 1_000_000;
            queue.charge(&mut states[entity], 1_000_000);
            queue.put_back(&states[entity]);
        }
        for (entity, share) in [1_000_000_000, 2_000_000_000, 4_000_000_000_u64].into_iter().enumerate() {
            assert!(got[entity].abs_diff(share) <= 2 * SLICE, "{got:?}");
        }
    }

    #[test]
    fn an_entity_finds_the_lag_it_left_with() {
        for seed in 0..200 {
            let mut dice = SplitMix64::new(seed);
            let mut queue = FairQueue::with_capacity(20).starting_at(VirtualTime(dice.next_u64()));
            let mut states: Vec<_> =
                (0..20).map(|_| FairState::new(Weight::clamped(1 + (dice.next_u64() % 5000) as u32), SLICE)).collect();
            for (entity, state) in states.iter_mut().enumerate() {
                queue.join(entity as u32, state);
            }
            for _ in 0..100 {
                let entity = queue.pick().unwrap() as usize;
                queue.charge(&mut states[entity], dice.next_u64() % SLICE);
                queue.put_back(&states[entity]);
            }
            let entity = (dice.next_u64() % 20) as usize;
            let before = queue.lag(&states[entity]);
            assert!(queue.leave(entity as u32, &mut states[entity]));
            queue.join(entity as u32, &mut states[entity]);
            let after = queue.lag(&states[entity]);
            // A credit beyond one slice is not kept; rounding costs some units, of which a nanosecond has a thousand.
            let credit = states[entity].weight().virtual_length(SLICE);
            assert!((before.min(credit) - after).abs() <= 4096, "seed {seed}: {before} became {after}");
        }
    }

    #[test]
    fn a_sleeper_earns_nothing_by_sleeping() {
        let mut queue = FairQueue::with_capacity(2);
        let mut states = [normal(); 2];
        for (entity, state) in states.iter_mut().enumerate() {
            queue.join(entity as u32, state);
        }
        queue.leave(1, &mut states[1]);
        for _ in 0..1000 {
            queue.pick();
            queue.charge(&mut states[0], SLICE);
            queue.put_back(&states[0]);
        }
        queue.join(1, &mut states[1]);
        assert!(queue.lag_ns(&states[1]) <= SLICE as i64);
        // So within the next second each gets half.
        let mut got = [0; 2];
        for _ in 0..300 {
            let entity = queue.pick().unwrap() as usize;
            got[entity] += 1;
            queue.charge(&mut states[entity], SLICE);
            queue.put_back(&states[entity]);
        }
        assert!((149..=151).contains(&got[0]), "{got:?}");
    }

    #[test]
    fn a_smaller_slice_is_served_sooner_and_gets_no_more() {
        let mut queue = FairQueue::with_capacity(9);
        let mut states: Vec<_> = (0..8).map(|_| normal()).collect();
        states.push(FairState::new(Weight::NORMAL, SLICE / 8));
        for (entity, state) in states.iter_mut().enumerate() {
            queue.join(entity as u32, state);
        }
        let (mut now, mut last, mut gap_max, mut got) = (0_u64, 0_u64, 0_u64, 0_u64);
        for _ in 0..20_000 {
            let entity = queue.pick().unwrap() as usize;
            let ran = states[entity].left_of_slice().min(SLICE);
            if entity == 8 {
                gap_max = gap_max.max(now - last);
                got += ran;
                last = now + ran;
            }
            now += ran;
            queue.charge(&mut states[entity], ran);
            queue.put_back(&states[entity]);
        }
        assert!(gap_max < 9 * SLICE / 2, "{gap_max}");
        assert!(got.abs_diff(now / 9) <= 2 * SLICE, "{got} of {now}");
    }

    #[test]
    fn a_weight_may_change_while_an_entity_runs() {
        let mut queue = FairQueue::with_capacity(2);
        let mut states = [normal(); 2];
        for (entity, state) in states.iter_mut().enumerate() {
            queue.join(entity as u32, state);
        }
        assert_eq!(queue.pick(), Some(0));
        queue.charge(&mut states[0], SLICE / 2);
        let before = queue.lag_ns(&states[0]);
        queue.reweigh(0, &mut states[0], Weight::clamped(4096));
        assert_eq!((queue.current(), queue.weight()), (Some(0), 4096 + 1024));
        assert!((queue.lag_ns(&states[0]) - before).abs() <= 8);
        queue.put_back(&states[0]);
        assert_eq!(queue.waiting(), 2);
    }
}
