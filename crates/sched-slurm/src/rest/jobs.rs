//! Jobs in an answer of slurmrestd.
//!
//! Room: surface.
//!
//! # Invariant
//! A task that Slurm has is never said to be gone because a list of tasks was cut.
//!
//! # Why it holds
//! slurmrestd cuts a list of more than [`TASK_LIST_MAX`] characters. No array is submitted with a longer one, and a shorter one rarely becomes longer: tasks start in order.
//! Where one is cut nevertheless, a task behind the cut has the fate of the list.

use serde::Deserialize;

use crate::id::SlurmId;
use crate::rows::{Fate, Row};

/// A job, or the tasks of an array that still wait.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    job_id: Option<u64>,
    array_job_id: Option<u64>,
    array_task_id: Option<u32>,
    array_task_string: Option<String>,
    job_state: Option<String>,
    state_reason: Option<String>,
    state_description: Option<String>,
    nodes: Option<String>,
    start_time: Option<i64>,
    name: Option<String>,
    comment: Option<String>,
    /// Who submitted it.
    pub user_id: Option<u32>,
    /// The same by name.
    pub user_name: Option<String>,
}

/// States in which a job is not in the queue any more: `/jobs` lists it for some minutes.
const OVER: [&str; 10] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
];

impl Job {
    /// Whether it is in the queue.
    pub fn is_queued(&self) -> bool {
        !self.job_state.as_deref().is_some_and(|state| OVER.contains(&state))
    }

    /// Whether it is this job, or has that task among others.
    pub fn has(&self, id: SlurmId) -> bool {
        match (id.task, self.array_job_id.filter(|job| *job != 0)) {
            (None, None) => self.job_id == Some(id.job),
            (Some(task), Some(job)) if job == id.job => match self.array_task_id {
                Some(own) => own == task,
                None => self.tasks().0.contains(&task) || self.may_have(task),
            },
            _ => false,
        }
    }

    /// Whether its list of tasks is cut before the place where this one would be.
    fn may_have(&self, task: u32) -> bool {
        let (tasks, is_cut) = self.tasks();
        is_cut && self.array_task_id.is_none() && tasks.last().is_none_or(|last| *last < task)
    }

    /// The tasks that wait, and whether the list is cut.
    fn tasks(&self) -> (Vec<u32>, bool) {
        self.array_task_string.as_deref().map(tasks).unwrap_or_default()
    }

    /// One row for itself, or for each of its tasks that are known.
    pub fn rows(&self) -> Vec<Row> {
        match (self.array_job_id.filter(|job| *job != 0), self.array_task_id) {
            (Some(job), Some(task)) => vec![self.row(SlurmId { job, task: Some(task) })],
            (Some(job), None) => {
                self.tasks().0.into_iter().map(|task| self.row(SlurmId { job, task: Some(task) })).collect()
            }
            (None, _) => self.job_id.map(|job| self.row(job.into())).into_iter().collect(),
        }
    }

    fn row(&self, id: SlurmId) -> Row {
        let known = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Row {
            id,
            state: self.job_state.clone().unwrap_or_default(),
            reason: known(&self.state_description).or(self.state_reason.clone()).unwrap_or_default(),
            node: known(&self.nodes),
            start: self.start_time.and_then(utc),
            name: self.name.clone().unwrap_or_default(),
            comment: self.comment.clone().unwrap_or_default(),
        }
    }
}

/// What became of a job, given all that Slurm knows under its number. A task that may be in the part of a list that is cut has the fate of that list: it is not gone.
pub fn fate(id: SlurmId, jobs: &[Job]) -> Option<Fate> {
    match jobs.iter().find(|job| job.has(id)) {
        Some(job) => Some(job.row(id).into()),
        None if id.task.is_some() => {
            let of_array = jobs.iter().filter(|job| job.array_job_id == Some(id.job));
            Fate::of_task(id, of_array.flat_map(Job::rows).collect())
        }
        None => None,
    }
}

/// The most characters of a list of tasks that slurmrestd does not cut.
pub const TASK_LIST_MAX: usize = 60;

/// The numbers in a list of tasks as `0-3,7,10-18:2%4`, and whether it is cut: then it ends with dots, and the number before them may be cut, too.
pub fn tasks(list: &str) -> (Vec<u32>, bool) {
    let list = list.split('%').next().unwrap_or_default();
    let whole = list.trim_end_matches('.');
    let is_cut = whole.len() < list.len();
    let whole = if is_cut { whole.rsplit_once(',').map_or("", |(whole, _)| whole) } else { whole };
    let range = |part: &str| -> Option<(u32, u32, u32)> {
        let (ends, step) = part.split_once(':').map_or((part, "1"), |(ends, step)| (ends, step));
        let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
        Some((first.parse().ok()?, last.parse().ok()?, step.parse().ok().filter(|step| *step > 0)?))
    };
    let ranges = whole.split(',').filter_map(range);
    // Slurm's own limit of such a number; no list makes this program allocate more.
    let numbers = ranges.flat_map(|(first, last, step)| (first..=last.min(TASK_MAX)).step_by(step as usize));
    (numbers.collect(), is_cut)
}

/// The greatest `MaxArraySize` is 4000001.
const TASK_MAX: u32 = 4_000_000;

/// A time since 1970 as people write it; 0 is no time.
fn utc(seconds: i64) -> Option<String> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    let (mut days, in_day) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= if is_leap(year) { 366 } else { 365 } {
        days -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (in_day / 3_600, in_day / 60 % 60, in_day % 60);
    Some(format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1))
}
