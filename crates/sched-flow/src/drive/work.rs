//! What a worker does: picks a turn, gives it, reports it; and sleeps when there is none.
//!
//! Room: drive. Both drivers are this loop: once on the caller's thread, or on several fibers.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Shared,
    crew::Member,
    signals::{Mind, Rings},
};
use policy_flow::{Log, NodeState, Outcome, Pick, Time, Turn, Work};

/// A fiber gives way to others of its thread after so many turns.
const TURNS_BETWEEN_YIELDS: u32 = 8;

/// What a turn costs in virtual time, while the flow drains.
const VIRTUAL_TURN: Duration = Duration::from_micros(1);

/// A node that a harness gives so many ticks at the same time will ask for them for ever.
pub(crate) const MOST_TICKS_AT_ONE_TIME: u32 = 10_000;

/// Who runs the loop.
pub(super) enum Worker<'scope, 'env> {
    /// The only worker, on the thread of the caller.
    Alone,
    /// One of several, each on a fiber.
    Member(Member<'scope, 'env>),
    /// A harness: the loop ends when nothing more can happen by this time. Time moves on only that far.
    Until(Time),
}

impl<'scope, 'env> Worker<'scope, 'env> {
    fn member(&mut self) -> Option<&mut Member<'scope, 'env>> {
        match self {
            Worker::Member(member) => Some(member),
            Worker::Alone | Worker::Until(_) => None,
        }
    }
}

impl Shared {
    /// Calls `on_start`, producers first.
    pub(super) fn start(&self) {
        self.clock.begin();
        for &node in &self.order {
            let now = self.clock.now();
            let mut cell = self.cells[node as usize].lock().unwrap_or_else(PoisonError::into_inner);
            let (outcome, fatal) = cell.start(now);
            let mut mind = self.signals.lock();
            mind.core.started(node, &outcome, &cell.cx.log, now);
            self.after_turn(&mut mind, node, &cell.cx.log, fatal, now);
            if mind.failure.is_some() {
                return;
            }
            if mind.core.node(node).state.is_over() {
                drop(mind);
                // What a node started dies with it.
                cell.cx.host.end();
            }
        }
        let mut mind = self.signals.lock();
        mind.started = true;
        if mind.shutdown_asked {
            mind.drain(self.clock.now() + self.drain_timeout);
            self.close_edges(&mut mind);
        }
    }

    /// Calls `on_stop`, consumers first.
    pub(super) fn stop(&self) {
        for &node in self.order.iter().rev() {
            let state = self.signals.lock().core.node(node).state;
            let mut cell = self.cells[node as usize].lock().unwrap_or_else(PoisonError::into_inner);
            cell.stop(self.clock.now(), state != NodeState::Created);
            self.signals.lock().core.stopped(node, &cell.cx.log);
        }
    }

    /// Gives turns until there will be none, or no more by the time that a harness gives. False if a node asks for ticks without end.
    pub(super) fn work<'scope>(&'scope self, mut worker: Worker<'scope, '_>) -> bool {
        let on_fiber = sched_tasks::current_task().is_some();
        let mut now = self.clock.now();
        let mut turns = 0u32;
        let mut ticks = 0u32;
        let mut mind = self.signals.lock();
        loop {
            // Between two turns: who gives way with a turn in its hand keeps a node waiting.
            if turns == TURNS_BETWEEN_YIELDS {
                turns = 0;
                if mind.core.has_ready() && worker.member().is_some_and(|member| member.leaves()) {
                    // The other one may sleep.
                    let rings = mind.ring_if_ready();
                    self.unlock(mind, rings);
                    return true;
                }
                self.unlock(mind, Rings::NONE);
                // On a thread of its own nobody waits for it, but the nursery round it may be cancelled.
                let gives_way = worker.member().is_none_or(Member::gives_way);
                if gives_way && (on_fiber || sched_tasks::is_cancelled()) {
                    sched_tasks::yield_now();
                }
                mind = self.signals.lock();
                now = self.clock.now();
            }
            match mind.core.pick(now) {
                Pick::Turn(turn) => {
                    if let (Worker::Until(_), Work::Tick) = (&worker, turn.work) {
                        ticks += 1;
                    }
                    let rings = mind.ring_if_ready();
                    self.unlock(mind, rings);
                    turns += 1;
                    if let Some(member) = worker.member() {
                        member.begins_turn(self);
                    }
                    (mind, now) = self.give(turn, now);
                    if let Some(member) = worker.member() {
                        member.ends_turn();
                    }
                    if ticks == MOST_TICKS_AT_ONE_TIME {
                        self.unlock(mind, Rings::NONE);
                        return false;
                    }
                    if self.clock.is_virtual() && mind.core.is_draining() {
                        // Turns take no virtual time; but a circle that never becomes quiet must be given up some day.
                        now = now + VIRTUAL_TURN;
                        self.clock.jump(now);
                    }
                }
                Pick::Idle(until) => {
                    if let Worker::Until(end) = worker {
                        let Some(at) = until.filter(|at| *at <= end) else {
                            self.unlock(mind, Rings::NONE);
                            return true;
                        };
                        self.clock.jump(at);
                        ticks = 0;
                    } else if let Some(at) = until
                        && self.clock.is_virtual()
                    {
                        // Nothing happens before then, so then is now. Whoever has something to say gets in between.
                        self.unlock(mind, Rings::NONE);
                        std::thread::yield_now();
                        self.clock.jump(at);
                        mind = self.signals.lock();
                    } else {
                        let kept = mind.sleepers.sleeps(until);
                        self.unlock(mind, Rings::NONE);
                        self.signals.wait(kept.map(|at| self.clock.until(at)));
                        mind = self.signals.lock();
                        mind.sleepers.woke(kept);
                    }
                    now = self.clock.now();
                }
                Pick::Over => {
                    let rings = mind.ring_all();
                    self.unlock(mind, rings);
                    return true;
                }
            }
        }
    }

    /// Gives a turn and reports it.
    fn give(&self, turn: Turn, began: Time) -> (MutexGuard<'_, Mind>, Time) {
        let node = turn.node;
        let mut cell = self.cells[node as usize].try_lock().unwrap_or_else(|error| match error {
            std::sync::TryLockError::Poisoned(poisoned) => poisoned.into_inner(),
            std::sync::TryLockError::WouldBlock => panic!("node {node} has two turns at a time"),
        });
        let (mut outcome, fatal): (Outcome, _) = cell.turn(turn, |edge| self.places[edge as usize], began);
        let now = self.clock.now();
        outcome.took_nanos = now.nanos().saturating_sub(began.nanos());
        let Log { handled, errors, .. } = cell.cx.log;
        cell.cx.pace.learn(handled + errors, outcome.took_nanos);
        let mut mind = self.signals.lock();
        mind.core.report(turn, &outcome, &cell.cx.log);
        self.after_turn(&mut mind, node, &cell.cx.log, fatal, now);
        if mind.core.node(node).state.is_over() {
            drop(mind);
            // What a node started dies with it.
            cell.cx.host.end();
            mind = self.signals.lock();
        }
        (mind, now)
    }

    /// What a turn asked of the whole flow.
    fn after_turn(&self, mind: &mut Mind, node: u32, log: &Log, fatal: super::cell::Fatal, now: Time) {
        if let Some(error) = fatal {
            mind.failure.get_or_insert((node, error));
            mind.core.halt();
        }
        if log.shutdown {
            mind.drain(now + self.drain_timeout);
        }
        self.close_edges(mind);
    }

    /// Lets go of the lock; then rings, and drops what closed edges held.
    pub(super) fn unlock(&self, mut mind: MutexGuard<'_, Mind>, rings: Rings) {
        self.signals.tell_rush(&mut mind);
        let to_sweep = std::mem::take(&mut mind.to_sweep);
        drop(mind);
        self.signals.ring(rings);
        to_sweep.iter().for_each(|edge| self.edges[*edge as usize].sweep());
    }

    /// Closes edges into nodes that are over, and tells whoever waited there.
    pub(super) fn close_edges(&self, mind: &mut Mind) {
        loop {
            let closed = mind.core.take_closed();
            if closed.is_empty() {
                return;
            }
            for edge in closed {
                if self.edges[edge as usize].close() {
                    mind.core.roomy(edge);
                }
                mind.to_sweep.push(edge);
            }
        }
    }

    /// A task of a node panicked, or could not be started.
    pub(super) fn task_failed(signals: &super::signals::Signals, node: u32, error: &crate::error::NodeError) {
        let text: Arc<str> = error.to_string().into();
        signals.lock().core.note_error(node, text);
    }
}
