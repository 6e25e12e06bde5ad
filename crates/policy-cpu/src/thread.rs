//! Threads and processes, as the scheduler knows them.
//!
//! Room: state. Knows where a thread is; knows nothing of why.

use crate::account::ThreadCpuAccount;
use crate::context::{ContextId, Session};
use crate::cpus::CpuSet;
use crate::fair::FairState;
use crate::ids::Id;
use crate::policy::Policy;
use crate::time::{Nanos, Weight};

/// Names a process.
pub type ProcessId = Id<Process>;

/// Names a thread.
pub type ThreadId = Id<Thread>;

/// Which queue a thread competes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// By the earliest deadline of its context; before all others.
    Reserved,
    /// By its weight.
    Fair,
    /// By its weight, when no other thread can run.
    Idle,
}

/// How soon a thread of the fair class would like to be served. A smaller slice is served sooner, and is not more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Latency {
    /// Often and briefly.
    Sensitive,
    /// As most.
    #[default]
    Normal,
    /// Seldom and long.
    Batch,
}

impl Latency {
    /// What it asks for at a time.
    pub const fn slice(self) -> Nanos {
        match self {
            Latency::Sensitive => 750_000,
            Latency::Normal => 3_000_000,
            Latency::Batch => 12_000_000,
        }
    }
}

/// What a thread is made with.
#[derive(Debug, Clone, Copy)]
pub struct ThreadSpec {
    /// Whose it is.
    pub process: ProcessId,
    /// Its class, while no context is in force.
    pub class: Class,
    /// Its share among others of its class.
    pub weight: Weight,
    /// How soon it would like to be served.
    pub latency: Latency,
    /// Where it may run.
    pub cpus: CpuSet,
}

impl ThreadSpec {
    /// A thread of normal weight that may run anywhere.
    pub const fn new(process: ProcessId) -> Self {
        ThreadSpec { process, class: Class::Fair, weight: Weight::NORMAL, latency: Latency::Normal, cpus: CpuSet::ALL }
    }
}

/// Where a thread is. A runnable thread is in exactly one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// It waits for an event.
    Blocked,
    /// It called another thread and waits for the reply. Its context may be there.
    Calling(ThreadId),
    /// It waits for a CPU.
    Queued {
        /// Which.
        cpu: u32,
        /// In which queue of it.
        class: Class,
    },
    /// It runs.
    Running {
        /// Where.
        cpu: u32,
        /// Out of which queue.
        class: Class,
    },
    /// Its context is depleted, and it waits for a refill.
    Throttled {
        /// The CPU whose timer wakes it.
        cpu: u32,
    },
    /// It may not run: its context is depleted and says so, or it needs a context and has none.
    Stopped,
}

/// A process: what threads have in common.
pub struct Process {
    pub(crate) session: Option<Session>,
    /// For threads that have no context of their own.
    pub(crate) default_context: Option<ContextId>,
    pub(crate) threads: u32,
}

/// A thread.
pub struct Thread {
    pub(crate) process: ProcessId,
    pub(crate) class: Class,
    pub(crate) cpus: CpuSet,
    pub(crate) fair: FairState,
    pub(crate) account: ThreadCpuAccount,
    pub(crate) location: Location,
    pub(crate) last_cpu: u32,
    /// The CPU whose fair queue it was in last.
    pub(crate) fair_cpu: Option<u32>,
    pub(crate) context: Option<ContextId>,
    /// The context that came with a call, while the call lasts.
    pub(crate) donated: Option<ContextId>,
    /// The thread whose call it serves.
    pub(crate) caller: Option<ThreadId>,
    /// In nanoseconds: by when it was to be served when it was queued in the reserved class.
    pub(crate) deadline: Nanos,
}

impl Thread {
    pub(crate) fn new(spec: &ThreadSpec, last_cpu: u32, policy: Policy) -> Self {
        Thread {
            process: spec.process,
            class: spec.class,
            cpus: spec.cpus,
            fair: FairState::under(policy, spec.weight, spec.latency.slice()),
            account: ThreadCpuAccount::default(),
            location: Location::Blocked,
            last_cpu,
            fair_cpu: None,
            context: None,
            donated: None,
            caller: None,
            deadline: 0,
        }
    }

    /// Whose it is.
    pub const fn process(&self) -> ProcessId {
        self.process
    }

    /// Where it is.
    pub const fn location(&self) -> Location {
        self.location
    }

    /// What it used.
    pub const fn account(&self) -> &ThreadCpuAccount {
        &self.account
    }

    /// What the fair class keeps for it.
    pub const fn fair(&self) -> &FairState {
        &self.fair
    }

    /// The context that is bound to it.
    pub const fn context(&self) -> Option<ContextId> {
        self.context
    }

    /// The context that came with the call it serves.
    pub const fn donated(&self) -> Option<ContextId> {
        self.donated
    }

    /// The thread whose call it serves.
    pub const fn caller(&self) -> Option<ThreadId> {
        self.caller
    }

    /// Whether it waits for a CPU or has one.
    pub const fn is_runnable(&self) -> bool {
        matches!(self.location, Location::Queued { .. } | Location::Running { .. })
    }
}
