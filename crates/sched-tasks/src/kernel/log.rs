//! What the workers of a parallel runtime chose lately, if a log was asked for.
//!
//! Room: state. Knows choices; knows nothing of why they were made.
//!
//! # Invariant
//! A log never holds more than it was made for, and its entries have one order over all workers.
//!
//! # Why it holds
//! A worker drops its oldest entry before it adds one to a full log. Every entry takes a number of its own from one counter.
//!
//! Without a log a choice costs one look at a flag that also stands for seeded runs; see `Worker::next`.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use vocab::TaskId;

use super::{
    shared::Shared,
    worker::{Next, Worker},
};
use crate::decide::Choice;

/// One choice of a worker; see [`Runtime::decisions`](crate::Runtime::decisions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logged {
    /// Later choices have larger numbers.
    pub number: u64,
    /// The worker that chose.
    pub worker: usize,
    /// Where it took the task from.
    pub choice: Choice,
    /// From which worker it stole, if it did.
    pub victim: Option<usize>,
    /// Which task it goes on with; 0 if that is not known.
    pub task: TaskId,
}

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, worker, choice, victim, task } = self;
        write!(f, "{number}: worker {worker} takes {task}: {choice:?}")?;
        victim.map_or(Ok(()), |victim| write!(f, ", worker {victim}"))
    }
}

/// The last choices of a worker.
#[derive(Debug)]
pub(crate) struct Log {
    entries: Mutex<VecDeque<Logged>>,
    keeps: usize,
}

impl Log {
    /// None if nothing is to be kept.
    pub(crate) fn new(keeps: usize) -> Option<Self> {
        (keeps > 0).then(|| Self { entries: Mutex::default(), keeps })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Logged>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: Logged) {
        let mut entries = self.lock();
        if entries.len() == self.keeps {
            entries.pop_front();
        }
        entries.push_back(entry);
    }
}

/// What all workers chose lately, oldest first.
pub(crate) fn merged(shared: &Shared) -> Vec<Logged> {
    let logs = shared.workers.iter().filter_map(|worker| worker.log.as_ref());
    let mut all: Vec<Logged> = logs.flat_map(|log| log.lock().iter().copied().collect::<Vec<_>>()).collect();
    all.sort_by_key(|entry| entry.number);
    all
}

impl Worker {
    /// Notes a choice, if there is a log.
    #[cold]
    pub(crate) fn log(&self, choice: Choice, victim: Option<usize>, task: Option<TaskId>) {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if let Some(log) = &self.slot().log {
            let number = NUMBERS.fetch_add(1, Relaxed);
            log.add(Logged { number, worker: self.index, choice, victim, task: task.unwrap_or(TaskId(0)) });
        }
    }

    #[cold]
    pub(crate) fn log_next(&self, choice: Choice, next: &Next) {
        if self.slot().log.is_none() {
            return;
        }
        let task = match next {
            Next::Start(runnable) => Some(runnable.id()),
            Next::Resume(waiter) => self.fibers.task(waiter.tag()),
        };
        self.log(choice, None, task);
    }
}
