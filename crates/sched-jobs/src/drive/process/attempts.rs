//! The attempts at commands that have begun, or were asked for something before they began.
//!
//! Room: driver. Knows handles of processes; knows nothing of how commands start or end.
//!
//! # Invariant
//! A request for an attempt that is about to start is not lost, and a request for an attempt that is over reaches no later one.
//!
//! # Why it holds
//! Requests and starts come from different threads, so a request may arrive before there is a process. The one that comes first makes the entry of
//! the attempt. A request stays in the entry until [`attach`](Attempts::attach) passes it to the process. A job has one entry; its attempts have rising
//! numbers, and each call compares them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hashbrown::HashMap;
use mech_process::Handle;

use policy_jobs::JobId;

use super::lock;
use crate::executor::AttemptId;
use crate::job::number;

/// The latest attempt of each job that has one.
#[derive(Default)]
pub(super) struct Attempts {
    by_job: Mutex<HashMap<u32, Attempt>>,
    /// Cancelled attempts are killed at once.
    is_hurried: AtomicBool,
}

/// One attempt.
pub(super) struct Attempt {
    number: u32,
    /// `None` until there is a process.
    pub(super) handle: Option<Handle>,
    grace: Duration,
    pub(super) pause: bool,
    pub(super) cancel: bool,
    peak_vram_mb: u64,
}

impl Attempt {
    fn new(number: u32) -> Self {
        Self { number, handle: None, grace: Duration::ZERO, pause: false, cancel: false, peak_vram_mb: 0 }
    }
}

impl Attempts {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<u32, Attempt>> {
        lock(&self.by_job)
    }

    /// An attempt begins. `false`: it was cancelled before that, and must not. An entry of an earlier attempt is replaced.
    pub(super) fn begin(&self, id: AttemptId, grace: Duration) -> bool {
        let mut by_job = self.lock();
        let attempt = by_job.entry(number(id.job)).or_insert_with(|| Attempt::new(id.attempt));
        if attempt.number != id.attempt {
            *attempt = Attempt::new(id.attempt);
        }
        attempt.grace = grace;
        let may_begin = !attempt.cancel;
        if !may_begin {
            by_job.remove(&number(id.job));
        }
        may_begin
    }

    /// There is a process: it gets the requests that came before it.
    pub(super) fn attach(&self, id: AttemptId, handle: Handle) {
        let mut by_job = self.lock();
        let Some(attempt) = by_job.get_mut(&number(id.job)).filter(|attempt| attempt.number == id.attempt) else {
            return;
        };
        if attempt.cancel {
            handle.cancel(self.grace(attempt.grace));
        } else if attempt.pause {
            handle.pause();
        }
        attempt.handle = Some(handle);
    }

    /// The attempt is over.
    pub(super) fn remove(&self, id: AttemptId) {
        let mut by_job = self.lock();
        if by_job.get(&number(id.job)).is_some_and(|attempt| attempt.number == id.attempt) {
            by_job.remove(&number(id.job));
        }
    }

    /// Changes what is asked of an attempt, and sends the request if there is a process.
    pub(super) fn request(
        &self,
        id: AttemptId,
        change: impl FnOnce(&mut Attempt),
        send: impl FnOnce(&Handle, Duration),
    ) {
        let mut by_job = self.lock();
        let attempt = by_job.entry(number(id.job)).or_insert_with(|| Attempt::new(id.attempt));
        if attempt.number > id.attempt {
            return; // the attempt is over
        }
        if attempt.number < id.attempt {
            *attempt = Attempt::new(id.attempt);
        }
        change(attempt);
        let grace = self.grace(attempt.grace);
        if let Some(handle) = &attempt.handle {
            send(handle, grace);
        }
    }

    pub(super) fn is_cancelled(&self, id: AttemptId) -> bool {
        self.lock().get(&number(id.job)).is_some_and(|attempt| attempt.number == id.attempt && attempt.cancel)
    }

    fn grace(&self, grace: Duration) -> Duration {
        if self.is_hurried.load(Ordering::SeqCst) { Duration::ZERO } else { grace }
    }

    /// From now on no attempt has any grace.
    pub(super) fn hurry(&self) {
        self.is_hurried.store(true, Ordering::SeqCst);
    }

    /// Kills the attempts that are being cancelled.
    pub(super) fn kill_cancelled(&self) {
        let handles: Vec<Handle> = self
            .lock()
            .values()
            .filter(|attempt| attempt.cancel)
            .filter_map(|attempt| attempt.handle.clone())
            .collect();
        handles.iter().for_each(|handle| handle.cancel(Duration::ZERO));
    }

    /// The memory of each running command, in MB.
    pub(super) fn usage_mb(&self) -> Vec<(JobId, u64)> {
        let by_job = self.lock();
        let used = by_job
            .iter()
            .filter_map(|(job, attempt)| Some((JobId::from_index(*job), attempt.handle.as_ref()?.usage_mb())));
        used.collect()
    }

    /// The process of a job's attempt.
    pub(super) fn handle(&self, job: JobId) -> Option<Handle> {
        self.lock().get(&number(job)).and_then(|attempt| attempt.handle.clone())
    }

    /// The running commands: job, number of the attempt, handle.
    pub(super) fn running(&self) -> Vec<(u32, u32, Handle)> {
        let by_job = self.lock();
        by_job.iter().filter_map(|(job, attempt)| Some((*job, attempt.number, attempt.handle.clone()?))).collect()
    }

    /// Takes samples of video memory: job, number of the attempt, MB.
    pub(super) fn add_vram_samples(&self, samples: &[(u32, u32, u64)]) {
        let mut by_job = self.lock();
        for (job, number, mb) in samples {
            if let Some(attempt) = by_job.get_mut(job).filter(|attempt| attempt.number == *number) {
                attempt.peak_vram_mb = attempt.peak_vram_mb.max(*mb);
            }
        }
    }

    /// The largest sample of video memory of an attempt, in MB.
    pub(super) fn peak_vram_mb(&self, id: AttemptId) -> u64 {
        let by_job = self.lock();
        let attempt = by_job.get(&number(id.job)).filter(|attempt| attempt.number == id.attempt);
        attempt.map_or(0, |attempt| attempt.peak_vram_mb)
    }
}
