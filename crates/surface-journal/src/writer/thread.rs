//! The thread that commits.
//!
//! Room: driver.
//!
//! # Invariant
//! It ends for three reasons only: it was closed with nothing left, the first error, a panic. In each case `gone` is set, so
//! no caller waits for it.

use std::collections::VecDeque;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};

use super::decide::{Backlog, Step, next};
use super::{Options, Queue, Shared, Sleep, apply};
use crate::ending::end;
use crate::stored::now_ms;
use crate::{Event, JournalError, Outcome, schema};

/// What the database says of the run when a writer starts.
pub(super) struct Resumed {
    pub(super) began_ms: u64,
    pub(super) offset_us: u64,
    pub(super) jobs: u32,
}

/// The connection, and where in the run's events it is.
pub(super) struct EventWriter {
    db: Connection,
    file: PathBuf,
    seq: i64,
    /// The number of the last event in the database.
    n: i64,
    syncing: bool,
}

impl EventWriter {
    pub(super) fn open(file: &Path, seq: i64, options: &Options) -> Result<(EventWriter, Resumed), JournalError> {
        let failed = |error| JournalError::sqlite(file, error);
        let db = schema::open(file)?;
        if let Some(bytes) = options.database_bytes_max {
            let page: i64 = db.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(failed)?;
            let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page;
            db.query_row(&format!("PRAGMA max_page_count = {}", pages.max(1)), [], |_| Ok(())).map_err(failed)?;
        }
        let (n, offset_us) = db
            .query_row(
                "SELECT coalesce(max(n), 0), coalesce(max(offset_us), 0) FROM events WHERE run = ?1",
                [seq],
                |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)),
            )
            .map_err(failed)?;
        let (began_ms, jobs) = db
            .query_row("SELECT began_ms, jobs FROM runs WHERE seq = ?1", [seq], |row| {
                Ok((row.get::<_, i64>(0)? as u64, row.get(1)?))
            })
            .map_err(failed)?;
        let event_writer = EventWriter { db, file: file.to_owned(), seq, n, syncing: false };
        Ok((event_writer, Resumed { began_ms, offset_us, jobs }))
    }

    /// One transaction. With `sync` it and all before it are on the disk when this returns.
    fn commit(&mut self, events: &VecDeque<Event>, sync: bool, outcome: Option<Outcome>) -> Result<(), JournalError> {
        self.try_commit(events, sync, outcome).map_err(|error| JournalError::sqlite(&self.file, error))
    }

    fn try_commit(&mut self, events: &VecDeque<Event>, sync: bool, outcome: Option<Outcome>) -> rusqlite::Result<()> {
        if self.syncing != sync {
            self.db.pragma_update(None, "synchronous", if sync { "FULL" } else { "NORMAL" })?;
            self.syncing = sync;
        }
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut n = self.n;
        for event in events {
            apply::event(&transaction, self.seq, &mut n, event)?;
        }
        if let Some(outcome) = outcome {
            end(&transaction, self.seq, outcome, now_ms())?;
        }
        if sync {
            // A transaction that writes nothing is not synced.
            transaction.prepare_cached("UPDATE runs SET synced = ?2 WHERE seq = ?1")?.execute(params![self.seq, n])?;
        }
        transaction.commit()?;
        self.n = n;
        Ok(())
    }
}

/// Sets `gone` however the thread ends, and reports an error.
struct ExitGuard<'a>(&'a Shared);

impl Drop for ExitGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.gone = true;
        queue.waiting = VecDeque::new();
        let (failed, report) = (queue.failed.clone(), queue.on_error.take());
        drop(queue);
        self.0.room.notify_all();
        self.0.settled.notify_all();
        if let Some(report) = report
            && (failed.is_some() || std::thread::panicking())
        {
            report(failed);
        }
    }
}

pub(super) fn run(shared: &Shared, mut event_writer: EventWriter) {
    let exit_guard = ExitGuard(shared);
    let mut batch = VecDeque::new();
    // When the oldest event came that is committed but not synced.
    let mut unsynced_since: Option<Instant> = None;
    loop {
        let mut queue = shared.lock();
        let sync = loop {
            match step(&queue, unsynced_since, &shared.options) {
                Step::Stop if queue.outcome.is_none() => return,
                Step::Stop | Step::Sync => break true,
                Step::Commit => break false,
                Step::Idle => queue = sleep(shared, queue, None),
                Step::Wait(time) => queue = sleep(shared, queue, Some(time)),
            }
        };
        mem::swap(&mut batch, &mut queue.waiting);
        let oldest = queue.oldest.take();
        let upto = queue.recorded;
        let outcome = if queue.closing { queue.outcome } else { None };
        drop(queue);
        shared.room.notify_all();

        let done = event_writer.commit(&batch, sync, outcome);
        batch.clear();

        let mut queue = shared.lock();
        if let Err(error) = done {
            queue.failed = Some(error);
            drop(queue);
            drop(exit_guard);
            return;
        }
        queue.written = upto;
        if sync {
            queue.durable = upto;
            unsynced_since = None;
        } else {
            unsynced_since = unsynced_since.or(oldest);
        }
        if outcome.is_some() {
            queue.outcome = None;
        }
        drop(queue);
        shared.settled.notify_all();
    }
}

fn step(queue: &Queue, unsynced_since: Option<Instant>, options: &Options) -> Step {
    let now = Instant::now();
    let age = |since: Option<Instant>| since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
    let backlog = Backlog {
        waiting: queue.waiting.len(),
        waiting_age: age(queue.oldest),
        unsynced: (queue.written - queue.durable) as usize,
        unsafe_age: age(unsynced_since.or(queue.oldest)),
        commit_asked: queue.commit_to > queue.written,
        sync_asked: queue.sync_to > queue.durable,
        closing: queue.closing,
    };
    next(backlog, options)
}

fn sleep<'a>(shared: &'a Shared, mut queue: MutexGuard<'a, Queue>, time: Option<Duration>) -> MutexGuard<'a, Queue> {
    match time {
        None => {
            queue.sleep = Sleep::Idle;
            shared.work.wait(queue).unwrap_or_else(PoisonError::into_inner)
        }
        Some(time) => {
            // While nothing waits, the time is that of a sync, and an event should begin its linger at once.
            queue.sleep = if queue.waiting.is_empty() { Sleep::Idle } else { Sleep::Timed };
            shared.work.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0
        }
    }
}
