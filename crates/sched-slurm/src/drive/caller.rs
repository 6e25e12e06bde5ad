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

use sched_jobs::{AttemptId, Outcome, Reporter};

use super::cluster::CallError;
use super::table::{Attempt, Call, Change};
use super::{News, Shared};
use crate::batch::{key_of, serial_of};
use crate::decide::{Gone, Seen, Step, Verdict, after_answer, after_fate, is_ghost};
use crate::id::SlurmId;
use crate::key::Key;
use crate::rows::{Fate, Row};
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
    Change(Change),
}

impl Shared {
    /// Makes calls until the executor is dropped.
    pub(super) fn call_until_closed(&self) {
        loop {
            match self.next() {
                Next::Close => {
                    // No later process does it, and they would wait for their turn to do nothing. That is no reason to wait for a Slurm that does not answer.
                    if self.table().back_off_until.is_none() {
                        self.cancel_all();
                    }
                    return;
                }
                Next::Poll => self.poll(),
                Next::Kill => self.kill_overdue(),
                Next::CancelAll => self.cancel_all(),
                Next::Change(change) => self.change(change),
                Next::Call(Call::Submit(attempt_id)) => self.submit(attempt_id),
                Next::Call(Call::Cancel(attempt_id)) => self.cancel(attempt_id),
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
                if let Some(change) = table.next_change(&Change::FIRST) {
                    return Next::Change(change);
                }
                if !table.attempts.is_empty() && table.next_poll <= now {
                    return Next::Poll;
                }
                if let Some(change) = table.next_change(&Change::THEN) {
                    return Next::Change(change);
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
                if table.pauses_from > now {
                    until = Some(until.map_or(table.pauses_from, |at| at.min(table.pauses_from)));
                }
            }
            let pause = until.map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(now));
            table = self.work.wait_timeout(table, pause).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Notes whether Slurm answers. `false`: it did not.
    pub(super) fn answered<T>(&self, result: &Result<T, CallError>) -> bool {
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

    /// Takes the permit of an attempt; if it can be taken, the attempt ends like this. Else its script has begun, and says itself how it ends. Returns what
    /// may be left in the queue.
    pub(super) fn give_up(&self, attempt_id: AttemptId, outcome: Outcome) -> Option<(SlurmId, Key)> {
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
                attempt.id.map(|id| (id, key))
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
        let running = table.attempts.get(&attempt_id).and_then(|attempt| Some((attempt.id?, attempt.key)));
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

    /// Cancels those of these ids that are jobs of these attempts now: after a crash slurmctld gives an id that it has forgotten to another job, also of this run.
    fn cancel_ours(&self, ids: &[(SlurmId, Key)], now: bool) -> Result<(), CallError> {
        let rows = self.cluster.queue()?;
        let mut ours = Vec::new();
        for (id, key) in ids {
            let comment = match rows.iter().find(|row| row.id == *id) {
                Some(row) => Some(row.comment.clone()),
                None => self.cluster.fate(*id)?.map(|fate| fate.comment), // its script may still end
            };
            if comment.is_some_and(|comment| key_of(&comment, *id, self.folder.path()) == Some(*key)) {
                ours.push(*id);
            }
        }
        if ours.is_empty() { Ok(()) } else { self.cluster.cancel(&ours, now) }
    }

    fn kill_overdue(&self) {
        let now = Instant::now();
        let ids: Vec<(SlurmId, Key)> = {
            let mut table = self.table();
            let overdue =
                |attempt: &&mut Attempt| attempt.state == State::Began && attempt.kill_at.is_some_and(|at| at <= now);
            let attempts = table.attempts.values_mut().filter(overdue);
            let ids = attempts.filter_map(|attempt| {
                attempt.kill_at = Some(now + BACK_OFF_MAX); // once more, if that was lost
                Some((attempt.id?, attempt.key))
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

    /// Makes this change to all attempts that need it, by one call.
    fn change(&self, change: Change) {
        let wanted: Vec<(AttemptId, SlurmId, Key)> = {
            let table = self.table();
            let wanted = table.attempts.values().filter(|attempt| attempt.change() == Some(change));
            wanted.filter_map(|attempt| Some((attempt.attempt_id, attempt.id?, attempt.key))).collect()
        };
        let ids: Vec<SlurmId> = wanted.iter().map(|(_, id, _)| *id).collect();
        let keys = wanted.iter().map(|(.., key)| *key);
        if matches!(change, Change::Hold | Change::Stop) {
            // Before the call: a resumed run thaws them, also if this process is killed now.
            keys.clone().for_each(|key| self.folder.mark_frozen(key));
        }
        let result = match change {
            Change::Hold => self.cluster.hold(&ids, true),
            Change::Release => self.cluster.hold(&ids, false),
            Change::Stop => self.cluster.freeze(&ids, true),
            Change::Continue => self.cluster.freeze(&ids, false),
        };
        if !self.answered(&result) {
            return; // they still need it
        }
        let paused = {
            let mut table = self.table();
            for (attempt_id, id, _) in &wanted {
                // It may have been submitted again.
                if let Some(attempt) = table.attempts.get_mut(attempt_id).filter(|one| one.id == Some(*id)) {
                    attempt.changed(change);
                }
            }
            // The queue is read at once: what people are told comes from there. After a hold it says what has begun meanwhile, and only then the others are paused.
            table.poll_soon();
            table.next_poll = Instant::now();
            if change == Change::Hold { Vec::new() } else { table.take_paused() }
        };
        if matches!(change, Change::Release | Change::Continue) {
            keys.for_each(|key| self.folder.unmark_frozen(key));
        }
        if let Err(error) = result {
            self.warn_of_unchanged(change, &wanted, &error);
        }
        paused.iter().for_each(Reporter::paused);
    }

    /// This was refused for some of these: says so of those that it was not done to, as the queue says. Others may only have begun or ended.
    fn warn_of_unchanged(&self, change: Change, wanted: &[(AttemptId, SlurmId, Key)], error: &CallError) {
        let Ok(rows) = self.cluster.queue() else { return };
        let is_unchanged = |row: &Row| match change {
            Change::Hold => row.is_pending() && !row.is_held(),
            Change::Release => row.is_held(),
            Change::Stop => !row.is_pending() && !row.is_frozen(),
            Change::Continue => row.is_frozen(),
        };
        let verb = if matches!(change, Change::Hold | Change::Stop) { "paused" } else { "resumed" };
        for (attempt_id, id, _) in wanted {
            if rows.iter().any(|row| row.id == *id && is_unchanged(row)) {
                (self.listen)(*attempt_id, News::Warning(&format!("could not be {verb} in Slurm: {error}")));
            }
        }
    }

    /// Asks about the queue, and does what follows for each attempt.
    fn poll(&self) {
        let began = Instant::now();
        let result = self.cluster.queue();
        let took = began.elapsed();
        if !self.answered(&result) {
            return;
        }
        let rows = result.unwrap_or_else(|error| {
            self.table().trouble = Some(error.to_string());
            Vec::new()
        });
        let mut by_key: HashMap<Key, Vec<&Row>> = HashMap::new();
        for row in &rows {
            if let Some(key) = key_of(&row.comment, row.id, self.folder.path()) {
                by_key.entry(key).or_default().push(row);
            }
        }
        // Of several submissions of an attempt the last counts, else one that runs.
        let row_of = |key: Key, id: Option<SlurmId>| {
            let rows = by_key.get(&key)?;
            let is_last = rows.iter().find(|row| Some(row.id) == id);
            is_last.or_else(|| rows.iter().find(|row| !row.is_pending())).or(rows.first()).copied()
        };
        let mut missing = Vec::new();
        let mut table = self.table();
        // Left from submissions whose answers were lost: without a permit they do nothing, but they would wait for their turn.
        let is_useless = |key: &Key| !table.by_key.contains_key(key) && !self.folder.has_permit(*key);
        let useless = by_key
            .iter()
            .filter(|(key, _)| is_useless(key))
            .flat_map(|(key, rows)| rows.iter().filter(|row| row.is_pending()).map(|row| (row.id, *key)));
        let useless: Vec<(SlurmId, Key)> = useless.collect();
        // Those whose permit could not be taken because the folder could not be written to.
        let is_left = |one: &&Attempt| one.kill_at.is_some() && matches!(one.state, State::Wanted | State::Submitted);
        let left: Vec<_> = table.attempts.values().filter(is_left).map(|one| Call::Cancel(one.attempt_id)).collect();
        table.calls.extend(left);
        let (mut is_in_doubt, mut ghosts) = (false, Vec::new());
        for attempt in table.attempts.values_mut().filter(|attempt| attempt.was_called) {
            let seen = row_of(attempt.key, attempt.id).map_or(Seen::Absent, Seen::Row);
            let runs = |row: &Row| matches!(row.state.as_str(), "RUNNING" | "COMPLETING");
            let has_not_begun = attempt.state == State::Submitted && !attempt.is_frozen;
            attempt.launched = match seen {
                Seen::Row(row) if has_not_begun && runs(row) => attempt.launched.or_else(|| Some(Instant::now())),
                _ => None,
            };
            is_in_doubt |= attempt.launched.is_some();
            if attempt.launched.is_some_and(|since| is_ghost(since.elapsed(), attempt.launches)) {
                ghosts.push((attempt.attempt_id, attempt.launches));
            }
            match seen {
                Seen::Row(row) => (attempt.misses, attempt.row) = (0, Some(row.clone())),
                Seen::Absent => (attempt.misses, attempt.row) = (attempt.misses + 1, None),
            }
            is_in_doubt |= attempt.misses > 0 || attempt.state == State::Wanted;
            match after_answer(attempt.state, attempt.id, seen, attempt.misses) {
                Step::Wait => {}
                Step::Adopt(id) => {
                    (attempt.id, attempt.serial) =
                        (Some(id), attempt.row.as_ref().and_then(|row| serial_of(&row.comment)));
                    attempt.apply(Event::Accepted);
                }
                Step::AskFate => {
                    missing.push((attempt.attempt_id, attempt.key, attempt.id, attempt.state, attempt.misses))
                }
            }
        }
        table.to_cancel.extend(useless);
        table.polled(is_in_doubt, took);
        let paused = table.take_paused();
        drop(table);
        paused.iter().for_each(Reporter::paused);
        for (attempt_id, launches) in ghosts {
            self.submit_again(attempt_id, State::Submitted, launches + 1);
        }
        for (attempt_id, key, id, state, misses) in missing {
            self.missing(attempt_id, key, id, state, misses);
        }
    }

    /// An attempt is not in the queue any more, and there is no mark of its end.
    fn missing(&self, attempt_id: AttemptId, key: Key, id: Option<SlurmId>, state: State, misses: u32) {
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
        let key_of = |fate: &Fate| key_of(&fate.comment, id?, self.folder.path());
        let (was_cancelled, launches, serial) = match self.table().attempts.get(&attempt_id) {
            Some(attempt) => (attempt.kill_at.is_some(), attempt.launches, attempt.serial),
            None => return,
        };
        // Another array may have got the id, with the same first task.
        let is_ours = fate.as_ref().is_some_and(|fate| key_of(fate) == Some(key) && serial_of(&fate.comment) == serial);
        let in_prologue = self.folder.is_in_prologue(key);
        match after_fate(state, Gone { fate: fate.as_ref(), is_ours, misses, in_prologue, launches }) {
            Verdict::Wait => {}
            Verdict::Submit => self.submit_again(attempt_id, state, launches),
            Verdict::SubmitOnceMore => self.submit_again(attempt_id, state, launches + 1),
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
                if in_prologue {
                    self.folder.end_prologue(key);
                }
                attempt.apply(Event::Finished);
                let outcome = if was_cancelled { Outcome::Stopped } else { Outcome::failed(why) };
                attempt.report.ended(outcome);
            }
        }
    }

    /// An attempt in this state did not begin, and Slurm does not have it.
    fn submit_again(&self, attempt_id: AttemptId, state: State, launches: u32) {
        let mut table = self.table();
        let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
        if attempt.state != state {
            return;
        }
        if !self.folder.has_permit(attempt.key) {
            attempt.apply(Event::Started); // its mark of the start is not seen yet
            return;
        }
        attempt.apply(Event::Forgotten);
        (attempt.id, attempt.was_called, attempt.misses) = (None, false, 0);
        (attempt.launched, attempt.launches) = (None, launches);
        (attempt.is_held, attempt.is_stopped, attempt.was_frozen, attempt.row) = (false, false, false, None);
        self.folder.unmark_frozen(attempt.key);
        table.calls.push_back(Call::Submit(attempt_id));
    }
}
