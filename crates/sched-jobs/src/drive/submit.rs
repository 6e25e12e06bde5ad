//! Submitting jobs, one or a million.
//!
//! Room: driver.
//!
//! # Invariant
//! A batch is submitted as a whole or leaves nothing behind. Neither the iterator that makes its jobs nor a destructor of their captures runs under the
//! lock.
//!
//! # Why it holds
//! Jobs are made in chunks without the lock, and added under it. As long as a batch is incomplete its task is the *writer*, and no
//! other task can add jobs; so to undo a batch is to remove the last jobs. Added jobs are scheduled only when the batch is complete.

use core::ops::Range;
use sched_tasks::MutexGuard;

use policy_jobs::{Draft, JobId, SubmitError};

use super::chain::CHAIN_NS;
use super::{Inner, Shared, Writer};
use crate::job::{Job, Work};

/// How many jobs are made before they are added, and admitted before their events are published: few enough to stay in the cache, and for workers to get the lock in between. With 256 they spin
/// for most of the time in which those are added, and a graph of a million takes a third longer.
const CHUNK: usize = 32;

/// A submitted batch.
pub(super) struct Taken {
    /// The new jobs.
    jobs: Range<u32>,
    /// Jobs that were not added, because their key was known: how many of the batch came before each, and the job with that key.
    known: Vec<(u32, u32)>,
}

impl Taken {
    /// The ids of all jobs of the batch, in order.
    pub(super) fn ids(self) -> Vec<JobId> {
        if self.known.is_empty() {
            return self.jobs.map(JobId::from_index).collect();
        }
        let (mut new, mut known) = (self.jobs, self.known.into_iter().peekable());
        let count = new.len() + known.len();
        let id = |at: u32| known.next_if(|(before, _)| *before == at).map(|(_, id)| id).or_else(|| new.next());
        (0..count as u32).filter_map(id).map(JobId::from_index).collect()
    }

    /// The id of a single job.
    pub(super) fn id(&self) -> JobId {
        JobId::from_index(self.known.first().map_or(self.jobs.start, |(_, id)| *id))
    }
}

impl Shared {
    pub(super) fn submit(&self, part: Option<u32>, mut jobs: impl Iterator<Item = Job>) -> Result<Taken, SubmitError> {
        let mut chunk: Vec<Job> = Vec::with_capacity(jobs.size_hint().0.clamp(1, CHUNK));
        chunk.extend(jobs.by_ref().take(CHUNK));
        let taken = self.take_in(part, &mut jobs, &mut chunk);
        if !taken.as_ref().is_ok_and(|taken| taken.known.is_empty()) {
            self.caught.discard_all(chunk); // with what they captured
        }
        taken
    }

    fn take_in(
        &self,
        part: Option<u32>,
        jobs: &mut impl Iterator<Item = Job>,
        chunk: &mut Vec<Job>,
    ) -> Result<Taken, SubmitError> {
        let mut inner = self.lock_to_add()?;
        if chunk.len() < CHUNK {
            let draft = inner.core.draft(part);
            return self.finish(inner, draft, chunk);
        }
        inner.writer = Some(writer());
        let mut guard = BatchGuard { shared: self, draft: Some(inner.core.draft(part)) };
        drop(inner);
        while chunk.len() == CHUNK {
            let mut inner = self.lock();
            let draft = guard.draft.as_mut().expect("it is taken last");
            let added = inner.add(draft, chunk);
            drop(inner);
            added?; // the guard undoes it
            if !draft.known().is_empty() {
                self.caught.discard_all(chunk.drain(..));
            }
            chunk.clear();
            chunk.extend(jobs.by_ref().take(CHUNK));
        }
        let draft = guard.draft.take().expect("it was not taken");
        self.finish(self.lock(), draft, chunk)
    }

    /// Takes the lock when no other task is submitting a batch.
    fn lock_to_add(&self) -> Result<MutexGuard<'_, Inner>, SubmitError> {
        let mut inner = self.lock();
        while let Some(other) = inner.writer {
            if other == writer() {
                return Err(SubmitError::Nested);
            }
            drop(inner);
            let mut waiter = self.wait_for_change(true);
            if waiter.writer == Some(other) {
                waiter.wait();
            }
            drop(waiter);
            inner = self.lock();
        }
        if inner.is_closing { Err(SubmitError::ShuttingDown) } else { Ok(inner) }
    }

    /// Adds the last jobs of a batch and admits all of it.
    fn finish(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        mut draft: Draft,
        last: &mut [Job],
    ) -> Result<Taken, SubmitError> {
        let now = self.now();
        let added = inner.add(&mut draft, last);
        let sealed = added.and_then(|()| inner.core.seal(&draft));
        if inner.writer.take().is_some() {
            self.changed.notify_all(); // the next batch may begin, also one that an executor submits from within a call below
        }
        let range = match sealed {
            Ok(range) => range,
            Err(error) => {
                let dropped = inner.undo(&draft);
                drop(inner);
                self.caught.discard_all(dropped);
                return Err(error);
            }
        };
        inner.take_back(now, CHAIN_NS);
        for start in range.clone().step_by(CHUNK) {
            inner.core.admit(now, start..range.end.min(start.saturating_add(CHUNK as u32)));
            inner.publish_events(&self.caught);
        }
        let mut later = Vec::new();
        self.settle(&mut inner, now, &mut later);
        drop(inner);
        self.perform(later);
        Ok(Taken { jobs: range, known: draft.into_known() })
    }
}

impl Inner {
    fn add(&mut self, draft: &mut Draft, jobs: &mut [Job]) -> Result<(), SubmitError> {
        for job in jobs {
            if !self.core.add(draft, &job.as_new())? {
                continue; // its key is known
            }
            if matches!(job.work, Work::Once(_)) && job.retries_asked() > 0 {
                return Err(SubmitError::OnceOnly { job: job.name.clone(), retries: job.retries_asked() });
            }
            let work = job.take_work();
            self.only_closures &= !matches!(work, Work::Remote(_) | Work::Light(_));
            self.works.push(work);
        }
        Ok(())
    }

    /// Removes a batch. Returns its work.
    #[must_use = "captures of a user are dropped without the lock"]
    fn undo(&mut self, draft: &Draft) -> Vec<Work> {
        self.core.undo(draft);
        self.works.split_off(self.core.added())
    }
}

/// The calling thread and task.
fn writer() -> Writer {
    (std::thread::current().id(), sched_tasks::current_task().map(|task| task.id))
}

/// Marks the calling task as the writer while its batch is incomplete. Undoes the batch unless it was finished, also if the iterator panics.
struct BatchGuard<'a> {
    shared: &'a Shared,
    draft: Option<Draft>,
}

impl Drop for BatchGuard<'_> {
    fn drop(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let mut inner = self.shared.lock();
        inner.writer = None;
        let dropped = inner.undo(&draft);
        drop(inner);
        self.shared.changed.notify_all();
        self.shared.caught.discard_all(dropped);
    }
}
