//! The scheduler of a machine: which thread runs on which CPU, with whose time.
//!
//! Room: decisions. Knows threads, contexts, leases and CPUs as values; knows nothing of clocks, registers, locks or interrupts: it says what is to be done.
//!
//! Every function is told the time, and returns what the caller has to do. Each is bounded: O(log n) in the number of threads, and at most [`STEAL_LOOKS`] other CPUs are looked at.
//! Only what is not on the path of dispatch looks at all threads or CPUs: leases, and the end of a context.
//!
//! # Invariants
//! - A runnable thread is owned by exactly one CPU: it is in one tree of it, or runs on it. Trees share one table of entities, so a second owner cannot be written down.
//! - No thread of the reserved class runs without a context that has time left; no thread runs on a CPU that its mask, its context or a lease forbids, after that CPU's next [`schedule`](Scheduler::schedule).
//! - Each interval of a CPU is charged once: to the thread that ran, and of that thread to its context *or* to its weight.
//! - Nothing allocates but [`Scheduler::new`] and [`Scheduler::with_policy`]. A thread is accepted only if there is room for it in every queue.
//!
//! | file | holds |
//! |---|---|
//! | `dispatch.rs` | charging, and which thread runs next |
//! | `placement.rs` | on which CPU a thread waits: wakes, migration, stealing |
//! | `calls.rs` | synchronous calls: contexts that travel with them |
//! | `authority.rs` | contexts and leases: grants, changes, ends |

mod authority;
mod calls;
mod dispatch;
mod placement;

use alloc::vec::Vec;
use core::fmt;

use crate::account::CpuAccount;
use crate::context::{Context, ContextId, Endpoint};
use crate::cpus::{CPUS_MAX, CpuSet};
use crate::fair::FairCore;
use crate::ids::{Stale, Table};
use crate::lease::{Lease, LeaseId};
use crate::policy::Policy;
use crate::pool::Pool;
use crate::thread::{Class, Location, Process, ProcessId, Thread, ThreadId, ThreadSpec};
use crate::time::{Nanos, VirtualTime, Weight};
use crate::tree::Tree;

pub use calls::{CALL_DEPTH_MAX, CallError, Handoff};
pub use dispatch::Dispatch;
pub use placement::{STEAL_LOOKS, Wake};

/// How much a scheduler can hold. All of it is allocated at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// CPUs of the machine, 1 to [`CPUS_MAX`].
    pub cpus: u32,
    /// Threads that exist at one time.
    pub threads: u32,
    /// Processes that exist at one time.
    pub processes: u32,
    /// Contexts that exist at one time.
    pub contexts: u32,
    /// Leases that exist at one time.
    pub leases: u32,
}

impl Capacity {
    /// A machine of so many CPUs, with room for a thousand threads.
    pub const fn cpus(cpus: u32) -> Self {
        Capacity { cpus, threads: 1024, processes: 256, contexts: 256, leases: 16 }
    }
}

/// What is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// A handle names something that is gone.
    Stale,
    /// There are as many of these as the scheduler can hold.
    Full {
        /// Of what.
        what: &'static str,
        /// How many.
        limit: u32,
    },
    /// A budget is zero, larger than its deadline, or its deadline larger than its period.
    BadContext,
}

impl From<Stale> for Refused {
    fn from(_: Stale) -> Self {
        Refused::Stale
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Stale => Stale.fmt(f),
            Refused::Full { what, limit } => {
                write!(f, "there are {limit} {what}, which is the capacity of the scheduler; raise `Capacity::{what}`")
            }
            Refused::BadContext => f.write_str("a context needs 0 < budget <= deadline <= period"),
        }
    }
}

impl core::error::Error for Refused {}

/// CPUs that have to call [`Scheduler::schedule`] soon, because something changed for them.
#[must_use = "a CPU that is not interrupted goes on with a thread that should not run"]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interrupt(pub CpuSet);

/// Something an endpoint is to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// Who.
    pub endpoint: Endpoint,
    /// Whose context was depleted.
    pub context: ContextId,
}

struct Cpu {
    /// By deadline, in nanoseconds.
    reserved: Tree,
    /// By the time of their next refill.
    throttled: Tree,
    fair: FairCore,
    idle: FairCore,
    current: Option<ThreadId>,
    /// Up to when time was charged.
    settled: Nanos,
    account: CpuAccount,
    lease: Option<LeaseId>,
    /// When it last compared its load with others.
    balanced: Nanos,
}

/// See the head of the file.
pub struct Scheduler {
    threads: Table<Thread>,
    processes: Table<Process>,
    contexts: Table<Context>,
    leases: Table<Lease>,
    cpus: Vec<Cpu>,
    pool: Pool,
    machine: CpuSet,
    leased: CpuSet,
    /// CPUs that have nothing to do, or only threads of the idle class. One that was given a thread and has not looked yet is not among them.
    idle: CpuSet,
    /// CPUs on which threads of the reserved or fair class wait.
    crowded: CpuSet,
    /// Contexts whose notices wait to be taken: the first, and the last.
    notices: Option<(u32, u32)>,
    policy: Policy,
}

impl Scheduler {
    /// A machine on which nothing runs, with EEVDF for the fair class.
    pub fn new(capacity: Capacity, now: Nanos) -> Self {
        Self::with_policy(capacity, Policy::Eevdf, now)
    }

    /// A machine on which nothing runs, with another order of the fair and the idle class. The only function that allocates.
    pub fn with_policy(capacity: Capacity, policy: Policy, now: Nanos) -> Self {
        assert!(0 < capacity.cpus && capacity.cpus <= CPUS_MAX, "{} CPUs", capacity.cpus);
        let cpu = |_| Cpu {
            reserved: Tree::EMPTY,
            throttled: Tree::EMPTY,
            fair: FairCore::new(policy),
            idle: FairCore::new(policy),
            current: None,
            settled: now,
            account: CpuAccount::default(),
            lease: None,
            balanced: now,
        };
        let machine = CpuSet::first(capacity.cpus);
        Scheduler {
            threads: Table::with_capacity(capacity.threads),
            processes: Table::with_capacity(capacity.processes),
            contexts: Table::with_capacity(capacity.contexts),
            leases: Table::with_capacity(capacity.leases),
            cpus: (0..capacity.cpus).map(cpu).collect(),
            pool: Pool::with_capacity(capacity.threads, 4 * capacity.cpus),
            machine,
            leased: CpuSet::NONE,
            idle: machine,
            crowded: CpuSet::NONE,
            notices: None,
            policy,
        }
    }

    /// The order of the fair and the idle class.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// All CPUs.
    pub const fn machine(&self) -> CpuSet {
        self.machine
    }

    /// A new process.
    pub fn add_process(&mut self) -> Result<ProcessId, Refused> {
        let limit = self.processes.capacity();
        let process = Process { session: None, default_context: None, threads: 0 };
        self.processes.insert(process).ok_or(Refused::Full { what: "processes", limit })
    }

    /// A new thread, blocked. From now on there is room for it wherever it may go.
    pub fn add_thread(&mut self, spec: &ThreadSpec) -> Result<ThreadId, Refused> {
        let limit = self.threads.capacity();
        self.processes.get(spec.process)?;
        let last_cpu = spec.cpus.and(self.machine).iter().next().unwrap_or(0);
        let id = self
            .threads
            .insert(Thread::new(spec, last_cpu, self.policy))
            .ok_or(Refused::Full { what: "threads", limit })?;
        self.processes.get_mut(spec.process)?.threads += 1;
        Ok(id)
    }

    /// A thread ends, wherever it is. Its caller gets its context back and can run; a thread that it called continues without its context.
    pub fn exit(&mut self, id: ThreadId, now: Nanos) -> Result<Interrupt, Stale> {
        let thread = self.threads.get(id)?;
        let (process, caller) = (thread.process, thread.caller);
        let mut interrupt = Interrupt::default();
        if let Location::Running { cpu, .. } = thread.location {
            interrupt.0.insert(cpu);
        }
        if let Location::Calling(callee) = thread.location {
            interrupt.0 = interrupt.0.or(self.forget_caller(callee, now).0);
        }
        self.take_off(id, now, Location::Blocked);
        self.threads.remove(id)?;
        self.processes.get_mut(process)?.threads -= 1;
        if let Some(caller) = caller
            && self.threads.get(caller).is_ok_and(|thread| thread.location == Location::Calling(id))
        {
            self.set_location(caller, Location::Blocked);
            if let Some(cpu) = self.wake(caller, now, None)?.interrupt {
                interrupt.0.insert(cpu);
            }
        }
        Ok(interrupt)
    }

    /// A process ends, with its threads and leases.
    pub fn exit_process(&mut self, id: ProcessId, now: Nanos) -> Result<Interrupt, Stale> {
        self.processes.get(id)?;
        let mut interrupt = Interrupt::default();
        for index in 0..self.threads.capacity() {
            if let Some(thread) = self.threads.id_at(index)
                && self.threads.get(thread)?.process == id
            {
                interrupt.0 = interrupt.0.or(self.exit(thread, now)?.0);
            }
        }
        for index in 0..self.leases.capacity() {
            if let Some(lease) = self.leases.id_at(index)
                && self.leases.get(lease)?.spec.owner == id
            {
                interrupt.0 = interrupt.0.or(self.revoke_lease(lease, now)?.0);
            }
        }
        self.processes.remove(id)?;
        Ok(interrupt)
    }

    /// Gives a thread another weight, wherever it is. Nothing happens under a policy without weights.
    pub fn set_weight(&mut self, id: ThreadId, weight: Weight, now: Nanos) -> Result<(), Stale> {
        if !self.policy.has_weights() {
            return self.threads.get(id).map(|_| ());
        }
        if let Location::Running { cpu, .. } = self.threads.get(id)?.location {
            self.settle(cpu, now);
        }
        let thread = self.threads.get_mut(id)?;
        match thread.location {
            Location::Queued { cpu, class } | Location::Running { cpu, class } => {
                let cpu = &mut self.cpus[cpu as usize];
                match class {
                    Class::Reserved => thread.fair.set_weight(weight),
                    Class::Fair => cpu.fair.reweigh(&mut self.pool, id.index(), &mut thread.fair, weight),
                    Class::Idle => cpu.idle.reweigh(&mut self.pool, id.index(), &mut thread.fair, weight),
                }
            }
            _ => thread.fair.set_weight(weight),
        }
        Ok(())
    }

    /// A thread, to look at.
    pub fn thread(&self, id: ThreadId) -> Result<&Thread, Stale> {
        self.threads.get(id)
    }

    /// A context, to look at.
    pub fn context(&self, id: ContextId) -> Result<&Context, Stale> {
        self.contexts.get(id)
    }

    /// A lease, to look at.
    pub fn lease(&self, id: LeaseId) -> Result<&Lease, Stale> {
        self.leases.get(id)
    }

    /// All threads.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        self.threads.iter()
    }

    /// What a CPU did, up to the last time it was asked anything.
    pub fn cpu(&self, cpu: u32) -> &CpuAccount {
        &self.cpus[cpu as usize].account
    }

    /// The thread that runs on a CPU.
    pub fn current(&self, cpu: u32) -> Option<ThreadId> {
        self.cpus[cpu as usize].current
    }

    /// How many threads wait for a CPU, in the reserved, the fair and the idle class.
    pub fn waiting(&self, cpu: u32) -> [u32; 3] {
        let cpu = &self.cpus[cpu as usize];
        [cpu.reserved.len(), cpu.fair.waiting(), cpu.idle.waiting()]
    }

    /// What a thread of the fair class is owed, in nanoseconds: positive if it got less than its share of its CPU.
    pub fn lag_ns(&self, id: ThreadId) -> Result<Option<i64>, Stale> {
        self.threads.get(id).map(|thread| self.lag_ns_of(thread))
    }

    /// The same, of a thread that was looked at.
    pub fn lag_ns_of(&self, thread: &Thread) -> Option<i64> {
        match thread.location {
            Location::Queued { cpu, class: Class::Fair } | Location::Running { cpu, class: Class::Fair } => {
                Some(self.cpus[cpu as usize].fair.lag_ns(&thread.fair))
            }
            _ => None,
        }
    }

    /// Takes the oldest notice that waits.
    pub fn take_notice(&mut self) -> Option<Notice> {
        let (first, last) = self.notices?;
        let context = self.contexts.id_at(first).expect("a context that ends leaves the list");
        let state = self.contexts.get_mut(context).expect("seen above");
        let next = state.notice.take();
        let endpoint = state.spec().endpoint;
        self.notices = next.map(|next| (next, last));
        endpoint.map(|endpoint| Notice { endpoint, context })
    }

    fn set_location(&mut self, id: ThreadId, location: Location) {
        if let Ok(thread) = self.threads.get_mut(id) {
            thread.location = location;
        }
    }

    /// Keeps `idle` and `crowded` true for one CPU.
    fn note(&mut self, cpu: u32) {
        let state = &self.cpus[cpu as usize];
        let waiting = state.reserved.len() + state.fair.waiting();
        let current = state.current.and_then(|id| self.threads.get(id).ok()).map(|thread| thread.location);
        let is_free = matches!(current, None | Some(Location::Running { class: Class::Idle, .. }));
        self.idle.set(cpu, is_free && waiting == 0);
        self.crowded.set(cpu, waiting > 0);
    }
}

/// Nanoseconds as a key of a tree. They are below 2^63 for three hundred years.
const fn key(at: Nanos) -> VirtualTime {
    VirtualTime::from_bits(at)
}
