//! Scheduling contexts: the right to so much CPU time in each period.
//!
//! Room: state. Knows budgets and deadlines; knows nothing of queues.

use crate::cpus::CpuSet;
use crate::ids::Id;
use crate::refills::Refills;
use crate::time::Nanos;

/// Where a notice goes: a number that means something to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint(pub u32);

/// Who processes and contexts belong to: a number that means something to the caller. When it is [closed](crate::Scheduler::close_session), they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session(pub u32);

/// What happens to a thread whose context is depleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overrun {
    /// It waits for the next refill.
    #[default]
    Throttle,
    /// It goes on with its weight, among the threads that have no context, until the next refill.
    Demote,
    /// It is stopped until the policy binds another context or resumes it. What fails closed.
    Stop,
}

/// What a context is asked for, and what it grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSpec {
    /// Time in each period.
    pub budget: Nanos,
    /// After how long used time comes back.
    pub period: Nanos,
    /// By when, after a refill, its amount should have been served. At most the period.
    pub deadline: Nanos,
    /// Of contexts with equal deadlines, the more critical goes first.
    pub criticality: u8,
    /// Where its threads may run.
    pub cpus: CpuSet,
    /// What happens when it is depleted.
    pub overrun: Overrun,
    /// Who hears that it was depleted.
    pub endpoint: Option<Endpoint>,
}

impl ContextSpec {
    /// So much time in each period, with the period as its deadline, on any CPU.
    pub const fn new(budget: Nanos, period: Nanos) -> Self {
        ContextSpec {
            budget,
            period,
            deadline: period,
            criticality: 0,
            cpus: CpuSet::ALL,
            overrun: Overrun::Throttle,
            endpoint: None,
        }
    }

    /// Whether budget, deadline and period are in order.
    pub const fn is_valid(&self) -> bool {
        0 < self.budget && self.budget <= self.deadline && self.deadline <= self.period
    }
}

/// Names a context.
pub type ContextId = Id<Context>;

/// A context that exists.
pub struct Context {
    spec: ContextSpec,
    refills: Refills,
    /// Who it belongs to.
    pub(crate) session: Option<Session>,
    /// Time that was charged to it in all.
    charged: Nanos,
    /// How often it was depleted.
    depletions: u64,
    /// Whether its depletion was told. It is told once for each time that it comes to nothing.
    is_told: bool,
    /// Whether a notice waits to be taken; the next context of that list.
    pub(crate) notice: Notice,
}

/// Whether a notice of a context waits to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// None.
    None,
    /// One, and which context's comes after it.
    Waiting { next: Option<u32> },
}

impl Notice {
    /// Takes the notice; returns the context whose notice comes next.
    pub(crate) fn take(&mut self) -> Option<u32> {
        match core::mem::replace(self, Notice::None) {
            Notice::None => None,
            Notice::Waiting { next } => next,
        }
    }
}

impl Context {
    pub(crate) fn new(spec: ContextSpec, now: Nanos) -> Self {
        let refills = Refills::new(spec.budget, spec.period, now);
        Context { spec, refills, session: None, charged: 0, depletions: 0, is_told: false, notice: Notice::None }
    }

    /// What it grants.
    pub const fn spec(&self) -> &ContextSpec {
        &self.spec
    }

    /// Its refills.
    pub const fn refills(&self) -> &Refills {
        &self.refills
    }

    /// Time that was charged to it in all.
    pub const fn charged(&self) -> Nanos {
        self.charged
    }

    /// How often it was depleted.
    pub const fn depletions(&self) -> u64 {
        self.depletions
    }

    /// By when what it has now should be used.
    pub const fn deadline(&self) -> Nanos {
        self.refills.next_at().saturating_add(self.spec.deadline)
    }

    pub(crate) fn wake(&mut self, now: Nanos) {
        self.refills.wake(now);
    }

    pub(crate) fn charge(&mut self, used: Nanos) {
        self.refills.charge(used);
        self.charged += used;
    }

    /// How much may be used now. Having time again ends a depletion.
    pub(crate) fn available(&mut self, now: Nanos) -> Nanos {
        let available = self.refills.available(now);
        if available > 0 {
            self.is_told = false;
        }
        available
    }

    /// Notes that it has nothing left. Returns whether that is new, and its endpoint is to hear of it.
    pub(crate) fn deplete(&mut self) -> bool {
        let is_new = !core::mem::replace(&mut self.is_told, true);
        self.depletions += u64::from(is_new);
        is_new && self.spec.endpoint.is_some()
    }

    pub(crate) fn adjust(&mut self, spec: ContextSpec, now: Nanos) {
        self.refills.adjust(spec.budget, spec.period, now);
        self.spec = spec;
    }
}
