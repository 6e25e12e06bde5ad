//! What runs next: the whole scheduler, without a clock, a thread or a lock.
//!
//! Room: decisions. Knows jobs and time as an argument; knows nothing of how a driver carries out an [`Effect`].
//!
//! # Invariants
//! - Each life cycle of a job ends once (`ends.rs`).
//! - A ready job is in exactly one lane, once; a job in another state is in none.
//! - The usage in `room` is exactly what running jobs need and paused jobs keep.
//!
//! Checked after every step of random histories by `laws_hold_after_every_step`.

mod alarms;
mod cards;
mod chain;
mod control;
mod ends;
mod explain;
mod facts;
mod formula;
mod graph;
mod lanes;
mod others;
mod parts;
mod pending_demand;
mod phases;
mod reserve;
mod room;
mod submit;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use hashbrown::HashMap;

pub use self::cards::CardUse;
pub use self::control::Scope;
pub use self::facts::JobFacts;
pub use self::others::Others;
pub use self::pending_demand::PendingDemand;
pub use self::room::Usage;
pub use self::submit::{Draft, JobOptions, NewJob, RunsOn};

use self::alarms::Alarm;
use self::cards::{CardSet, KeptCards};
use self::graph::{Edge, Names, Node};
use self::lanes::{Entry, Lanes};
use self::parts::Parts;
use self::reserve::Reservation;
use self::room::{Kept, Need, Room};
use crate::JobId;
use crate::aging::{Aging, Time};
use crate::demand::Limits;
use crate::error::Cause;
use crate::event::{Event, What};
use crate::state::Move;
use crate::trace::TraceId;

/// What a driver must do about a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Ask it to pause; answer with `Core::paused`.
    Pause(u32),
    /// Let it run again.
    Resume(u32),
    /// Ask it to end; answer with `Core::ended`.
    Cancel(u32),
}

/// How an attempt ended.
#[derive(Debug)]
pub enum Ended {
    /// It succeeded.
    Succeeded,
    /// It failed. It is not retried if the cause is [`Cause::Permanent`].
    Failed(Cause),
    /// It stopped because it was asked to.
    Stopped,
}

/// How often, and how soon, a failed job is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How many further attempts.
    pub times: u32,
    /// The back-off after the first failure; it doubles with each failure.
    pub backoff: Duration,
    /// The longest back-off.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: 0, backoff: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

/// Data that only some jobs have.
#[derive(Debug, Default)]
struct Extra {
    retry: Retry,
    /// Attempts made before the current life cycle.
    spent: u32,
    cause: Option<Cause>,
    /// How long it probably runs.
    expected: Option<Duration>,
    /// The cards that it had in an earlier process of this run.
    was_on: CardSet,
}

/// How the scheduler is set up.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What all running jobs together may use.
    pub limits: Limits,
    /// How many jobs run at once on workers of this process.
    pub workers: usize,
    /// How many jobs run at once, on workers or executors.
    pub running_max: usize,
    /// How much rank a job gains by waiting.
    pub aging: Aging,
    /// How long a job that was asked to pause may run on.
    pub pause_timeout: Duration,
    /// Whether jobs are picked by evaluating the formula for every job, rather than by lanes.
    pub by_formula: bool,
    /// The seed of the jitter.
    pub seed: u64,
}

/// All jobs and everything known about them.
#[derive(Debug)]
pub struct Core {
    rules: Rules,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    names: Names,
    needs: Vec<Need>,
    need_ids: HashMap<Need, u32>,
    extras: HashMap<u32, Extra>,
    /// The jobs that have a key, by key.
    keys: HashMap<Box<str>, u32>,
    parts: Parts,
    lanes: Lanes,
    room: Room,
    reservation: Option<Reservation>,
    next_sweep: Time,
    /// When the last job with a reservation left its lane.
    oldest_left: Time,
    /// Resumed jobs that wait for their CPU slots, first come first served.
    resuming: VecDeque<u32>,
    alarms: BinaryHeap<Reverse<(Time, u32, u32, Alarm)>>,
    /// Running jobs, and paused ones that keep memory.
    holding: Vec<u32>,
    /// The demand that each of `holding` holds: its own, or that of the largest job in its chain.
    held: Vec<u32>,
    /// The cards of the jobs that have some. Few do.
    cards: HashMap<u32, CardSet>,
    /// For two demands, the demand that covers both.
    larger: HashMap<(u32, u32), u32>,
    counts: [usize; 7],
    effects: Vec<Effect>,
    /// When something happened, to which job, and what. The trace id is looked up when the event is read: most jobs have none, and events are written for each.
    events: Option<Vec<(Time, u32, What)>>,
    woken: Vec<u32>,
    joined: u64,
    admitted: u32,
    /// How often a job failed or was cancelled.
    bad_ends: u64,
    last_demand: Option<submit::LastDemand>,
}

impl Core {
    /// A scheduler without jobs.
    pub fn new(rules: Rules) -> Self {
        Self {
            nodes: Vec::new(),
            edges: Vec::new(),
            names: Names::default(),
            needs: Vec::new(),
            need_ids: HashMap::new(),
            extras: HashMap::new(),
            keys: HashMap::new(),
            parts: Parts::default(),
            lanes: Lanes::new(rules.aging),
            room: Room::new(&rules.limits, rules.workers, rules.running_max),
            reservation: None,
            next_sweep: 0,
            oldest_left: 0,
            resuming: VecDeque::new(),
            alarms: BinaryHeap::new(),
            holding: Vec::new(),
            held: Vec::new(),
            cards: HashMap::new(),
            larger: HashMap::new(),
            counts: [0; 7],
            effects: Vec::new(),
            events: None,
            woken: Vec::new(),
            joined: 0,
            admitted: 0,
            bad_ends: 0,
            last_demand: None,
            rules,
        }
    }

    // Inputs and outputs.

    /// Sets what others on this machine use.
    pub fn set_others(&mut self, others: &Others) {
        self.room.set_elsewhere(others);
    }

    /// Sets where a job runs: a number that the driver chooses and reads back with [`slot`](Self::slot).
    #[inline]
    pub fn set_slot(&mut self, id: u32, slot: u32) {
        self.nodes[id as usize].slot = slot;
    }

    /// Whether events are recorded, until [`clear_events`](Self::clear_events).
    pub fn record_events(&mut self, on: bool) {
        if on && self.events.is_none() {
            self.events = Some(Vec::new());
        } else if !on {
            self.events = None;
        }
    }

    /// Moves the effects to the end of `into`.
    #[inline]
    pub fn take_effects(&mut self, into: &mut Vec<Effect>) {
        into.append(&mut self.effects);
    }

    /// Whether there are recorded events.
    #[inline]
    pub fn has_events(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.is_empty())
    }

    /// The recorded events.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let event = |&(at, id, what)| Event { at, job: JobId(id), what, trace: self.trace_of(id) };
        self.events.iter().flatten().map(event)
    }

    /// Drops the recorded events.
    pub fn clear_events(&mut self) {
        if let Some(events) = &mut self.events {
            events.clear();
        }
    }

    /// Calls `report` with each recorded event, in order.
    pub fn for_each_event(&self, mut report: impl FnMut(&Event, JobFacts<'_>)) {
        if self.has_parts() {
            return self.events().for_each(|event| report(&event, JobFacts(self)));
        }
        let Some(events) = &self.events else { return };
        for &(at, id, what) in events {
            report(&Event { at, job: JobId(id), what, trace: TraceId::NONE }, JobFacts(self));
        }
    }

    #[inline]
    fn emit(&mut self, at: Time, id: u32, what: What) {
        if let Some(events) = &mut self.events {
            events.push((at, id, what));
        }
    }

    /// A job reports its progress, from 0 to 1.
    pub fn progress(&mut self, now: Time, id: u32, done: f32) {
        self.emit(now, id, What::Progress(done));
    }

    // How jobs change their state.

    /// The only function that changes the state of a job.
    #[inline]
    fn step(&mut self, id: u32, event: Move) {
        let node = &mut self.nodes[id as usize];
        let from = node.state;
        let to = from.after(event).unwrap_or_else(|error| panic!("job {id}: {error}"));
        node.state = to;
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
    }

    fn need(&self, id: u32) -> &Need {
        &self.needs[self.lanes.get(self.nodes[id as usize].lane).demand as usize]
    }

    /// The job waits only for room from now on.
    #[inline]
    fn make_ready(&mut self, now: Time, id: u32) {
        self.step(id, Move::Unblocked);
        self.join_lane(now, id);
        self.emit(now, id, What::Ready);
    }

    fn join_lane(&mut self, now: Time, id: u32) {
        self.joined += 1;
        let node = &mut self.nodes[id as usize];
        node.ready_since = now;
        self.lanes.push(node.lane, Entry { ready_since: now, id, stamp: node.stamp });
    }

    /// A ready job leaves its lane without being picked.
    fn leave_lane(&mut self, now: Time, id: u32) {
        self.has_left(now, id);
        let node = &mut self.nodes[id as usize];
        node.stamp = node.stamp.wrapping_add(1);
        let lane = node.lane;
        let nodes = &self.nodes;
        self.lanes.leave(lane, |id| nodes[id as usize].stamp);
    }

    /// Chooses the job to run now, and takes its room. Call until it returns `None`.
    pub fn pick(&mut self, now: Time) -> Option<u32> {
        self.tick(now);
        self.resume_waiting(now);
        if self.has_resuming() {
            return None;
        }
        if self.rules.by_formula {
            let (id, kept) = self.pick_by_formula(now)?;
            let (lane, nodes) = (self.nodes[id as usize].lane, &self.nodes);
            self.lanes.take(lane, id, |id| nodes[id as usize].stamp);
            self.start(now, id, kept);
            return Some(id);
        }
        let owed = self.owed(now).map(|owed| (owed, self.need(owed)));
        let kept = owed.and_then(|_| self.kept()).filter(|kept| !self.room.fits(kept.need, None));
        let fits = |demand| self.room.fits(&self.needs[demand as usize], kept);
        let mut lane = self.lanes.best(now, fits, |least| self.room.has(least, kept))?;
        if let Some((owed, need)) = owed
            && kept.is_none()
            && self.room.passes_over(&self.needs[self.lanes.get(lane).demand as usize], need)
        {
            lane = self.nodes[owed as usize].lane; // it is the oldest of all, so the head of its lane
        }
        let kept = kept.and_then(Kept::cards);
        let nodes = &self.nodes;
        let id = self.lanes.pop(lane, |id| nodes[id as usize].stamp);
        self.start(now, id, kept);
        Some(id)
    }

    /// Starts a job and takes its room; on none of the cards that are `kept` for another job, unless both fit.
    #[inline]
    fn start(&mut self, now: Time, id: u32, kept: Option<KeptCards>) {
        self.begin(now, id);
        let demand = self.lanes.get(self.nodes[id as usize].lane).demand;
        let cards = self.needs[demand as usize].cards;
        let on = if cards.count == 0 { CardSet::NONE } else { self.choose_cards(id, cards, kept) };
        self.room.take(&self.needs[demand as usize], on);
        self.nodes[id as usize].held_at = self.holding.len() as u32;
        self.holding.push(id);
        self.held.push(demand);
    }

    #[inline]
    fn begin(&mut self, now: Time, id: u32) {
        self.step(id, Move::Chosen);
        let node = &mut self.nodes[id as usize];
        node.started = now;
        node.attempt += 1;
        node.stamp = node.stamp.wrapping_add(1);
        let attempt = node.attempt;
        self.has_left(now, id);
        self.emit(now, id, What::Started { attempt });
    }
}
