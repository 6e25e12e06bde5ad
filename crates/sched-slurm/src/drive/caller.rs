//! The thread that talks to Slurm: one call at a time.
//!
//! Room: driver.
//!
//! # Invariants
//! - One question about the queue serves all attempts, however many there are.
//! - An attempt is given up only after its permit was taken.
//!
//! # Why a single thread
//! A question that is answered after a submission has returned lists that job, or the job is gone. With two threads the answer could be older than the submission, and
//! every new job would look lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sched_jobs::{AttemptId, Cause, Outcome};

use super::cluster::CallError;
use super::table::{Attempt, Call};
use super::{News, Shared};
use crate::decide::{Seen, Step, Verdict, after_answer, after_fate};
use crate::key::Key;
use crate::request::{self, Submission};
use crate::rows::Row;
use crate::state::{Event, State};

/// The first and the longest pause after a call that was not answered.
const BACK_OFF_MIN: Duration = Duration::from_millis(500);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// What the thread does next.
enum Next {
    Close,
    Call(Call),
    Poll,
    Kill,
    CancelAll,
}

impl Shared {
    /// Makes calls until the executor is dropped.
    pub(super) fn call_until_closed(&self) {
        loop {
            match self.next() {
                Next::Close => {
                    self.cancel_all(); // no later process does it, and they would wait for their turn to do nothing
                    return;
                }
                Next::Poll => self.poll(),
                Next::Kill => self.kill_overdue(),
                Next::CancelAll => self.cancel_all(),
                Next::Call(Call::Submit(attempt_id)) => self.submit(attempt_id),
                Next::Call(Call::Cancel(attempt_id)) => self.cancel(attempt_id),
                Next::Call(Call::Freeze(attempt_id)) => self.freeze(attempt_id),
            }
        }
    }

    fn next(&self) -> Next {
        let mut table = self.table();
        loop {
            if table.is_closing {
                return Next::Close;
            }
            let now = Instant::now();
            // To give up what has not begun needs no answer of Slurm.
            if let Some(at) = table.calls.iter().position(|call| matches!(call, Call::Cancel(_))) {
                return table.calls.remove(at).map_or(Next::Poll, Next::Call);
            }
            let resting = table.back_off_until.filter(|until| *until > now);
            if resting.is_none() {
                if !table.to_cancel.is_empty() {
                    return Next::CancelAll;
                }
                if table.next_kill().is_some_and(|at| at <= now) {
                    return Next::Kill;
                }
                if !table.attempts.is_empty() && table.next_poll <= now {
                    return Next::Poll;
                }
                if let Some(call) = table.calls.pop_front() {
                    return Next::Call(call);
                }
            }
            let mut until = resting;
            if resting.is_none() {
                until = table.next_kill();
                if !table.attempts.is_empty() {
                    until = Some(until.map_or(table.next_poll, |at| at.min(table.next_poll)));
                }
            }
            let pause = until.map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(now));
            table = self.work.wait_timeout(table, pause).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Notes whether Slurm answers. `false`: it did not.
    fn answered<T>(&self, result: &Result<T, CallError>) -> bool {
        let mut table = self.table();
        let trouble = match result {
            Err(CallError::Unanswered(why)) => Some(format!("Slurm does not answer: {why}")),
            Err(CallError::Full(why)) => Some(format!("Slurm takes no more jobs now: {why}")),
            _ => None,
        };
        if trouble.is_some() {
            table.trouble = trouble;
            table.back_off = (table.back_off * 2).clamp(BACK_OFF_MIN, BACK_OFF_MAX);
            table.back_off_until = Some(Instant::now() + table.back_off);
            table.poll_soon();
            return false;
        }
        (table.trouble, table.back_off, table.back_off_until) = (None, Duration::ZERO, None);
        true
    }

    fn submit(&self, attempt_id: AttemptId) {
        let submission = {
            let table = self.table();
            let refused = table.refused.clone();
            let Some(attempt) = table.attempts.get(&attempt_id).filter(|attempt| attempt.state == State::Wanted) else {
                return;
            };
            if attempt.kill_at.is_some() {
                return; // the call to cancel it is in the queue
            }
            if let Some(why) = refused {
                drop(table);
                self.give_up(attempt_id, Outcome::failed(why));
                return;
            }
            self.submission(attempt)
        };
        let result = self.cluster.submit(&submission);
        self.answered(&result);
        let mut table = self.table();
        if matches!(result, Err(CallError::Full(_))) {
            table.calls.push_back(Call::Submit(attempt_id)); // when others have ended there is room
            return;
        }
        let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
        attempt.was_called = true;
        attempt.misses = 0;
        match result {
            Ok(id) => {
                attempt.apply(Event::Accepted);
                attempt.id = Some(id);
                if attempt.is_frozen {
                    table.calls.push_back(Call::Freeze(attempt_id));
                }
            }
            Err(CallError::Unanswered(_)) => {} // the next answer about the queue lists it, or it is submitted again
            Err(CallError::Refused(why) | CallError::Full(why)) => {
                drop(table);
                let why = format!("Slurm refuses it: {why}");
                self.give_up(attempt_id, Outcome::Failed(Cause::Permanent(why)));
            }
        }
    }

    fn submission(&self, attempt: &Attempt) -> Submission {
        let (key, folder, command) = (attempt.key, self.folder.path(), &attempt.job.command);
        let log = (self.log)(attempt.attempt_id);
        let request = &attempt.job.request;
        let options = request::options(&self.site, request, key, &self.run, folder, &log, command.grace);
        Submission { key, options, script: self.folder.script(key) }
    }

    /// Takes the permit of an attempt; if it can be taken, the attempt ends like this. Else its script has begun, and says itself how it ends. Returns the id of what
    /// may be left in the queue.
    fn give_up(&self, attempt_id: AttemptId, outcome: Outcome) -> Option<u64> {
        let key = self.table().attempts.get(&attempt_id)?.key;
        let is_ours = self.folder.revoke(key);
        let mut table = self.table();
        let attempt = table.attempts.get_mut(&attempt_id)?;
        match is_ours {
            Ok(true) => {
                attempt.apply(Event::Revoked);
                let attempt = table.remove(attempt_id)?;
                drop(table);
                attempt.report.ended(outcome);
                attempt.id
            }
            Ok(false) => {
                attempt.apply(Event::Started);
                None
            }
            // The folder cannot be written to: nothing is certain, so it stays as it is until it can.
            Err(error) => {
                table.trouble = Some(format!("{}: {error}", self.folder.path().display()));
                table.poll_soon();
                None
            }
        }
    }

    fn cancel(&self, attempt_id: AttemptId) {
        let has_begun = match self.table().attempts.get(&attempt_id) {
            Some(attempt) => attempt.state == State::Began,
            None => return,
        };
        let left = if has_begun { None } else { self.give_up(attempt_id, Outcome::Stopped) };
        let mut table = self.table();
        let running = table.attempts.get(&attempt_id).and_then(|attempt| attempt.id);
        table.to_cancel.extend(left.or(running));
    }

    /// Cancels in Slurm what was given up, and asks to end what has begun: one call for all.
    fn cancel_all(&self) {
        let ids = std::mem::take(&mut self.table().to_cancel);
        if ids.is_empty() {
            return;
        }
        let result = self.cancel_ours(&ids, false);
        if !self.answered(&result) {
            self.table().to_cancel.extend(ids);
        }
    }

    /// Cancels those of these ids that are jobs of this run now: after a crash slurmctld gives an id that it has forgotten to another job.
    fn cancel_ours(&self, ids: &[u64], now: bool) -> Result<(), CallError> {
        let rows = self.cluster.queue()?;
        let mut ours = Vec::new();
        for id in ids {
            let comment = match rows.iter().find(|row| row.id == *id) {
                Some(row) => Some(row.comment.clone()),
                None => self.cluster.fate(*id)?.map(|fate| fate.comment), // its script may still end
            };
            if comment.is_some_and(|comment| Key::of_comment(&comment, self.folder.path()).is_some()) {
                ours.push(*id);
            }
        }
        if ours.is_empty() { Ok(()) } else { self.cluster.cancel(&ours, now) }
    }

    fn kill_overdue(&self) {
        let now = Instant::now();
        let ids: Vec<u64> = {
            let mut table = self.table();
            let overdue =
                |attempt: &&mut Attempt| attempt.state == State::Began && attempt.kill_at.is_some_and(|at| at <= now);
            let attempts = table.attempts.values_mut().filter(overdue);
            let ids = attempts.filter_map(|attempt| {
                attempt.kill_at = Some(now + BACK_OFF_MAX); // once more, if that was lost
                attempt.id
            });
            let ids = ids.collect();
            table.poll_soon();
            ids
        };
        if !ids.is_empty() {
            let result = self.cancel_ours(&ids, true);
            self.answered(&result);
        }
    }

    fn freeze(&self, attempt_id: AttemptId) {
        let (id, frozen, has_begun) = match self.table().attempts.get(&attempt_id) {
            Some(attempt) => (attempt.id, attempt.is_frozen, attempt.state == State::Began),
            None => return,
        };
        let Some(id) = id else { return }; // it is frozen when it is submitted
        let mut result = self.cluster.freeze(id, frozen, has_begun);
        if matches!(result, Err(CallError::Refused(_))) {
            result = self.cluster.freeze(id, frozen, !has_begun); // it may just have begun
        }
        if !self.answered(&result) {
            self.push(Call::Freeze(attempt_id));
        } else if let Err(error) = result {
            let verb = if frozen { "paused" } else { "resumed" };
            (self.listen)(attempt_id, News::Warning(&format!("could not be {verb} in Slurm: {error}")));
        }
    }

    /// Asks about the queue, and does what follows for each attempt.
    fn poll(&self) {
        let result = self.cluster.queue();
        if !self.answered(&result) {
            return;
        }
        let rows = result.unwrap_or_else(|error| {
            self.table().trouble = Some(error.to_string());
            Vec::new()
        });
        let mut by_key: HashMap<Key, &Row> = HashMap::new();
        for row in &rows {
            if let Some(key) = Key::of_comment(&row.comment, self.folder.path()) {
                // Of several submissions of an attempt the one that runs counts.
                let known = by_key.entry(key).or_insert(row);
                if known.is_pending() && !row.is_pending() {
                    *known = row;
                }
            }
        }
        let mut missing = Vec::new();
        let mut table = self.table();
        // Left from submissions whose answers were lost: without a permit they do nothing, but they would wait for their turn.
        let is_useless = |(key, row): &(&Key, &&Row)| {
            row.is_pending() && !table.by_key.contains_key(key) && !self.folder.has_permit(**key)
        };
        let useless: Vec<u64> = by_key.iter().filter(is_useless).map(|(_, row)| row.id).collect();
        // Those whose permit could not be taken because the folder could not be written to.
        let is_left = |one: &&Attempt| one.kill_at.is_some() && matches!(one.state, State::Wanted | State::Submitted);
        let left: Vec<_> = table.attempts.values().filter(is_left).map(|one| Call::Cancel(one.attempt_id)).collect();
        table.calls.extend(left);
        let mut is_in_doubt = false;
        for attempt in table.attempts.values_mut().filter(|attempt| attempt.was_called) {
            let seen = by_key.get(&attempt.key).map_or(Seen::Absent, |row| Seen::Row(row));
            match seen {
                Seen::Row(row) => (attempt.misses, attempt.row) = (0, Some(row.clone())),
                Seen::Absent => (attempt.misses, attempt.row) = (attempt.misses + 1, None),
            }
            is_in_doubt |= attempt.misses > 0 || attempt.state == State::Wanted;
            match after_answer(attempt.state, attempt.id, seen, attempt.misses) {
                Step::Wait => {}
                Step::Adopt(id) => {
                    attempt.id = Some(id);
                    attempt.apply(Event::Accepted);
                }
                Step::AskFate => {
                    missing.push((attempt.attempt_id, attempt.key, attempt.id, attempt.state, attempt.misses))
                }
            }
        }
        table.to_cancel.extend(useless);
        table.polled(is_in_doubt);
        drop(table);
        for (attempt_id, key, id, state, misses) in missing {
            self.missing(attempt_id, key, id, state, misses);
        }
    }

    /// An attempt is not in the queue any more, and there is no mark of its end.
    fn missing(&self, attempt_id: AttemptId, key: Key, id: Option<u64>, state: State, misses: u32) {
        if self.folder.end(key, true).is_some() {
            return; // the watcher reads it
        }
        let fate = match id.map(|id| self.cluster.fate(id)) {
            None => None,
            Some(result) => {
                if !self.answered(&result) {
                    return;
                }
                result.unwrap_or_default()
            }
        };
        let is_ours = fate.as_ref().is_some_and(|fate| Key::of_comment(&fate.comment, self.folder.path()) == Some(key));
        let was_cancelled = self.table().attempts.get(&attempt_id).is_some_and(|attempt| attempt.kill_at.is_some());
        match after_fate(state, fate.as_ref(), is_ours, misses) {
            Verdict::Wait => {}
            Verdict::Submit => {
                let mut table = self.table();
                let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
                if attempt.state != state {
                    return;
                }
                attempt.apply(Event::Forgotten);
                (attempt.id, attempt.was_called, attempt.misses) = (None, false, 0);
                table.calls.push_back(Call::Submit(attempt_id));
            }
            Verdict::Fail(why) => {
                self.give_up(attempt_id, Outcome::failed(why));
            }
            Verdict::Lost(why) => {
                if self.folder.end(key, true).is_some() {
                    return;
                }
                let lost = {
                    let mut table = self.table();
                    if table.attempts.get(&attempt_id).is_none_or(|attempt| attempt.state != State::Began) {
                        return;
                    }
                    table.remove(attempt_id)
                };
                let Some(mut attempt) = lost else { return };
                attempt.apply(Event::Finished);
                let outcome = if was_cancelled { Outcome::Stopped } else { Outcome::failed(why) };
                attempt.report.ended(outcome);
            }
        }
    }
}
