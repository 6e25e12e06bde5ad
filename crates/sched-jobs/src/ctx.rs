//! The context of a running closure: its view of its job and of the scheduler.
//!
//! Room: interface. Knows signals and the [`Scheduler`] trait; knows nothing of drivers.
//!
//! A closure reads its [`Signals`] without a lock; everything else goes to the [`Scheduler`].

use core::any::Any;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use policy_jobs::{Gpu, JobId, TraceId};

pub(crate) const PAUSE: u8 = 1;
pub(crate) const CANCEL: u8 = 2;

/// A callback that says what a closure waits for.
pub(crate) type Inside = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The functions of a scheduler for the closures that it runs.
pub(crate) trait Scheduler: Sync {
    fn name(&self, id: u32) -> String;
    fn part(&self, id: u32) -> Option<String>;
    fn trace_id(&self, id: u32) -> Option<TraceId>;
    fn gpus(&self, id: u32) -> Vec<Gpu>;
    fn needs(&self, id: u32) -> Vec<String>;
    fn output(&self, id: u32, of: &str) -> Result<Arc<dyn Any + Send + Sync>, InputError>;
    fn progress(&self, id: u32, done: f32);
    /// Returns when the job is not paused, or was asked to end.
    fn wait_while_paused(&self, id: u32);
    /// Drops a value of a user: a panic is caught and counted.
    fn discard(&self, said: Inside);
    /// The message of a panic. The payload is dropped.
    fn message(&self, thrown: Box<dyn Any + Send>) -> String;
}

/// The state that a running closure and its scheduler share without the lock.
pub(crate) struct Signals {
    /// The requests to the closure. Changed under the lock, read without.
    pub(crate) asked: AtomicU8,
    /// Its progress, as the bits of an `f32`; negative if there is none.
    pub(crate) progress: AtomicU32,
    /// What the closure waits for: see [`Ctx::explain`].
    inside: Mutex<Option<Inside>>,
    /// Whether `inside` is set.
    says: AtomicBool,
}

impl Signals {
    pub(crate) fn new() -> Self {
        let progress = AtomicU32::new((-1.0_f32).to_bits());
        Self { asked: AtomicU8::new(0), progress, inside: Mutex::new(None), says: AtomicBool::new(false) }
    }

    /// Resets it for the next closure.
    pub(crate) fn clear(&self) {
        self.asked.store(0, Ordering::Relaxed);
        self.clear_progress();
    }

    pub(crate) fn clear_progress(&self) {
        self.progress.store((-1.0_f32).to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn is_asked(&self, what: u8) -> bool {
        self.asked.load(Ordering::Relaxed) & what != 0
    }

    pub(crate) fn progress(&self) -> Option<f32> {
        Some(f32::from_bits(self.progress.load(Ordering::Relaxed))).filter(|done| *done >= 0.0)
    }

    pub(crate) fn take_inside(&self) -> Option<Inside> {
        // One load for most closures, which set nothing.
        if !self.says.load(Ordering::Relaxed) {
            return None;
        }
        self.says.store(false, Ordering::Relaxed);
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sets the explanation. Returns the one before.
    fn say(&self, inside: Inside) -> Option<Inside> {
        self.says.store(true, Ordering::Relaxed);
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).replace(inside)
    }

    /// The explanation, if one is set.
    pub(crate) fn inside(&self) -> Option<Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The context of a running closure.
pub struct Ctx<'a> {
    pub(crate) scheduler: &'a dyn Scheduler,
    pub(crate) signals: &'a Signals,
    pub(crate) id: u32,
    pub(crate) attempt: u32,
}

impl Ctx<'_> {
    /// Its job.
    pub fn id(&self) -> JobId {
        JobId::from_index(self.id)
    }

    /// Its job's name.
    pub fn name(&self) -> String {
        self.scheduler.name(self.id)
    }

    /// The name of the [part](crate::Part) that its job belongs to.
    pub fn part(&self) -> Option<String> {
        self.scheduler.part(self.id)
    }

    /// The trace id of the [part](crate::Part) that its job belongs to: to be propagated to the services it calls.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.scheduler.trace_id(self.id)
    }

    /// Its graphics cards: none if it asked for none, or none is known.
    pub fn gpus(&self) -> Vec<Gpu> {
        self.scheduler.gpus(self.id)
    }

    /// Which attempt this is: the first is 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Reports its progress, from 0 to 1, and is a [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// If the job was cancelled: pass it on with `?`.
    pub fn progress(&self, done: f32) -> Result<(), Stopped> {
        let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
        let before = f32::from_bits(self.signals.progress.swap(done.to_bits(), Ordering::Relaxed));
        if (done - before).abs() >= 0.01 || (done >= 1.0 && before < 1.0) {
            self.scheduler.progress(self.id, done);
        }
        self.checkpoint()
    }

    /// Whether the job was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.signals.asked.load(Ordering::Relaxed) & CANCEL != 0
    }

    /// Waits here while the job is paused.
    ///
    /// # Errors
    /// If the job was cancelled: pass it on with `?`.
    #[inline]
    pub fn checkpoint(&self) -> Result<(), Stopped> {
        if self.signals.asked.load(Ordering::Relaxed) == 0 { Ok(()) } else { self.wait_while_paused() }
    }

    #[cold]
    fn wait_while_paused(&self) -> Result<(), Stopped> {
        self.scheduler.wait_while_paused(self.id);
        if self.is_cancelled() { Err(Stopped) } else { Ok(()) }
    }

    /// Sets a callback for [`Jobs::why`](crate::Jobs::why): as long as this attempt runs, the answer contains what `why` returns. For a closure that drives something which waits by itself, such as a flow. The
    /// callback runs on the thread that calls [`Jobs::why`](crate::Jobs::why), not under a lock, and may be called once more just after the attempt has ended.
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
        if let Some(before) = self.signals.say(Arc::new(why)) {
            self.scheduler.discard(before);
        }
    }

    /// The output of a job that this one needs.
    ///
    /// # Errors
    /// If it does not need that job, or that job returned nothing, or a value that is not a `T`.
    pub fn input<T: Any + Send + Sync>(&self, job: &str) -> Result<Arc<T>, InputError> {
        let output = self.scheduler.output(self.id, job)?;
        let expected = core::any::type_name::<T>();
        output.downcast().map_err(|_| InputError::OtherType { job: job.to_owned(), expected })
    }

    /// The names of the jobs that this one needs, in the order of [`Job::needs`](crate::Job::needs).
    pub fn needs(&self) -> Vec<String> {
        self.scheduler.needs(self.id)
    }
}

impl fmt::Debug for Ctx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("id", &self.id).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The job was asked to end. Pass it on with `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job was asked to end")
    }
}

impl core::error::Error for Stopped {}

/// Why there is no such input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputError {
    /// The job does not need that one.
    NotNeeded {
        /// The job whose output was requested.
        job: String,
        /// The jobs that it needs.
        needs: Vec<String>,
    },
    /// That job returned nothing.
    Nothing {
        /// The job.
        job: String,
    },
    /// That job returned a value of another type.
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
            Self::OtherType { job, expected } => write!(f, "`{job}` returned a value that is not a `{expected}`"),
        }
    }
}

impl core::error::Error for InputError {}
