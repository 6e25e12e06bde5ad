//! What is known of each attempt that has not ended, and the calls that are to be made.
//!
//! Room: driver.
//!
//! # Invariant
//! At most one call to submit an attempt waits or is being made at a time.
//!
//! # Why it holds
//! `was_called` is set when such a call returns, and only what has it set is looked at by polls, which make the next call. Both are done by one thread.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use sched_jobs::process::Watched;
use sched_jobs::{AttemptId, Reporter};

use super::Job;
use crate::key::Key;
use crate::rows::Row;
use crate::state::{Event, State};

/// The shortest and the longest time between two questions about the queue.
const POLL_MIN: Duration = Duration::from_secs(1);
const POLL_MAX: Duration = Duration::from_secs(30);

/// An attempt that has not ended.
pub(super) struct Attempt {
    pub(super) attempt_id: AttemptId,
    pub(super) key: Key,
    pub(super) job: Job,
    pub(super) report: Reporter,
    pub(super) watched: Watched,
    pub(super) state: State,
    /// Its id in Slurm, if that is known.
    pub(super) id: Option<u64>,
    pub(super) node: Option<String>,
    /// The last row of the queue that was seen.
    pub(super) row: Option<Row>,
    /// Answers in a row that did not list it.
    pub(super) misses: u32,
    /// A call to submit it has returned, or an earlier process made one: polls may look at it.
    pub(super) was_called: bool,
    pub(super) is_frozen: bool,
    /// It was asked to end, and is killed then.
    pub(super) kill_at: Option<Instant>,
    /// Since when its end is marked, while its outputs are not to be seen here.
    pub(super) marked_since: Option<Instant>,
}

impl Attempt {
    pub(super) fn new(attempt_id: AttemptId, key: Key, job: Job, report: Reporter, watched: Watched) -> Self {
        Self {
            attempt_id,
            key,
            job,
            report,
            watched,
            state: State::Wanted,
            id: None,
            node: None,
            row: None,
            misses: 0,
            was_called: false,
            is_frozen: false,
            kill_at: None,
            marked_since: None,
        }
    }

    /// Moves it.
    pub(super) fn apply(&mut self, event: Event) {
        self.state = self.state.after(event).unwrap_or_else(|error| panic!("attempt {}: {error}", self.key));
    }

    /// Where it stands, for people.
    pub(super) fn words(&self, trouble: Option<&str>) -> String {
        let id = self.id.map_or_else(String::new, |id| format!("Slurm job {id} "));
        let mut text = match (self.state, &self.node, &self.row) {
            (State::Began, Some(node), _) => format!("{id}is running on {node}"),
            (State::Began, None, _) => format!("{id}is running"),
            (_, _, Some(row)) => row.to_string(),
            (State::Submitted, ..) => format!("{id}waits in the queue of Slurm"),
            _ => "it is about to be submitted to Slurm".to_owned(),
        };
        if let Some(trouble) = trouble {
            text += &format!("; {trouble}");
        }
        text
    }
}

/// A call that the caller is to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Submit(AttemptId),
    Cancel(AttemptId),
    /// To freeze it or not, as `is_frozen` says by then.
    Freeze(AttemptId),
}

/// All attempts that have not ended.
pub(super) struct Table {
    pub(super) attempts: HashMap<AttemptId, Attempt>,
    pub(super) by_key: HashMap<Key, AttemptId>,
    pub(super) calls: VecDeque<Call>,
    /// Jobs in Slurm that are to be cancelled, all by one call.
    pub(super) to_cancel: Vec<u64>,
    pub(super) next_poll: Instant,
    interval: Duration,
    /// Until then no call is made: the last was not answered.
    pub(super) back_off_until: Option<Instant>,
    pub(super) back_off: Duration,
    /// What keeps calls from being made, in words.
    pub(super) trouble: Option<String>,
    pub(super) refused: Option<String>,
    pub(super) has_no_grace: bool,
    pub(super) is_closing: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            attempts: HashMap::new(),
            by_key: HashMap::new(),
            calls: VecDeque::new(),
            to_cancel: Vec::new(),
            next_poll: Instant::now() + POLL_MIN,
            interval: POLL_MIN,
            back_off_until: None,
            back_off: Duration::ZERO,
            trouble: None,
            refused: None,
            has_no_grace: false,
            is_closing: false,
        }
    }
}

impl Table {
    pub(super) fn insert(&mut self, attempt: Attempt) {
        self.by_key.insert(attempt.key, attempt.attempt_id);
        self.attempts.insert(attempt.attempt_id, attempt);
    }

    /// Takes out an attempt that has ended: only what was taken out is reported.
    pub(super) fn remove(&mut self, attempt_id: AttemptId) -> Option<Attempt> {
        let attempt = self.attempts.remove(&attempt_id)?;
        self.by_key.remove(&attempt.key);
        Some(attempt)
    }

    /// Something is in doubt: the next poll comes soon.
    pub(super) fn poll_soon(&mut self) {
        self.interval = POLL_MIN;
        self.next_poll = self.next_poll.min(Instant::now() + POLL_MIN);
    }

    /// A poll was made. While nothing is in doubt polls become rarer: marks say more, and sooner.
    pub(super) fn polled(&mut self, is_in_doubt: bool) {
        self.interval = if is_in_doubt { POLL_MIN } else { (self.interval * 3 / 2).min(POLL_MAX) };
        self.next_poll = Instant::now() + self.interval;
    }

    /// When the first attempt that was asked to end is to be killed.
    pub(super) fn next_kill(&self) -> Option<Instant> {
        self.attempts.values().filter(|attempt| attempt.state == State::Began).filter_map(|one| one.kill_at).min()
    }
}
