//! The executor: attempts, and two threads.
//!
//! Room: driver. Knows attempts, marks and calls; what to do is decided by `decide.rs`.
//!
//! - `cluster.rs`: what is asked of a cluster; `commands.rs`: asked by commands; `folder.rs`: the marks folder.
//! - `leftovers.rs`: cancels what an earlier process left.
//! - `caller.rs`: the thread that talks to Slurm; `watcher.rs`: the thread that reads marks.
//!
//! # Invariants
//! - An attempt that was started is reported as ended exactly once.
//! - Neither lock is held during a call of Slurm, or of the scheduler.
//!
//! # Why they hold
//! Each end takes the attempt out of the table first, under the lock; what is not in the table is not reported. Reports are collected under the lock and made after it.

mod caller;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod folder;
pub(crate) mod leftovers;
mod table;
mod watcher;

use core::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sched_jobs::process::{Command, Watched};
use sched_jobs::{AttemptId, Executor, Order, Outcome};

use self::cluster::{CallError, Cluster};
use self::folder::{Folder, Remains};
use self::table::{Attempt, Call, Table};
use self::watcher::FolderChanges;
use crate::error::SlurmError;
use crate::key::Key;
use crate::request::{self, Request, Site, VramAs};
use crate::script;
use crate::state::Event;

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
        id: u64,
    },
    /// A message for a person.
    Warning(&'a str),
    /// It has ended, and the observer of the scheduler knows that.
    Ended,
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
    table: Mutex<Table>,
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
        let Settings { folder: path, run, site, log, listen } = settings;
        let bad_folder = |error: std::io::Error| SlurmError::Folder { path: path.clone(), why: error.to_string() };
        let folder = Folder::open(&path).map_err(bad_folder)?;
        let changes = FolderChanges::of(folder.path()).map_err(bad_folder)?;
        let table = Mutex::new(Table::default());
        let shared = Arc::new(Shared { cluster, folder, run, site, log, listen, table, work: Default::default() });
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

    /// Where an attempt is, for people; `None` if it is not with Slurm.
    pub fn status(&self, attempt_id: AttemptId) -> Option<String> {
        let table = self.shared.table();
        Some(table.attempts.get(&attempt_id)?.words(table.trouble.as_deref()))
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

/// Whether the cluster can ever give a job what it wants.
///
/// # Errors
/// If it cannot, or does not answer.
pub fn check_request(cluster: &dyn Cluster, site: &Site, job: &str, request: &Request) -> Result<(), SlurmError> {
    match cluster.try_out(&request::of_site(site, request, Duration::ZERO)) {
        Err(CallError::Refused(why)) => Err(SlurmError::Refused { job: job.to_owned(), why }),
        Err(CallError::Unanswered(why)) => Err(SlurmError::Unreachable { why }),
        // A queue that is full now says nothing about later.
        Ok(()) | Err(CallError::Full(_)) => Ok(()),
    }
}

/// Whether Slurm answers, and has the partition. Settles how video memory is asked for.
///
/// # Errors
/// If no job can go to Slurm.
pub fn check(cluster: &dyn Cluster, site: &mut Site) -> Result<(), SlurmError> {
    let partitions = cluster.partitions().map_err(|error| SlurmError::Unreachable { why: error.to_string() })?;
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
        script::text(attempt.key, self.folder.path(), &attempt.job.command, &self.site)
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
        let report = {
            let mut table = self.shared.table();
            let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
            attempt.is_frozen = true;
            attempt.report.clone()
        };
        // Slurm may take longer than the scheduler waits. If it does not permit it, a warning says so.
        report.paused();
        self.shared.push(Call::Freeze(attempt_id));
    }

    fn resume(&self, attempt_id: AttemptId) {
        if let Some(attempt) = self.shared.table().attempts.get_mut(&attempt_id) {
            attempt.is_frozen = false;
        }
        self.shared.push(Call::Freeze(attempt_id));
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
