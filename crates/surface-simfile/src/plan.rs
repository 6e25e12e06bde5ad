//! What a workload file says, checked: names are numbers, and everything exists.
//!
//! Room: values.

use policy_admission::cpu::{AdmitError, CpuAdmission, Island};
use policy_cpu::{Class, ContextSpec, CpuSet, Latency, LeaseMode, Nanos, Session};
use proof_sim::{Program, RingSpec};

/// A whole workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// CPUs of the machine.
    pub cpus: u32,
    /// For how long it runs.
    pub time: Nanos,
    /// What decides what is random.
    pub seed: u64,
    /// How long an interrupt takes from one CPU to another.
    pub interrupt: Nanos,
    /// Sessions, and when they are closed.
    pub sessions: Vec<(String, Option<Nanos>)>,
    /// Processes. Threads that name none are in the one called `main`.
    pub processes: Vec<Process>,
    /// Scheduling contexts.
    pub contexts: Vec<Context>,
    /// Rings of requests.
    pub rings: Vec<RingSpec>,
    /// Threads, one for each section of the file.
    pub threads: Vec<Thread>,
    /// Isolation leases.
    pub leases: Vec<Lease>,
}

impl Plan {
    /// The highest CPU that the file names. A machine with fewer cannot run it.
    pub fn highest_cpu(&self) -> Option<u32> {
        let named = self.threads.iter().map(|thread| thread.cpus).chain(self.contexts.iter().map(|it| it.spec.cpus));
        let leased = self.leases.iter().map(|lease| lease.cpus);
        named.filter(|cpus| *cpus != CpuSet::ALL).chain(leased).flat_map(|cpus| cpus.iter().last()).max()
    }

    /// Why contexts would be refused on a machine of so many CPUs, each after those before it. The simulator runs them all the same: what becomes of them is what one wants to see.
    pub fn not_admitted(&self, cpus: u32) -> Vec<AdmitError> {
        let mut admission = CpuAdmission::new(cpus);
        let islands = self.contexts.iter().map(|context| Island::new("admission").task(&*context.name, context.spec));
        islands.filter_map(|island| admission.admit(&island).err()).collect()
    }

    /// Threads of the machine: copies of a section count each.
    pub fn thread_count(&self) -> u32 {
        self.threads.iter().map(|thread| thread.count).sum()
    }
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// For threads that have no context of their own, by number.
    pub context: Option<usize>,
    /// Whose it is.
    pub session: Option<Session>,
    /// When it ends.
    pub ends: Option<Nanos>,
}

/// A context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// What it grants.
    pub spec: ContextSpec,
    /// Whose it is.
    pub session: Option<Session>,
    /// When it is revoked.
    pub ends: Option<Nanos>,
}

/// A thread, or several that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its name; of several, what their names begin with.
    pub name: String,
    /// How many.
    pub count: u32,
    /// Its process, by number.
    pub process: usize,
    /// What it does. Threads are called by their numbers in the machine.
    pub program: Program,
    /// Its share.
    pub weight: u32,
    /// Its class.
    pub class: Class,
    /// How soon it would like to be served.
    pub latency: Latency,
    /// Where it may run.
    pub cpus: CpuSet,
    /// Its context, by number.
    pub context: Option<usize>,
    /// When it starts.
    pub starts: Nanos,
    /// By when after a wake it should be done.
    pub deadline: Option<Nanos>,
    /// A longer wait is an error.
    pub wait_limit: Option<Nanos>,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub name: String,
    /// Its owner, by number.
    pub owner: usize,
    /// Which CPUs.
    pub cpus: CpuSet,
    /// What for.
    pub mode: LeaseMode,
    /// The ring that is polled, by number.
    pub ring: Option<usize>,
    /// What its time is charged to, by number.
    pub context: usize,
    /// Within what time its CPUs are given back.
    pub revocation: Nanos,
    /// When it is activated.
    pub starts: Nanos,
    /// When it is revoked.
    pub ends: Option<Nanos>,
}
