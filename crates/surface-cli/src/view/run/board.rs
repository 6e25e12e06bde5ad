//! The state of a run for display, from its events alone.
//!
//! Room: state.
//!
//! No clock and no terminal: events come in, counts and times go out. An event costs the same whether there are
//! ten jobs or a hundred thousand.
//!
//! # Invariant
//! The counts of each group are the states of its jobs; `running` holds the running jobs, and `ready` of a group its ready ones.
//!
//! # Why it holds
//! [`Board::put`] is the only function that changes a state, and moves the job from one count, and one list, to the other.
//! Checked by `counts_are_the_states_whatever_happens`.

use std::collections::HashMap;
use std::time::Duration;

use sched_jobs::{Followed, State, What};
use surface_jobfile::Plan;

use crate::view::text::clean;

/// How many jobs are in each state, by `State as usize`.
pub(crate) type Counts = [u32; 7];

/// Where one job is.
#[derive(Debug, Clone)]
struct JobEntry {
    job: Followed,
    group: u32,
    /// Its index in `running`, or in `ready` of its group.
    slot: u32,
    /// Since when it is ready, or runs.
    since: Duration,
    /// How long its attempt had run before this process started.
    earlier: Duration,
}

/// The jobs of one entry of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    /// `image[1..8]`
    pub(crate) label: String,
    /// Where its jobs are.
    pub(crate) counts: Counts,
    /// How many jobs it has.
    pub(crate) total: u32,
    /// Groups that have a job which one of these needs.
    pub(crate) needs: Vec<u32>,
    /// Its ready jobs, in no order.
    pub(crate) ready: Vec<u32>,
    /// When its first job started.
    pub(crate) began: Option<Duration>,
    /// When its last job ended, up to now.
    pub(crate) ended: Option<Duration>,
    /// How many attempts succeeded, and how long they took together.
    pub(crate) measured: (u32, Duration),
}

impl Group {
    pub(crate) fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    /// Jobs that have not ended.
    pub(crate) fn open(&self) -> u32 {
        let ended = [State::Succeeded, State::Failed, State::Cancelled].map(|state| self.count(state));
        self.total - ended.iter().sum::<u32>()
    }

    /// How long a job of it takes, as far as this run has shown.
    pub(crate) fn mean(&self) -> Option<Duration> {
        (self.measured.0 > 0).then(|| self.measured.1 / self.measured.0)
    }
}

/// What an event changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    /// Where the job was.
    pub(crate) from: State,
    /// Where it is.
    pub(crate) to: State,
    /// How long the attempt ran that ended with it.
    pub(crate) ran: Option<Duration>,
    /// The latest attempt.
    pub(crate) attempt: u32,
}

impl Change {
    /// Whether an attempt ran before the job ended.
    pub(crate) fn has_run(&self) -> bool {
        self.ran.is_some()
    }
}

/// The state of a run, from its events.
#[derive(Debug, Clone)]
pub(crate) struct Board {
    names: Vec<Box<str>>,
    entries: Vec<JobEntry>,
    groups: Vec<Group>,
    running: Vec<u32>,
    counts: Counts,
    progress: HashMap<u32, f32>,
    /// Grows when this run has new measurements of how long jobs take: not with each job, but when their number doubles.
    lessons: u64,
}

impl Board {
    /// A run of which nothing has happened yet.
    pub(crate) fn new(plan: &Plan) -> Board {
        let mut groups: Vec<Group> = Vec::new();
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut entries = Vec::with_capacity(plan.jobs.len());
        let mut members: Vec<(usize, usize)> = Vec::new(); // first and last job of each group
        for (index, job) in plan.jobs.iter().enumerate() {
            let group = *known.entry(&job.group).or_insert_with(|| {
                groups.push(Group::default());
                members.push((index, index));
                groups.len() as u32 - 1
            });
            groups[group as usize].total += 1;
            groups[group as usize].counts[State::Queued as usize] += 1;
            members[group as usize].1 = index;
            let since = Duration::ZERO;
            entries.push(JobEntry { job: Followed::default(), group, slot: 0, since, earlier: Duration::ZERO });
        }
        for (job, entry) in plan.jobs.iter().zip(&entries) {
            let mine = &mut groups[entry.group as usize].needs;
            for need in job.needs.iter().filter_map(|need| entries.get(*need)) {
                // Needs of one group are adjacent, so this keeps the list short; duplicates are removed below.
                if need.group != entry.group && mine.last() != Some(&need.group) {
                    mine.push(need.group);
                }
            }
        }
        for (group, &(first, last)) in groups.iter_mut().zip(&members) {
            group.needs.sort_unstable();
            group.needs.dedup();
            group.label = label(plan, first, last, group.total);
        }
        let mut counts = Counts::default();
        counts[State::Queued as usize] = entries.len() as u32;
        let names = plan.jobs.iter().map(|job| clean(&job.name).into()).collect();
        Board { names, entries, groups, running: Vec::new(), counts, progress: HashMap::new(), lessons: 0 }
    }

    /// Takes an event of a job. `None` if it is not a job of this run, or the event changes no state.
    pub(crate) fn take(&mut self, at: Duration, job: usize, what: What) -> Option<Change> {
        let entry = self.entries.get_mut(job)?;
        if let What::Progress(done) = what {
            self.progress.insert(job as u32, done);
        }
        let (since, ran_before) = (entry.since, entry.job.has_begun());
        let mut followed = entry.job;
        let (from, to) = followed.take(what)?;
        // A pause is not a new start: the time before it counts.
        let keeps = to == State::Paused || what == What::Resumed;
        if !keeps {
            entry.since = at;
        }
        let attempt = followed.attempt;
        self.put(job as u32, to);
        let entry = &mut self.entries[job];
        entry.job = followed;
        let ran = (ran_before && !keeps).then(|| at.saturating_sub(since) + std::mem::take(&mut entry.earlier));
        if ran.is_some() {
            self.progress.remove(&(job as u32));
        }
        let group = &mut self.groups[self.entries[job].group as usize];
        if to == State::Running {
            group.began.get_or_insert(at);
        }
        if to.is_terminal() {
            group.ended = Some(at);
        }
        if let (State::Succeeded, Some(ran)) = (to, ran) {
            group.measured = (group.measured.0 + 1, group.measured.1 + ran);
            self.lessons += u64::from(group.measured.0.is_power_of_two());
        }
        Some(Change { from, to, ran, attempt })
    }

    /// Sets the known state of a job, when the display starts late.
    pub(crate) fn know(&mut self, job: usize, state: State, attempt: u32) {
        if let Some(entry) = self.entries.get_mut(job) {
            entry.job.attempt = attempt;
            self.put(job as u32, state);
        }
    }

    /// A job whose next attempt runs already: it had run for this long before.
    pub(crate) fn ran_before(&mut self, job: usize, time: Duration) {
        if let Some(entry) = self.entries.get_mut(job) {
            entry.earlier = time;
        }
    }

    fn put(&mut self, job: u32, to: State) {
        let JobEntry { job: Followed { state: from, .. }, group, slot, .. } = self.entries[job as usize];
        let group = &mut self.groups[group as usize];
        for counts in [&mut self.counts, &mut group.counts] {
            counts[from as usize] -= 1;
            counts[to as usize] += 1;
        }
        let bag = match from {
            State::Ready => Some(&mut group.ready),
            State::Running => Some(&mut self.running),
            _ => None,
        };
        if let Some(bag) = bag {
            bag.swap_remove(slot as usize);
            if let Some(&moved) = bag.get(slot as usize) {
                self.entries[moved as usize].slot = slot;
            }
        }
        let bag = match to {
            State::Ready => Some(&mut group.ready),
            State::Running => Some(&mut self.running),
            _ => None,
        };
        let entry = &mut self.entries[job as usize];
        if let Some(bag) = bag {
            entry.slot = bag.len() as u32;
            bag.push(job);
        }
        entry.job.state = to;
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) fn group_of(&self, job: u32) -> usize {
        self.entries[job as usize].group as usize
    }

    pub(crate) fn name(&self, job: usize) -> &str {
        self.names.get(job).map_or("?", |name| name)
    }

    pub(crate) fn state(&self, job: u32) -> State {
        self.entries[job as usize].job.state
    }

    /// The running jobs, in no order.
    pub(crate) fn running(&self) -> &[u32] {
        &self.running
    }

    /// How long a job has been ready, or has run.
    pub(crate) fn since(&self, job: u32, now: Duration) -> Duration {
        let entry = &self.entries[job as usize];
        let earlier = if entry.job.state == State::Running { entry.earlier } else { Duration::ZERO };
        now.saturating_sub(entry.since) + earlier
    }

    pub(crate) fn progress(&self, job: u32) -> Option<f32> {
        self.progress.get(&job).copied()
    }

    pub(crate) fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    pub(crate) fn total(&self) -> usize {
        self.entries.len()
    }

    /// Jobs that have not ended.
    pub(crate) fn open(&self) -> u32 {
        let ended = [State::Succeeded, State::Failed, State::Cancelled].map(|state| self.count(state));
        self.entries.len() as u32 - ended.iter().sum::<u32>()
    }

    pub(crate) fn lessons(&self) -> u64 {
        self.lessons
    }
}

/// `compose`, `image[1..8]` if the values are numbers in a row, `test ×12` otherwise.
fn label(plan: &Plan, first: usize, last: usize, total: u32) -> String {
    let (first, last) = (&plan.jobs[first], &plan.jobs[last]);
    let group = clean(&first.group);
    if total == 1 {
        return clean(&first.name);
    }
    if let ([(_, from)], [(_, to)]) = (first.values.as_slice(), last.values.as_slice())
        && let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>())
        && to.checked_sub(from) == Some(i64::from(total) - 1)
    {
        return format!("{group}[{from}..{to}]");
    }
    format!("{group} ×{total}")
}
