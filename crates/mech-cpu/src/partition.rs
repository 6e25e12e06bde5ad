//! CPUs that some threads of this process have, and all others leave.
//!
//! Room: mechanism. Knows threads and CPUs; who may have a CPU, and what for, is decided above.
//!
//! # Invariants
//! - While a [`Partition`] lives, no thread of this process is allowed on its CPUs but its members and what they start, until the next [`sweep`].
//! - At least one CPU stays for the others. A thread that could run nowhere else is not moved: the partition is refused instead, and changes nothing.
//! - When the last partition is gone, every thread may run where it could before, and threads that began meanwhile may run anywhere, also those that a member started.
//!
//! # Why it holds
//! There is one table for the process, behind a lock. Threads inherit the CPUs of the thread that starts them, so only a thread that is started by one which was not moved yet can be
//! missed: all threads are looked at again until a look finds nothing to do.
//!
//! # What it cannot do
//! Other processes may use these CPUs. A member with a realtime policy goes before them. To keep them away takes a cpuset, which only an administrator can make.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mask::CpuMask;
use crate::thread::Tid;

/// So many looks at all threads are made before one that always finds another is given up.
const LOOKS_MAX: usize = 1000;

/// What is taken of the CPUs of this process.
struct Table {
    /// What the process could use when the first partition was made.
    base: CpuMask,
    taken: CpuMask,
    members: Vec<Tid>,
    /// Where threads could run, if not everywhere, when they were moved or a partition was made.
    before: Option<HashMap<Tid, CpuMask>>,
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { base: CpuMask::NONE, taken: CpuMask::NONE, members: Vec::new(), before: None });

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why CPUs cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum TakeError {
    /// The process may not use a CPU, or another partition has it.
    Unavailable {
        /// Which.
        cpu: usize,
    },
    /// No CPU would be left for the other threads.
    NoneLeft {
        /// What was wanted.
        wanted: CpuMask,
        /// What the process has that is in no partition.
        free: CpuMask,
    },
    /// A thread may run on these CPUs alone.
    Pinned {
        /// Where.
        cpus: CpuMask,
        /// What the thread is called.
        thread: String,
    },
    /// The system refused.
    System(io::Error),
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakeError::Unavailable { cpu } => {
                write!(f, "CPU {cpu} is taken already, or this process may not use it (see `taskset -p`)")
            }
            TakeError::NoneLeft { wanted, free } => {
                write!(f, "CPUs {wanted} of {free} leave none for the other threads; leave at least one out")
            }
            TakeError::Pinned { cpus, thread } => {
                write!(f, "thread `{thread}` is pinned to CPUs {cpus}; let it run elsewhere, too")
            }
            TakeError::System(error) => write!(f, "the threads of this process cannot be moved: {error}"),
        }
    }
}

impl std::error::Error for TakeError {}

impl Table {
    /// Where threads that are no members may run.
    fn common(&self) -> CpuMask {
        self.base.without(self.taken)
    }

    /// Keeps every thread that is no member off the CPUs that are taken.
    fn confine(&mut self) -> io::Result<()> {
        for _ in 0..LOOKS_MAX {
            let mut is_done = true;
            for tid in Tid::all()? {
                if self.members.contains(&tid) {
                    continue;
                }
                let Some(mask) = if_there(tid.affinity())? else { continue };
                if mask.and(self.taken).is_empty() {
                    continue;
                }
                is_done = false;
                let rest = mask.without(self.taken);
                let rest = if rest.is_empty() { self.common() } else { rest }; // else a member started it
                if_there(tid.set_affinity(rest))?;
            }
            if is_done {
                return Ok(());
            }
        }
        Err(io::Error::other("new threads are started faster than they can be moved"))
    }

    /// Gives CPUs back to all threads that left them.
    fn give_back(&mut self, cpus: CpuMask) -> io::Result<()> {
        let common = self.common();
        self.taken = self.taken.without(cpus);
        for tid in Tid::all()? {
            if self.members.contains(&tid) {
                continue;
            }
            let Some(mask) = if_there(tid.affinity())? else { continue };
            let before = self.before.as_ref().and_then(|before| before.get(&tid).copied());
            let had = match before {
                _ if mask.without(cpus).is_empty() => self.base, // a member started it
                Some(before) if before.without(self.taken).without(cpus) == mask => before,
                None if mask == common => self.base,
                _ => continue, // it was put elsewhere meanwhile, on purpose
            };
            if_there(tid.set_affinity(had.without(self.taken)))?;
        }
        if self.taken.is_empty() {
            self.before = None;
        }
        Ok(())
    }
}

/// None: the thread has ended.
fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// CPUs for its members alone. They are given back when it is dropped.
#[derive(Debug)]
pub struct Partition {
    cpus: CpuMask,
}

impl Partition {
    /// Takes CPUs away from all threads of this process.
    pub fn take(cpus: CpuMask) -> Result<Self, Box<TakeError>> {
        let system = |error| Box::new(TakeError::System(error));
        let mut table = table();
        let mut masks = Vec::new();
        for tid in Tid::all().map_err(system)? {
            let mask = if_there(tid.affinity()).map_err(system)?;
            masks.extend(mask.filter(|_| !table.members.contains(&tid)).map(|mask| (tid, mask)));
        }
        if table.taken.is_empty() {
            table.base = masks.iter().fold(CpuMask::NONE, |all, (_, mask)| all.or(*mask));
        }
        let free = table.common();
        if let Some(cpu) = cpus.without(free).iter().next() {
            return Err(TakeError::Unavailable { cpu }.into());
        }
        if free.without(cpus).is_empty() {
            return Err(TakeError::NoneLeft { wanted: cpus, free }.into());
        }
        if let Some((tid, mask)) = masks.iter().find(|(_, mask)| mask.without(table.taken.or(cpus)).is_empty()) {
            return Err(TakeError::Pinned { cpus: *mask, thread: tid.name().unwrap_or_default() }.into());
        }
        let limited = masks.iter().filter(|(_, mask)| *mask != table.base && *mask != free).copied();
        let limited: Vec<_> = limited.collect();
        let before = table.before.get_or_insert_default();
        before.retain(|tid, _| masks.iter().any(|(other, _)| other == tid)); // numbers are used again
        limited.into_iter().for_each(|(tid, mask)| _ = before.entry(tid).or_insert(mask));
        table.taken = table.taken.or(cpus);
        if let Err(error) = table.confine() {
            let _ = table.give_back(cpus); // as far as it goes: the first error counts
            return Err(system(error));
        }
        Ok(Self { cpus })
    }

    /// Its CPUs.
    pub fn cpus(&self) -> CpuMask {
        self.cpus
    }

    /// Puts the calling thread on one of its CPUs, until the member leaves.
    pub fn enter(&self, cpu: usize) -> io::Result<Member> {
        assert!(self.cpus.has(cpu), "CPU {cpu} is not one of {}", self.cpus);
        let tid = Tid::current();
        let mut table = table();
        assert!(!table.members.contains(&tid), "a thread is a member once");
        let before = tid.affinity()?;
        tid.set_affinity(CpuMask::one(cpu))?;
        table.members.push(tid);
        Ok(Member { tid, before, cpu })
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let given = table().give_back(self.cpus);
        if let Err(error) = given {
            eprintln!("bursar: CPUs {} were not given back to all threads: {error}", self.cpus);
        }
    }
}

/// A thread on a CPU of a [`Partition`].
///
/// Dropped by its own thread, before that ends: a number of a thread is used again.
#[derive(Debug)]
pub struct Member {
    tid: Tid,
    before: CpuMask,
    cpu: usize,
}

impl Member {
    /// Its thread.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Where it runs.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Sends it back among the other threads, whatever it does now. Only the first time.
    pub fn leave(&self) {
        let mut table = table();
        let Some(place) = table.members.iter().position(|tid| *tid == self.tid) else { return };
        table.members.swap_remove(place);
        let rest = self.before.without(table.taken);
        let rest = if rest.is_empty() { table.common() } else { rest };
        let left = self.tid.set_fair().and_then(|()| self.tid.set_affinity(rest));
        if let Err(error) = left {
            eprintln!("bursar: a thread does not leave CPU {}: {error}", self.cpu);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Moves threads away from taken CPUs that came there since: members started them, or they were put there.
pub fn sweep() -> io::Result<()> {
    let mut table = table();
    if table.taken.is_empty() { Ok(()) } else { table.confine() }
}

/// The CPUs of this process that are in no partition.
pub fn free() -> io::Result<CpuMask> {
    let table = table();
    if !table.taken.is_empty() {
        return Ok(table.common());
    }
    let mut all = CpuMask::NONE;
    for tid in Tid::all()? {
        all = all.or(if_there(tid.affinity())?.unwrap_or_default());
    }
    Ok(all)
}
