//! What is known of each attempt that has not ended, and the calls that are to be made.
//!
//! Room: driver.
//!
//! # Invariant
//! At most one call to submit an attempt waits or is being made at a time.
//!
//! # Why it holds
//! `was_called` is set when such a call returns, and only what has it set is looked at by polls, which make the next call. Both are done by one thread.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use sched_jobs::process::Watched;
use sched_jobs::{AttemptId, Reporter};

use super::{Job, Stand};
use crate::batch::Batch;
use crate::id::SlurmId;
use crate::key::Key;
use crate::rows::Row;
use crate::state::{Event, State};

/// The most tasks of an array.
pub(super) const TASKS_MAX: usize = 1_000;

/// The shortest and the longest time between two questions about the queue.
const POLL_MIN: Duration = Duration::from_secs(1);
const POLL_MAX: Duration = Duration::from_secs(30);

/// The scheduler pauses jobs one after another. After the last, what waits is held as a whole: to freeze what runs first would free CPUs for it.
pub(super) const PAUSES_TOGETHER: Duration = Duration::from_millis(50);

/// An attempt that has not ended.
pub(super) struct Attempt {
    pub(super) attempt_id: AttemptId,
    pub(super) key: Key,
    pub(super) job: Job,
    pub(super) report: Reporter,
    pub(super) watched: Watched,
    pub(super) state: State,
    /// Its id in Slurm, if that is known.
    pub(super) id: Option<SlurmId>,
    /// Of which array it is a task: see [`Batch::serial`].
    pub(super) serial: Option<u64>,
    pub(super) node: Option<String>,
    /// The last row of the queue that was seen.
    pub(super) row: Option<Row>,
    /// Answers in a row that did not list it.
    pub(super) misses: u32,
    /// Since when Slurm says that it runs, while its permit is still there.
    pub(super) launched: Option<Instant>,
    /// How often Slurm ended a job of it on a node before it began.
    pub(super) launches: u32,
    /// A call to submit it has returned, or an earlier process made one: polls may look at it.
    pub(super) was_called: bool,
    /// It is to be frozen.
    pub(super) is_frozen: bool,
    /// Slurm was told to keep it from starting.
    pub(super) is_held: bool,
    /// Slurm was told to freeze it while it ran.
    pub(super) is_stopped: bool,
    /// An earlier process left it frozen: if it runs, it may be stopped.
    pub(super) was_frozen: bool,
    /// It was its turn to be submitted while it was to be frozen.
    pub(super) is_shelved: bool,
    /// It has not reported that it is paused, and reports that then, whatever Slurm has done.
    pub(super) pause_due: Option<Instant>,
    /// It is submitted alone: as a task of an array it was refused.
    pub(super) is_alone: bool,
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
            serial: None,
            node: None,
            row: None,
            misses: 0,
            launched: None,
            launches: 0,
            was_called: false,
            is_frozen: false,
            is_held: false,
            is_stopped: false,
            was_frozen: false,
            is_shelved: false,
            pause_due: None,
            is_alone: false,
            kill_at: None,
            marked_since: None,
        }
    }

    /// Moves it.
    pub(super) fn apply(&mut self, event: Event) {
        self.state = self.state.after(event).unwrap_or_else(|error| panic!("attempt {}: {error}", self.key));
    }

    /// Whether it may be submitted.
    pub(super) fn is_wanted(&self) -> bool {
        self.state == State::Wanted && self.kill_at.is_none()
    }

    /// Whether it has a node, as far as is known.
    fn is_on_node(&self) -> bool {
        self.state == State::Began || self.row.as_ref().is_some_and(|row| !row.is_pending())
    }

    /// What Slurm is to do, so that it is frozen as it should be.
    pub(super) fn change(&self) -> Option<Change> {
        self.id.filter(|_| self.kill_at.is_none())?;
        let on_node = self.is_on_node();
        match self.is_frozen {
            true if on_node => (!self.is_stopped).then_some(Change::Stop),
            true => (!self.is_held).then_some(Change::Hold),
            // What has a node is not queued again, so there is nothing to release.
            false if on_node => (self.is_stopped || self.was_frozen).then_some(Change::Continue),
            false => self.is_held.then_some(Change::Release),
        }
    }

    /// Slurm was told to do that.
    pub(super) fn changed(&mut self, change: Change) {
        match change {
            Change::Hold => self.is_held = true,
            Change::Stop => self.is_stopped = true,
            Change::Release => (self.is_held, self.was_frozen) = (false, false),
            Change::Continue => (self.is_held, self.is_stopped, self.was_frozen) = (false, false, false),
        }
    }

    /// Whether it can report that it is paused: nothing of it runs, and nothing begins.
    pub(super) fn is_paused(&self) -> bool {
        let is_settled = self.is_shelved || (self.id.is_some() && self.change().is_none());
        self.pause_due.is_some() && self.is_frozen && is_settled
    }

    /// Whether it is to be frozen, may run or begin in Slurm, and was not frozen there.
    pub(super) fn is_unpaused(&self) -> bool {
        let may_begin = self.state == State::Began || self.id.is_some() || self.was_called;
        self.is_frozen
            && may_begin
            && !self.is_shelved
            && self.kill_at.is_none()
            && (self.id.is_none() || self.change().is_some())
    }

    /// Where it stands.
    pub(super) fn stand(&self) -> Stand {
        let is_pending = match &self.row {
            Some(row) => row.is_pending(),
            None => true,
        };
        match self.state {
            _ if self.is_unpaused() => Stand::Unpaused,
            State::Began => Stand::Runs,
            _ if is_pending => Stand::Waits,
            _ => Stand::Runs,
        }
    }

    /// Whether both can be tasks of one array.
    fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.key.attempt, one.key.edition, one.job.command.grace, one.is_frozen, one.is_alone);
        of(self) == of(other) && !self.is_alone && !self.is_frozen && self.job.request == other.job.request
    }

    /// Where it stands, for people.
    pub(super) fn words(&self, trouble: Option<&str>) -> String {
        let id = self.id.map_or_else(String::new, |id| format!("Slurm job {id} "));
        let is_suspended = self.row.as_ref().is_some_and(Row::is_frozen);
        let runs = if is_suspended { "is suspended" } else { "is running" };
        let mut text = match (self.state, &self.node, &self.row) {
            (State::Began, Some(node), _) => format!("{id}{runs} on {node}"),
            (State::Began, None, _) => format!("{id}{runs}"),
            (_, _, Some(row)) => row.to_string(),
            (State::Submitted, ..) => format!("{id}waits in the queue of Slurm"),
            _ => "it is about to be submitted to Slurm".to_owned(),
        };
        if self.is_unpaused() {
            text += "; it is to be paused, and Slurm has not done that yet";
        }
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
}

/// What Slurm is to do with attempts that are paused or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// What waits does not begin.
    Hold,
    /// What waits may begin.
    Release,
    /// What runs is frozen.
    Stop,
    /// What is frozen runs on.
    Continue,
}

impl Change {
    /// Those that come before a look at the queue, and those after it: what begins while others are held is frozen with the rest.
    pub(super) const FIRST: [Self; 1] = [Self::Hold];
    pub(super) const THEN: [Self; 3] = [Self::Stop, Self::Release, Self::Continue];
}

/// All attempts that have not ended.
pub(super) struct Table {
    pub(super) attempts: HashMap<AttemptId, Attempt>,
    pub(super) by_key: HashMap<Key, AttemptId>,
    pub(super) calls: VecDeque<Call>,
    /// Jobs in Slurm that are to be cancelled, all by one call, and whose each was: an id may be given to another attempt meanwhile.
    pub(super) to_cancel: Vec<(SlurmId, Key)>,
    /// The most tasks of the next array: fewer after Slurm had no room for so many.
    pub(super) tasks_max: usize,
    pub(super) next_poll: Instant,
    /// Nothing is held or frozen before.
    pub(super) pauses_from: Instant,
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
            tasks_max: TASKS_MAX,
            next_poll: Instant::now() + POLL_MIN,
            pauses_from: Instant::now(),
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

    /// The attempts that are to be submitted, are like this one, and can be tasks of one array with it; and itself.
    pub(super) fn alike(&self, first: &Attempt) -> Vec<Key> {
        let others = self.calls.iter().filter_map(|call| match call {
            Call::Submit(id) => self.attempts.get(id),
            _ => None,
        });
        let others = others.filter(|other| other.is_wanted() && other.key != first.key && first.is_like(other));
        let mut keys: Vec<Key> = std::iter::once(first.key).chain(others.map(|other| other.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// These are submitted now.
    pub(super) fn take_calls(&mut self, batch: &Batch) {
        let Self { calls, attempts, .. } = self;
        let keys: HashSet<Key> = batch.keys().collect();
        calls.retain(|call| match call {
            Call::Submit(id) => attempts.get(id).is_some_and(|one| !keys.contains(&one.key)),
            _ => true,
        });
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

    /// A poll was made, which took so long. While nothing is in doubt polls become rarer: marks say more, and sooner. At most a fifth of the time is spent in them.
    pub(super) fn polled(&mut self, is_in_doubt: bool, took: Duration) {
        self.interval = if is_in_doubt { POLL_MIN } else { (self.interval * 3 / 2).min(POLL_MAX) };
        self.next_poll = Instant::now() + self.interval.max(took * 4);
    }

    /// The first of these changes that is to be made.
    pub(super) fn next_change(&self, of: &[Change]) -> Option<Change> {
        let waits = Instant::now() < self.pauses_from;
        let mut of = of.iter().copied().filter(|change| !waits || !matches!(change, Change::Hold | Change::Stop));
        of.find(|change| self.attempts.values().any(|attempt| attempt.change() == Some(*change)))
    }

    /// Those that can report that they are paused; each is returned once.
    pub(super) fn take_paused(&mut self) -> Vec<Reporter> {
        let paused = self.attempts.values_mut().filter(|attempt| attempt.is_paused());
        let reporter = |attempt: &mut Attempt| {
            attempt.pause_due = None;
            attempt.report.clone()
        };
        paused.map(reporter).collect()
    }

    /// When the first attempt that was asked to end is to be killed.
    pub(super) fn next_kill(&self) -> Option<Instant> {
        self.attempts.values().filter(|attempt| attempt.state == State::Began).filter_map(|one| one.kill_at).min()
    }
}
