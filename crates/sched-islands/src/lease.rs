//! The CPUs that an island has, and how they are taken away.
//!
//! Room: state. Knows workers, CPUs and threads on them; knows nothing of tasks.
//!
//! # Invariant
//! What a lease holds is given back once: by a revocation, or when the island is dropped. The threads on its CPUs are sent away first.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mech_cpu::{CpuMask, Member, Partition, TakeError, partition};
use sched_tasks::internals::Loan;

use crate::error::IslandError;
use crate::spec::Island;

/// CPUs of the machine, and the workers that are lent for them.
pub(crate) struct Lease {
    held: Mutex<Option<Held>>,
    /// By leased worker, in the order of admission: its number there, and its CPU.
    cpus: Vec<(u32, u32)>,
    /// A seed decides: there are no CPUs.
    pub(crate) is_virtual: bool,
}

struct Held {
    /// Threads of the island on its CPUs.
    members: Vec<Arc<Member>>,
    partition: Option<Partition>,
    loan: Loan,
}

impl Lease {
    /// Takes CPUs for the workers that were lent. The last ones first: systems like to keep CPU 0 for themselves.
    pub(crate) fn take(island: &Island, loan: Loan) -> Result<Self, IslandError> {
        let workers: Vec<u32> = loan.admitted().leased().iter().collect();
        if loan.is_seeded() {
            let cpus = workers.iter().map(|worker| (*worker, *worker)).collect();
            return Ok(Self {
                held: Mutex::new(Some(Held { members: Vec::new(), partition: None, loan })),
                cpus,
                is_virtual: true,
            });
        }
        let refused =
            |error: Box<TakeError>| IslandError::NotIsolated { island: island.name.clone(), error: Arc::from(error) };
        let free: Vec<usize> =
            partition::free().map_err(|error| refused(TakeError::System(error).into()))?.iter().collect();
        let chosen = &free[free.len().saturating_sub(workers.len())..];
        if chosen.len() < workers.len() || free.len() == chosen.len() {
            let [wanted, free] = [chosen, &free].map(|cpus| cpus.iter().copied().collect());
            return Err(refused(TakeError::NoneLeft { wanted, free }.into()));
        }
        let cpus = workers.into_iter().zip(chosen.iter().map(|cpu| *cpu as u32)).collect();
        let taken = Partition::take(chosen.iter().copied().collect::<CpuMask>()).map_err(refused)?;
        let held = Held { members: Vec::new(), partition: Some(taken), loan };
        Ok(Self { held: Mutex::new(Some(held)), cpus, is_virtual: false })
    }

    /// Its CPUs.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.iter().map(|(_, cpu)| *cpu)
    }

    /// On which CPU a task runs. None: the lease was revoked.
    pub(crate) fn cpu_of(&self, task: &str) -> Option<u32> {
        let worker = self.lock().as_ref()?.loan.admitted().cpu_of(task)?;
        self.cpus.iter().find(|(one, _)| *one == worker).map(|(_, cpu)| *cpu)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.lock().is_some()
    }

    /// Puts the calling thread on a CPU of the lease. None if there is nothing to be put on: the CPU is virtual, or the lease was revoked.
    pub(crate) fn enter(&self, cpu: u32) -> io::Result<Option<Entered<'_>>> {
        let mut held = self.lock();
        let Some(Held { members, partition: Some(partition), .. }) = held.as_mut() else { return Ok(None) };
        let member = Arc::new(partition.enter(cpu as usize)?);
        members.push(member.clone());
        Ok(Some(Entered { lease: self, member }))
    }

    /// Gives everything back, now. The first time.
    pub(crate) fn release(&self) {
        let held = self.lock().take();
        if let Some(held) = held {
            held.members.iter().for_each(|member| member.leave());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The calling thread is on a CPU of the lease, until this is dropped or the lease is released.
pub(crate) struct Entered<'a> {
    lease: &'a Lease,
    pub(crate) member: Arc<Member>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.member.leave();
        if let Some(held) = self.lease.lock().as_mut() {
            held.members.retain(|member| !Arc::ptr_eq(member, &self.member));
        }
    }
}
