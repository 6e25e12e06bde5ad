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

use crate::node::NONE;
use crate::policy::{Policy, QUANTUM};
use crate::pool::Pool;
use crate::time::{Nanos, VirtualTime, Weight};
use crate::tree::{Hint, Tree};

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

/// The same as [`FairQueue`](crate::FairQueue), in a pool that it shares with others.
#[derive(Clone)]
pub(crate) struct FairCore {
    tree: Tree,
    /// The zero of `sum`: near the virtual time, so that products stay small.
    pub(crate) base: VirtualTime,
    sum: i128,
    weight: u64,
    /// `2^64 / weight`, rounded down.
    inverse: u64,
    /// The entity that runs. It is in the tree, with the key it was picked by.
    current: Option<u32>,
    /// Where it was when it was picked.
    hint: Hint,
    pub(crate) policy: Policy,
    /// Of start-time fair queueing: where the request begins that is served. Of round robin: the key of who was picked last.
    floor: VirtualTime,
    /// Of round robin: the key of who was queued last.
    last_key: u64,
}

impl FairCore {
    pub(crate) const fn new(policy: Policy) -> FairCore {
        let start = VirtualTime(0);
        FairCore {
            tree: Tree::EMPTY,
            base: start,
            sum: 0,
            weight: 0,
            inverse: 0,
            current: None,
            hint: Hint::NONE,
            policy,
            floor: start,
            last_key: 0,
        }
    }

    /// How many entities are in, the one that runs included.
    pub(crate) fn len(&self) -> u32 {
        self.tree.len()
    }

    /// Whether no entity is in.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entities wait for the CPU.
    pub(crate) fn waiting(&self) -> u32 {
        self.tree.len() - u32::from(self.current.is_some())
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
        self.base.plus(self.mean())
    }

    /// The mean of all runtimes, from `base` on, rounded down.
    fn mean(&self) -> i64 {
        if self.weight == 0 {
            return 0;
        }
        let Ok(sum) = i64::try_from(self.sum) else {
            return self.sum.div_euclid(i128::from(self.weight)) as i64;
        };
        // The usual case by a multiplication: a division takes as long as half of a pick. For a negative sum `!(!sum / weight)` is rounded down.
        let sign = sum >> 63;
        let size = (sum ^ sign) as u64;
        // At most one too small: `inverse` is at most one too small, and `size` below 2^63.
        let low = ((u128::from(size) * u128::from(self.inverse)) >> 64) as u64;
        let quotient = low + u64::from(size - low * self.weight >= self.weight);
        quotient as i64 ^ sign
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
            Policy::Eevdf => now.plus(-self.stretched(state)),
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
        let (key, gate) = self.key(state);
        self.tree.insert(pool, entity, key, gate);
    }

    /// What the lag of an entity that joins has to be, so that it is what it was when it is in.
    fn stretched(&self, state: &FairState) -> i64 {
        let more = match (state.lag.checked_mul(i64::from(state.weight.get())), i64::try_from(self.weight)) {
            (Some(product), Ok(weight)) => product / weight,
            _ => (i128::from(state.lag) * i128::from(state.weight.get()) / i128::from(self.weight)) as i64,
        };
        state.lag + more
    }

    /// What an entity waits by: its key, and its gate.
    fn key(&mut self, state: &FairState) -> (VirtualTime, VirtualTime) {
        match self.policy {
            Policy::Eevdf => (state.deadline, state.runtime),
            Policy::Wfq => (state.start(), Policy::OPEN),
            // Interrupted within its slice, it is still first.
            Policy::RoundRobin if state.is_begun() => (self.floor, Policy::OPEN),
            Policy::RoundRobin => {
                self.last_key += 1;
                (VirtualTime(self.last_key), Policy::OPEN)
            }
        }
    }

    /// Removes an entity that blocks, ends or moves, whether it runs or waits. Its lag goes with it. Returns whether it was in.
    pub(crate) fn leave(&mut self, pool: &mut Pool, entity: u32, state: &mut FairState) -> bool {
        let is_current = self.current == Some(entity);
        if !self.tree.remove(pool, entity, if is_current { self.hint } else { Hint::NONE }) {
            return false;
        }
        if is_current {
            self.current = None;
        }
        state.lag = match self.policy {
            Policy::Eevdf => self.lag(state).clamp(-DEBT_MAX, state.weight.virtual_length(state.slice)),
            Policy::Wfq => self.floor.since(state.runtime).clamp(-DEBT_MAX, 0),
            Policy::RoundRobin => 0,
        };
        let now = self.virtual_time();
        self.rebase(now);
        self.sum -= self.share_of(state);
        self.set_weight(self.weight - u64::from(state.weight.get()));
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
        if i64::try_from(self.sum).is_err() {
            self.rebase(now);
        }
        if self.policy != Policy::Eevdf {
            self.floor = self.tree.first_deadline(pool).unwrap_or(self.floor);
        }
        let picked = self.tree.first_within(pool, self.policy.limit(now));
        // At least one entity is at or behind the mean.
        debug_assert!(picked.is_some() || self.tree.len() == 0, "no entity of {} is eligible", self.tree.len());
        let (entity, hint) = picked?;
        (self.current, self.hint) = (Some(entity), hint);
        Some(entity)
    }

    /// Lets an entity that just joined run at once, without being picked. No entity may be running.
    pub(crate) fn run_next(&mut self, entity: u32) {
        assert!(self.current.is_none(), "an entity runs; put it back or let it leave");
        (self.current, self.hint) = (Some(entity), Hint::NONE);
    }

    /// Which entity [`pick`](Self::pick) would choose, if the one that runs were not here.
    pub(crate) fn peek(&self, pool: &Pool) -> Option<u32> {
        if self.waiting() == 0 {
            return None;
        }
        let limit = self.policy.limit(self.virtual_time());
        self.tree.first_within_but(pool, limit, self.current.unwrap_or(NONE))
    }

    /// Charges the entity that runs. Returns whether its slice is served, and it asked for the next.
    pub(crate) fn charge(&mut self, state: &mut FairState, ran: Nanos) -> bool {
        debug_assert!(self.current.is_some());
        self.advance(state, ran)
    }

    /// Advances the runtime of an entity that is in, and its deadline if that is reached; whether it was.
    fn advance(&mut self, state: &mut FairState, ran: Nanos) -> bool {
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

    /// Charges an entity that is in for time it had elsewhere, whether it runs or waits here. Nothing happens to one that is not in.
    pub(crate) fn charge_elsewhere(&mut self, pool: &mut Pool, entity: u32, state: &mut FairState, ran: Nanos) {
        if self.current == Some(entity) {
            self.charge(state, ran);
        } else if pool.contains(entity) {
            self.advance(state, ran);
            let key = self.key(state);
            self.tree.replace(pool, entity, key, Hint::NONE);
        }
    }

    /// Lets the entity that runs wait again.
    pub(crate) fn put_back(&mut self, pool: &mut Pool, state: &FairState) {
        let entity = self.current.take().expect("an entity runs");
        let key = self.key(state);
        self.tree.replace(pool, entity, key, self.hint);
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
                self.run_next(entity);
            }
        }
    }

    fn share_of(&self, state: &FairState) -> i128 {
        i128::from(state.weight.get()) * i128::from(state.runtime.since(self.base))
    }

    fn count_in(&mut self, state: &FairState) {
        self.sum += self.share_of(state);
        self.set_weight(self.weight + u64::from(state.weight.get()));
    }

    fn set_weight(&mut self, weight: u64) {
        self.weight = weight;
        self.inverse = u64::MAX.checked_div(weight).unwrap_or(0);
    }

    /// Moves the zero of the sum. Exact, whatever the rounding of `now` was.
    fn rebase(&mut self, now: VirtualTime) {
        self.sum -= i128::from(self.weight) * i128::from(now.since(self.base));
        self.base = now;
    }
}
