//! The loop of a worker: picks a turn, gives it, reports it; and sleeps when there is none.
//!
//! Room: driver.
//!
//! There is one loop. It runs on the thread of the caller, on several fibers, or for a harness.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Shared,
    signals::{Scheduler, Wakeups},
    workers::Member,
};
use policy_flow::{Log, NodeState, Outcome, Pick, Time, Turn, Work};

/// A fiber yields to others of its thread after so many turns.
const TURNS_BETWEEN_YIELDS: u32 = 8;

/// The virtual time of a turn while the flow drains.
const VIRTUAL_TURN: Duration = Duration::from_micros(1);

/// A node that gets so many ticks at one time in a harness would ask for them for ever.
pub(crate) const MAX_TICKS_AT_ONE_TIME: u32 = 10_000;

/// The kind of worker that runs the loop.
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
            let mut scheduler = self.signals.lock();
            scheduler.core.started(node, &outcome, &cell.cx.log, now);
            self.after_turn(&mut scheduler, node, &cell.cx.log, fatal, now);
            if scheduler.failure.is_some() {
                return;
            }
            if scheduler.core.node(node).state.is_over() {
                drop(scheduler);
                // The tasks of a node end with it.
                cell.cx.host.end();
            }
        }
        let mut scheduler = self.signals.lock();
        scheduler.started = true;
        if scheduler.shutdown_asked {
            scheduler.drain(self.clock.now() + self.drain_timeout);
            self.close_edges(&mut scheduler);
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

    /// Gives turns until there are no more; for a harness, until there are no more by its time. False if a node asks for ticks without end.
    pub(super) fn work<'scope>(&'scope self, mut worker: Worker<'scope, '_>) -> bool {
        let on_fiber = sched_tasks::current_task().is_some();
        let mut now = self.clock.now();
        let mut turns = 0u32;
        let mut ticks = 0u32;
        let mut scheduler = self.signals.lock();
        loop {
            // Yields between two turns: a worker that yields with a turn keeps a node waiting.
            if turns == TURNS_BETWEEN_YIELDS {
                turns = 0;
                if scheduler.core.has_ready() && worker.member().is_some_and(|member| member.leaves()) {
                    // The other worker may sleep.
                    let wakeups = scheduler.wake_if_ready();
                    self.unlock(scheduler, wakeups);
                    return true;
                }
                self.unlock(scheduler, Wakeups::NONE);
                // On a thread of its own no task waits for it, but the nursery around it may be cancelled.
                let yields = worker.member().is_none_or(Member::yields);
                if yields && (on_fiber || sched_tasks::is_cancelled()) {
                    sched_tasks::yield_now();
                }
                scheduler = self.signals.lock();
                now = self.clock.now();
            }
            match scheduler.core.pick(now) {
                Pick::Turn(turn) => {
                    if let (Worker::Until(_), Work::Tick) = (&worker, turn.work) {
                        ticks += 1;
                    }
                    let wakeups = scheduler.wake_if_ready();
                    self.unlock(scheduler, wakeups);
                    turns += 1;
                    if let Some(member) = worker.member() {
                        member.begins_turn(self);
                    }
                    (scheduler, now) = self.give(turn, now);
                    if let Some(member) = worker.member() {
                        member.ends_turn();
                    }
                    if ticks == MAX_TICKS_AT_ONE_TIME {
                        self.unlock(scheduler, Wakeups::NONE);
                        return false;
                    }
                    if self.clock.is_virtual() && scheduler.core.is_draining() {
                        // Other turns take no virtual time. Here they do, so that the drain timeout also ends a cycle that never becomes quiet.
                        now = now + VIRTUAL_TURN;
                        self.clock.jump(now);
                    }
                }
                Pick::Idle(until) => {
                    if let Worker::Until(end) = worker {
                        let Some(at) = until.filter(|at| *at <= end) else {
                            self.unlock(scheduler, Wakeups::NONE);
                            return true;
                        };
                        self.clock.jump(at);
                        ticks = 0;
                    } else if let Some(at) = until
                        && self.clock.is_virtual()
                    {
                        // Nothing happens before that time, so time advances to it. Other threads may make changes in between.
                        self.unlock(scheduler, Wakeups::NONE);
                        std::thread::yield_now();
                        self.clock.jump(at);
                        scheduler = self.signals.lock();
                    } else {
                        let kept = scheduler.sleepers.sleeps(until);
                        self.unlock(scheduler, Wakeups::NONE);
                        self.signals.wait(kept.map(|at| self.clock.until(at)));
                        scheduler = self.signals.lock();
                        scheduler.sleepers.woke(kept);
                    }
                    now = self.clock.now();
                }
                Pick::Over => {
                    let wakeups = scheduler.wake_all();
                    self.unlock(scheduler, wakeups);
                    return true;
                }
            }
        }
    }

    /// Gives a turn and reports it.
    fn give(&self, turn: Turn, began: Time) -> (MutexGuard<'_, Scheduler>, Time) {
        let node = turn.node;
        let mut cell = self.cells[node as usize].try_lock().unwrap_or_else(|error| match error {
            std::sync::TryLockError::Poisoned(poisoned) => poisoned.into_inner(),
            std::sync::TryLockError::WouldBlock => panic!("node {node} has two turns at a time"),
        });
        let (mut outcome, fatal): (Outcome, _) = cell.turn(turn, |edge| self.targets[edge as usize], began);
        let now = self.clock.now();
        outcome.took_nanos = now.nanos().saturating_sub(began.nanos());
        let Log { handled, errors, .. } = cell.cx.log;
        cell.cx.pace.learn(handled + errors, outcome.took_nanos);
        let mut scheduler = self.signals.lock();
        scheduler.core.report(turn, &outcome, &cell.cx.log);
        self.after_turn(&mut scheduler, node, &cell.cx.log, fatal, now);
        if scheduler.core.node(node).state.is_over() {
            drop(scheduler);
            // The tasks of a node end with it.
            cell.cx.host.end();
            scheduler = self.signals.lock();
        }
        (scheduler, now)
    }

    /// Does what a turn asked of the whole flow.
    fn after_turn(&self, scheduler: &mut Scheduler, node: u32, log: &Log, fatal: super::cell::Fatal, now: Time) {
        if let Some(error) = fatal {
            scheduler.failure.get_or_insert((node, error));
            scheduler.core.halt();
        }
        if log.shutdown {
            scheduler.drain(now + self.drain_timeout);
        }
        self.close_edges(scheduler);
    }

    /// Releases the lock; then wakes workers and drops discarded messages.
    pub(super) fn unlock(&self, mut scheduler: MutexGuard<'_, Scheduler>, wakeups: Wakeups) {
        self.signals.publish_preemption(&mut scheduler);
        let to_clean = std::mem::take(&mut scheduler.to_clean);
        drop(scheduler);
        self.signals.notify(wakeups);
        to_clean.iter().for_each(|edge| self.edges[*edge as usize].drop_discarded());
    }

    /// Closes edges into nodes that are over, and signals room to producers that waited there.
    pub(super) fn close_edges(&self, scheduler: &mut Scheduler) {
        loop {
            let closed = scheduler.core.take_closed();
            if closed.is_empty() {
                return;
            }
            for edge in closed {
                if self.edges[edge as usize].close() {
                    scheduler.core.roomy(edge);
                }
                scheduler.to_clean.push(edge);
            }
        }
    }

    /// Counts the error of a task that panicked or could not be started.
    pub(super) fn task_failed(signals: &super::signals::Signals, node: u32, error: &crate::error::NodeError) {
        let text: Arc<str> = error.to_string().into();
        signals.lock().core.note_error(node, text);
    }
}
