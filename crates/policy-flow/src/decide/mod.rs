//! The scheduler of a flow: which node has the next turn, and what the turn is for.
//!
//! Room: decisions. Knows times and reports; knows nothing of clocks, threads and messages.
//!
//! All workers of a flow use one [`Core`], under one lock.
//!
//! # Invariants
//! A node has at most one turn at a time. A node that can do something is in the run queue of that band, or has a turn. A node that waits for
//! room is in no run queue until there is some. When all run queues are empty, nothing can be done until a timer, a waker or a handle changes that: no worker spins.
//!
//! # Why no signal is lost
//! A signal that an edge has messages, or has room, may arrive while its node has a turn. The signal is kept (`ready`, `room_came`) and
//! checked when the turn is reported: a report never removes what came during the turn. What the turn itself saw (`more`, `blocked`) it
//! saw under the lock of the edge, where the other side sets its flag. Checked by `tests/loom/main.rs`.

mod bands;
mod ends;
mod log;
mod node;
mod outside;
mod preempt;
mod timers;

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
pub use log::{Log, Produced};
use node::{EdgeCore, Readiness};
pub use node::{EdgeFacts, NodeCore, NodeFacts};
use preempt::Preemption;
use timers::Timers;

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
    /// Messages that were emitted and not accepted are tried again.
    Flush,
    /// `on_end`.
    End,
}

/// Further edges of a turn: a node with many inputs that have few messages each needs no turn for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtraEdges {
    edges: [u32; 7],
    len: usize,
}

impl ExtraEdges {
    fn fill(&mut self, line: &mut VecDeque<u32>) {
        while self.len < self.edges.len()
            && let Some(edge) = line.pop_front()
        {
            self.edges[self.len] = edge;
            self.len += 1;
        }
    }

    /// The numbers of the edges.
    #[inline]
    pub fn edges(&self) -> &[u32] {
        &self.edges[..self.len]
    }
}

/// A turn of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a turn that is not reported keeps its node busy for ever"]
pub struct Turn {
    /// The node.
    pub node: u32,
    /// Its band.
    pub band: Band,
    /// What it is for.
    pub work: Work,
    /// Edges that are served after the first, while the budget lasts.
    pub extra: ExtraEdges,
    /// The limit of messages.
    pub budget: u32,
}

/// What a worker does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Pick {
    /// It gives this turn.
    Turn(Turn),
    /// Nothing until that time, or until it is woken.
    Idle(Option<Time>),
    /// Nothing any more: the nodes can be stopped.
    Over,
}

/// The outcome of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The work was not begun, because there was no room.
    pub refused: bool,
    /// More waits on the edge that was served.
    pub more: bool,
    /// So many of the further edges were served.
    pub extra_served: usize,
    /// The emitted messages do not fit, or no more would.
    pub blocked: bool,
    /// Some emitted messages are not accepted yet.
    pub unsent: bool,
    /// The node takes another message.
    pub accepts: bool,
    /// The node has no work in progress.
    pub done: bool,
    /// The answer of the source, if it was asked.
    pub produced: Option<Produced>,
    /// A call failed and is tried again at that time.
    pub backoff_until: Option<Time>,
    /// The error policy stops the node.
    pub broke: bool,
    /// A control message stopped, paused or resumed it.
    pub steered: Option<Event>,
    /// How long it took.
    pub took_nanos: u64,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            refused: false,
            more: false,
            extra_served: 0,
            blocked: false,
            unsent: false,
            accepts: true,
            done: true,
            produced: None,
            backoff_until: None,
            broke: false,
            steered: None,
            took_nanos: 0,
        }
    }
}

/// The state of the whole flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Turns are given.
    Running,
    /// No new messages; those on their way have until this time.
    Draining(Time),
    /// No more turns.
    Halted {
        /// Some nodes had not ended: the time was over, or the flow was stopped at once.
        late: bool,
    },
}

/// The scheduler of a flow.
pub struct Core {
    nodes: Vec<NodeCore>,
    edges: Vec<EdgeCore>,
    groups: Vec<Group>,
    bands: Bands,
    timers: Timers,
    phase: Phase,
    /// The number of nodes that have a turn now.
    running: usize,
    /// The number of nodes that are not over, without those that only steer.
    alive: usize,
    /// Edges into nodes that are over, for the driver to close.
    to_close: Vec<u32>,
    /// Groups to check: their members may have ended.
    to_check: VecDeque<u32>,
    preemption: Preemption,
}

impl Core {
    /// A flow that has not started. `order`: producers before consumers; `shares`: the turns of each band in a cycle.
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
            preemption: Preemption::default(),
        }
    }

    // ---- events ----

    /// `on_start` was called. If it failed and the policy says so, the node is over.
    pub fn started(&mut self, node: u32, outcome: &Outcome, log: &Log, now: Time) {
        self.running += 1;
        self.nodes[node as usize].running = true;
        self.nodes[node as usize].moves(Event::Started);
        if let Some(every) = self.nodes[node as usize].facts.cadence {
            let at = now + every;
            self.nodes[node as usize].next_tick = Some(at);
            self.timers.push(at, node);
        }
        // A start is reported as a turn without other work.
        let turn = Turn { node, band: Band::Normal, work: Work::Flush, extra: ExtraEdges::default(), budget: 0 };
        self.report(turn, outcome, log);
        if let Some(event) = self.nodes[node as usize].early_command.take() {
            self.command(node, event);
        }
    }

    /// The edge was empty and has messages.
    #[inline]
    pub fn filled(&mut self, edge: u32) {
        self.enqueue(edge, VecDeque::push_back);
    }

    /// Puts an edge that has messages into the queue of its target.
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
            self.preemption.control_arrived(self.running);
        }
        self.schedule_in(target, band);
    }

    /// The edge has room, and its producer waited for it.
    pub fn roomy(&mut self, edge: u32) {
        let source = self.edges[edge as usize].facts.from;
        let node = &mut self.nodes[source as usize];
        if node.running {
            node.room_came = true;
        } else if node.blocked {
            node.blocked = false;
            node.flush = true;
            self.schedule(source);
        }
    }

    /// Reports a turn that is over.
    pub fn report(&mut self, turn: Turn, outcome: &Outcome, log: &Log) {
        let Turn { node: index, work, extra, .. } = turn;
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
        node.counts.turns += u64::from(turn.budget > 0); // a start is no turn
        node.accepts = outcome.accepts;
        node.done = outcome.done;
        node.blocked = outcome.blocked;
        node.flush = false;
        // Room that came during the turn may have come after the turn found none.
        if or_planted!(core::mem::take(&mut node.room_came), "room-came-ignored" => false) && node.blocked {
            node.blocked = false;
            node.flush = true;
        }
        if let Some(until) = outcome.backoff_until {
            node.backoff_until = Some(until);
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
            // Work that was refused is still to be done.
            Work::Tick => node.tick_due |= undone,
            Work::Wake => node.woken |= undone,
            Work::End => node.end_called = !undone,
            _ => {}
        }
        if let Some(source) = &mut node.source {
            match (work, outcome.produced) {
                (_, Some(Produced::More)) => *source = Readiness::Ready,
                (_, Some(Produced::Idle)) => *source = Readiness::Idle,
                (_, Some(Produced::End)) => node.moves(Event::InputsEnded),
                // A source that was woken or had a tick may have messages. One with a cadence was asked in its tick.
                (Work::Wake | Work::Tick, None) if !undone => *source = Readiness::Ready,
                _ => {}
            }
            if node.is_paced() {
                node.source = Some(Readiness::Idle);
            }
        }
        if let Work::Serve(edge) | Work::Steer(edge) = work {
            // Edges that were not served keep their position; the others go to the back.
            extra.edges()[outcome.extra_served..]
                .iter()
                .rev()
                .for_each(|edge| self.enqueue(*edge, VecDeque::push_front));
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
            // Messages that it emitted before it failed are still delivered.
            node.breaking = true;
            self.steer(index, Event::InputsEnded);
        } else if outcome.broke {
            self.over(index, Event::Broke);
        } else if node.has_finished() {
            let event = if node.breaking { Event::Broke } else { Event::Finished };
            self.over(index, event);
        } else {
            self.schedule(index);
        }
        self.check_group_of(index);
        self.settle_ends();
    }

    // ---- decisions ----

    /// Picks the next turn.
    pub fn pick(&mut self, now: Time) -> Pick {
        if let Phase::Draining(until) = self.phase
            && now >= until
        {
            self.phase = Phase::Halted { late: true };
        }
        if self.alive == 0 && self.phase == Phase::Running {
            // Nodes that only steer have nothing left to steer.
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
        let mut extra = ExtraEdges::default();
        if let Work::Serve(_) = work {
            extra.fill(&mut node.ready[band as usize]);
            extra.edges().iter().for_each(|edge| self.edges[*edge as usize].queued = false);
        }
        node.running = true;
        node.room_came = false;
        self.running += 1;
        self.preemption.turn_given(band == Band::Control);
        Pick::Turn(Turn { node: index, band, work, extra, budget: node.facts.batch })
    }

    /// Whether running turns of other bands should end early, because control waits.
    #[inline]
    pub fn wants_preemption(&self) -> bool {
        self.preemption.is_requested()
    }

    /// Whether another worker would find a turn.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.bands.is_empty() && !matches!(self.phase, Phase::Halted { .. })
    }

    /// Puts a node into every run queue where it has something to do.
    fn schedule(&mut self, index: u32) {
        let candidate_bands = self.nodes[index as usize].candidate_bands();
        for band in Band::ALL {
            if candidate_bands[band as usize] {
                self.schedule_in(index, band);
            }
        }
    }

    fn schedule_in(&mut self, index: u32, band: Band) {
        let node = &mut self.nodes[index as usize];
        // A node that has a turn is queued when the turn is reported.
        if !node.running && !node.queued[band as usize] && node.can_act(band) {
            node.queued[band as usize] = true;
            self.bands.push(band, index);
        }
    }

    fn time_came(&mut self, index: u32, now: Time) {
        let node = &mut self.nodes[index as usize];
        if node.backoff_until.is_some_and(|until| until <= now) {
            node.backoff_until = None;
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
        self.schedule(index);
    }

    // ---- queries ----

    /// The state of the whole flow.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the flow drains.
    #[inline]
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// The state of a node.
    #[inline]
    pub fn node(&self, node: u32) -> &NodeCore {
        &self.nodes[node as usize]
    }

    /// The next time at which a worker must check.
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
