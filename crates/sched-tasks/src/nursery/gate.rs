//! Who may spawn into a nursery, and how many tasks.
//!
//! # Invariant
//! A task is admitted only after everything that counts it was paid: the nursery's own limit, a permit of its capability, a spawn of its pool. A permit is
//! given back only after its task ended; where permits are scarce, before anybody who waits for that task hears of it.
//!
//! # Why it holds
//! The owner of a nursery pays in advance for some tasks at once, and counts them off; any other task pays for each spawn. Before
//! one is refused, spawns that the owner paid for and has not used are taken back. The permits the nursery has lie in a
//! `mech_sync::permit_cache`, which has a model: only those whose task has ended, or did not start, are reused or given back. What was paid and not used goes back when the
//! nursery ends; by then every task has ended, and told the gate before it told the nursery, so nobody else touches the permit_cache.
//!
//! # Rejected
//! A permit and a spawn for each task: three contended counters a task. The price of paying ahead is that of many nurseries under one capability each may keep a
//! sixty-fourth of what is left, and that much earlier another is refused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use mech_sync::PermitCache;
use policy_admission::{CapError, CapSpawn, Lease, TaskPermits};
use vocab::{Budget, Component, Shortage};

use crate::{
    authority::Credentials,
    budget::{Account, Pool},
    drive::shared::Shared,
    error::Reason,
    nursery::NurseryCore,
    options::NurseryOptions,
    strand::Strand,
};

/// See the module.
pub(crate) struct Gate {
    /// How many tasks may be spawned in all, and how many were.
    limit: Option<u64>,
    spawned: AtomicU64,
    permits: Option<Permits>,
    /// Nobody may spawn.
    closed: Option<CapError>,
}

/// What the nursery has of its capabilities: of each the same number.
struct Permits {
    leases: Box<[Lease<CapSpawn>]>,
    taken: PermitCache<Vec<TaskPermits>>,
    /// Each is given back when its task ends, before anybody hears of that. While there are plenty, a worker gives back many at once; once they are scarce, never again.
    scarce: AtomicBool,
}

impl Gate {
    /// None if anybody may spawn as many as they like.
    pub(crate) fn new(
        options: &NurseryOptions,
        credentials: Option<&Credentials>,
        has_account: bool,
        shared: &'static Shared,
    ) -> Option<Self> {
        let (leases, closed) = match credentials.map(|credentials| credentials.to_spawn(shared)) {
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

    /// Lets one task in. The owner has `paid_ahead` for some.
    #[inline]
    pub(crate) fn admit(&self, nursery: &NurseryCore, paid_ahead: &AtomicU64, strand: &Strand) -> Result<(), Reason> {
        if let Some(permits) = &self.permits {
            permits.check().map_err(Reason::NotAllowed)?; // revoked is revoked, whatever was paid
        }
        let owner = nursery.is_owned_by(strand.waiter);
        if owner && paid_ahead.fetch_update(Relaxed, Relaxed, |paid| paid.checked_sub(1)).is_ok() {
            return Ok(());
        }
        let admitted = self.admit_slowly(nursery, strand, owner)?;
        if owner {
            paid_ahead.store(admitted - 1, Relaxed);
        }
        Ok(())
    }

    /// Lets in one, or several of the owner's at once: how many.
    #[inline(never)]
    fn admit_slowly(&self, nursery: &NurseryCore, strand: &Strand, owner: bool) -> Result<u64, Reason> {
        if let Some(error) = self.closed {
            return Err(Reason::NotAllowed(error));
        }
        let mut claim = Claim { gate: self, counted: false, permits: 0 };
        if let Some(limit) = self.limit {
            claim.counted = true;
            if self.spawned.fetch_add(1, Relaxed) >= limit {
                return Err(Reason::BudgetExhausted { component: Component::Spawns, granted: limit, wanted: 1 });
            }
        }
        let ahead = owner && self.limit.is_none();
        let mut admitted = if ahead { MOST_AHEAD } else { 1 };
        if let Some(permits) = &self.permits {
            admitted = permits.take(admitted.min(permits.batch())).map_err(Reason::NotAllowed)?;
            claim.permits = admitted;
        }
        match nursery.account() {
            Some(account) => {
                let most = admitted.min(if ahead { account.spawns_in_advance(MOST_AHEAD) } else { 1 });
                admitted = strand.buy_spawns(nursery, account, most)?;
            }
            // A nursery that only counts, lent to a task that has a budget: the task pays.
            None => strand.charge_spawn()?,
        }
        claim.keep(admitted);
        Ok(admitted)
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
struct Claim<'a> {
    gate: &'a Gate,
    counted: bool,
    permits: u64,
}

impl Claim<'_> {
    /// So many are admitted.
    fn keep(mut self, tasks: u64) {
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
const MOST_AHEAD: u64 = 64;

impl Permits {
    #[inline]
    fn check(&self) -> Result<(), CapError> {
        self.leases.iter().try_for_each(Lease::check)
    }

    /// How many may be taken at a time.
    fn batch(&self) -> u64 {
        self.leases.iter().map(Lease::batch).min().unwrap_or(1)
    }

    /// One to `want` permits: spare ones, or new ones.
    fn take(&self, want: u64) -> Result<u64, CapError> {
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

impl NurseryCore {
    /// Takes back the spawns that owners of nurseries with this account paid for ahead, so that another task can use them. False if there are none.
    #[cold]
    fn take_advances_back(&self, account: &Account) -> bool {
        let _one_at_a_time = account.advances.lock();
        let mut found = account.pool().left().spawns > 0; // somebody was quicker
        self.each_with_same_account(|nursery| {
            let unused = nursery.paid_ahead().swap(0, Relaxed);
            if let Some(gate) = nursery.gate().filter(|_| unused > 0) {
                gate.take_back(unused, account);
                found = true;
            }
        });
        found
    }

    /// Where its budget is. What an owner paid for ahead is not spent.
    pub(crate) fn pool(&self) -> Option<Pool> {
        let mut pool = self.account()?.pool();
        self.each_with_same_account(|nursery| {
            pool.refund(&Budget::ZERO.spawns(nursery.paid_ahead().load(Relaxed)));
        });
        Some(pool)
    }

    /// Nurseries that one task opened inside each other may have one account.
    fn each_with_same_account(&self, mut visit: impl FnMut(&NurseryCore)) {
        let mut outermost = self;
        while let Some(outer) = outermost.outer_ref().filter(|_| outermost.shares_account()) {
            outermost = outer;
        }
        visit(outermost);
        let mut inside = outermost.nested();
        while let Some(nursery) = inside.pop() {
            if nursery.shares_account() {
                visit(&nursery);
                inside.extend(nursery.nested());
            }
        }
    }
}

impl Strand {
    /// Pays for a task that is spawned into a nursery without an account.
    pub(crate) fn charge_spawn(&self) -> Result<(), Reason> {
        while self.meter.is_metered()
            && let Err(Shortage { component, wanted, .. }) = self.meter.pay(&Budget::ZERO.spawns(1))
        {
            if !self.ask_for_spawn() {
                let granted = self.meter.granted()[component];
                return Err(Reason::BudgetExhausted { component, granted, wanted });
            }
        }
        Ok(())
    }

    /// Buys the right to spawn, one to `most` times, into a nursery with an account. What its pool does not have may come from further out.
    fn buy_spawns(&self, nursery: &NurseryCore, account: &Account, most: u64) -> Result<u64, Reason> {
        loop {
            match account.charge_spawns(most) {
                0 => {
                    if !nursery.take_advances_back(account)
                        && !self.ask_further_out(nursery, account, Component::Spawns)
                    {
                        let granted = account.pool().granted().spawns;
                        return Err(Reason::BudgetExhausted { component: Component::Spawns, granted, wanted: 1 });
                    }
                }
                bought => return Ok(bought),
            }
        }
    }
}
