//! The time of one scheduling context, which all workers charge.
//!
//! Room: state. Knows refills and the clock; knows nothing of queues.
//!
//! # Invariants
//! - Refills add up to the budget (`policy_cpu::Refills` asserts it). What several workers use at the same time beyond what is left is taken from later refills.
//! - While it is throttled an alarm is set, which ends that when time comes back and tells those that wait; see `mech_sync::throttle`.
//! - What is cancelled may unwind while it is throttled, on credit: of later refills at most [`CREDIT`] is used in advance, or one budget if that is more. So who makes its tasks cancelled again and
//!   again gains that much once, and pays it back.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use mech_sync::{Gates, Released, SpinLock, Throttle};
use policy_admission::cpu::Admitted;
use policy_cpu::{ContextSpec, Nanos, Refills};

use super::{
    clock::Alarm,
    nursery::NurseryCore,
    shared::Shared,
    shares::{Notice, ShareGroup},
};
use crate::{
    context::{Context, Overrun},
    error::Reason,
};

/// So much of later refills what is cancelled may use in advance: enough for some hundred thousand tasks to unwind.
const CREDIT: Nanos = 100_000_000;

/// A context in use.
pub(crate) struct CpuServer {
    context: Context,
    spec: ContextSpec,
    /// What was admitted, if it goes before groups without a context: else it only limits.
    admitted: SpinLock<Option<Admitted>>,
    is_reserved: bool,
    time: SpinLock<Time>,
    throttle: Throttle<Held>,
    /// Those of the groups around, the innermost first.
    around: Box<[Arc<CpuServer>]>,
    /// It had no time left, for which its nursery was cancelled: its tasks may unwind.
    is_over: AtomicBool,
    /// It had no time left when it was asked last; only where its tasks go on with their weight.
    is_demoted: AtomicBool,
    depletions: AtomicU64,
    nursery: OnceLock<Weak<NurseryCore>>,
    shared: &'static Shared,
}

struct Time {
    refills: Refills,
    /// When its tasks became runnable last. A worker that chooses may have read the clock before.
    woken: Nanos,
}

/// What waits for time, on a worker.
pub(crate) enum Held {
    /// A group that the worker has something of.
    Group(Arc<ShareGroup>, usize),
    /// A group that others could take from the worker.
    Listing(Arc<ShareGroup>, usize),
}

/// Whether tasks of a context may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Allowance {
    /// For so long, with the rank that its context has.
    Run(Nanos),
    /// Without that rank.
    Demoted,
    /// Not until it is told.
    Throttled,
}

impl CpuServer {
    pub(crate) fn new(
        shared: &'static Shared,
        context: Context,
        spec: ContextSpec,
        admitted: Option<Admitted>,
        around: Option<&Arc<ShareGroup>>,
    ) -> Arc<Self> {
        let now = shared.charging_now();
        Arc::new(Self {
            context,
            spec,
            is_reserved: admitted.is_some(),
            admitted: SpinLock::new(admitted),
            time: SpinLock::new(Time { refills: Refills::new(spec.budget, spec.period, now), woken: now }),
            throttle: Throttle::new(shared.workers.len()),
            around: around.iter().flat_map(|around| around.servers.iter().cloned()).collect(),
            is_over: AtomicBool::new(false),
            is_demoted: AtomicBool::new(false),
            depletions: AtomicU64::new(0),
            nursery: OnceLock::new(),
            shared,
        })
    }

    /// Whether its tasks go before those without a context.
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    pub(crate) fn context(&self) -> Context {
        self.context
    }

    pub(crate) fn depletions(&self) -> u64 {
        self.depletions.load(Relaxed)
    }

    /// The nursery that is cancelled when it must be.
    pub(crate) fn set_nursery(&self, nursery: Weak<NurseryCore>) {
        let _ = self.nursery.set(nursery);
    }

    pub(crate) fn is_throttled(&self) -> bool {
        self.throttle.is_on()
    }

    /// The same, ordered with what begins to wait.
    pub(super) fn holds_back(&self) -> bool {
        self.throttle.holds_back()
    }

    /// Has `held` told when there is time. False if there is.
    pub(super) fn wait(&self, held: Held) -> bool {
        self.throttle.wait(held).is_ok()
    }

    pub(super) fn gates(&self) -> &Gates {
        self.throttle.gates()
    }

    fn outer_gates(&self) -> impl Iterator<Item = &Gates> + Clone {
        self.around.iter().map(|server| server.gates())
    }

    /// By when what it has now should be used.
    pub(crate) fn deadline(&self) -> Nanos {
        self.time.lock().refills.next_at().saturating_add(self.spec.deadline)
    }

    /// Its tasks become runnable on a worker: what could have been used before may be used from now on.
    pub(crate) fn wake(&self, now: Nanos) {
        let mut time = self.time.lock();
        time.woken = time.woken.max(now);
        time.refills.wake(now);
    }

    /// Its tasks had a worker. What they have by their weight alone, when nothing is left, is not taken from later periods.
    pub(crate) fn charge(&self, ran: Nanos) {
        if self.is_demoted.load(Relaxed) {
            return;
        }
        self.time.lock().refills.charge(ran);
    }

    /// Whether its tasks may run now, and what becomes of them if not.
    pub(crate) fn allowance(self: &Arc<Self>, now: Nanos) -> Allowance {
        if self.is_over.load(Relaxed) {
            return Allowance::Demoted;
        }
        let (left, until) = {
            let time = self.time.lock();
            (time.refills.available(now.max(time.woken)), time.refills.next_at())
        };
        if left > 0 {
            if self.is_demoted.load(Relaxed) {
                self.is_demoted.store(false, Relaxed);
            }
            return Allowance::Run(left);
        }
        match self.context.overrun() {
            Overrun::Demote => {
                if !self.is_demoted.swap(true, Relaxed) {
                    self.depletions.fetch_add(1, Relaxed);
                }
                Allowance::Demoted
            }
            Overrun::Cancel => {
                if !self.is_over.swap(true, Relaxed) {
                    self.depletions.fetch_add(1, Relaxed);
                    // Not here: a cancellation wakes tasks, and this worker is in the middle of a choice.
                    self.shared.clock.set(Duration::from_nanos(1), Alarm::Refill(Arc::downgrade(self)));
                }
                Allowance::Demoted
            }
            Overrun::Throttle => {
                if self.throttle.begin(&self.shared.shares.counts, self.outer_gates()) {
                    self.depletions.fetch_add(1, Relaxed);
                    let after = Duration::from_nanos(until.saturating_sub(now).max(1));
                    self.shared.clock.set(after, Alarm::Refill(Arc::downgrade(self)));
                }
                Allowance::Throttled
            }
        }
    }

    /// Whether what is cancelled may unwind although nothing may be left: it has not used more in advance than it may.
    pub(super) fn may_unwind(&self, now: Nanos) -> bool {
        let next_at = self.time.lock().refills.next_at();
        // All refills are later than this if so many whole budgets were used in advance.
        let budgets = (CREDIT / self.spec.budget).max(1);
        next_at <= now.saturating_add(self.spec.period.saturating_mul(budgets))
    }

    /// Time has come back: those that waited are told. Or it is over, and its nursery is cancelled.
    pub(super) fn refill(&self) {
        if self.is_over.load(Relaxed)
            && let Some(nursery) = self.nursery.get().and_then(Weak::upgrade)
        {
            let [budget, period] = [self.spec.budget, self.spec.period].map(Duration::from_nanos);
            nursery.cancel_for(Reason::CpuTimeSpent { budget, period });
        }
        self.end_throttle();
    }

    fn end_throttle(&self) {
        let shares = &self.shared.shares;
        let Some(Released { waiting, items }) = self.throttle.end(&shares.counts, self.outer_gates()) else { return };
        for held in waiting {
            match held {
                Held::Group(group, worker) => {
                    shares.notices[worker].push(Notice::Released(group));
                    self.shared.workers[worker].inbox.notify();
                }
                Held::Listing(group, worker) => shares.put_back(worker, group),
            }
        }
        if items > 0 {
            self.shared.idle.published();
        }
    }

    /// Its group has ended: what was promised to it others may have.
    pub(super) fn retire(&self) {
        if let Some(admitted) = self.admitted.lock().take() {
            self.shared.shares.release(&admitted);
        }
        self.end_throttle();
    }
}

impl Drop for CpuServer {
    /// Its nursery may not have opened.
    fn drop(&mut self) {
        if let Some(admitted) = self.admitted.lock().take() {
            self.shared.shares.release(&admitted);
        }
    }
}
