//! Who has the next turn, and what it is for.
//!
//! Room: decisions. No clock, no thread, no message: time and reports come in, turns go out. Both drivers ask here, under one lock.
//!
//! # Invariants
//! A node has at most one turn at a time. A node that can do something has its place in the ring of that band, or is having a turn. A node that waits for
//! room is not looked at before there is some. When nothing is in a ring, nothing can be done until a timer, a waker or a handle says so: nobody spins.
//!
//! # Why no signal is lost
//! A signal that an edge has something, or has room, may arrive while the node it is for has a turn. Such signals are kept (`ready`, `room_came`), and
//! looked at when the turn is reported: a report never takes back what came during the turn. What the turn itself saw (`more`, `blocked`) was
//! seen under the lock of the edge, where the other side sets its flag. Checked by `tests/loom/main.rs`.

mod bands;
mod ends;
mod node;
mod outside;
mod rush;
mod timers;
mod told;

#[cfg(test)]
mod tests;

use alloc::{collections::VecDeque, vec::Vec};

use vocab::or_planted;

use crate::{
    policy::Band,
    state::{Event, NodeState},
    time::Time,
};
use bands::Bands;
use ends::Group;
use node::{EdgeCore, Readiness};
pub use node::{EdgeFacts, NodeCore, NodeFacts};
use rush::Rush;
use timers::Timers;
pub use told::{Log, Produced};

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Messages for the input `control`.
    Steer(u32),
    /// Messages of an edge.
    Serve(u32),
    /// A source is asked.
    Produce,
    /// `on_tick`.
    Tick,
    /// `on_wake`.
    Wake,
    /// What was emitted and not accepted is tried again.
    Flush,
    /// `on_end`.
    End,
}

/// Further edges of a turn: if the first has little, a node with many inputs need not come again for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Also {
    edges: [u32; 7],
    len: usize,
}

impl Also {
    fn fill(&mut self, line: &mut VecDeque<u32>) {
        while self.len < self.edges.len()
            && let Some(edge) = line.pop_front()
        {
            self.edges[self.len] = edge;
            self.len += 1;
        }
    }

    /// Their numbers.
    #[inline]
    pub fn edges(&self) -> &[u32] {
        &self.edges[..self.len]
    }
}

/// A turn of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a turn that is not reported keeps its node busy for ever"]
pub struct Turn {
    /// Whose turn it is.
    pub node: u32,
    /// Of which band.
    pub band: Band,
    /// What it is for.
    pub work: Work,
    /// Served after the first edge, while the budget lasts.
    pub also: Also,
    /// At most so many messages.
    pub budget: u32,
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Pick {
    /// This turn is to be given.
    Turn(Turn),
    /// Nothing until then, or until somebody says so.
    Idle(Option<Time>),
    /// Nothing ever again: nodes may be stopped.
    Over,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The work was not begun, because there was no room.
    pub refused: bool,
    /// More waits on the edge that was served.
    pub more: bool,
    /// So many of the further edges were served, too.
    pub also: usize,
    /// What was emitted does not fit, or nothing more would.
    pub blocked: bool,
    /// Something that was emitted is not accepted yet.
    pub unsent: bool,
    /// The node takes another message.
    pub accepts: bool,
    /// Nothing is under way inside the node.
    pub done: bool,
    /// What the source said, if it was asked.
    pub produced: Option<Produced>,
    /// A message failed and is tried again then.
    pub rest_until: Option<Time>,
    /// The error policy stops the node.
    pub broke: bool,
    /// It was told to stop, pause or go on.
    pub steered: Option<Event>,
    /// How long it took.
    pub took_nanos: u64,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            refused: false,
            more: false,
            also: 0,
            blocked: false,
            unsent: false,
            accepts: true,
            done: true,
            produced: None,
            rest_until: None,
            broke: false,
            steered: None,
            took_nanos: 0,
        }
    }
}

/// Where the whole flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Turns are given.
    Running,
    /// No new messages; the rest by this time.
    Draining(Time),
    /// No more turns. True if nodes were left before their end: the time was over, or somebody could not wait.
    Halted {
        /// Nodes were left before their end.
        late: bool,
    },
}

/// The scheduler's mind.
pub struct Core {
    nodes: Vec<NodeCore>,
    edges: Vec<EdgeCore>,
    groups: Vec<Group>,
    bands: Bands,
    timers: Timers,
    phase: Phase,
    /// So many nodes have a turn now.
    running: usize,
    /// So many nodes, other than those that only steer, are not over.
    alive: usize,
    /// Edges into nodes that are over, for the driver to close.
    to_close: Vec<u32>,
    /// Groups to look at: their members may have ended.
    to_check: VecDeque<u32>,
    rush: Rush,
}

impl Core {
    /// A flow that has not begun. `order`: producers before consumers; `shares`: of the turns, for each band.
    pub fn new(nodes: Vec<NodeFacts>, edges: Vec<EdgeFacts>, order: &[u32], shares: [u32; 3]) -> Self {
        let groups = ends::groups(&nodes, &edges, order);
        let steering = ends::steering(nodes.len(), &edges, order);
        let mut cores: Vec<NodeCore> = nodes.into_iter().map(NodeCore::new).collect();
        for (index, edge) in edges.iter().enumerate() {
            cores[edge.from as usize].outputs.push(index as u32);
            cores[edge.to as usize].inputs.push(index as u32);
        }
        for (node, steers) in cores.iter_mut().zip(steering) {
            node.steers = steers;
        }
        let alive = cores.iter().filter(|node| !node.steers).count();
        Self {
            nodes: cores,
            edges: edges.into_iter().map(EdgeCore::new).collect(),
            groups,
            bands: Bands::new(shares),
            timers: Timers::default(),
            phase: Phase::Running,
            running: 0,
            alive,
            to_close: Vec::new(),
            to_check: VecDeque::new(),
            rush: Rush::default(),
        }
    }

    // ---- what happens ----

    /// `on_start` was called. If it failed and the policy says so, the node is over before it began.
    pub fn started(&mut self, node: u32, outcome: &Outcome, log: &Log, now: Time) {
        self.running += 1;
        self.nodes[node as usize].running = true;
        self.nodes[node as usize].moves(Event::Started);
        if let Some(every) = self.nodes[node as usize].facts.cadence {
            let at = now + every;
            self.nodes[node as usize].next_tick = Some(at);
            self.timers.push(at, node);
        }
        // A start is reported as a turn that was for nothing else.
        let turn = Turn { node, band: Band::Normal, work: Work::Flush, also: Also::default(), budget: 0 };
        self.report(turn, outcome, log);
        if let Some(event) = self.nodes[node as usize].early.take() {
            self.command(node, event);
        }
    }

    /// The edge has something, and had not.
    #[inline]
    pub fn filled(&mut self, edge: u32) {
        self.enqueue(edge, VecDeque::push_back);
    }

    /// Gives an edge that has something its place among those of its target.
    fn enqueue(&mut self, edge: u32, push: fn(&mut VecDeque<u32>, u32)) {
        let EdgeCore { facts, band, queued, .. } = &mut self.edges[edge as usize];
        if *queued {
            return;
        }
        let (target, band, steers) = (facts.to, *band, facts.steers);
        let node = &mut self.nodes[target as usize];
        if node.state.is_over() || (node.state == NodeState::Ending && !steers) {
            return;
        }
        *queued = true;
        let line = if steers { &mut node.steer } else { &mut node.ready };
        push(&mut line[band as usize], edge);
        if band == Band::Control {
            self.rush.control_came(self.running);
        }
        self.place_in(target, band);
    }

    /// The edge has room, and its producer waited.
    pub fn roomy(&mut self, edge: u32) {
        let source = self.edges[edge as usize].facts.from;
        let node = &mut self.nodes[source as usize];
        if node.running {
            node.room_came = true;
        } else if node.blocked {
            node.blocked = false;
            node.flush = true;
            self.place(source);
        }
    }

    /// A turn is over.
    pub fn report(&mut self, turn: Turn, outcome: &Outcome, log: &Log) {
        let Turn { node: index, work, also, .. } = turn;
        self.running -= 1;
        log.filled.iter().for_each(|edge| self.filled(*edge));
        log.roomy.iter().for_each(|edge| self.roomy(*edge));
        let node = &mut self.nodes[index as usize];
        assert!(node.running, "a turn is reported once");
        node.running = or_planted!(false, "report-takes-back-ready" => {
            node.ready.iter_mut().for_each(VecDeque::clear);
            false
        });
        node.count(log, outcome.took_nanos);
        node.counts.turns += u64::from(turn.budget > 0); // a start is none
        node.accepts = outcome.accepts;
        node.done = outcome.done;
        node.blocked = outcome.blocked;
        node.flush = false;
        // Room that came during the turn may have come after it was found missing.
        if or_planted!(core::mem::take(&mut node.room_came), "room-came-ignored" => false) && node.blocked {
            node.blocked = false;
            node.flush = true;
        }
        if let Some(until) = outcome.rest_until {
            node.resting = Some(until);
            self.timers.push(until, index);
        }
        if let Some(at) = log.tick_at
            && node.asked_tick.is_none_or(|asked| at < asked)
        {
            node.asked_tick = Some(at);
            self.timers.push(at, index);
        }
        let undone = outcome.refused;
        match work {
            // What could not be begun is still to be done.
            Work::Tick => node.tick_due |= undone,
            Work::Wake => node.woken |= undone,
            Work::End => node.end_said = !undone,
            _ => {}
        }
        if let Some(source) = &mut node.source {
            match (work, outcome.produced) {
                (_, Some(Produced::More)) => *source = Readiness::Ready,
                (_, Some(Produced::Idle)) => *source = Readiness::Idle,
                (_, Some(Produced::End)) => node.moves(Event::InputsEnded),
                // A source that was woken or had its tick may have something; one with a cadence had its chance.
                (Work::Wake | Work::Tick, None) if !undone => *source = Readiness::Ready,
                _ => {}
            }
            if node.is_paced() {
                node.source = Some(Readiness::Idle);
            }
        }
        if let Work::Serve(edge) | Work::Steer(edge) = work {
            // What was not come to keeps its place; what was served goes behind.
            also.edges()[outcome.also..].iter().rev().for_each(|edge| self.enqueue(*edge, VecDeque::push_front));
            if undone {
                self.enqueue(edge, VecDeque::push_front);
            } else if outcome.more {
                self.filled(edge);
            }
        }
        if let Some(event) = outcome.steered {
            self.steer(index, event);
        }
        if log.finish {
            self.finish(index);
        }
        let node = &mut self.nodes[index as usize];
        if outcome.broke && node.counts.failure.is_none() {
            node.counts.failure.clone_from(&node.counts.last_error);
        }
        if outcome.broke && outcome.unsent && !node.state.is_over() {
            // What it emitted before it failed gets through, as it would have a moment earlier.
            node.breaking = true;
            self.steer(index, Event::InputsEnded);
        } else if outcome.broke {
            self.over(index, Event::Broke);
        } else if node.has_finished() {
            let event = if node.breaking { Event::Broke } else { Event::Finished };
            self.over(index, event);
        } else {
            self.place(index);
        }
        self.check_group_of(index);
        self.settle_ends();
    }

    // ---- what is decided ----

    /// The next turn.
    pub fn pick(&mut self, now: Time) -> Pick {
        if let Phase::Draining(until) = self.phase
            && now >= until
        {
            self.phase = Phase::Halted { late: true };
        }
        if self.alive == 0 && self.phase == Phase::Running {
            // Whoever only steers has nothing left to steer.
            self.phase = Phase::Halted { late: false };
        }
        if let Phase::Draining(_) = self.phase
            && self.alive == 0
        {
            self.phase = Phase::Halted { late: false };
        }
        if let Phase::Halted { .. } = self.phase {
            return if self.running == 0 { Pick::Over } else { Pick::Idle(None) };
        }
        while let Some(node) = self.timers.due(now) {
            self.time_came(node, now);
        }
        let nodes = &mut self.nodes;
        let next = self.bands.pop(|band, node| {
            let node = &mut nodes[node as usize];
            let stale = !node.can_act(band);
            node.queued[band as usize] &= !stale;
            stale
        });
        let Some((band, index)) = next else { return Pick::Idle(self.timers.next()) };
        let node = &mut self.nodes[index as usize];
        node.queued[band as usize] = false;
        let work = node.choose(band);
        if let Work::Serve(edge) | Work::Steer(edge) = work {
            self.edges[edge as usize].queued = false;
        }
        let mut also = Also::default();
        if let Work::Serve(_) = work {
            also.fill(&mut node.ready[band as usize]);
            also.edges().iter().for_each(|edge| self.edges[*edge as usize].queued = false);
        }
        node.running = true;
        node.room_came = false;
        self.running += 1;
        self.rush.turn_given(band == Band::Control);
        Pick::Turn(Turn { node: index, band, work, also, budget: node.facts.batch })
    }

    /// Whether turns that are being given should end soon: control waits.
    #[inline]
    pub fn is_rushed(&self) -> bool {
        self.rush.is_on()
    }

    /// Whether another worker would find something to do.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.bands.is_empty() && !matches!(self.phase, Phase::Halted { .. })
    }

    /// Gives a node its place in every ring where it has something to do.
    fn place(&mut self, index: u32) {
        let hopes = self.nodes[index as usize].hopes();
        for band in Band::ALL {
            if hopes[band as usize] {
                self.place_in(index, band);
            }
        }
    }

    fn place_in(&mut self, index: u32, band: Band) {
        let node = &mut self.nodes[index as usize];
        // One that has a turn is placed when that is reported.
        if !node.running && !node.queued[band as usize] && node.can_act(band) {
            node.queued[band as usize] = true;
            self.bands.push(band, index);
        }
    }

    fn time_came(&mut self, index: u32, now: Time) {
        let node = &mut self.nodes[index as usize];
        if node.resting.is_some_and(|until| until <= now) {
            node.resting = None;
        }
        if node.asked_tick.is_some_and(|at| at <= now) {
            node.asked_tick = None;
            node.tick_due = true;
        }
        if let (Some(at), Some(every)) = (node.next_tick, node.facts.cadence)
            && at <= now
            && !node.state.is_over()
        {
            // On the grid of its cadence: a late tick does not shift the ones to come.
            let passed = now.since(at).as_nanos() / every.as_nanos();
            let passed = u64::try_from(passed).unwrap_or(u64::MAX);
            node.counts.ticks_missed += passed + u64::from(node.tick_due);
            node.tick_due = true;
            let skip = every.saturating_mul(u32::try_from(passed + 1).unwrap_or(u32::MAX));
            let next = at + skip;
            node.next_tick = Some(next);
            self.timers.push(next, index);
        }
        self.place(index);
    }

    // ---- what is asked ----

    /// Where the whole flow stands.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether no new messages come, and the rest is on its way.
    #[inline]
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// What is known of a node.
    #[inline]
    pub fn node(&self, node: u32) -> &NodeCore {
        &self.nodes[node as usize]
    }

    /// When somebody must look again.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Edges whose consumers are over, once each.
    #[inline]
    pub fn take_closed(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.to_close)
    }
}
