//! EEVDF: the eligible entity with the earliest virtual deadline runs next.
//!
//! Room: decisions. Knows weights and virtual time; knows nothing of CPUs, threads or contexts.
//!
//! Other orders, to compare with, are in `src/policy.rs`: they change the keys by which entities wait, and nothing else.
//!
//! # Definition
//! Each entity has a weight `w`, a virtual runtime `v` and a virtual deadline `d`. The virtual time of the queue is the weighted mean of all runtimes,
//! `V = Σ w·v / Σ w`, the entity that runs included. An entity's lag is `w·(V − v)`: what it was owed and did not get, or got and was not owed. It is *eligible* if its
//! lag is not negative. Of the eligible entities the one with the earliest deadline is picked, of equal ones the one that was queued first. An entity asks for a slice:
//! its deadline is its runtime at the time plus the slice, stretched by its weight. When its runtime reaches the deadline it asks again.
//!
//! # Invariants
//! - `weight` is the sum of the weights of all entities that are in, and `sum` is `Σ w·(v − base)` of them, exactly.
//! - Lags sum to zero, up to the rounding of `V` down to a whole unit.
//! - An entity that leaves keeps its lag and gets it back when it joins: a debt whole, a credit up to one slice. What it sleeps through earns nothing; it pays a
//!   debt, where the entity comes back to the queue it left: as if it had waited there. Else a thread that runs briefly and sleeps long would wait for others each time.
//!
//! # Why the lag is stretched when an entity joins
//! `V` is a mean, so an entity that joins at `V − lag` moves `V` towards itself and would find less than it left with. It joins at `V − lag·(W + w)/W`; then the mean
//! moves by exactly the difference. Checked by `an_entity_finds_the_lag_it_left_with`.
//!
//! Picks are checked against a reference that is written from the definition and looks at every entity: `picks_are_those_of_the_definition`.

use crate::policy::{Policy, QUANTUM};
use crate::time::{Nanos, VirtualTime, Weight};
use crate::tree::{Pool, Tree};

/// A debt of virtual time is kept up to this: half an hour of a normal entity. More than that is an error of the caller's clock.
const DEBT_MAX: i64 = 1 << 51;

/// What the fair queue keeps for one entity. It belongs to the entity, and moves with it from queue to queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairState {
    weight: Weight,
    slice: Nanos,
    runtime: VirtualTime,
    deadline: VirtualTime,
    /// While it is in no queue: virtual time it was owed when it left.
    lag: i64,
}

impl FairState {
    /// An entity that is owed nothing.
    pub const fn new(weight: Weight, slice: Nanos) -> Self {
        FairState { weight, slice, runtime: VirtualTime(0), deadline: VirtualTime(0), lag: 0 }
    }

    /// An entity that is owed nothing, for a queue of this policy: round robin knows neither weights nor slices.
    pub const fn under(policy: Policy, weight: Weight, slice: Nanos) -> Self {
        match policy {
            Policy::Eevdf | Policy::Wfq => FairState::new(weight, slice),
            Policy::RoundRobin => FairState::new(Weight::NORMAL, QUANTUM),
        }
    }

    /// Its weight.
    pub const fn weight(&self) -> Weight {
        self.weight
    }

    /// How much it asks for at a time.
    pub const fn slice(&self) -> Nanos {
        self.slice
    }

    /// Its virtual runtime. Only comparable within the queue it is in.
    pub const fn runtime(&self) -> VirtualTime {
        self.runtime
    }

    /// When its slice should have been served. Only comparable within the queue it is in.
    pub const fn deadline(&self) -> VirtualTime {
        self.deadline
    }

    /// Another slice, from its next request on.
    pub const fn set_slice(&mut self, slice: Nanos) {
        self.slice = slice;
    }

    /// Another weight, while it is in no queue. What it is owed stays the same in nanoseconds.
    pub(crate) const fn set_weight(&mut self, weight: Weight) {
        self.lag = (self.lag as i128 * self.weight.get() as i128 / weight.get() as i128) as i64;
        self.weight = weight;
    }

    /// Asks for the next slice before this one is served: its deadline moves behind those of others.
    pub(crate) const fn ask_again(&mut self) {
        self.deadline = self.deadline.plus(self.weight.virtual_length(self.slice));
    }

    /// Where its request begins. Only comparable within the queue it is in.
    const fn start(&self) -> VirtualTime {
        self.deadline.plus(-self.weight.virtual_length(self.slice))
    }

    /// Whether some of its request was served, and some not.
    const fn is_begun(&self) -> bool {
        self.deadline.since(self.runtime) < self.weight.virtual_length(self.slice)
    }

    /// How long it may run until its slice is served.
    pub const fn left_of_slice(&self) -> Nanos {
        self.weight.real_length(self.deadline.since(self.runtime))
    }
}

/// The same as [`FairQueue`], in a pool that it shares with others.
#[derive(Clone)]
pub(crate) struct FairCore {
    tree: Tree,
    /// The zero of `sum`: near the virtual time, so that products stay small.
    base: VirtualTime,
    sum: i128,
    weight: u64,
    current: Option<u32>,
    policy: Policy,
    /// Of start-time fair queueing: where the request begins that is served. Of round robin: the key of who was picked last.
    floor: VirtualTime,
    /// Of round robin: the key of who was queued last.
    last_key: u64,
}

impl FairCore {
    pub(crate) const fn new(policy: Policy) -> FairCore {
        let start = VirtualTime(0);
        FairCore { tree: Tree::EMPTY, base: start, sum: 0, weight: 0, current: None, policy, floor: start, last_key: 0 }
    }

    /// How many entities are in, the one that runs included.
    pub(crate) fn len(&self) -> u32 {
        self.tree.len() + u32::from(self.current.is_some())
    }

    /// Whether no entity is in.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entities wait for the CPU.
    pub(crate) fn waiting(&self) -> u32 {
        self.tree.len()
    }

    /// The sum of the weights of all entities that are in.
    pub(crate) const fn weight(&self) -> u64 {
        self.weight
    }

    /// The entity that runs.
    pub(crate) const fn current(&self) -> Option<u32> {
        self.current
    }

    /// The weighted mean of all runtimes, rounded down.
    pub(crate) fn virtual_time(&self) -> VirtualTime {
        if self.weight == 0 {
            return self.base;
        }
        // The usual case without a division of 128 bits, which takes longer than all the rest of a pick.
        let mean = match i64::try_from(self.sum) {
            Ok(sum) => sum.div_euclid(self.weight as i64),
            Err(_) => self.sum.div_euclid(i128::from(self.weight)) as i64,
        };
        self.base.plus(mean)
    }

    /// What an entity of this queue is owed, in virtual time: positive if it got less than its share.
    pub(crate) fn lag(&self, state: &FairState) -> i64 {
        self.virtual_time().since(state.runtime)
    }

    /// What an entity of this queue is owed, in nanoseconds of the CPU.
    pub(crate) fn lag_ns(&self, state: &FairState) -> i64 {
        ((i128::from(self.lag(state)) * i128::from(state.weight.get())) >> 20) as i64
    }

    /// Whether an entity of this queue may be picked.
    pub(crate) fn is_eligible(&self, state: &FairState) -> bool {
        self.lag(state) >= 0
    }

    /// Adds an entity that became runnable. It gets back the lag it left its last queue with.
    pub(crate) fn join(&mut self, pool: &mut Pool, entity: u32, state: &mut FairState) {
        self.join_at(pool, entity, state, None);
    }

    /// The same for the queue that the entity left last: virtual time that passed here since then has paid its debt.
    pub(crate) fn rejoin(&mut self, pool: &mut Pool, entity: u32, state: &mut FairState) {
        self.join_at(pool, entity, state, Some(state.runtime));
    }

    fn join_at(&mut self, pool: &mut Pool, entity: u32, state: &mut FairState, left_at: Option<VirtualTime>) {
        assert!(self.current != Some(entity), "entity {entity} runs already");
        let now = self.virtual_time();
        self.rebase(now);
        state.runtime = match self.policy {
            Policy::Eevdf if self.weight == 0 => now, // the mean of one is itself
            Policy::Eevdf => {
                let (lag, weight) = (i128::from(state.lag), i128::from(state.weight.get()));
                now.plus(-((lag * (i128::from(self.weight) + weight) / i128::from(self.weight)) as i64))
            }
            Policy::Wfq => self.floor.plus(-state.lag),
            Policy::RoundRobin => now,
        };
        let from = if self.policy == Policy::Wfq { self.floor } else { now };
        if let Some(left_at) = left_at
            && from.is_before(state.runtime)
        {
            let paid = if from.is_before(left_at) { left_at } else { from };
            state.runtime = if paid.is_before(state.runtime) { paid } else { state.runtime };
        }
        state.lag = 0;
        state.deadline = state.runtime.plus(state.weight.virtual_length(state.slice));
        self.count_in(state);
        self.queue(pool, entity, state);
    }

    /// Lets an entity wait, where the policy says.
    fn queue(&mut self, pool: &mut Pool, entity: u32, state: &FairState) {
        let (key, gate) = match self.policy {
            Policy::Eevdf => (state.deadline, state.runtime),
            Policy::Wfq => (state.start(), Policy::OPEN),
            // Interrupted within its slice, it is still first.
            Policy::RoundRobin if state.is_begun() => (self.floor, Policy::OPEN),
            Policy::RoundRobin => {
                self.last_key += 1;
                (VirtualTime(self.last_key), Policy::OPEN)
            }
        };
        self.tree.insert(pool, entity, key, gate);
    }

    /// Removes an entity that blocks, ends or moves, whether it runs or waits. Its lag goes with it. Returns whether it was in.
    pub(crate) fn leave(&mut self, pool: &mut Pool, entity: u32, state: &mut FairState) -> bool {
        if self.current == Some(entity) {
            self.current = None;
        } else if !self.tree.remove(pool, entity) {
            return false;
        }
        state.lag = match self.policy {
            Policy::Eevdf => self.lag(state).clamp(-DEBT_MAX, state.weight.virtual_length(state.slice)),
            Policy::Wfq => self.floor.since(state.runtime).clamp(-DEBT_MAX, 0),
            Policy::RoundRobin => 0,
        };
        let now = self.virtual_time();
        self.rebase(now);
        self.sum -= self.share_of(state);
        self.weight -= u64::from(state.weight.get());
        if self.weight == 0 {
            debug_assert!(self.sum == 0, "an empty queue has a sum of {}", self.sum);
            self.sum = 0;
        }
        true
    }

    /// Chooses the entity that runs next and takes it out of those that wait. No entity may be running.
    pub(crate) fn pick(&mut self, pool: &mut Pool) -> Option<u32> {
        assert!(self.current.is_none(), "an entity runs; put it back or let it leave");
        let now = self.virtual_time();
        self.rebase(now);
        let picked = match self.policy {
            Policy::Eevdf => self.tree.take_first_within(pool, now),
            policy => {
                self.floor = self.tree.first_deadline(pool).unwrap_or(self.floor);
                self.tree.take_first_within(pool, policy.limit(now))
            }
        };
        // At least one entity is at or behind the mean.
        debug_assert!(picked.is_some() || self.tree.len() == 0, "no entity of {} is eligible", self.tree.len());
        self.current = picked;
        picked
    }

    /// Lets an entity that just joined run at once, without being picked. No entity may be running.
    pub(crate) fn run_next(&mut self, pool: &mut Pool, entity: u32) {
        assert!(self.current.is_none(), "an entity runs; put it back or let it leave");
        let was_in = self.tree.remove(pool, entity);
        debug_assert!(was_in, "entity {entity} did not join");
        self.current = Some(entity);
    }

    /// Which entity [`pick`](Self::pick) would choose, if the one that runs were not here.
    pub(crate) fn peek(&self, pool: &Pool) -> Option<u32> {
        self.tree.first_within(pool, self.policy.limit(self.virtual_time()))
    }

    /// Charges the entity that runs. Returns whether its slice is served, and it asked for the next.
    pub(crate) fn charge(&mut self, state: &mut FairState, ran: Nanos) -> bool {
        debug_assert!(self.current.is_some());
        let advance = state.weight.virtual_length(ran);
        state.runtime = state.runtime.plus(advance);
        self.sum += i128::from(state.weight.get()) * i128::from(advance);
        let served = !state.runtime.is_before(state.deadline);
        if served {
            state.deadline = state.runtime.plus(state.weight.virtual_length(state.slice));
            if self.policy == Policy::Wfq {
                self.floor = state.runtime; // its next request is served, until another entity is picked
            }
        }
        served
    }

    /// Lets the entity that runs wait again.
    pub(crate) fn put_back(&mut self, pool: &mut Pool, state: &FairState) {
        let entity = self.current.take().expect("an entity runs");
        self.queue(pool, entity, state);
    }

    /// Whether an entity that just joined should run instead of the one that runs.
    pub(crate) fn preempts(&self, joined: &FairState, current: &FairState) -> bool {
        if self.policy != Policy::Eevdf {
            return false; // a request that was begun is served to its end
        }
        let now = self.virtual_time();
        !now.is_before(joined.runtime)
            && (now.is_before(current.runtime) || joined.deadline.is_before(current.deadline))
    }

    /// Gives an entity another weight. Its lag in nanoseconds stays, as far as it may be kept.
    pub(crate) fn reweigh(&mut self, pool: &mut Pool, entity: u32, state: &mut FairState, weight: Weight) {
        if !self.policy.has_weights() {
            return;
        }
        let is_current = self.current == Some(entity);
        let was_in = self.leave(pool, entity, state);
        state.set_weight(weight);
        if was_in {
            self.join(pool, entity, state);
            if is_current {
                self.tree.remove(pool, entity);
                self.current = Some(entity);
            }
        }
    }

    fn share_of(&self, state: &FairState) -> i128 {
        i128::from(state.weight.get()) * i128::from(state.runtime.since(self.base))
    }

    fn count_in(&mut self, state: &FairState) {
        self.sum += self.share_of(state);
        self.weight += u64::from(state.weight.get());
    }

    /// Moves the zero of the sum. Exact, whatever the rounding of `now` was.
    fn rebase(&mut self, now: VirtualTime) {
        self.sum -= i128::from(self.weight) * i128::from(now.since(self.base));
        self.base = now;
    }
}

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
        assert!(self.core.weight == 0, "the policy of a queue that is used cannot be set");
        self.core.policy = policy;
        self
    }

    /// The same, with virtual time that starts elsewhere, as after a long life.
    #[must_use]
    pub fn starting_at(mut self, base: VirtualTime) -> Self {
        assert!(self.core.weight == 0, "the virtual time of a queue that is used cannot be set");
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
        self.pool.contains(entity)
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
