//! How many tasks may be spawned into a nursery, and by which permits.
//!
//! Room: state. Knows permits and limits; who pays is `nursery/admission.rs`.
//!
//! # Invariant
//! A task is admitted only after everything that counts it was paid: the nursery's own limit, a permit of its capability, a spawn of its pool. A permit is
//! given back only after its task ended; where permits are scarce, before a task that waits for it goes on.
//!
//! # Why it holds
//! The owner of a nursery pays in advance for some tasks at once, and counts them off; any other task pays for each spawn. Before
//! one is refused, spawns that the owner paid for and has not used are taken back. The permits the nursery has lie in a
//! `mech_sync::permit_cache`, which has a model: only those whose task has ended, or did not start, are reused or given back. What was paid and not used goes back when the
//! nursery ends; by then every task has ended, and was counted by the gate before the nursery counted it, so no other thread touches the permit cache.
//!
//! # Rejected
//! A permit and a spawn for each task: three contended counters a task. The price of paying ahead is that of many nurseries under one capability each may keep a
//! sixty-fourth of what is left, and that much earlier another is refused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use mech_sync::PermitCache;
use policy_admission::{CapError, CapSpawn, Lease, Ledger, TaskPermits};
use vocab::Budget;

use crate::{authority::Credentials, budget::Account, options::NurseryOptions};

/// See the module.
pub(crate) struct Gate {
    /// How many tasks may be spawned in all, and how many were.
    pub(crate) limit: Option<u64>,
    pub(crate) spawned: AtomicU64,
    pub(crate) permits: Option<Permits>,
    /// No task may be spawned.
    pub(crate) closed: Option<CapError>,
}

/// What the nursery has of its capabilities: of each the same number.
pub(crate) struct Permits {
    leases: Box<[Lease<CapSpawn>]>,
    taken: PermitCache<Vec<TaskPermits>>,
    /// Each is given back when its task ends, before that is known. While there are plenty, a worker gives back many at once; once they are scarce, never again.
    scarce: AtomicBool,
}

impl Gate {
    /// None if there is no limit.
    pub(crate) fn new(
        options: &NurseryOptions,
        credentials: Option<&Credentials>,
        has_account: bool,
        ledger: Option<&Ledger>,
    ) -> Option<Self> {
        let (leases, closed) = match credentials.map(|credentials| credentials.to_spawn(ledger)) {
            None => (&[][..], None),
            Some(Ok(leases)) => (leases, None),
            Some(Err(error)) => (&[][..], Some(error)),
        };
        if !has_account && options.spawn_limit.is_none() && leases.is_empty() && closed.is_none() {
            return None;
        }
        Some(Self {
            limit: options.spawn_limit,
            spawned: AtomicU64::new(0),
            permits: (!leases.is_empty()).then(|| Permits {
                leases: leases.into(),
                taken: PermitCache::new(leases.iter().map(TaskPermits::empty).collect()),
                scarce: AtomicBool::new(leases.iter().any(|lease| lease.terms().get_max_tasks() < FEW)),
            }),
            closed,
        })
    }

    /// A task of the nursery ended: its permit is given back, at once if they are scarce. False if it is not yet.
    #[inline(always)]
    pub(crate) fn task_ended(&self) -> bool {
        let Some(permits) = &self.permits else { return true };
        let scarce = permits.scarce.load(Relaxed);
        if scarce {
            permits.one_ended();
        }
        scarce
    }

    /// So many tasks ended before, and have not given their permits back.
    #[inline]
    pub(crate) fn give_back(&self, tasks: u32) {
        if let Some(permits) = &self.permits {
            permits.ended(tasks.into());
        }
    }

    /// So many tasks that the owner paid for will not be spawned.
    pub(crate) fn take_back(&self, unused: u64, account: &Account) {
        if let Some(permits) = &self.permits {
            permits.unused(unused);
        }
        account.refund(&Budget::ZERO.spawns(unused));
    }

    /// The nursery is over, and its owner has so many tasks left `unused` that it paid for. The permits go with the gate.
    pub(crate) fn close(&self, unused: u64, account: Option<&Account>) {
        if let Some(account) = account.filter(|_| unused > 0) {
            account.refund(&Budget::ZERO.spawns(unused));
        }
        if let Some(permits) = &self.permits {
            permits.leases.iter().for_each(|lease| lease.count_unused(unused));
            let all = permits.taken.close(std::mem::take);
            drop(all); // not under the lock: it walks the capabilities above
        }
    }
}

/// What was counted for tasks that are not admitted yet. Dropped, it is taken back: they were refused, or their spawner unwinds.
pub(crate) struct Claim<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) counted: bool,
    pub(crate) permits: u64,
}

impl Claim<'_> {
    /// So many are admitted.
    pub(crate) fn keep(mut self, tasks: u64) {
        self.counted = false;
        self.permits = self.permits.saturating_sub(tasks);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.gate.spawned.fetch_sub(1, Relaxed);
        }
        if let Some(permits) = self.gate.permits.as_ref().filter(|_| self.permits > 0) {
            permits.unused(self.permits);
        }
    }
}

/// A limit below this is scarce from the beginning; a larger one, when all but a quarter is in use.
const FEW: u64 = 4096;

/// Most tasks that an owner pays for at once.
pub(crate) const MOST_AHEAD: u64 = 64;

impl Permits {
    #[inline]
    pub(crate) fn check(&self) -> Result<(), CapError> {
        self.leases.iter().try_for_each(Lease::check)
    }

    /// How many may be taken at a time.
    pub(crate) fn batch(&self) -> u64 {
        self.leases.iter().map(Lease::batch).min().unwrap_or(1)
    }

    /// One to `want` permits: spare ones, or new ones.
    pub(crate) fn take(&self, want: u64) -> Result<u64, CapError> {
        if let Some(spare) = self.taken.reuse(want) {
            self.leases.iter().for_each(|lease| lease.count_reuse(spare));
            return Ok(spare);
        }
        let mut count = want;
        let mut more = Vec::with_capacity(self.leases.len());
        for lease in &self.leases {
            let permits = lease.take_tasks(count)?; // what was taken of the others goes back
            count = permits.count();
            more.push(permits);
        }
        for permits in &mut more {
            let surplus = permits.split(permits.count() - count);
            surplus.lease().count_unused(surplus.count());
        }
        if self.leases.iter().any(|lease| lease.tasks_left() < lease.terms().get_max_tasks() / 4) {
            self.scarce.store(true, Relaxed);
        }
        self.taken
            .add(self.batch() - 1, |taken| taken.iter_mut().zip(more).for_each(|(taken, more)| taken.merge(more)));
        Ok(count)
    }

    /// They were not needed for a task after all.
    fn unused(&self, tasks: u64) {
        self.leases.iter().for_each(|lease| lease.count_unused(tasks));
        self.ended(tasks);
    }

    /// Out of the way of those that have plenty.
    #[inline(never)]
    fn one_ended(&self) {
        self.ended(1);
    }

    /// Their tasks ended, or did not start.
    #[inline]
    fn ended(&self, tasks: u64) {
        let split =
            |taken: &mut Vec<TaskPermits>, count| taken.iter_mut().map(|taken| taken.split(count)).collect::<Vec<_>>();
        let too_many = self.taken.ended(tasks, split);
        drop(too_many); // not under the lock
    }
}
