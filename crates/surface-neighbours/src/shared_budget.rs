//! One run among others: it reads what they use, lets the scheduler choose, and writes what it uses.
//!
//! Room: driver.
//!
//! # Invariant
//! What our record says is at least what our jobs use.
//!
//! # Why it holds
//! The scheduler chooses while we hold the lock, and starts nothing before we have written. If we do not get the lock, find no slot in the file, or
//! cannot write, the others seem to hold everything. Then nothing starts, and the record, which says more than we use, stays.

use core::fmt;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sched_jobs::{Aging, Config, JobId, Limits, Neighbours, Others, Usage};

use crate::alive::{Watches, is_stopped, process};
use crate::budget_file::BudgetFile;
use crate::error::JoinError;
use crate::fair::{OwnRun, closed, count, overdue};
use crate::keeper_dir::{self, IsAlive};
use crate::memory::{Memory, Sources, usual_reserve_mb};
use crate::notifier::{Notifier, Shared};
use crate::record::{CPU, Named, RAM, Record, VRAM, Want, number_of, number_of_card};
use crate::{NAMED_MAX, RUNS_MAX, dir};

/// How a run shares.
#[must_use]
pub struct Settings {
    folder: PathBuf,
    limits: Limits,
    overdue_after: Duration,
    reserve_mb: u64,
    sources: Sources,
    keeper_dir: Option<(PathBuf, IsAlive)>,
    most_mb: Option<u64>,
}

impl Settings {
    /// The usual settings: the user's folder, memory as the system reports it, and no video memory.
    pub fn new(config: &Config) -> Self {
        let interval = Some(config.aging.interval).filter(|interval| !interval.is_zero());
        Self {
            folder: dir::default_dir(),
            limits: config.limits.clone(),
            overdue_after: interval.unwrap_or(Aging::default().interval).saturating_mul(3),
            reserve_mb: usual_reserve_mb(),
            sources: Sources {
                available_mb: Box::new(mech_process::machine::memory_available_mb),
                resident_mb: Box::new(|| 0),
                vram_mb: Box::new(Vec::new),
            },
            keeper_dir: None,
            most_mb: None,
        }
    }

    /// How much memory can be free at most, in MB. A job that needs no more waits until it is free, also if no other job of ours runs.
    pub fn most_mb(mut self, mb: Option<u64>) -> Self {
        self.most_mb = mb;
        self
    }

    /// Jobs outlive their run. Their keepers are in `folder`, which belongs to this run alone. `is_alive` says of any such folder whether a job of it still runs. What a killed
    /// run held is then counted until that ends.
    pub fn jobs_outlive_it(
        mut self,
        folder: impl Into<PathBuf>,
        is_alive: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Self {
        self.keeper_dir = Some((folder.into(), IsAlive(Box::new(is_alive))));
        self
    }

    /// Another folder. Runs with the same folder share.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folder = path.into();
        self
    }

    /// Memory that is left to the system whatever jobs want, in MB.
    pub fn reserve_mb(mut self, mb: u64) -> Self {
        self.reserve_mb = mb;
        self
    }

    /// How much memory the system could give now, in MB; `None` if it does not report it. Called at most ten times a second, under the
    /// scheduler's lock: it must not call back.
    pub fn available_mb(mut self, ask: impl FnMut() -> Option<u64> + Send + 'static) -> Self {
        self.sources.available_mb = Box::new(ask);
        self
    }

    /// How much of the memory that running jobs were promised they really use, in MB: of each job at most its promise. Called as
    /// `available_mb` is.
    pub fn resident_mb(mut self, ask: impl FnMut() -> u64 + Send + 'static) -> Self {
        self.sources.resident_mb = Box::new(ask);
        self
    }

    /// Video memory: for each card its id, how much it has and how much is used, in MB. Called as `available_mb` is.
    pub fn vram_mb(mut self, ask: impl FnMut() -> Vec<(String, u64, u64)> + Send + 'static) -> Self {
        self.sources.vram_mb = Box::new(ask);
        self
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("folder", &self.folder).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// One run among others. Pass it to [`Builder::neighbours`](sched_jobs::Builder::neighbours). Dropping it gives back what it held.
#[derive(Debug)]
pub struct SharedBudget {
    file: BudgetFile,
    notifier: Arc<Shared>,
    watches: Watches,
    /// Says whether jobs of a dead run still run.
    is_alive: Option<IsAlive>,
    most_mb: Option<u64>,
    memory: Memory,
    overdue_after_ns: u64,
    /// Our record, as it should be in the file.
    record: Record,
    named: Vec<(String, u64, u64)>,
    /// Our graphics cards: their ids and numbers. In records they follow the named resources.
    cards: Vec<(String, u64)>,
    /// The job that waits for others, and since when.
    waiting: Option<(JobId, u64)>,
}

/// Joins the other runs of this user.
///
/// # Errors
/// If the folder is not ours or cannot be used, or there are too many named resources.
pub fn join(settings: Settings) -> Result<(SharedBudget, Notifier), JoinError> {
    let Settings { folder, limits, overdue_after, reserve_mb, sources, keeper_dir, most_mb } = settings;
    let names = limits.named.len() + limits.gpus.len();
    if names > NAMED_MAX {
        return Err(JoinError::TooManyNames { names });
    }
    let mut file = BudgetFile::open(&folder)?;
    let failed = |error| JoinError::File { path: folder.clone(), error };
    let pid = std::process::id();
    let start = process(pid).ok_or_else(|| failed(std::io::Error::other("/proc has no entry for this process")))?.start;
    let id = new_id(pid, start);
    let named: Vec<_> = limits.named.iter().map(|(name, limit)| (name.clone(), number_of(name), *limit)).collect();
    let cards: Vec<(String, u64)> = limits.gpus.iter().map(|gpu| (gpu.id.clone(), number_of_card(&gpu.id))).collect();
    let entries = named.iter().map(|&(_, name, limit)| Named { name, held: 0, wanted: 0, limit });
    let entries = entries.chain(cards.iter().map(|&(_, name)| Named { name, held: 0, wanted: 0, limit: 0 }));
    // Where cards are known, their memory counts.
    let vram_mb = if cards.is_empty() { limits.vram_mb } else { 0 };
    let record = Record {
        id,
        pid,
        start,
        running: 0,
        held: [0; 3],
        limit: [u64::from(limits.cpu_slots), limits.ram_mb, vram_mb],
        resident_mb: 0,
        waits: false,
        want: None,
        named: entries.collect(),
    };
    let beside = file.folder().try_clone().map_err(failed)?;
    // Socket files of runs that died are removed here. Ours is created under the same lock, and our record is written: no run that joins meanwhile takes it for a dead one.
    let notifier = {
        let table = file.lock();
        let notifier = Shared::new(&beside, id).map_err(failed)?;
        if let Ok(mut table) = table
            && let Ok(runs) = table.read()
            && let Some(slot) = free_slot(&runs)
        {
            // Without a record the others would not see what we hold, so nothing of ours could ever start. Running without sharing is better, and the caller says so.
            table.write(slot, &record).inspect_err(|_| notifier.remove(id)).map_err(failed)?;
            let known: Vec<u64> = runs.iter().map(|(_, run)| run.id).chain([id]).collect();
            notifier.remove_all_but(&known);
            keeper_dir::remove_all_but(notifier.folder(), &known);
            if let Some((own, _)) = &keeper_dir {
                // An earlier process of this run: what its jobs hold is counted by us now.
                for (slot, run) in
                    runs.iter().filter(|(_, run)| keeper_dir::of(notifier.folder(), run.id).as_ref() == Some(own))
                {
                    let _ = table.clear(*slot);
                    notifier.remove(run.id);
                    keeper_dir::remove(notifier.folder(), run.id);
                }
                keeper_dir::leave(notifier.folder(), id, own).map_err(failed)?;
            }
        }
        notifier
    };
    let overdue_after_ns = u64::try_from(overdue_after.as_nanos()).unwrap_or(u64::MAX);
    let memory = Memory::new(sources, reserve_mb);
    let budget = SharedBudget {
        file,
        notifier: notifier.clone(),
        watches: Watches::default(),
        is_alive: keeper_dir.map(|(_, is_alive)| is_alive),
        most_mb,
        memory,
        overdue_after_ns,
        record,
        named,
        cards,
        waiting: None,
    };
    Ok((budget, Notifier { shared: notifier }))
}

/// A number that no other run has, in this process or another.
fn new_id(pid: u32, start: u64) -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    [u64::from(pid), start, count, crate::now()].into_iter().fold(0x9E37_79B9_7F4A_7C15, |id: u64, part| {
        let mixed = (id ^ part).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    })
}

/// The first slot without a record.
fn free_slot(runs: &[(usize, Record)]) -> Option<usize> {
    // Records are in the order of the file, so the first one that is not at its own index comes after a gap.
    let gap = runs.iter().enumerate().find(|(at, (slot, _))| at != slot).map_or(runs.len(), |(at, _)| at);
    Some(gap).filter(|slot| *slot < RUNS_MAX)
}

impl Neighbours for SharedBudget {
    fn share(&mut self, choose: &mut dyn FnMut(&Others) -> Usage) {
        let mut chosen = false;
        let mut once = |others: &Others| {
            chosen = true;
            choose(others)
        };
        if self.share_locked(&mut once).is_err() {
            if !chosen {
                choose(&closed(&self.own_run()));
            }
            self.notifier.watch(self.watches.descriptors(), Some(Vec::new()));
        }
    }
}

impl SharedBudget {
    fn own_run(&self) -> OwnRun<'_> {
        let since = self.waiting.map(|(_, since)| since);
        OwnRun { id: self.record.id, limit: self.record.limit, since, named: &self.named, cards: &self.cards }
    }

    fn share_locked(&mut self, choose: &mut dyn FnMut(&Others) -> Usage) -> std::io::Result<()> {
        let now = crate::now();
        self.memory.look(now);
        let mut table = self.file.lock()?;
        let mut runs = table.read()?;
        let all = runs.len();
        let own = runs.iter().position(|(_, run)| run.id == self.record.id).map(|at| runs.remove(at));
        let mut dead = self.watches.dead(&runs);
        let mut some_outlived = false;
        for (slot, run) in runs.iter_mut().filter(|(slot, _)| dead.contains(slot)).collect::<Vec<_>>() {
            let keeper_dir = keeper_dir::of(self.notifier.folder(), run.id);
            if keeper_dir.zip(self.is_alive.as_ref()).is_some_and(|(keeper_dir, is_alive)| (is_alive.0)(&keeper_dir)) {
                // Its jobs still hold what it held. It wants nothing more.
                run.forget_wants();
                dead.retain(|dead| *dead != *slot);
                some_outlived = true;
            }
        }
        for slot in &dead {
            let _ = table.clear(*slot); // if it fails, the next run finds it dead again
        }
        let (gone, others): (Vec<_>, Vec<_>) = runs.into_iter().partition(|(slot, _)| dead.contains(slot));
        let slot = match &own {
            Some((slot, _)) => *slot,
            // Our record was lost, or found no slot. The slot of a dead run will do.
            None => match gone.first() {
                Some((slot, _)) => *slot,
                None => free_slot(&others).ok_or_else(|| std::io::Error::other("as many runs as fit"))?,
            },
        };
        if own.is_none() {
            // Before anything is chosen: another run must not add to what we hold without seeing it.
            table.write(slot, &self.record)?;
        }

        let since = self.waiting.map(|(_, since)| since);
        let own_run =
            OwnRun { id: self.record.id, limit: self.record.limit, since, named: &self.named, cards: &self.cards };
        let overdue = overdue(&own_run, &others, now, self.overdue_after_ns, is_stopped);
        let mut counted = count(&own_run, &others, overdue);
        counted.ram_free_mb = self.memory.free_mb(self.record.held[RAM], &others);
        counted.ram_most_mb = self.most_mb.filter(|_| counted.ram_free_mb.is_some());
        for ((id, number), card) in self.cards.iter().zip(&mut counted.cards) {
            let ours = self.record.held_of(*number);
            card.free_mb = self.memory.card_free_mb(id, *number, ours, &others);
        }
        let usage = choose(&counted);

        self.waiting = usage.wanted.as_ref().map(|wanted| match self.waiting {
            Some((job, since)) if job == wanted.job => (job, since),
            _ => (wanted.job, now),
        });
        let next = self.record.after(&usage, self.waiting.map(|(_, since)| since), self.memory.resident_mb());
        let before = core::mem::replace(&mut self.record, next);
        if own.as_ref().is_none_or(|(_, written)| *written != self.record) {
            table.write(slot, &self.record)?;
        }
        let last = others.iter().map(|(slot, _)| *slot).chain([slot]).max().unwrap_or(slot);
        if all > others.len() + 1 || !dead.is_empty() {
            table.trim(last + 1)?;
        }
        drop(table);

        for (_, run) in &gone {
            self.notifier.remove(run.id);
            keeper_dir::remove(self.notifier.folder(), run.id);
        }
        if self.record.gives_back(&before) || !gone.is_empty() {
            self.notifier.notify(others.iter().filter(|(_, run)| run.waits).map(|(_, run)| run.id));
        }
        let lacks_memory = usage
            .lacks_memory
            .then(|| others.iter().filter(|(_, run)| run.running > 0).map(|(_, run)| run.id).collect());
        // An overdue run that is stopped or resumed sends no notification; nor do jobs that outlived their run.
        let recheck = lacks_memory.or_else(|| (overdue.is_some() || some_outlived).then(Vec::new));
        let processes = if self.record.waits { self.watches.descriptors() } else { Vec::new() };
        self.notifier.watch(processes, recheck.filter(|_| self.record.waits));
        Ok(())
    }
}

impl Record {
    /// The record of the same run with this usage and these wants.
    fn after(&self, usage: &Usage, since: Option<u64>, resident_mb: u64) -> Self {
        let amount = |all: &[(String, u64)], number: u64| {
            all.iter().find(|(name, _)| number_of(name) == number).map_or(0, |(_, amount)| *amount)
        };
        let wanted = usage.wanted.as_ref();
        let first_card = self.named.len() - usage.cards.len();
        let named = self.named.iter().enumerate().map(|(at, &entry)| Named {
            held: match at.checked_sub(first_card) {
                Some(card) => usage.cards[card],
                None => amount(&usage.named, entry.name),
            },
            wanted: wanted.map_or(0, |wanted| amount(&wanted.named, entry.name)),
            ..entry
        });
        let mut held = self.held;
        (held[CPU], held[RAM], held[VRAM]) = (usage.cpu_slots, usage.ram_mb, usage.vram_mb);
        Self {
            running: usage.running as u64,
            held,
            resident_mb: if usage.ram_mb == 0 { 0 } else { resident_mb },
            waits: wanted.is_some() || usage.lacks_memory,
            want: since.zip(wanted).map(|(since, wanted)| Want {
                since,
                amounts: [wanted.cpu_slots, wanted.ram_mb, wanted.vram_mb],
                alone: wanted.alone,
                cards: wanted.gpus > 0,
            }),
            named: named.collect(),
            ..*self
        }
    }
}

impl Drop for SharedBudget {
    fn drop(&mut self) {
        let mut waiting = Vec::new();
        if let Ok(mut table) = self.file.lock()
            && let Ok(mut runs) = table.read()
        {
            if let Some(at) = runs.iter().position(|(_, run)| run.id == self.record.id) {
                // If it fails, the next reader finds that our process is gone.
                let _ = table.clear(runs.remove(at).0);
            }
            let _ = table.trim(runs.last().map_or(0, |(slot, _)| slot + 1));
            waiting = runs.into_iter().filter(|(_, run)| run.waits).map(|(_, run)| run.id).collect();
        }
        self.notifier.remove(self.record.id);
        keeper_dir::remove(self.notifier.folder(), self.record.id);
        self.notifier.notify(waiting);
    }
}
