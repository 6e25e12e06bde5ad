//! What the scheduler knows of a node and of an edge.
//!
//! Room: decisions.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::time::Duration;

use super::{Log, Work};
use crate::{
    counts::NodeCounts,
    policy::Band,
    state::{Event, NodeState},
    time::Time,
};

/// What never changes about a node.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// Messages enter the graph here.
    pub source: bool,
    /// It is given a tick this often.
    pub cadence: Option<Duration>,
    /// At most so many messages a turn.
    pub batch: u32,
    /// Where it has its own turns.
    pub band: Band,
    /// Nodes in a circle share a group.
    pub group: u32,
}

/// What is known of an edge at the beginning.
#[derive(Debug, Clone)]
pub struct EdgeFacts {
    /// The node that puts.
    pub from: u32,
    /// The node that takes.
    pub to: u32,
    /// How urgent it is.
    pub band: Band,
    /// It leads to the input `control`.
    pub steers: bool,
    /// It closes a circle, or steers: its target does not wait for its end.
    pub loose: bool,
}

#[derive(Debug)]
pub(super) struct EdgeCore {
    pub(super) facts: EdgeFacts,
    pub(super) band: Band,
    /// It stands in a line of its target.
    pub(super) queued: bool,
    /// Its target said that it wants no more.
    pub(super) unwanted: bool,
}

impl EdgeCore {
    pub(super) fn new(facts: EdgeFacts) -> Self {
        let band = facts.band;
        Self { facts, band, queued: false, unwanted: false }
    }
}

/// Whether a source may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    Idle,
}

/// A node, as the scheduler knows it.
#[derive(Debug)]
pub struct NodeCore {
    pub(crate) facts: NodeFacts,
    /// Where it stands.
    pub state: NodeState,
    pub(super) inputs: Vec<u32>,
    pub(super) outputs: Vec<u32>,
    pub(super) steers: bool,
    /// It has a turn.
    pub(crate) running: bool,
    /// It waits for room.
    pub(crate) blocked: bool,
    pub(super) room_came: bool,
    /// Room came: what it emitted can be tried again.
    pub(super) flush: bool,
    pub(crate) accepts: bool,
    pub(super) done: bool,
    pub(crate) resting: Option<Time>,
    pub(super) woken: bool,
    pub(super) tick_due: bool,
    pub(super) asked_tick: Option<Time>,
    pub(super) next_tick: Option<Time>,
    pub(super) source: Option<Readiness>,
    /// Edges that have something, by band, in the order they are served.
    pub(super) ready: [VecDeque<u32>; 3],
    pub(super) steer: [VecDeque<u32>; 3],
    pub(super) queued: [bool; 3],
    /// It failed and is to be stopped, once what it emitted before is accepted.
    pub(super) breaking: bool,
    /// What it was told before it was started.
    pub(super) early: Option<Event>,
    /// `on_end` was called.
    pub(super) end_said: bool,
    own_was_last: bool,
    /// What it did so far.
    pub counts: NodeCounts,
}

impl NodeCore {
    pub(super) fn new(facts: NodeFacts) -> Self {
        let source = facts.source.then_some(if facts.cadence.is_some() { Readiness::Idle } else { Readiness::Ready });
        Self {
            facts,
            state: NodeState::Created,
            inputs: Vec::new(),
            outputs: Vec::new(),
            steers: false,
            running: false,
            blocked: false,
            room_came: false,
            flush: false,
            accepts: true,
            done: true,
            resting: None,
            woken: false,
            tick_due: false,
            asked_tick: None,
            next_tick: None,
            source,
            ready: Default::default(),
            steer: Default::default(),
            queued: [false; 3],
            breaking: false,
            early: None,
            end_said: false,
            own_was_last: false,
            counts: NodeCounts::default(),
        }
    }

    /// # Panics
    /// If the event cannot happen now: the scheduler is broken.
    pub(super) fn moves(&mut self, event: Event) {
        self.state = self.state.after(event).unwrap_or_else(|illegal| panic!("{illegal:?}"));
    }

    pub(super) fn is_paced(&self) -> bool {
        self.facts.source && self.facts.cadence.is_some()
    }

    /// Ticks are on time under load, so they are at least in the high band.
    fn tick_band(&self) -> Band {
        self.facts.band.min(Band::High)
    }

    /// Whether it is given ticks. One that was told to stop may wait for one, to be done with what it holds.
    fn ticks(&self) -> bool {
        self.state == NodeState::Running || (self.state == NodeState::Ending && !self.done)
    }

    /// Work of its own that it has in a band.
    fn own(&self, band: Band) -> Option<Work> {
        if self.breaking {
            return (self.flush && band == self.facts.band).then_some(Work::Flush); // it is not called again
        }
        if self.tick_due && band == self.tick_band() && self.ticks() {
            return Some(Work::Tick);
        }
        if band != self.facts.band {
            return None;
        }
        if self.woken {
            return Some(Work::Wake);
        }
        match self.state {
            NodeState::Ending if !self.end_said && self.done && self.resting.is_none() => Some(Work::End),
            NodeState::Running if self.source == Some(Readiness::Ready) && self.resting.is_none() => {
                Some(Work::Produce)
            }
            _ if self.flush => Some(Work::Flush),
            _ => None,
        }
    }

    fn serves(&self, band: Band) -> bool {
        self.accepts
            && self.resting.is_none()
            && self.state == NodeState::Running
            && !self.ready[band as usize].is_empty()
    }

    /// In which bands it might have something to do: a quick look, for the many times when it has not.
    pub(super) fn hopes(&self) -> [bool; 3] {
        let line = |band: usize| !self.ready[band].is_empty() || !self.steer[band].is_empty();
        let mut hopes = [line(0), line(1), line(2)];
        hopes[self.facts.band as usize] |=
            self.woken || self.flush || self.source == Some(Readiness::Ready) || self.state == NodeState::Ending;
        hopes[self.tick_band() as usize] |= self.tick_due;
        hopes
    }

    /// Whether it has something to do in a band.
    pub(super) fn can_act(&self, band: Band) -> bool {
        if self.running || self.state == NodeState::Created || self.state.is_over() {
            return false;
        }
        if !self.steer[band as usize].is_empty() {
            return true; // Steering reaches also those that are paused or wait for room.
        }
        self.state != NodeState::Paused && !self.blocked && (self.own(band).is_some() || self.serves(band))
    }

    /// What it does in its turn; it [can act](Self::can_act).
    pub(super) fn choose(&mut self, band: Band) -> Work {
        if let Some(edge) = self.steer[band as usize].pop_front() {
            return Work::Steer(edge);
        }
        let own = self.own(band);
        // Whoever wakes itself again and again still serves its inputs, and the other way round.
        if self.serves(band) && (self.own_was_last || own.is_none()) {
            self.own_was_last = false;
            return Work::Serve(self.ready[band as usize].pop_front().expect("serves only what is ready"));
        }
        self.own_was_last = true;
        let own = own.expect("a node in a ring has something to do");
        match own {
            Work::Tick => self.tick_due = false,
            Work::Wake => self.woken = false,
            _ => {}
        }
        own
    }

    /// Nothing is on its way inside it.
    pub(super) fn is_quiet(&self) -> bool {
        !self.running
            && !self.blocked
            && !self.flush
            && !self.woken
            && self.done
            && self.resting.is_none()
            && self.ready.iter().all(VecDeque::is_empty)
    }

    /// It said its end, and all it emitted is accepted.
    pub(super) fn has_finished(&self) -> bool {
        let has_said_all = self.breaking || (self.end_said && self.done);
        self.state == NodeState::Ending && has_said_all && !self.blocked && !self.flush
    }

    /// Messages wait for it.
    pub(crate) fn has_input(&self) -> bool {
        self.ready.iter().chain(&self.steer).any(|line| !line.is_empty())
    }

    /// It stands in a ring.
    pub(crate) fn has_turn_coming(&self) -> bool {
        Band::ALL.iter().any(|band| self.can_act(*band))
    }

    pub(super) fn count(&mut self, log: &Log, took_nanos: u64) {
        let counts = &mut self.counts;
        counts.messages += log.handled;
        counts.emitted += log.emitted;
        counts.errors += log.errors;
        counts.retries += log.retries;
        counts.lost += log.lost;
        counts.ticks += u64::from(log.ticked);
        counts.busy_nanos += took_nanos;
        if let Some(each) = took_nanos.checked_div(log.handled) {
            counts.latency.record_nanos(each, log.handled);
        }
        if let Some(error) = &log.last_error {
            counts.last_error = Some(Arc::clone(error));
        }
        if counts.failure.is_none() {
            counts.failure.clone_from(&log.failure);
        }
    }
}
