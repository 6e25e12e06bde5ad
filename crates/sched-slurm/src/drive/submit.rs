//! Submitting attempts: alone, or as tasks of an array.
//!
//! Room: driver.
//!
//! # Invariant
//! What was refused or had no room is called again or given up; no call to submit is lost.
//!
//! # Why it holds
//! [`Table::take_calls`](super::table::Table::take_calls) takes the calls of one batch, and each answer to that batch handles all of its keys.

use std::sync::atomic::Ordering;

use sched_jobs::{AttemptId, Cause, Outcome, Reporter};

use super::Shared;
use super::cluster::CallError;
use super::table::{Call, TASKS_MAX};
use crate::batch::Batch;
use crate::id::SlurmId;
use crate::key::Key;
use crate::request::{self, Submission};
use crate::state::{Event, State};

impl Shared {
    pub(super) fn submit(&self, attempt_id: AttemptId) {
        let Some(submission) = self.next_submission(attempt_id) else { return };
        let result = self.cluster.submit(&submission);
        self.answered(&result);
        let batch = &submission.batch;
        match result {
            Ok(job) => {
                let mut table = self.table();
                table.tasks_max = table.tasks_max.max(batch.count() * 2).min(TASKS_MAX);
                drop(table);
                batch.keys().for_each(|key| self.submitted(key, Some((batch.id(key, job), batch.serial()))));
            }
            // The next answer about the queue lists them, or they are submitted again.
            Err(CallError::Unanswered(_)) => batch.keys().for_each(|key| self.submitted(key, None)),
            // When others have ended there is room. There may be less than for all.
            Err(CallError::Full(_)) => {
                self.table().tasks_max = (batch.count() / 2).max(1);
                self.call_again(batch, false);
            }
            // It may be the array that is refused.
            Err(CallError::Refused(_)) if batch.is_array() => self.call_again(batch, true),
            Err(CallError::Refused(why)) => {
                if let Some(attempt) = self.table().attempts.get_mut(&attempt_id) {
                    attempt.was_called = true;
                }
                let why = format!("Slurm refuses it: {why}");
                self.give_up(attempt_id, Outcome::Failed(Cause::Permanent(why)));
            }
        }
    }

    /// What is submitted when it is the turn of this attempt: it, and those like it.
    fn next_submission(&self, attempt_id: AttemptId) -> Option<Submission> {
        let mut table = self.table();
        if let Some(attempt) = table.attempts.get_mut(&attempt_id).filter(|one| one.is_frozen && one.is_wanted()) {
            attempt.is_shelved = true; // to resume it makes the call again
            let paused = table.take_paused();
            drop(table);
            paused.iter().for_each(Reporter::paused);
            return None;
        }
        let attempt = table.attempts.get(&attempt_id).filter(|attempt| attempt.state == State::Wanted)?;
        if attempt.kill_at.is_some() {
            return None; // the call to cancel it is in the queue
        }
        let (key, job) = (attempt.key, attempt.job.clone());
        if let Some(why) = table.refused.clone() {
            drop(table);
            self.give_up(attempt_id, Outcome::failed(why));
            return None;
        }
        let mut keys = table.alike(attempt);
        keys.truncate(table.tasks_max);
        let batch = match keys.len() {
            0 | 1 => Batch::one(key),
            _ => {
                drop(table);
                let size_max = self.array_size_max();
                table = self.table();
                // It may be too far from the first of them.
                let serial = self.serial.fetch_add(1, Ordering::Relaxed);
                let list_max = self.cluster.task_list_max();
                let batch =
                    Batch::of(keys, size_max, list_max, serial).filter(|batch| batch.keys().any(|one| one == key));
                batch.unwrap_or_else(|| Batch::one(key))
            }
        };
        table.take_calls(&batch);
        drop(table);
        let (folder, command) = (self.folder.path(), &job.command);
        let log = (self.log)(attempt_id);
        let description = request::describe(&self.site, &job.request, &batch, &self.run, folder, &log, command.grace);
        let script = if batch.is_array() { self.folder.array_script() } else { self.folder.script(key) };
        Some(Submission { batch, description, script })
    }

    /// It does not change while slurmctld runs, so it is asked for once.
    fn array_size_max(&self) -> u32 {
        if let Some(known) = self.array_size_max.get() {
            return *known;
        }
        match self.cluster.array_size_max() {
            Ok(size) => *self.array_size_max.get_or_init(|| size),
            Err(_) => 1, // the submission has the same trouble, and says so
        }
    }

    /// A call to submit an attempt has returned; with an id it was accepted.
    fn submitted(&self, key: Key, accepted: Option<(SlurmId, Option<u64>)>) {
        let mut table = self.table();
        let Some(attempt_id) = table.by_key.get(&key).copied() else { return };
        let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
        (attempt.was_called, attempt.misses) = (true, 0);
        let Some((id, serial)) = accepted else { return };
        attempt.apply(Event::Accepted);
        (attempt.id, attempt.serial) = (Some(id), serial);
    }

    /// Nothing of it was submitted.
    fn call_again(&self, batch: &Batch, alone: bool) {
        let mut table = self.table();
        for key in batch.keys() {
            let Some(attempt_id) = table.by_key.get(&key).copied() else { continue };
            if let Some(attempt) = table.attempts.get_mut(&attempt_id) {
                attempt.is_alone |= alone;
            }
            table.calls.push_back(Call::Submit(attempt_id));
        }
    }
}
