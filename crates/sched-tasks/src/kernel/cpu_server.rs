//! The time of one scheduling context, which all workers charge.
//!
//! Room: state. Knows refills and the clock; knows nothing of queues.
//!
//! # Invariants
//! - Refills add up to the budget (`policy_cpu::Refills` asserts it). What several workers use at the same time beyond what is left is taken from later refills.
//! - While it is throttled an alarm is set, which ends that when time comes back and tells the workers. `Shares::throttled` counts the servers that are.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use mech_sync::SpinLock;
use policy_admission::cpu::Admitted;
use policy_cpu::{ContextSpec, Nanos, Refills};

use super::{clock::Alarm, nursery::NurseryCore, shared::Shared};
use crate::{
    context::{Context, Overrun},
    error::Reason,
};

/// A context in use.
pub(crate) struct CpuServer {
    context: Context,
    spec: ContextSpec,
    /// What was admitted, if it goes before groups without a context: else it only limits.
    admitted: Option<Admitted>,
    time: SpinLock<Time>,
    is_throttled: AtomicBool,
    /// It had no time left, for which its nursery was cancelled: its tasks may unwind.
    is_over: AtomicBool,
    depletions: AtomicU64,
    nursery: OnceLock<Weak<NurseryCore>>,
    shared: &'static Shared,
}

struct Time {
    refills: Refills,
    /// When its tasks became runnable last. A worker that chooses may have read the clock before.
    woken: Nanos,
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
        now: Nanos,
    ) -> Arc<Self> {
        Arc::new(Self {
            context,
            spec,
            admitted,
            time: SpinLock::new(Time { refills: Refills::new(spec.budget, spec.period, now), woken: now }),
            is_throttled: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            depletions: AtomicU64::new(0),
            nursery: OnceLock::new(),
            shared,
        })
    }

    /// Whether its tasks go before those without a context.
    pub(crate) fn is_reserved(&self) -> bool {
        self.admitted.is_some()
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
        self.is_throttled.load(Relaxed)
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

    pub(crate) fn charge(&self, ran: Nanos) {
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
            return Allowance::Run(left);
        }
        match self.context.overrun() {
            Overrun::Demote => Allowance::Demoted,
            Overrun::Cancel => {
                if !self.is_over.swap(true, Relaxed) {
                    self.depletions.fetch_add(1, Relaxed);
                    // Not here: a cancellation wakes tasks, and this worker is in the middle of a choice.
                    self.shared.clock.set(Duration::from_nanos(1), Alarm::Refill(self.clone()));
                }
                Allowance::Demoted
            }
            Overrun::Throttle => {
                if !self.is_throttled.swap(true, Relaxed) {
                    self.depletions.fetch_add(1, Relaxed);
                    self.shared.shares.throttled.fetch_add(1, Relaxed);
                    let after = Duration::from_nanos(until.saturating_sub(now).max(1));
                    self.shared.clock.set(after, Alarm::Refill(self.clone()));
                }
                Allowance::Throttled
            }
        }
    }

    /// Time has come back: workers that slept look again. Or it is over, and its nursery is cancelled.
    pub(super) fn refill(&self) {
        if self.is_over.load(Relaxed)
            && let Some(nursery) = self.nursery.get().and_then(Weak::upgrade)
        {
            let [budget, period] = [self.spec.budget, self.spec.period].map(Duration::from_nanos);
            nursery.cancel_for(Reason::CpuTimeSpent { budget, period });
        }
        if self.is_throttled.swap(false, Relaxed) {
            self.shared.shares.throttled.fetch_sub(1, Relaxed);
        }
        self.shared.idle.notify_all();
        self.shared.workers.iter().for_each(|worker| worker.inbox.notify());
    }
}

impl Drop for CpuServer {
    fn drop(&mut self) {
        if self.is_throttled.swap(false, Relaxed) {
            self.shared.shares.throttled.fetch_sub(1, Relaxed);
        }
        if let Some(admitted) = &self.admitted {
            self.shared.shares.release(admitted);
        }
    }
}
