//! What runs next: the whole scheduler without a clock, a thread or a queue to wait at.
//!
//! Room: decisions. Time comes in as an argument, what is to be done goes out as [`Effect`]s. A driver does it.
//!
//! # Invariants
//! - Every life of a job ends once: `end` is the only function that makes it terminal, and asserts it.
//! - A ready job stands in exactly one lane, once; no other does.
//! - What `room` says is in use is exactly what running jobs need, and paused ones keep.
//!
//! Checked after every step of random histories by `laws_hold_after_every_step`.

mod alarms;
mod cards;
mod chain;
mod control;
mod explain;
mod facts;
mod formula;
mod graph;
mod lanes;
mod others;
mod parts;
mod phases;
mod reserve;
mod room;
mod submit;
#[cfg(test)]
mod tests;
mod wanted;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use hashbrown::HashMap;

pub use self::cards::CardUse;
pub use self::control::Scope;
pub use self::facts::JobFacts;
pub use self::others::Others;
pub use self::room::Usage;
pub use self::submit::{Draft, NewJob, On, Rare};
pub use self::wanted::Wanted;

use self::alarms::{Alarm, backoff};
use self::cards::{CardSet, KeptCards};
use self::graph::{CANCELLING, CLAIMED, EXTRA, Edge, NONE, Names, Node, PART, PAUSING, RESUMING};
use self::lanes::{Entry, Lanes};
use self::parts::Parts;
use self::reserve::Reservation;
use self::room::{Kept, Need, Room};
use crate::JobId;
use crate::aging::{Aging, Time};
use crate::demand::Limits;
use crate::error::Cause;
use crate::event::{Event, What};
use crate::state::{Move, State};
use crate::trace::TraceId;

/// What a driver must do about a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Ask it to pause; answer with `Core::paused`.
    Pause(u32),
    /// Let it go on.
    Resume(u32),
    /// Ask it to end; answer with `Core::ended`.
    Cancel(u32),
}

/// How an attempt ended.
#[derive(Debug)]
pub enum Ended {
    /// It did what it should.
    Well,
    /// Not retried if the cause is [`Cause::Permanent`].
    Badly(Cause),
    /// It gave up because it was asked to.
    Stopped,
}

/// How often, and how soon, a job that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How many further attempts.
    pub times: u32,
    /// How long after the first failure; each time twice as long.
    pub backoff: Duration,
    /// At most so long.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: 0, backoff: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

/// What only some jobs have.
#[derive(Debug, Default)]
struct Extra {
    retry: Retry,
    /// Attempts made before the present life.
    spent: u32,
    cause: Option<Cause>,
    /// How long it probably runs.
    expected: Option<Duration>,
    /// The cards that an earlier life of this program gave it.
    was_on: CardSet,
}

/// How the scheduler is set up.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What all running jobs together may use.
    pub limits: Limits,
    /// How many jobs run at once on workers of this process.
    pub workers: usize,
    /// How many jobs run at once, wherever.
    pub most_running: usize,
    /// How much rank a job gains by waiting.
    pub aging: Aging,
    /// How long a job that was asked to pause may run on.
    pub pause_timeout: Duration,
    /// Whether jobs are picked by the formula written out, rather than by lanes.
    pub by_formula: bool,
    /// What jitter is drawn from.
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
    /// The jobs that have a key, by it.
    keys: HashMap<Box<str>, u32>,
    parts: Parts,
    lanes: Lanes,
    room: Room,
    reservation: Option<Reservation>,
    next_sweep: Time,
    /// When the last job for which room was to be kept left the line.
    oldest_left: Time,
    /// Paused jobs that want their CPU slots back, first come first served.
    resuming: VecDeque<u32>,
    alarms: BinaryHeap<Reverse<(Time, u32, u32, Alarm)>>,
    /// Running jobs, and paused ones that keep memory.
    holding: Vec<u32>,
    /// The demand that each of these holds: its own, or that of the largest job in its chain.
    held: Vec<u32>,
    /// The cards of those that have some: few do.
    cards: HashMap<u32, CardSet>,
    /// Which demand covers two others.
    larger: HashMap<(u32, u32), u32>,
    counts: [usize; 7],
    effects: Vec<Effect>,
    /// What happened, when, and to which job. Its trace is looked up when it is told: most jobs have none, and news are written for each.
    events: Option<Vec<(Time, u32, What)>>,
    woken: Vec<u32>,
    joined: u64,
    admitted: u32,
    /// How often a job failed or was cancelled.
    misfortunes: u64,
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
            room: Room::new(&rules.limits, rules.workers, rules.most_running),
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
            misfortunes: 0,
            last_demand: None,
            rules,
        }
    }

    // What comes in and goes out.

    /// What others on this machine use from now on.
    pub fn set_others(&mut self, others: &Others) {
        self.room.set_elsewhere(others);
    }

    /// Where a job runs: a number of the driver's, for [`place`](Self::place).
    #[inline]
    pub fn set_place(&mut self, id: u32, place: u32) {
        self.nodes[id as usize].place = place;
    }

    /// Whether events are kept until they are told.
    pub fn watch(&mut self, on: bool) {
        if on && self.events.is_none() {
            self.events = Some(Vec::new());
        } else if !on {
            self.events = None;
        }
    }

    /// Moves what is to be done about running jobs to the end of `into`.
    #[inline]
    pub fn take_effects(&mut self, into: &mut Vec<Effect>) {
        into.append(&mut self.effects);
    }

    /// Whether something happened that has not been told.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.is_empty())
    }

    /// What happened and has not been told.
    pub fn news(&self) -> impl Iterator<Item = Event> {
        let event = |&(at, id, what)| Event { at, job: JobId(id), what, trace: self.trace_of(id) };
        self.events.iter().flatten().map(event)
    }

    /// All of it has been told.
    pub fn clear_news(&mut self) {
        if let Some(events) = &mut self.events {
            events.clear();
        }
    }

    /// Tells what happened and has not been told, in order.
    pub fn tell_all(&self, mut tell: impl FnMut(&Event, JobFacts<'_>)) {
        if self.has_parts() {
            return self.news().for_each(|event| tell(&event, JobFacts(self)));
        }
        let Some(events) = &self.events else { return };
        for &(at, id, what) in events {
            tell(&Event { at, job: JobId(id), what, trace: TraceId::NONE }, JobFacts(self));
        }
    }

    #[inline]
    fn tell(&mut self, at: Time, id: u32, what: What) {
        if let Some(events) = &mut self.events {
            events.push((at, id, what));
        }
    }

    /// A job says how far it is, from 0 to 1.
    pub fn progress(&mut self, now: Time, id: u32, done: f32) {
        self.tell(now, id, What::Progress(done));
    }

    // How jobs move.

    /// The only way a job changes its state.
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

    /// Nothing but room is missing from now on.
    #[inline]
    fn make_ready(&mut self, now: Time, id: u32) {
        self.step(id, Move::Unblocked);
        self.join_lane(now, id);
        self.tell(now, id, What::Ready);
    }

    fn join_lane(&mut self, now: Time, id: u32) {
        self.joined += 1;
        let node = &mut self.nodes[id as usize];
        node.ready_since = now;
        self.lanes.push(node.lane, Entry { ready_since: now, id, stamp: node.stamp });
    }

    /// A ready job is no longer in line.
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
        self.let_back(now);
        if self.is_somebody_coming_back() {
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
            lane = self.nodes[owed as usize].lane; // the oldest of all, so the first of its lane
        }
        let kept = kept.and_then(Kept::cards);
        let nodes = &self.nodes;
        let id = self.lanes.pop(lane, |id| nodes[id as usize].stamp);
        self.start(now, id, kept);
        Some(id)
    }

    /// Lets a job begin, with its room; on none of the cards that are `kept` for another, unless both fit.
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
        self.tell(now, id, What::Started { attempt });
    }

    /// An attempt ended.
    #[inline]
    pub fn ended(&mut self, now: Time, id: u32, how: Ended) {
        self.release(id);
        self.conclude(now, id, how);
    }

    /// What a running or paused job holds is free again.
    fn release(&mut self, id: u32) {
        let at = core::mem::replace(&mut self.nodes[id as usize].held_at, NONE);
        assert_eq!(self.holding.swap_remove(at as usize), id, "who runs holds");
        let need = &self.needs[self.held.swap_remove(at as usize) as usize];
        let on = if need.cards.count == 0 { CardSet::NONE } else { self.cards.remove(&id).unwrap_or_default() };
        match self.nodes[id as usize].state {
            State::Running => self.room.give_back(need, on),
            State::Paused => self.room.give_back_kept(need, on),
            state => panic!("job {id} ended while {state}"),
        }
        if let Some(&moved) = self.holding.get(at as usize) {
            self.nodes[moved as usize].held_at = at;
        }
    }

    #[inline]
    fn conclude(&mut self, now: Time, id: u32, how: Ended) {
        let node = &mut self.nodes[id as usize];
        let cancelling = node.is(CANCELLING);
        let to_pause = node.is(PAUSING) || (node.state == State::Paused && !node.is(RESUMING));
        node.flags &= !(PAUSING | CANCELLING | RESUMING | CLAIMED);
        node.stamp = node.stamp.wrapping_add(1); // a pause timeout is void
        node.place = NONE; // where it ran, another job will run
        match how {
            _ if cancelling => {
                self.end(now, id, Move::Cancelled, None);
                self.cancel_dependents(now, id); // who came to need it since it was asked to end
            }
            Ended::Well => {
                self.end(now, id, Move::Succeeded, None);
                self.wake_dependents(now, id);
            }
            Ended::Badly(cause) => self.failed(now, id, cause, to_pause),
            Ended::Stopped => {
                // Nobody asked: then its own choice is a failure of its own.
                let cause = Cause::Error("it stopped as if cancelled, but nobody asked it to".to_owned());
                self.failed(now, id, cause, to_pause);
            }
        }
    }

    /// An attempt failed. If the job is `to_pause`, its next one waits until it is resumed.
    #[cold]
    fn failed(&mut self, now: Time, id: u32, cause: Cause, to_pause: bool) {
        if self.nodes[id as usize].state == State::Paused {
            self.step(id, Move::Resumed(State::Running)); // it ended while it was being frozen
        }
        let node = &self.nodes[id as usize];
        let attempt = node.attempt;
        let extra = self.extras.entry(id).or_default();
        let made = attempt - extra.spent;
        let is_permanent = matches!(cause, Cause::Permanent(_));
        extra.cause = Some(cause);
        self.nodes[id as usize].set(EXTRA, true);
        if made <= extra.retry.times && !is_permanent {
            let wait = backoff(extra.retry, made, self.rules.seed ^ u64::from(id) << 32 ^ u64::from(attempt));
            self.step(id, Move::Failed);
            self.step(id, Move::Retried);
            let stamp = self.nodes[id as usize].stamp;
            let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            self.alarms.push(Reverse((now.saturating_add(wait_ns), id, stamp, Alarm::Retry)));
            let after_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
            self.tell(now, id, What::Retrying { attempt, after_ms });
            if to_pause {
                self.step(id, Move::Paused);
                self.nodes[id as usize].paused_from = State::Queued;
                self.tell(now, id, What::Paused);
            }
            return;
        }
        let cause = extra.cause.take();
        self.end(now, id, Move::Failed, cause);
        self.cancel_dependents(now, id);
    }

    /// A life is over. The only function that makes a job terminal.
    fn end(&mut self, now: Time, id: u32, how: Move, cause: Option<Cause>) {
        let before = self.nodes[id as usize].state;
        assert!(!before.is_terminal(), "job {id} ends twice");
        if before == State::Paused && how == Move::Succeeded {
            self.step(id, Move::Resumed(State::Running)); // it ended while it was being frozen
        }
        self.step(id, how);
        let node = &mut self.nodes[id as usize];
        node.set_ended(now);
        if node.is(PART) {
            self.ends_in_part(id);
        }
        if cause.is_some() {
            self.extras.entry(id).or_default().cause = cause;
            self.nodes[id as usize].set(EXTRA, true);
        } else if how == Move::Succeeded && self.nodes[id as usize].is(EXTRA) {
            self.extras.entry(id).or_default().cause = None; // what an earlier attempt died of
        }
        let what = match how {
            Move::Succeeded => What::Succeeded,
            Move::Failed => What::Failed,
            _ => What::Cancelled,
        };
        self.tell(now, id, what);
    }

    /// Those that needed it need one less.
    #[inline]
    fn wake_dependents(&mut self, now: Time, id: u32) {
        let mut edge = self.nodes[id as usize].first_dependent;
        if edge == NONE {
            return;
        }
        let mut woken = core::mem::take(&mut self.woken);
        while edge != NONE {
            let Edge { dependent, next, .. } = self.edges[edge as usize];
            let node = &mut self.nodes[dependent as usize];
            node.unmet -= 1;
            if node.unmet == 0 && dependent < self.admitted {
                woken.push(dependent); // others are looked at when they are admitted
            }
            edge = next;
        }
        // The list has the latest dependent first; lanes want the earliest.
        for dependent in woken.drain(..).rev() {
            let node = &mut self.nodes[dependent as usize];
            match node.state {
                State::Queued => self.make_ready(now, dependent),
                // It waits to be resumed, and then only for room.
                State::Paused if node.paused_from == State::Queued => node.paused_from = State::Ready,
                _ => {}
            }
        }
        self.woken = woken;
    }

    /// Everything below a job that ended badly is cancelled, naming it.
    fn cancel_dependents(&mut self, now: Time, id: u32) {
        self.misfortunes += 1;
        // One that was asked to end and has not yet counts as ended: it will not succeed any more.
        let state = Some(self.nodes[id as usize].state).filter(|state| state.is_terminal()).unwrap_or(State::Cancelled);
        let name = self.names.get(id).into_owned();
        let mut stack = vec![id];
        while let Some(at) = stack.pop() {
            let mut edge = self.nodes[at as usize].first_dependent;
            while edge != NONE {
                let Edge { dependent, next, .. } = self.edges[edge as usize];
                edge = next;
                if self.nodes[dependent as usize].state.is_terminal() || dependent >= self.admitted {
                    continue; // a batch that needs it is refused when it is complete
                }
                let cause = Cause::Ancestor { id: JobId(id), name: name.clone(), state };
                self.drop_from_line(now, dependent);
                self.end(now, dependent, Move::Cancelled, Some(cause));
                stack.push(dependent);
            }
        }
    }

    /// A job that does not run is about to end: no lane and no alarm may know it any more.
    fn drop_from_line(&mut self, now: Time, id: u32) {
        if self.nodes[id as usize].state == State::Ready {
            self.leave_lane(now, id);
        } else {
            let node = &mut self.nodes[id as usize];
            node.stamp = node.stamp.wrapping_add(1);
        }
    }
}
