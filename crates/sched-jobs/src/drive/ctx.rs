//! What a closure sees of the scheduler while it runs.

use core::any::Any;
use core::fmt;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use policy_jobs::{Gpu, JobId, TraceId};
use sched_tasks::shield;

use super::Shared;
use super::pool::{CANCEL, PAUSE, Post};
use crate::job::Stopped;

/// A running closure's view of its job.
pub struct Ctx<'a> {
    pub(super) shared: &'a Shared,
    pub(super) post: &'a Post,
    pub(super) id: u32,
    pub(super) attempt: u32,
}

impl Ctx<'_> {
    /// Its job.
    pub fn id(&self) -> JobId {
        JobId::from_index(self.id)
    }

    /// Its job's name.
    pub fn name(&self) -> String {
        self.shared.lock().core.name(self.id).into_owned()
    }

    /// The name of the [part](crate::Part) that its job belongs to.
    pub fn part(&self) -> Option<String> {
        let inner = self.shared.lock();
        inner.core.part_of(self.id).map(|part| inner.core.part_name(part).to_owned())
    }

    /// The id of the [part](crate::Part) that its job belongs to: to be passed on to whatever it calls.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.shared.lock().core.trace_id(self.id)
    }

    /// The graphics cards it was given: none if it asked for none, or none is known.
    pub fn gpus(&self) -> Vec<Gpu> {
        self.shared.lock().core.cards(self.id)
    }

    /// Which attempt this is: the first is 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Says how far it is, from 0 to 1, and is a [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// If the job was cancelled: pass it on with `?`.
    pub fn progress(&self, done: f32) -> Result<(), Stopped> {
        let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
        let before = f32::from_bits(self.post.progress.swap(done.to_bits(), Ordering::Relaxed));
        if (done - before).abs() >= 0.01 || (done >= 1.0 && before < 1.0) {
            self.shared.section(|inner, now| inner.core.progress(now, self.id, done));
        }
        self.checkpoint()
    }

    /// Whether the job was asked to end.
    pub fn is_canceled(&self) -> bool {
        self.post.asked.load(Ordering::Relaxed) & CANCEL != 0
    }

    /// Stands still here while the job is paused.
    ///
    /// # Errors
    /// If the job was cancelled: pass it on with `?`.
    #[inline]
    pub fn checkpoint(&self) -> Result<(), Stopped> {
        if self.post.asked.load(Ordering::Relaxed) == 0 { Ok(()) } else { self.stand_still() }
    }

    #[cold]
    fn stand_still(&self) -> Result<(), Stopped> {
        let asked = |what: u8| self.post.asked.load(Ordering::Relaxed) & what != 0;
        // Once more if it was resumed and paused again before it woke: this may be its only checkpoint.
        while asked(PAUSE) && !asked(CANCEL) {
            self.shared.section(|inner, now| {
                if self.post.is_aside.load(Ordering::Relaxed) || inner.core.paused(now, self.id) {
                    inner.stand_aside(self.post);
                } else {
                    self.post.asked.fetch_and(!PAUSE, Ordering::Relaxed); // it is not to pause any more
                }
            });
            let mut inner = self.shared.lock();
            while self.post.is_aside.load(Ordering::Relaxed) && !asked(CANCEL) {
                shield(|| self.post.wake.wait(&mut inner)); // who resumes or cancels the job says so
            }
        }
        if asked(CANCEL) { Err(Stopped) } else { Ok(()) }
    }

    /// Has [`Jobs::why`](crate::Jobs::why) call `why` as long as this attempt runs, and say what it says: for a closure that drives something which waits by itself, such as a flow. It is
    /// called on the thread of whoever asks, not under a lock, and may be called once more just after the attempt has ended.
    ///
    /// ```
    /// use sched_jobs::{Job, Jobs};
    /// use std::sync::mpsc;
    ///
    /// let jobs = Jobs::builder().build();
    /// let (asked, is_asked) = mpsc::channel::<()>();
    /// jobs.submit(Job::new("import").run_once(move |ctx| {
    ///     ctx.explain(|| Some("the table is locked by `backup`".to_owned()));
    ///     is_asked.recv().unwrap();
    /// }))?;
    /// while !jobs.why("import")?.to_string().ends_with("; in it, the table is locked by `backup`") {}
    /// asked.send(())?;
    /// jobs.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, why: impl Fn() -> Option<String> + Send + Sync + 'static) {
        let before = self.post.say(Arc::new(why));
        self.shared.caught.discard(before);
    }

    /// The output of a job that this one needs.
    ///
    /// # Errors
    /// If it does not need that job, or that job returned nothing, or something else than a `T`.
    pub fn input<T: Any + Send + Sync>(&self, job: &str) -> Result<Arc<T>, InputError> {
        let inner = self.shared.lock();
        let need = inner.core.needs_of(self.id).find(|need| inner.core.name(*need) == job);
        let Some(need) = need else {
            let needs = inner.core.needs_of(self.id).map(|need| inner.core.name(need).into_owned()).collect();
            return Err(InputError::NotNeeded { job: job.to_owned(), needs });
        };
        let output = inner.outputs.get(&need).cloned();
        drop(inner);
        let output = output.ok_or_else(|| InputError::Nothing { job: job.to_owned() })?;
        let expected = core::any::type_name::<T>();
        output.downcast().map_err(|_| InputError::OtherType { job: job.to_owned(), expected })
    }

    /// The names of the jobs that this one needs, in the order they were given.
    pub fn needs(&self) -> Vec<String> {
        let inner = self.shared.lock();
        inner.core.needs_of(self.id).map(|need| inner.core.name(need).into_owned()).collect()
    }
}

impl fmt::Debug for Ctx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("id", &self.id).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// Why there is no such input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputError {
    /// The job does not need that one.
    NotNeeded {
        /// Whose output was asked for.
        job: String,
        /// What it does need.
        needs: Vec<String>,
    },
    /// That job returned nothing.
    Nothing {
        /// The job.
        job: String,
    },
    /// That job returned something else.
    OtherType {
        /// The job.
        job: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded { job, needs } if needs.is_empty() => {
                write!(f, "this job needs nothing, so it has no output of `{job}`; add `.needs(\"{job}\")`")
            }
            Self::NotNeeded { job, needs } => {
                write!(f, "this job does not need `{job}`, only {}; add `.needs(\"{job}\")`", needs.join(", "))
            }
            Self::Nothing { job } => write!(f, "`{job}` returned nothing; return a value from its closure"),
            Self::OtherType { job, expected } => write!(f, "`{job}` returned something else than a `{expected}`"),
        }
    }
}

impl core::error::Error for InputError {}
