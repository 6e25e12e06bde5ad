//! Recording what happens without waiting for the disk.
//!
//! Room: driver.
//!
//! # Invariant
//! Whatever `flushed` counts is on the disk. After the first error that number never moves again.
//!
//! # Why it holds
//! Events have one order, that of the queue, and one thread commits them in it. `durable` is set to the number of a batch only
//! after its commit, with `synchronous=FULL`, returned success; and a commit syncs the whole log, so also the batches that
//! were committed without a sync before. On any error the thread reports it and ends: nothing is tried again, because after a
//! failed `fsync` the system may have dropped the very pages, and a second one that succeeds would prove nothing.
//!
//! Checked by `what_flush_returned_for_survives_kill_nine` and `a_full_disk_is_never_called_durable`.

mod apply;
mod decide;
mod thread;

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::stored::now_ms;
use crate::{Event, JournalError, Outcome, RunLock};

/// How a [`Writer`] works; the defaults suit nearly every use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How long an event may wait for others before it is committed.
    pub linger: Duration,
    /// How long an event may wait until it is synced.
    pub sync_every: Duration,
    /// How many events may wait until they are synced.
    pub sync_events: usize,
    /// How many events may be in memory; a caller that records more waits.
    pub queue_events: usize,
    /// The database may grow to this size; then writing fails, as on a full disk.
    pub database_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            linger: Duration::from_millis(2),
            sync_every: Duration::from_millis(50),
            sync_events: 256,
            queue_events: 65_536,
            database_bytes_max: None,
        }
    }
}

/// Records the events of one run. Threads may share it.
///
/// Dropping it waits until everything is on the disk; [`finish`](Writer::finish) does so, too, and returns errors.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    lock: RunLock,
    clock: Clock,
    jobs: u32,
}

/// Time as the run sees it. A resumed run continues where the earlier process was, plus the time between.
#[derive(Debug, Clone, Copy)]
struct Clock {
    base_us: u64,
    begun: Instant,
}

struct Shared {
    queue: Mutex<Queue>,
    /// For the thread: there is something to do.
    work: Condvar,
    /// For callers that record: there is room.
    room: Condvar,
    /// For callers that flush: something was committed or synced.
    settled: Condvar,
    options: Options,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Event>,
    /// When the oldest of `waiting` came.
    oldest: Option<Instant>,
    /// How many were recorded, committed, synced.
    recorded: u64,
    written: u64,
    durable: u64,
    /// Up to which event a caller waits for a commit; a sync.
    commit_to: u64,
    sync_to: u64,
    sleep: Sleep,
    closing: bool,
    outcome: Option<Outcome>,
    failed: Option<JournalError>,
    /// Called with the first error.
    on_error: Option<OnError>,
    gone: bool,
}

/// `None`: the thread panicked.
type OnError = Box<dyn FnOnce(Option<JournalError>) + Send>;

/// What wakes the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sleep {
    /// Nothing: it is awake, or sleeps for a fixed time.
    #[default]
    Timed,
    /// Any event.
    Idle,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    pub(crate) fn start(file: &Path, lock: RunLock, seq: i64, options: Options) -> Result<Writer, JournalError> {
        let (event_writer, resumed) = thread::EventWriter::open(file, seq, &options)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            settled: Condvar::new(),
            options,
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("bursar-journal".into())
            .spawn(move || thread::run(&theirs, event_writer))
            .map_err(JournalError::io("start the thread that writes", file))?;
        let since_ms = now_ms().saturating_sub(resumed.began_ms);
        let clock = Clock { base_us: resumed.offset_us.max(since_ms.saturating_mul(1_000)), begun: Instant::now() };
        Ok(Writer { shared, thread: Some(thread), lock, clock, jobs: resumed.jobs })
    }

    /// The run it writes.
    pub fn run(&self) -> &RunLock {
        &self.lock
    }

    /// Microseconds since the run began, on a clock that only goes forward.
    pub fn offset_us(&self) -> u64 {
        self.clock.base_us + self.clock.begun.elapsed().as_micros() as u64
    }

    /// Records an event and returns its number, from 1. Waits only if 65,536 are waiting already.
    ///
    /// After an [`error`](Writer::error) events are dropped: a run may continue without a journal, if its owner wants that.
    ///
    /// # Panics
    /// If the run has no such job.
    pub fn record(&self, event: impl Into<Event>) -> u64 {
        let mut event = event.into();
        match &mut event {
            Event::Moved(moved) => {
                assert!(moved.job < self.jobs, "job {} of a run with {} jobs", moved.job, self.jobs);
                moved.at_ms.get_or_insert_with(now_ms);
                moved.offset_us.get_or_insert_with(|| self.offset_us());
                moved.detail.bound();
            }
            Event::Progressed { job, .. } | Event::InForce { job, .. } => {
                assert!(*job < self.jobs, "job {job} of a run with {} jobs", self.jobs);
            }
            Event::RunPaused(_) | Event::Outputs(_) => {}
        }
        let mut queue = self.shared.lock();
        while queue.waiting.len() >= self.shared.options.queue_events && !queue.gone {
            queue = self.shared.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.recorded += 1;
        let number = queue.recorded;
        if queue.gone {
            return number;
        }
        if queue.waiting.is_empty() {
            queue.oldest = Some(Instant::now());
        }
        queue.waiting.push_back(event);
        let full = queue.waiting.len() == self.shared.options.sync_events;
        if full || mem::take(&mut queue.sleep) == Sleep::Idle {
            drop(queue);
            self.shared.work.notify_one();
        }
        number
    }

    /// Waits until everything recorded before survives the death of this process. Does not wait for the disk.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn commit(&self) -> Result<(), JournalError> {
        let mut queue = self.shared.lock();
        let wanted = queue.recorded;
        queue.commit_to = queue.commit_to.max(wanted);
        self.settle(queue, |queue| queue.written >= wanted)
    }

    /// Waits until everything recorded before is on the disk, and survives a power loss.
    ///
    /// # Errors
    /// If it could not be written. Then no later call succeeds either.
    pub fn flush(&self) -> Result<(), JournalError> {
        let mut queue = self.shared.lock();
        let wanted = queue.recorded;
        queue.sync_to = queue.sync_to.max(wanted);
        self.settle(queue, |queue| queue.durable >= wanted)
    }

    fn settle(&self, mut queue: MutexGuard<'_, Queue>, enough: impl Fn(&Queue) -> bool) -> Result<(), JournalError> {
        queue.sleep = Sleep::Timed;
        self.shared.work.notify_one();
        while !enough(&queue) && !queue.gone {
            queue = self.shared.settled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        match &queue.failed {
            Some(error) => Err(error.clone()),
            None if enough(&queue) => Ok(()),
            None => Err(JournalError::WriterGone { run: self.lock.id().clone() }),
        }
    }

    /// How many events are on the disk, of those recorded by this writer.
    pub fn flushed(&self) -> u64 {
        self.shared.lock().durable
    }

    /// How many events survive the death of this process.
    pub fn written(&self) -> u64 {
        self.shared.lock().written
    }

    /// The first error, if there was one. Nothing recorded after it is kept.
    pub fn error(&self) -> Option<JournalError> {
        let queue = self.shared.lock();
        let gone = queue.gone.then(|| JournalError::WriterGone { run: self.lock.id().clone() });
        queue.failed.clone().or(gone)
    }

    /// Calls `report` with the first error, once, on the thread that writes; at once if there was one. It must not wait for this writer.
    pub fn on_error(&self, report: impl FnOnce(JournalError) + Send + 'static) {
        let run = self.lock.id().clone();
        let report = move |failed: Option<JournalError>| report(failed.unwrap_or(JournalError::WriterGone { run }));
        let mut queue = self.shared.lock();
        if queue.gone {
            let failed = queue.failed.clone();
            drop(queue);
            return report(failed);
        }
        queue.on_error = Some(Box::new(report));
    }

    /// Ends the run: its last events and how it ended are on the disk, together, when this returns.
    ///
    /// # Errors
    /// If it could not be written. The run then counts as interrupted.
    pub fn finish(mut self, outcome: Outcome) -> Result<(), JournalError> {
        self.shared.lock().outcome = Some(outcome);
        self.close();
        let queue = self.shared.lock();
        match &queue.failed {
            Some(error) => Err(error.clone()),
            None if queue.outcome.is_none() => Ok(()),
            None => Err(JournalError::WriterGone { run: self.lock.id().clone() }),
        }
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let mut queue = self.shared.lock();
        queue.closing = true;
        queue.sleep = Sleep::Timed;
        drop(queue);
        self.shared.work.notify_one();
        let _ = thread.join(); // a panic there shows as `WriterGone`
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.shared.lock();
        f.debug_struct("Writer")
            .field("run", self.lock.id())
            .field("recorded", &queue.recorded)
            .field("flushed", &queue.durable)
            .field("error", &queue.failed)
            .finish_non_exhaustive()
    }
}
