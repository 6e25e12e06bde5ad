//! How attempts and jobs end, and what that does to dependents.
//!
//! Room: decisions. Knows the graph and what jobs hold; knows nothing of how jobs are chosen.
//!
//! # Invariant
//! Each life cycle of a job ends once. A success makes dependents ready; a failure is retried, or cancels all dependents.
//!
//! # Why it holds
//! `end` is the only function that makes a job terminal, and asserts that it was not.

use alloc::borrow::ToOwned;
use alloc::vec;
use core::cmp::Reverse;

use super::alarms::{Alarm, backoff};
use super::cards::CardSet;
use super::graph::{CANCELLING, CLAIMED, EXTRA, Edge, NONE, PART, PAUSING, RESUMING};
use super::{Core, Ended};
use crate::JobId;
use crate::aging::Time;
use crate::error::Cause;
use crate::event::What;
use crate::state::{Move, State};

impl Core {
    /// An attempt ended.
    #[inline]
    pub fn ended(&mut self, now: Time, id: u32, how: Ended) {
        self.release(id);
        self.conclude(now, id, how);
    }

    /// Frees what a running or paused job holds.
    fn release(&mut self, id: u32) {
        let at = core::mem::replace(&mut self.nodes[id as usize].held_at, NONE);
        assert_eq!(self.holding.swap_remove(at as usize), id, "a running job is in `holding`");
        let need = &self.needs[self.held.swap_remove(at as usize) as usize];
        let on = if need.cards.count == 0 { CardSet::NONE } else { self.cards.remove(&id).unwrap_or_default() };
        match self.nodes[id as usize].state {
            State::Running => self.room.give_back(need, on),
            State::Paused => self.room.give_back_paused(need, on),
            state => panic!("job {id} ended while {state}"),
        }
        if let Some(&moved) = self.holding.get(at as usize) {
            self.nodes[moved as usize].held_at = at;
        }
    }

    #[inline]
    pub(super) fn conclude(&mut self, now: Time, id: u32, how: Ended) {
        let node = &mut self.nodes[id as usize];
        let cancelling = node.is(CANCELLING);
        let to_pause = node.is(PAUSING) || (node.state == State::Paused && !node.is(RESUMING));
        node.flags &= !(PAUSING | CANCELLING | RESUMING | CLAIMED);
        node.stamp = node.stamp.wrapping_add(1); // a pending pause timeout is void
        node.slot = NONE; // another job will run there
        match how {
            _ if cancelling => {
                self.end(now, id, Move::Cancelled, None);
                self.cancel_dependents(now, id); // dependents that were submitted since it was asked to end
            }
            Ended::Succeeded => {
                self.end(now, id, Move::Succeeded, None);
                self.wake_dependents(now, id);
            }
            Ended::Failed(cause) => self.failed(now, id, cause, to_pause),
            Ended::Stopped => {
                // Without a request to stop, this is a failure of the job.
                let cause = Cause::Error("it stopped as if cancelled, but it was not asked to stop".to_owned());
                self.failed(now, id, cause, to_pause);
            }
        }
    }

    /// An attempt failed. If the job is `to_pause`, its next attempt waits until it is resumed.
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
            self.emit(now, id, What::Retrying { attempt, after_ms });
            if to_pause {
                self.step(id, Move::Paused);
                self.nodes[id as usize].paused_from = State::Queued;
                self.emit(now, id, What::Paused);
            }
            return;
        }
        let cause = extra.cause.take();
        self.end(now, id, Move::Failed, cause);
        self.cancel_dependents(now, id);
    }

    /// A job ends. The only function that makes a job terminal.
    pub(super) fn end(&mut self, now: Time, id: u32, how: Move, cause: Option<Cause>) {
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
            self.extras.entry(id).or_default().cause = None; // the error of an earlier attempt
        }
        let what = match how {
            Move::Succeeded => What::Succeeded,
            Move::Failed => What::Failed,
            _ => What::Cancelled,
        };
        self.emit(now, id, what);
    }

    /// A job succeeded: each dependent has one unmet need less.
    #[inline]
    pub(super) fn wake_dependents(&mut self, now: Time, id: u32) {
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
                woken.push(dependent); // jobs that are not admitted yet become ready when they are
            }
            edge = next;
        }
        // The list has the latest dependent first; lanes need the earliest first.
        for dependent in woken.drain(..).rev() {
            let node = &mut self.nodes[dependent as usize];
            match node.state {
                State::Queued => self.make_ready(now, dependent),
                // When it is resumed, it waits only for room.
                State::Paused if node.paused_from == State::Queued => node.paused_from = State::Ready,
                _ => {}
            }
        }
        self.woken = woken;
    }

    /// Cancels all direct and indirect dependents of a job that failed or was cancelled. Their cause names that job.
    pub(super) fn cancel_dependents(&mut self, now: Time, id: u32) {
        self.bad_ends += 1;
        // A job that was asked to end and still runs counts as cancelled: it cannot succeed any more.
        let state = Some(self.nodes[id as usize].state).filter(|state| state.is_terminal()).unwrap_or(State::Cancelled);
        let name = self.names.get(id).into_owned();
        let mut stack = vec![id];
        while let Some(at) = stack.pop() {
            let mut edge = self.nodes[at as usize].first_dependent;
            while edge != NONE {
                let Edge { dependent, next, .. } = self.edges[edge as usize];
                edge = next;
                if self.nodes[dependent as usize].state.is_terminal() || dependent >= self.admitted {
                    continue; // an incomplete batch that needs it is refused by `seal`
                }
                let cause = Cause::Ancestor { id: JobId(id), name: name.clone(), state };
                self.drop_from_line(now, dependent);
                self.end(now, dependent, Move::Cancelled, Some(cause));
                stack.push(dependent);
            }
        }
    }

    /// Removes a job that does not run from its lane, and makes its alarms void, before it ends.
    pub(super) fn drop_from_line(&mut self, now: Time, id: u32) {
        if self.nodes[id as usize].state == State::Ready {
            self.leave_lane(now, id);
        } else {
            let node = &mut self.nodes[id as usize];
            node.stamp = node.stamp.wrapping_add(1);
        }
    }
}
