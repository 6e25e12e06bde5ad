//! Pause, resume, cancel, retry: for a job, for its subtree, for a part, or for all jobs.
//!
//! Room: decisions.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use hashbrown::HashSet;

use super::graph::{CANCELLING, EXTRA, Edge, NONE, PART, PAUSING, RESUMING};
use super::{Alarm, Core, Effect};
use crate::aging::Time;
use crate::error::{Cause, ControlError};
use crate::event::What;
use crate::state::{Move, State};

/// The jobs that a request applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This job.
    Job(u32),
    /// This job, and everything that needs it.
    Subtree(u32),
    /// The jobs of this part.
    Part(u32),
    /// All jobs.
    Run,
}

impl Core {
    /// The jobs that a request applies to, ancestors before their descendants where it matters.
    pub fn members(&self, scope: Scope) -> Vec<u32> {
        match scope {
            Scope::Job(id) => vec![id],
            Scope::Part(part) => self.part_jobs(part).collect(),
            Scope::Run => (0..self.admitted).collect(),
            Scope::Subtree(root) => {
                let mut seen: HashSet<u32> = [root].into_iter().collect();
                let (mut members, mut at) = (vec![root], 0);
                while let Some(&id) = members.get(at) {
                    at += 1;
                    let mut edge = self.nodes[id as usize].first_dependent;
                    while edge != NONE {
                        let Edge { dependent, next, .. } = self.edges[edge as usize];
                        if dependent < self.admitted && seen.insert(dependent) {
                            members.push(dependent);
                        }
                        edge = next;
                    }
                }
                members
            }
        }
    }

    /// The error for a request that the state of a job does not allow.
    pub fn not_now(&self, id: u32, request: &'static str) -> ControlError {
        // A job that was asked to end counts as cancelled for a pause, but it cannot be retried before it has ended.
        let is_over = self.is_cancelling(id) && request != "retry";
        let state = if is_over { State::Cancelled } else { self.state(id) };
        ControlError::NotNow { job: self.name(id).into_owned(), state, request }
    }

    /// Pauses; returns the running jobs, which are asked to pause and have not done so yet.
    ///
    /// # Errors
    /// If the scope is a single job whose state does not allow it.
    pub fn pause(&mut self, now: Time, scope: Scope) -> Result<Vec<u32>, ControlError> {
        let mut asked = Vec::new();
        for id in self.members(scope) {
            match self.state(id) {
                State::Queued => {
                    self.step(id, Move::Paused);
                    self.nodes[id as usize].paused_from = State::Queued;
                    self.emit(now, id, What::Paused);
                }
                State::Ready => {
                    self.leave_lane(now, id);
                    self.step(id, Move::Paused);
                    self.nodes[id as usize].paused_from = State::Ready;
                    self.emit(now, id, What::Paused);
                }
                State::Running if !self.nodes[id as usize].is(CANCELLING) => {
                    let node = &mut self.nodes[id as usize];
                    if !node.is(PAUSING) {
                        node.set(PAUSING, true);
                        let limit = u64::try_from(self.rules.pause_timeout.as_nanos()).unwrap_or(u64::MAX);
                        let at = now.saturating_add(limit);
                        self.alarms.push(Reverse((at, id, node.stamp, Alarm::PauseTimeout)));
                        self.effects.push(Effect::Pause(id));
                    }
                    asked.push(id);
                }
                State::Paused => {
                    self.nodes[id as usize].set(RESUMING, false);
                }
                _ if scope == Scope::Job(id) => return Err(self.not_now(id, "pause")),
                _ => {}
            }
        }
        Ok(asked)
    }

    /// A running job has stopped at a checkpoint, or is frozen. `false`: it is not to pause any more.
    pub fn paused(&mut self, now: Time, id: u32) -> bool {
        let node = &mut self.nodes[id as usize];
        if node.state != State::Running || !node.is(PAUSING) || node.is(CANCELLING) {
            return false;
        }
        node.set(PAUSING, false);
        node.stamp = node.stamp.wrapping_add(1); // its timeout is void
        node.paused_from = State::Running;
        self.step(id, Move::Paused);
        self.trim_held(id);
        let need = &self.needs[self.lanes.get(self.nodes[id as usize].lane).demand as usize];
        self.room.pause(need, self.cards.get(&id).copied().unwrap_or_default());
        self.emit(now, id, What::Paused);
        true
    }

    pub(super) fn pause_timed_out(&mut self, now: Time, id: u32) {
        let cause = Cause::PauseTimeout { waited: self.rules.pause_timeout };
        self.cancel_running(now, id, cause);
    }

    /// Resumes paused jobs in the state they were paused from.
    ///
    /// # Errors
    /// If the scope is a single job that is not paused.
    pub fn resume(&mut self, now: Time, scope: Scope) -> Result<(), ControlError> {
        let mut members = self.members(scope);
        members.sort_unstable(); // lanes need the earliest first
        for id in members {
            let node = &mut self.nodes[id as usize];
            match (node.state, node.paused_from) {
                (State::Paused, State::Running) if node.is(CANCELLING) || node.is(RESUMING) => {}
                (State::Paused, State::Running) => {
                    node.set(RESUMING, true);
                    self.resuming.push_back(id);
                }
                (State::Paused, from) => {
                    self.step(id, Move::Resumed(from));
                    self.emit(now, id, What::Resumed);
                    if from == State::Ready {
                        self.join_lane(now, id);
                    }
                }
                (State::Running, _) if node.is(PAUSING) => {
                    node.set(PAUSING, false);
                    node.stamp = node.stamp.wrapping_add(1);
                    self.effects.push(Effect::Resume(id));
                }
                _ if scope == Scope::Job(id) => return Err(self.not_now(id, "resume")),
                _ => {}
            }
        }
        // In a shared run this is allowed only while the usage of others is known: `pick` does it.
        if !self.room.is_shared {
            self.resume_waiting(now);
        }
        Ok(())
    }

    /// Gives resumed jobs their CPU slots. They come before new jobs, because they hold memory.
    #[inline]
    pub fn resume_waiting(&mut self, now: Time) {
        while let Some(&id) = self.resuming.front() {
            if !self.nodes[id as usize].is(RESUMING) {
                self.resuming.pop_front(); // it was paused again, or has ended
                continue;
            }
            let need = &self.needs[self.lanes.get(self.nodes[id as usize].lane).demand as usize];
            if !self.room.can_resume(need) {
                break;
            }
            self.room.resume(need, self.cards.get(&id).copied().unwrap_or_default());
            self.resuming.pop_front();
            self.nodes[id as usize].set(RESUMING, false);
            self.step(id, Move::Resumed(State::Running));
            self.effects.push(Effect::Resume(id));
            self.emit(now, id, What::Resumed);
        }
    }

    /// Whether a resumed job still waits for CPU slots, after `resume_waiting`: then no new job may take them.
    pub(super) fn has_resuming(&self) -> bool {
        !self.resuming.is_empty()
    }

    /// Cancels. A job that has ended stays as it is, so a second call changes nothing.
    pub fn cancel(&mut self, now: Time, scope: Scope) {
        self.cancel_for(now, scope, &Cause::Asked);
    }

    /// As [`cancel`](Self::cancel), with the cause that the cancelled jobs get.
    pub fn cancel_for(&mut self, now: Time, scope: Scope, cause: &Cause) {
        if self.open() == 0 {
            return;
        }
        for id in self.members(scope) {
            match self.state(id) {
                State::Succeeded | State::Failed | State::Cancelled => {}
                State::Running => self.cancel_running(now, id, cause.clone()),
                State::Paused if self.nodes[id as usize].paused_from == State::Running => {
                    self.cancel_running(now, id, cause.clone());
                }
                _ => {
                    self.drop_from_line(now, id);
                    self.end(now, id, Move::Cancelled, Some(cause.clone()));
                    self.cancel_dependents(now, id);
                }
            }
        }
    }

    fn cancel_running(&mut self, now: Time, id: u32, cause: Cause) {
        let node = &mut self.nodes[id as usize];
        if node.is(CANCELLING) {
            return;
        }
        node.set(CANCELLING, true);
        node.set(EXTRA, true);
        node.set(RESUMING, false);
        self.extras.entry(id).or_default().cause = Some(cause);
        self.effects.push(Effect::Cancel(id));
        self.cancel_dependents(now, id);
    }

    /// Retries a job that failed or was cancelled. Also retries its dependencies that failed or were cancelled, and the jobs that were cancelled
    /// because of any of these.
    ///
    /// # Errors
    /// If it neither failed nor was cancelled.
    pub fn retry(&mut self, now: Time, id: u32) -> Result<(), ControlError> {
        let ended_badly = |core: &Self, id: u32| matches!(core.state(id), State::Failed | State::Cancelled);
        if !ended_badly(self, id) {
            return Err(self.not_now(id, "retry"));
        }
        // Its dependencies must run first.
        let mut chosen: HashSet<u32> = [id].into_iter().collect();
        let (mut revived, mut at) = (vec![id], 0);
        while let Some(&one) = revived.get(at) {
            at += 1;
            revived.extend(self.needs_of(one).filter(|need| ended_badly(self, *need) && chosen.insert(*need)));
        }
        // Then the dependents that were cancelled for an ancestor, unless another dependency of theirs failed or was cancelled. A dependent is
        // checked whenever one of its dependencies is chosen; the last check decides.
        let mut at = 0;
        while let Some(&one) = revived.get(at) {
            at += 1;
            let mut edge = self.nodes[one as usize].first_dependent;
            while edge != NONE {
                let Edge { dependent, next, .. } = self.edges[edge as usize];
                edge = next;
                let for_ancestor = dependent < self.admitted
                    && self.state(dependent) == State::Cancelled
                    && matches!(self.cause(dependent), Some(Cause::Ancestor { .. }));
                if for_ancestor
                    && !chosen.contains(&dependent)
                    && self.needs_of(dependent).all(|need| chosen.contains(&need) || !ended_badly(self, need))
                {
                    chosen.insert(dependent);
                    revived.push(dependent);
                }
            }
        }
        revived.sort_unstable(); // lanes need the earliest first
        for &other in &revived {
            let how = if self.state(other) == State::Failed { Move::Retried } else { Move::Revived };
            self.step(other, how);
            let node = &mut self.nodes[other as usize];
            node.forget_end();
            if node.is(PART) {
                self.opens_in_part(other);
            }
            let attempt = self.attempt(other);
            if let Some(extra) = self.extras.get_mut(&other) {
                extra.cause = None;
                extra.spent = attempt;
            }
            self.emit(now, other, What::Revived);
        }
        for &other in &revived {
            let unmet = self.needs_of(other).filter(|need| self.state(*need) != State::Succeeded).count();
            self.nodes[other as usize].unmet = unmet as u32;
            if unmet == 0 {
                self.make_ready(now, other);
            }
        }
        Ok(())
    }
}
