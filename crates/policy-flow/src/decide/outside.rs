//! What happens to a flow outside its turns: a waker is used, a user gives a command, the flow drains or halts.
//!
//! Room: decisions.
//!
//! # Invariant
//! Nothing here gives a turn. A node that can do something after the change is in a run queue, or has a turn and is queued when that is reported.

use alloc::sync::Arc;

use super::{Core, Log, Phase, node::Readiness};
use crate::{
    policy::Band,
    state::{Event, NodeState},
    time::Time,
};

impl Core {
    /// The waker of a node was used.
    pub fn woken(&mut self, node: u32) {
        // Also during its start: it may already have given its waker away.
        if !self.nodes[node as usize].state.is_over() {
            self.nodes[node as usize].woken = true;
            if self.nodes[node as usize].facts.band == Band::Control {
                self.preemption.control_arrived(self.running);
            }
            self.schedule(node);
        }
    }

    /// Drains the flow: no more messages from outside, and those on their way have until this time.
    pub fn drain(&mut self, until: Time) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::Draining(until);
        self.timers.push_wakeup(until);
        for node in 0..self.nodes.len() as u32 {
            // A paused node cannot drain.
            self.steer(node, Event::Resumed);
            if self.nodes[node as usize].facts.source {
                self.steer(node, Event::InputsEnded);
            }
        }
        self.release_groups();
        self.settle_ends();
    }

    /// Stops the flow at once: no more turns.
    pub fn halt(&mut self) {
        if !matches!(self.phase, Phase::Halted { .. }) {
            self.phase = Phase::Halted { late: self.alive > 0 };
        }
    }

    /// Stops, pauses or resumes a node, from outside.
    pub fn command(&mut self, node: u32, event: Event) {
        self.steer(node, event);
        self.settle_ends();
    }

    /// Stops, pauses or resumes a node.
    pub(super) fn steer(&mut self, node: u32, event: Event) {
        let core = &mut self.nodes[node as usize];
        if core.state == NodeState::Created {
            // Nothing undoes a stop.
            if core.early_command != Some(Event::InputsEnded) {
                core.early_command = Some(event);
            }
            return;
        }
        if core.state.is_over() {
            return;
        }
        core.moves(event);
        if event == Event::InputsEnded {
            core.backoff_until = None; // the message that it would have tried again is dropped
            self.forget_inputs(node);
        }
        self.schedule(node);
        self.check_group_of(node);
    }

    /// `on_stop` of a node was called: its last event.
    pub fn stopped(&mut self, node: u32, log: &Log) {
        let core = &mut self.nodes[node as usize];
        core.moves(Event::Halted);
        core.count(log, 0);
    }

    /// Counts an error of a node outside its turns.
    pub fn note_error(&mut self, node: u32, error: Arc<str>) {
        let counts = &mut self.nodes[node as usize].counts;
        counts.errors += 1;
        counts.last_error = Some(error);
    }

    /// Asks a source once, though it is idle or backs off: a harness does so. False if it cannot be asked now, because it is not running or waits for room.
    pub fn ask(&mut self, node: u32) -> bool {
        let core = &mut self.nodes[node as usize];
        if core.source.is_none() || core.state != NodeState::Running || core.blocked {
            return false;
        }
        core.source = Some(Readiness::Ready);
        core.backoff_until = None;
        self.schedule(node);
        true
    }

    /// Gives a node a tick as soon as it can have one, besides those of its cadence: a harness does so.
    pub fn tick(&mut self, node: u32) {
        self.nodes[node as usize].tick_due = true;
        self.schedule(node);
    }
}
