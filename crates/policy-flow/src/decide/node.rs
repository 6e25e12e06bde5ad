//! The state of a node and of an edge, as the scheduler has it.
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

/// The fixed properties of a node.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// Messages enter the graph here.
    pub source: bool,
    /// The period of its ticks.
    pub cadence: Option<Duration>,
    /// The limit of messages a turn.
    pub batch: u32,
    /// The band of its own turns.
    pub band: Band,
    /// Nodes in a cycle share a group.
    pub group: u32,
}

/// The properties of an edge at the start.
#[derive(Debug, Clone)]
pub struct EdgeFacts {
    /// The node that puts.
    pub from: u32,
    /// The node that takes.
    pub to: u32,
    /// Its band.
    pub band: Band,
    /// It leads to the input `control`.
    pub steers: bool,
    /// It closes a cycle, or steers: its target does not wait for its end.
    pub loose: bool,
}

#[derive(Debug)]
pub(super) struct EdgeCore {
    pub(super) facts: EdgeFacts,
    pub(super) band: Band,
    /// It is in a queue of its target.
    pub(super) queued: bool,
    /// Its target takes no more messages.
    pub(super) unwanted: bool,
}

impl EdgeCore {
    pub(super) fn new(facts: EdgeFacts) -> Self {
        let band = facts.band;
        Self { facts, band, queued: false, unwanted: false }
    }
}

/// Whether a source is asked for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    Idle,
}

/// A node, as the scheduler has it.
#[derive(Debug)]
pub struct NodeCore {
    pub(crate) facts: NodeFacts,
    /// Its state.
    pub state: NodeState,
    pub(super) inputs: Vec<u32>,
    pub(super) outputs: Vec<u32>,
    pub(super) steers: bool,
    /// It has a turn.
    pub(crate) running: bool,
    /// It waits for room.
    pub(crate) blocked: bool,
    pub(super) room_came: bool,
    /// Room came: emitted messages can be tried again.
    pub(super) flush: bool,
    pub(crate) accepts: bool,
    pub(super) done: bool,
    pub(crate) backoff_until: Option<Time>,
    pub(super) woken: bool,
    pub(super) tick_due: bool,
    pub(super) asked_tick: Option<Time>,
    pub(super) next_tick: Option<Time>,
    pub(super) source: Option<Readiness>,
    /// Edges that have messages, by band, in the order in which they are served.
    pub(super) ready: [VecDeque<u32>; 3],
    pub(super) steer: [VecDeque<u32>; 3],
    pub(super) queued: [bool; 3],
    /// It failed, and is stopped when the messages that it emitted before are accepted.
    pub(super) breaking: bool,
    /// A command that came before it was started.
    pub(super) early_command: Option<Event>,
    /// `on_end` was called.
    pub(super) end_called: bool,
    own_was_last: bool,
    /// Its counters.
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
            backoff_until: None,
            woken: false,
            tick_due: false,
            asked_tick: None,
            next_tick: None,
            source,
            ready: Default::default(),
            steer: Default::default(),
            queued: [false; 3],
            breaking: false,
            early_command: None,
            end_called: false,
            own_was_last: false,
            counts: NodeCounts::default(),
        }
    }

    /// # Panics
    /// If the event is illegal in this state: a bug of the scheduler.
    pub(super) fn moves(&mut self, event: Event) {
        self.state = self.state.after(event).unwrap_or_else(|illegal| panic!("{illegal:?}"));
    }

    pub(super) fn is_paced(&self) -> bool {
        self.facts.source && self.facts.cadence.is_some()
    }

    /// Ticks are in the high band at least, so that they are on time under load.
    fn tick_band(&self) -> Band {
        self.facts.band.min(Band::High)
    }

    /// Whether it is given ticks. A node that is ending may need one to emit what it holds.
    fn ticks(&self) -> bool {
        self.state == NodeState::Running || (self.state == NodeState::Ending && !self.done)
    }

    /// Its own work in a band: work that is not a message.
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
            NodeState::Ending if !self.end_called && self.done && self.backoff_until.is_none() => Some(Work::End),
            NodeState::Running if self.source == Some(Readiness::Ready) && self.backoff_until.is_none() => {
                Some(Work::Produce)
            }
            _ if self.flush => Some(Work::Flush),
            _ => None,
        }
    }

    fn serves(&self, band: Band) -> bool {
        self.accepts
            && self.backoff_until.is_none()
            && self.state == NodeState::Running
            && !self.ready[band as usize].is_empty()
    }

    /// In which bands it might have something to do. A quick check, for the many times when it has not.
    pub(super) fn candidate_bands(&self) -> [bool; 3] {
        let line = |band: usize| !self.ready[band].is_empty() || !self.steer[band].is_empty();
        let mut candidate_bands = [line(0), line(1), line(2)];
        candidate_bands[self.facts.band as usize] |=
            self.woken || self.flush || self.source == Some(Readiness::Ready) || self.state == NodeState::Ending;
        candidate_bands[self.tick_band() as usize] |= self.tick_due;
        candidate_bands
    }

    /// Whether it has something to do in a band.
    pub(super) fn can_act(&self, band: Band) -> bool {
        if self.running || self.state == NodeState::Created || self.state.is_over() {
            return false;
        }
        if !self.steer[band as usize].is_empty() {
            return true; // Control messages reach also nodes that are paused or wait for room.
        }
        self.state != NodeState::Paused && !self.blocked && (self.own(band).is_some() || self.serves(band))
    }

    /// What it does in its turn; it [can act](Self::can_act).
    pub(super) fn choose(&mut self, band: Band) -> Work {
        if let Some(edge) = self.steer[band as usize].pop_front() {
            return Work::Steer(edge);
        }
        let own = self.own(band);
        // Its own work and its inputs alternate: a node that always wakes itself still serves its inputs.
        if self.serves(band) && (self.own_was_last || own.is_none()) {
            self.own_was_last = false;
            return Work::Serve(self.ready[band as usize].pop_front().expect("serves only what is ready"));
        }
        self.own_was_last = true;
        let own = own.expect("a node in a run queue has something to do");
        match own {
            Work::Tick => self.tick_due = false,
            Work::Wake => self.woken = false,
            _ => {}
        }
        own
    }

    /// It has no input, no work in progress and no messages to send.
    pub(super) fn is_quiet(&self) -> bool {
        !self.running
            && !self.blocked
            && !self.flush
            && !self.woken
            && self.done
            && self.backoff_until.is_none()
            && self.ready.iter().all(VecDeque::is_empty)
    }

    /// `on_end` was called, and all it emitted is accepted.
    pub(super) fn has_finished(&self) -> bool {
        let had_last_call = self.breaking || (self.end_called && self.done);
        self.state == NodeState::Ending && had_last_call && !self.blocked && !self.flush
    }

    /// Messages wait at its inputs.
    pub(crate) fn has_input(&self) -> bool {
        self.ready.iter().chain(&self.steer).any(|line| !line.is_empty())
    }

    /// It is in a run queue.
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
