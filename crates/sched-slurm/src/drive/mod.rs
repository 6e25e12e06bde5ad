//! The executor: attempts, and two threads.
//!
//! Room: driver. Knows attempts, marks and calls; what to do is decided by `decide.rs`.
//!
//! - `cluster.rs`: what is asked of a cluster; `commands.rs`: asked by commands; `rest.rs`: asked of slurmrestd, `http.rs`: one exchange with it, `access.rs`: where it is and who asks; `failures.rs`: what errors of both mean; `folder.rs`: the marks folder.
//! - `leftovers.rs`: cancels what an earlier process left.
//! - `caller.rs`: the thread that talks to Slurm; `submit.rs`: how it submits attempts; `watcher.rs`: the thread that reads marks.
//!
//! # Invariants
//! - An attempt that was started is reported as ended exactly once.
//! - Neither lock is held during a call of Slurm, or of the scheduler.
//!
//! # Why they hold
//! Each end takes the attempt out of the table first, under the lock; what is not in the table is not reported. Reports are collected under the lock and made after it.

pub(crate) mod access;
mod caller;
pub(crate) mod cluster;
pub(crate) mod commands;
mod failures;
pub(crate) mod folder;
mod http;
pub(crate) mod leftovers;
pub(crate) mod rest;
mod submit;
mod table;
mod watcher;

use core::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sched_jobs::process::{Command, Watched};
use sched_jobs::{AttemptId, Executor, Order, Outcome};

use self::cluster::{CallError, Cluster};
use self::folder::{Folder, Remains};
use self::table::{Attempt, Call, PAUSES_TOGETHER, Table};
use self::watcher::FolderChanges;
use crate::error::SlurmError;
use crate::id::SlurmId;
use crate::key::Key;
use crate::request::{self, Request, Site, VramAs};
use crate::script;
use crate::state::{Event, State};

/// The work of a job that goes to Slurm.
#[derive(Debug, Clone)]
pub struct Job {
    /// What is run.
    pub command: Command,
    /// What it wants of the cluster.
    pub request: Request,
}

/// What happened to an attempt.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum News<'a> {
    /// Its command has begun.
    Placed {
        /// The node.
        node: &'a str,
        /// The id in Slurm.
        id: SlurmId,
    },
    /// A message for a person.
    Warning(&'a str),
    /// It has ended, and the observer of the scheduler knows that.
    Ended,
}

/// Where an attempt stands with Slurm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stand {
    /// It waits there, or is about to be submitted.
    Waits,
    /// It runs, or is frozen.
    Runs,
    /// It is to be paused, and Slurm has not done that yet: it may run.
    Unpaused,
}

/// The callback that gets [`News`]. It must be quick.
pub type Listen = Box<dyn Fn(AttemptId, News<'_>) + Send + Sync>;

/// How jobs of one run go to Slurm.
pub struct Settings {
    /// The marks folder, of this run alone, on a file system that all nodes share.
    pub folder: PathBuf,
    /// The name of the run: a part of the names of its jobs in Slurm.
    pub run: String,
    /// How jobs are submitted here.
    pub site: Site,
    /// The log of an attempt, on a file system that all nodes share.
    pub log: sched_jobs::process::LogPath,
    /// Gets news.
    pub listen: Listen,
    /// How long the scheduler waits for a job to pause before it cancels it. A job that Slurm has not paused after half of it is called paused, with a warning.
    pub pause_timeout: Duration,
}

/// An executor for jobs whose work is a [`Job`].
pub struct Slurm {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

pub(crate) struct Shared {
    cluster: Arc<dyn Cluster>,
    folder: Folder,
    run: String,
    site: Site,
    log: sched_jobs::process::LogPath,
    listen: Listen,
    pause_timeout: Duration,
    table: Mutex<Table>,
    /// The number of the next array: no other process of the run had it.
    serial: AtomicU64,
    /// `MaxArraySize`, when it is known.
    array_size_max: OnceLock<u32>,
    /// The caller waits here.
    work: std::sync::Condvar,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Poisoning is ignored: the table is consistent at every step.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, call: Call) {
        self.table().calls.push_back(call);
        self.work.notify_one();
    }
}

impl Slurm {
    /// Makes the executor; `site` should have been [checked](check).
    ///
    /// # Errors
    /// If the marks folder cannot be used.
    pub fn open(cluster: Arc<dyn Cluster>, settings: Settings) -> Result<Self, SlurmError> {
        let Settings { folder: path, run, site, log, listen, pause_timeout } = settings;
        let bad_folder = |error: std::io::Error| SlurmError::Folder { path: path.clone(), why: error.to_string() };
        let folder = Folder::open(&path).map_err(bad_folder)?;
        let changes = FolderChanges::of(folder.path()).map_err(bad_folder)?;
        let table = Mutex::new(Table::default());
        let (array_size_max, work) = Default::default();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let serial = AtomicU64::new(since_1970.as_micros() as u64);
        let shared =
            Shared { cluster, folder, run, site, log, listen, pause_timeout, table, serial, array_size_max, work };
        let shared = Arc::new(shared);
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(bad_folder)
        };
        let (for_calls, for_marks) = (Arc::clone(&shared), Arc::clone(&shared));
        let mut slurm = Self { shared, threads: Vec::new() };
        slurm.threads.push(start("bursar-slurm", Box::new(move || for_calls.call_until_closed()))?);
        slurm.threads.push(start("bursar-marks", Box::new(move || for_marks.watch_until_closed(&changes)))?);
        Ok(slurm)
    }

    /// The token of an attempt that this process starts.
    pub fn token(&self, attempt_id: AttemptId) -> String {
        self.shared.key(attempt_id).token()
    }

    /// This end is durable elsewhere: the marks of that attempt are removed.
    pub fn settle(&self, token: &str) {
        if let Some(key) = Key::of_token(token) {
            self.shared.folder.forget(key);
        }
    }

    /// From now on no command has any grace: those that were asked to end are killed at once, and so are those that are asked later.
    pub fn hurry(&self) {
        self.shared.table().has_no_grace = true;
        self.hurry_cancelled();
    }

    /// Kills the commands that were asked to end.
    pub fn hurry_cancelled(&self) {
        let mut table = self.shared.table();
        let now = Instant::now();
        for attempt in table.attempts.values_mut() {
            attempt.kill_at = attempt.kill_at.map(|at| at.min(now));
        }
        drop(table);
        self.shared.work.notify_one();
    }

    /// From now on nothing is submitted: each attempt fails for this reason.
    pub fn refuse(&self, why: impl Into<String>) {
        self.shared.table().refused.get_or_insert(why.into());
    }

    /// Why commands cannot be ended now, if Slurm does not answer; and how many run.
    pub fn unreachable(&self) -> Option<(String, usize)> {
        let table = self.shared.table();
        let running = table.attempts.values().filter(|attempt| attempt.state == State::Began).count();
        table.trouble.clone().map(|why| (why, running))
    }

    /// Where an attempt is, for people; `None` if it is not with Slurm.
    pub fn status(&self, attempt_id: AttemptId) -> Option<String> {
        let table = self.shared.table();
        Some(table.attempts.get(&attempt_id)?.words(table.trouble.as_deref()))
    }

    /// Where an attempt stands; `None` if it is not with Slurm.
    pub fn stand(&self, attempt_id: AttemptId) -> Option<Stand> {
        Some(self.shared.table().attempts.get(&attempt_id)?.stand())
    }

    /// The attempts that are to be paused, and that Slurm has not paused; and why, if it does not answer.
    pub fn unpaused(&self) -> (Vec<AttemptId>, Option<String>) {
        let table = self.shared.table();
        let unpaused = table.attempts.values().filter(|attempt| attempt.is_unpaused());
        (unpaused.map(|attempt| attempt.attempt_id).collect(), table.trouble.clone())
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.shared.table().is_closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // it returns nothing
        }
    }
}

impl fmt::Debug for Slurm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slurm").field("run", &self.shared.run).finish_non_exhaustive()
    }
}

/// Whether the cluster can ever give a job what it wants. The result is what a person should know of it.
///
/// # Errors
/// If it cannot, or does not answer.
pub fn check_request(
    cluster: &dyn Cluster,
    site: &Site,
    job: &str,
    request: &Request,
) -> Result<Option<String>, SlurmError> {
    match cluster.try_out(&request::terms(site, request, Duration::ZERO)) {
        Err(CallError::Refused(why)) => Err(SlurmError::Refused { job: job.to_owned(), why }),
        Err(CallError::Unanswered(why)) => Err(SlurmError::Unreachable { why }),
        // A queue that is full now says nothing about later.
        Err(CallError::Full(_)) => Ok(None),
        Ok(note) => Ok(note),
    }
}

/// Whether Slurm answers, and has the partition. Settles how video memory is asked for.
///
/// # Errors
/// If no job can go to Slurm.
pub fn check(cluster: &dyn Cluster, site: &mut Site) -> Result<(), SlurmError> {
    let partitions = cluster.partitions().map_err(|error| match error {
        CallError::Refused(why) => SlurmError::Unusable { why },
        CallError::Full(why) | CallError::Unanswered(why) => SlurmError::Unreachable { why },
    })?;
    if let Some(named) = &site.partition {
        // `--partition` may list several.
        let missing = named.split(',').find(|name| !partitions.iter().any(|known| known.name == *name));
        if let Some(name) = missing {
            let mut known: Vec<String> = partitions.into_iter().map(|known| known.name).collect();
            known.sort();
            known.dedup();
            return Err(SlurmError::NoPartition { name: name.to_owned(), known });
        }
    }
    if site.vram == VramAs::Auto {
        let has_vram = partitions.iter().any(|known| known.gres.split(',').any(|gres| gres.starts_with("vram:")));
        site.vram = if has_vram { VramAs::Gres("vram".to_owned()) } else { VramAs::Cards };
    }
    Ok(())
}

impl Shared {
    fn key(&self, attempt_id: AttemptId) -> Key {
        self.folder.key(attempt_id.job.index() as u32, attempt_id.attempt)
    }

    fn script(&self, attempt: &Attempt) -> String {
        let log = (self.log)(attempt.attempt_id);
        script::text(attempt.key, self.folder.path(), &log, &attempt.job.command, &self.site)
    }

    fn prepared(&self, written: std::io::Result<()>) -> Result<(), String> {
        written.map_err(|error| format!("its script cannot be written to {}: {error}", self.folder.path().display()))
    }

    /// Writes the script of an attempt whose process was killed between permit and script. If it cannot be written, the attempt never begins.
    fn complete(&self, attempt: &Attempt) -> Result<(), String> {
        if self.folder.script(attempt.key).exists() {
            return Ok(());
        }
        let written = self.prepared(self.folder.write_script(attempt.key, &self.script(attempt)));
        if written.is_err() {
            let _ = self.folder.revoke(attempt.key); // without a script nothing takes the permit
        }
        written
    }

    /// Begins an attempt, or continues one that an earlier process began.
    fn begin(&self, order: Order, found: Option<Key>) {
        let Order { attempt_id, name, work, report, .. } = order;
        let Some(job) = work.downcast_ref::<Job>().cloned() else {
            let why = format!("the work of `{name}` is not a job for Slurm; give `execute` a `sched_slurm::Job`");
            return report.ended(Outcome::failed(why));
        };
        let remains = found.and_then(|key| Some((key, self.folder.remains(key)?)));
        let remains = remains.filter(|(_, what)| *what != Remains::Revoked);
        let (key, watched) = match &remains {
            Some((key, _)) => (*key, Watched::found(&job.command)),
            None => (self.key(attempt_id), Watched::before(&job.command)),
        };
        let mut attempt = Attempt::new(attempt_id, key, job, report, watched);
        if remains.is_some() && self.folder.is_frozen(key) {
            // A resumed run resumes all its commands, as soon as it knows their ids in Slurm.
            (attempt.is_held, attempt.was_frozen) = (true, true);
        }
        match remains.map(|(_, what)| what) {
            // It may be in the queue: the next answer of Slurm says so.
            Some(Remains::Waits) => {
                if let Err(why) = self.complete(&attempt) {
                    return attempt.report.ended(Outcome::failed(why));
                }
                attempt.was_called = true;
            }
            Some(_) => {
                attempt.apply(Event::Started);
                attempt.was_called = true; // if there is no mark of its end, what Slurm says counts
            }
            None => {
                let refused = self.table().refused.clone();
                let prepared = match refused {
                    Some(why) => Err(why),
                    None => self.prepared(self.folder.prepare(key, &self.script(&attempt))),
                };
                if let Err(why) = prepared {
                    return attempt.report.ended(Outcome::failed(why));
                }
                let mut table = self.table();
                table.insert(attempt);
                table.calls.push_back(Call::Submit(attempt_id));
                drop(table);
                return self.work.notify_one();
            }
        }
        let mut table = self.table();
        table.insert(attempt);
        table.poll_soon();
        drop(table);
        self.work.notify_one();
    }
}

impl Executor for Slurm {
    fn start(&self, order: Order) {
        self.shared.begin(order, None);
    }

    fn find_again(&self, order: Order, token: &str) {
        self.shared.begin(order, Key::of_token(token));
    }

    fn pause(&self, attempt_id: AttemptId) {
        let paused = {
            let mut table = self.shared.table();
            // It stays there until it is resumed.
            let is_to_be_submitted = table.calls.contains(&Call::Submit(attempt_id));
            let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
            attempt.is_frozen = true;
            let now = Instant::now();
            if is_to_be_submitted {
                Some(attempt.report.clone())
            } else {
                attempt.pause_due = Some(now + self.shared.pause_timeout / 2);
                if attempt.id.is_some() && attempt.change().is_none() {
                    table.next_poll = now; // it is not thawed yet: the next answer says so
                }
                table.pauses_from = now + PAUSES_TOGETHER;
                None
            }
        };
        match paused {
            Some(report) => report.paused(),
            None => self.shared.work.notify_one(),
        }
    }

    fn resume(&self, attempt_id: AttemptId) {
        {
            let mut table = self.shared.table();
            let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
            (attempt.is_frozen, attempt.pause_due) = (false, None);
            if std::mem::take(&mut attempt.is_shelved) {
                table.calls.push_back(Call::Submit(attempt_id));
            }
        }
        self.shared.work.notify_one();
    }

    fn cancel(&self, attempt_id: AttemptId) {
        {
            let mut table = self.shared.table();
            let has_no_grace = table.has_no_grace;
            let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
            let grace = if has_no_grace { Duration::ZERO } else { attempt.job.command.grace };
            attempt.kill_at = Some(Instant::now() + grace);
            self.shared.folder.mark_cancelled(attempt.key);
        }
        self.shared.push(Call::Cancel(attempt_id));
    }
}
