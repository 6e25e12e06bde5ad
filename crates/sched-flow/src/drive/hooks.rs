//! The hooks of a node: how they are called, and what happens to the node when one fails.
//!
//! Room: driver. Knows the error policy; knows nothing of messages and edges.

use std::panic::{AssertUnwindSafe, catch_unwind};

use policy_flow::Outcome;

use super::cell::{Cell, Fatal, apply};
use crate::{
    error::{NodeError, OnError},
    message::Time,
    node::{
        cx::Cx,
        inlet::{Fate, panic_of},
        unit::{Hook, Unit, call_hook, note},
    },
};

impl Cell {
    /// Calls `on_start`.
    pub(crate) fn start(&mut self, now: Time) -> (Outcome, Fatal) {
        self.guarded(|cell| {
            cell.begin(now, false);
            let mut outcome = Outcome::default();
            let fate = cell.hook(Hook::Start);
            let fatal = apply(fate, &mut outcome);
            cell.finish(&mut outcome);
            (outcome, fatal)
        })
    }

    /// Calls `on_stop`, ends the tasks of the node, and drops messages that it could not send. Those, and the messages that it still holds, are lost.
    pub(crate) fn stop(&mut self, now: Time, was_started: bool) {
        self.begin(now, false);
        let Self { unit, cx, .. } = self;
        // The thread may be unwinding already: a second panic would abort the process.
        let mut safely = |what: &mut dyn FnMut(&mut dyn Unit, &mut Cx)| {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| what(&mut **unit, cx))) {
                note(&panic_of(panic), cx);
            }
        };
        if was_started {
            safely(&mut |unit, cx| {
                // Only counted. What could not be written at the end is lost, whatever the policy.
                if call_hook(unit, Hook::Stop, cx).is_err_and(|error| error.is_for_good()) {
                    cx.log.fail_for_good();
                }
            });
        }
        safely(&mut |unit, cx| {
            // A source took its messages from no edge, so they are not lost there.
            if !unit.is_source() {
                cx.log.lost += unit.unsent() as u64;
            }
            unit.discard();
        });
        self.cx.host.end();
        // Its tasks have ended: what it still holds now is lost.
        self.cx.log.lost += self.cx.in_flight.take();
    }

    pub(super) fn hook(&mut self, hook: Hook) -> Fate {
        match call_hook(&mut *self.unit, hook, &mut self.cx) {
            Ok(()) => {
                if matches!(hook, Hook::Tick | Hook::End) && !self.unit.is_source() {
                    self.failed = 0;
                }
                Fate::Continue
            }
            Err(error) => {
                if let Some(until) = self.tries_again(hook, &error) {
                    return Fate::BackOff(until);
                }
                let starts = matches!(hook, Hook::Start);
                let error = if starts { error.for_good() } else { error };
                let must_stop = error.is_for_good() && (starts || self.unit.is_source());
                if error.is_of_record() && self.on_error.has_dead_letters() {
                    self.unit.emit_dead_letter(&error, &mut self.cx);
                }
                self.fail(error, must_stop)
            }
        }
    }

    /// When a failed tick or end is tried again, if the policy says so. Until then the node takes no messages. There a node fails with what it gathered from messages, so the policy of messages applies.
    fn tries_again(&mut self, hook: Hook, error: &NodeError) -> Option<Time> {
        let OnError::Retry(retry) = &self.on_error else { return None };
        let is_tried = matches!(hook, Hook::Tick | Hook::End) && !error.is_of_record() && !self.unit.is_source();
        if !is_tried || self.failed >= retry.times {
            return None;
        }
        self.failed += 1;
        let until = self.cx.now + retry.pause(self.failed);
        self.cx.log.retries += 1;
        if hook == Hook::Tick {
            self.cx.tick_at(until);
        }
        Some(until)
    }

    /// Applies the policy after an error that belongs to no message. `must_stop`: the node stops, whatever the policy.
    pub(super) fn fail(&mut self, error: NodeError, must_stop: bool) -> Fate {
        if error.is_for_good() {
            self.cx.log.fail_for_good();
        }
        match stops(&self.on_error, error) {
            Fate::Continue if must_stop => Fate::StopNode,
            fate => fate,
        }
    }
}

/// What a policy does where there is no message to try again or to send as a dead letter.
pub(super) fn stops(policy: &OnError, error: NodeError) -> Fate {
    match policy {
        OnError::StopNode => Fate::StopNode,
        OnError::StopGraph => Fate::StopGraph(error),
        OnError::Retry(retry) if !matches!(*retry.then, OnError::Retry(_)) => stops(&retry.then, error),
        OnError::Skip | OnError::Retry(_) if error.is_for_good() => Fate::StopNode,
        OnError::Skip | OnError::DeadLetter | OnError::Retry(_) => Fate::Continue,
    }
}
