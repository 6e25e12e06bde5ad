//! Taking in jobs, one or a million.
//!
//! # Invariant
//! A batch is taken as a whole or leaves no trace; and neither the iterator that makes its jobs nor a destructor of what they capture runs under the
//! lock.
//!
//! # Why it holds
//! Jobs are made some at a time without the lock, and added under it. As long as a batch is not complete its task holds the *pen*, which keeps
//! others from adding theirs, so undoing is cutting off the end. What was added takes part only when all of it is there.

use core::ops::Range;
use sched_tasks::MutexGuard;

use policy_jobs::{Draft, JobId, SubmitError};

use super::chain::CHAIN_NS;
use super::{Inner, Shared, Writer};
use crate::job::{Job, Work};

/// How many jobs are made before they are added, and admitted before news of them is told: few enough to stay in the cache.
const STRETCH: usize = 256;

/// A batch that was taken.
pub(super) struct Taken {
    /// The jobs that are new.
    jobs: Range<u32>,
    /// Those that were not taken, because their key was known: how many of the batch came before each, and which job it is.
    known: Vec<(u32, u32)>,
}

impl Taken {
    /// One job for each that was handed in.
    pub(super) fn ids(self) -> Vec<JobId> {
        if self.known.is_empty() {
            return self.jobs.map(JobId::from_index).collect();
        }
        let (mut new, mut known) = (self.jobs, self.known.into_iter().peekable());
        let count = new.len() + known.len();
        let id = |at: u32| known.next_if(|(before, _)| *before == at).map(|(_, id)| id).or_else(|| new.next());
        (0..count as u32).filter_map(id).map(JobId::from_index).collect()
    }

    /// That of a single job.
    pub(super) fn id(&self) -> JobId {
        JobId::from_index(self.known.first().map_or(self.jobs.start, |(_, id)| *id))
    }
}

impl Shared {
    pub(super) fn submit(&self, part: Option<u32>, mut jobs: impl Iterator<Item = Job>) -> Result<Taken, SubmitError> {
        let mut stretch: Vec<Job> = Vec::with_capacity(jobs.size_hint().0.clamp(1, STRETCH));
        stretch.extend(jobs.by_ref().take(STRETCH));
        let taken = self.take_in(part, &mut jobs, &mut stretch);
        if !taken.as_ref().is_ok_and(|taken| taken.known.is_empty()) {
            self.caught.discard_all(stretch); // with what they captured
        }
        taken
    }

    fn take_in(
        &self,
        part: Option<u32>,
        jobs: &mut impl Iterator<Item = Job>,
        stretch: &mut Vec<Job>,
    ) -> Result<Taken, SubmitError> {
        let mut inner = self.lock_to_add()?;
        if stretch.len() < STRETCH {
            let draft = inner.core.draft(part);
            return self.finish(inner, draft, stretch);
        }
        inner.pen = Some(writer());
        let mut pen = Pen { shared: self, draft: Some(inner.core.draft(part)) };
        drop(inner);
        while stretch.len() == STRETCH {
            let mut inner = self.lock();
            let draft = pen.draft.as_mut().expect("it is taken last");
            let added = inner.add(draft, stretch);
            drop(inner);
            added?; // the pen undoes it
            if !draft.known().is_empty() {
                self.caught.discard_all(stretch.drain(..));
            }
            stretch.clear();
            stretch.extend(jobs.by_ref().take(STRETCH));
        }
        let draft = pen.draft.take().expect("it was not taken");
        self.finish(self.lock(), draft, stretch)
    }

    /// The lock, when nobody is in the middle of a batch.
    fn lock_to_add(&self) -> Result<MutexGuard<'_, Inner>, SubmitError> {
        let mut inner = self.lock();
        while let Some(other) = inner.pen {
            if other == writer() {
                return Err(SubmitError::Nested);
            }
            drop(inner);
            let mut news = self.wait_for_news(true);
            if news.pen == Some(other) {
                news.wait();
            }
            drop(news);
            inner = self.lock();
        }
        if inner.is_closing { Err(SubmitError::ShuttingDown) } else { Ok(inner) }
    }

    /// Adds the last jobs of a batch and lets all of it take part.
    fn finish(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        mut draft: Draft,
        last: &mut [Job],
    ) -> Result<Taken, SubmitError> {
        let now = self.now();
        let added = inner.add(&mut draft, last);
        let sealed = added.and_then(|()| inner.core.seal(&draft));
        if inner.pen.take().is_some() {
            self.news.notify_all(); // the next may begin; also one that an executor submits from within what follows
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
        for start in range.clone().step_by(STRETCH) {
            inner.core.admit(now, start..range.end.min(start.saturating_add(STRETCH as u32)));
            inner.tell_news(&self.caught);
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

    /// Takes back a batch. Returns what it captured.
    #[must_use = "what a user captured is dropped without the lock"]
    fn undo(&mut self, draft: &Draft) -> Vec<Work> {
        self.core.undo(draft);
        self.works.split_off(self.core.added())
    }
}

/// Who submits here.
fn writer() -> Writer {
    (std::thread::current().id(), sched_tasks::current_task().map(|task| task.id))
}

/// The right to add jobs while a batch is not complete. Undoes the batch unless it was finished: also if the iterator panics.
struct Pen<'a> {
    shared: &'a Shared,
    draft: Option<Draft>,
}

impl Drop for Pen<'_> {
    fn drop(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let mut inner = self.shared.lock();
        inner.pen = None;
        let dropped = inner.undo(&draft);
        drop(inner);
        self.shared.news.notify_all();
        self.shared.caught.discard_all(dropped);
    }
}
