//! The attempts of one submission: one, or the tasks of a job array.
//!
//! Room: values.
//!
//! # Invariant
//! The comment of a job in Slurm and the number of its task give the key of its attempt.
//!
//! # Why it holds
//! All attempts of an array have the same numbers of attempt and edition. The number of a task is that of the job less the first one's, and the comment has the rest. A file
//! with a list of the tasks is not needed, so nothing can be lost between such a file and a submission.

use std::path::Path;

use crate::id::SlurmId;
use crate::key::Key;

/// The attempts of one submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    first: Key,
    /// The others' jobs, rising.
    others: Vec<u32>,
    /// Tells this submission from others with the same first attempt.
    serial: u64,
}

impl Batch {
    /// One attempt.
    pub fn one(key: Key) -> Self {
        Self { first: key, others: Vec::new(), serial: 0 }
    }

    /// Those of these attempts, all at different jobs, that can go together with the one at the lowest job; `size_max` is one more than the greatest number that a task may have,
    /// `list_max` the most characters of the list of them; no two submissions of a run have the same `serial`.
    pub fn of(mut keys: Vec<Key>, size_max: u32, list_max: usize, serial: u64) -> Option<Self> {
        keys.sort_unstable_by_key(|key| key.job);
        let first = *keys.first()?;
        let fits = |key: &&Key| {
            (key.attempt, key.edition) == (first.attempt, first.edition) && key.job - first.job < size_max.max(1)
        };
        let mut others: Vec<u32> = keys[1..].iter().filter(fits).map(|key| key.job).collect();
        let length = |others: &[u32]| tasks(first.job, others).len();
        if length(&others) > list_max {
            // The list grows with each of them, so the most that fit are found by halving.
            let (mut few, mut many) = (0, others.len());
            while few + 1 < many {
                let middle = (few + many) / 2;
                if length(&others[..middle]) > list_max { many = middle } else { few = middle }
            }
            others.truncate(few);
        }
        Some(Self { first, others, serial })
    }

    /// Its keys.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let others = self.others.iter().map(|&job| Key { job, ..self.first });
        std::iter::once(self.first).chain(others)
    }

    /// How many attempts it has.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Whether it is submitted as a job array.
    pub fn is_array(&self) -> bool {
        !self.others.is_empty()
    }

    /// The job of an attempt, after the submission was accepted as `job`.
    pub fn id(&self, key: Key, job: u64) -> SlurmId {
        SlurmId { job, task: self.is_array().then(|| key.job.saturating_sub(self.first.job)) }
    }

    /// Which submission it is, if it is an array.
    pub fn serial(&self) -> Option<u64> {
        self.is_array().then_some(self.serial)
    }

    /// The numbers of its tasks, as `--array` takes them; `None` if it is no array.
    pub fn tasks(&self) -> Option<String> {
        self.is_array().then(|| tasks(self.first.job, &self.others))
    }

    /// What names it, in name and comment.
    fn words(&self) -> String {
        if self.is_array() { format!("+{}~{:x}", self.first, self.serial) } else { self.first.to_string() }
    }

    /// The name of the job in Slurm.
    pub fn job_name(&self, run: &str) -> String {
        format!("{run}:{}", self.words())
    }

    /// The comment of the job in Slurm: unique, where the name may be that of another run with the same short id.
    pub fn comment(&self, folder: &Path) -> String {
        format!("{}{}", comment_start(folder), self.words())
    }

    /// What the script of an array is called with.
    pub fn arguments(&self) -> Vec<String> {
        match self.is_array() {
            true => vec![self.first.job.to_string(), format!("{}.{}", self.first.attempt, self.first.edition)],
            false => Vec::new(),
        }
    }
}

/// The numbers of the tasks of these jobs.
fn tasks(first: u32, others: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = vec![(0, 0)];
    for task in others.iter().map(|job| job - first) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == task => *last = task,
            _ => ranges.push((task, task)),
        }
    }
    let words = ranges.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") });
    words.collect::<Vec<_>>().join(",")
}

/// The key of a job with this comment, if it is of the run with this folder.
pub fn key_of(comment: &str, id: SlurmId, folder: &Path) -> Option<Key> {
    let words = comment.strip_prefix(&comment_start(folder))?;
    match (words.strip_prefix('+'), id.task) {
        (Some(first), Some(task)) => {
            let first: Key = first.split_once('~')?.0.parse().ok()?;
            Some(Key { job: first.job.checked_add(task)?, ..first })
        }
        (None, None) => words.parse().ok(),
        _ => None,
    }
}

/// Which submission an array with this comment is; `None` for a job that is no array.
pub fn serial_of(comment: &str) -> Option<u64> {
    u64::from_str_radix(comment.rsplit_once('#')?.1.strip_prefix('+')?.split_once('~')?.1, 16).ok()
}

fn comment_start(folder: &Path) -> String {
    format!("bursar {}#", folder.display())
}
