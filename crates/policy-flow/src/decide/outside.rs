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
    /// Somebody used the waker of a node.
    pub fn woken(&mut self, node: u32) {
        // Also while it is being started: it may have given its waker away already.
        if !self.nodes[node as usize].state.is_over() {
            self.nodes[node as usize].woken = true;
            if self.nodes[node as usize].facts.band == Band::Control {
                self.rush.control_came(self.running);
            }
            self.place(node);
        }
    }

    /// No more messages from outside; what is on its way has until then.
    pub fn drain(&mut self, until: Time) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::Draining(until);
        self.timers.push_bare(until);
        for node in 0..self.nodes.len() as u32 {
            // What stands still cannot drain.
            self.steer(node, Event::Resumed);
            if self.nodes[node as usize].facts.source {
                self.steer(node, Event::InputsEnded);
            }
        }
        self.release_groups();
        self.settle_ends();
    }

    /// No more turns.
    pub fn halt(&mut self) {
        if !matches!(self.phase, Phase::Halted { .. }) {
            self.phase = Phase::Halted { late: self.alive > 0 };
        }
    }

    /// Somebody outside tells a node to stop, pause or go on.
    pub fn command(&mut self, node: u32, event: Event) {
        self.steer(node, event);
        self.settle_ends();
    }

    /// A node is told to stop, pause or go on.
    pub(super) fn steer(&mut self, node: u32, event: Event) {
        let core = &mut self.nodes[node as usize];
        if core.state == NodeState::Created {
            // Nothing undoes a stop.
            if core.early != Some(Event::InputsEnded) {
                core.early = Some(event);
            }
            return;
        }
        if core.state.is_over() {
            return;
        }
        core.moves(event);
        if event == Event::InputsEnded {
            core.resting = None; // what it would have tried again is gone
            self.forget_inputs(node);
        }
        self.place(node);
        self.check_group_of(node);
    }

    /// A node was stopped: the last thing that happens to it.
    pub fn stopped(&mut self, node: u32, log: &Log) {
        let core = &mut self.nodes[node as usize];
        core.moves(Event::Halted);
        core.count(log, 0);
    }

    /// Something of a node failed outside its turns.
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
        core.resting = None;
        self.place(node);
        true
    }

    /// Gives a node a tick as soon as it can have one, besides those of its cadence: a harness does so.
    pub fn tick(&mut self, node: u32) {
        self.nodes[node as usize].tick_due = true;
        self.place(node);
    }
}
