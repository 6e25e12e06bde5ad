//! Sections of a file as they were written: fields are checked one by one, names are still names.
//!
//! Room: values.

use policy_cpu::{Class, Latency, LeaseMode, Nanos, Overrun};
use proof_sim::Late;
use surface_text::Span;
use surface_text::fields::Spanned;

/// A name that another section has to have.
pub(crate) type Name = Option<Spanned<String>>;

/// CPUs that the machine has to have.
pub(crate) type Cpus = Option<Spanned<Vec<u32>>>;

/// The top of a file.
pub(crate) struct File {
    pub(crate) name: Option<String>,
    pub(crate) cpus: u32,
    pub(crate) time: Nanos,
    pub(crate) seed: u64,
    pub(crate) interrupt: Nanos,
}

impl Default for File {
    fn default() -> Self {
        File { name: None, cpus: 1, time: 1_000_000_000, seed: 0, interrupt: 2_000 }
    }
}

#[derive(Default)]
pub(crate) struct Session {
    pub(crate) ends: Option<Nanos>,
}

#[derive(Default)]
pub(crate) struct Process {
    pub(crate) context: Name,
    pub(crate) session: Name,
    pub(crate) ends: Option<Nanos>,
}

#[derive(Default)]
pub(crate) struct Context {
    pub(crate) budget: Option<Nanos>,
    pub(crate) period: Option<Nanos>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) criticality: u8,
    pub(crate) cpus: Cpus,
    pub(crate) overrun: Overrun,
    pub(crate) session: Name,
    pub(crate) ends: Option<Nanos>,
}

pub(crate) struct Thread {
    pub(crate) process: Name,
    pub(crate) does: Option<Vec<Spanned<String>>>,
    pub(crate) once: bool,
    pub(crate) count: u32,
    pub(crate) weight: u32,
    pub(crate) class: Class,
    pub(crate) latency: Latency,
    pub(crate) cpus: Cpus,
    pub(crate) context: Name,
    pub(crate) starts: Nanos,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) wait_limit: Option<Nanos>,
}

impl Default for Thread {
    fn default() -> Self {
        Thread {
            process: None,
            does: None,
            once: false,
            count: 1,
            weight: 1024,
            class: Class::Fair,
            latency: Latency::Normal,
            cpus: None,
            context: None,
            starts: 0,
            deadline: None,
            wait_limit: None,
        }
    }
}

pub(crate) struct Lease {
    pub(crate) process: Name,
    pub(crate) cpus: Cpus,
    pub(crate) context: Name,
    pub(crate) ring: Name,
    pub(crate) revocation: Nanos,
    pub(crate) starts: Nanos,
    pub(crate) ends: Option<Nanos>,
}

impl Default for Lease {
    fn default() -> Self {
        Lease { process: None, cpus: None, context: None, ring: None, revocation: 50_000, starts: 0, ends: None }
    }
}

impl Lease {
    pub(crate) fn mode(&self) -> LeaseMode {
        if self.ring.is_some() { LeaseMode::Polling } else { LeaseMode::Exclusive }
    }
}

pub(crate) struct Ring {
    pub(crate) every: Option<(Nanos, Nanos)>,
    pub(crate) cost: Option<(Nanos, Nanos)>,
    pub(crate) capacity: u32,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) late: Late,
    pub(crate) interval: Nanos,
}

impl Default for Ring {
    fn default() -> Self {
        Ring { every: None, cost: None, capacity: 64, deadline: None, late: Late::Serve, interval: 10_000 }
    }
}

/// A section with its name.
pub(crate) struct Named<T> {
    pub(crate) name: String,
    pub(crate) at: Span,
    pub(crate) value: T,
}

/// Everything that was written.
#[derive(Default)]
pub(crate) struct Drafts {
    pub(crate) file: File,
    pub(crate) sessions: Vec<Named<Session>>,
    pub(crate) processes: Vec<Named<Process>>,
    pub(crate) contexts: Vec<Named<Context>>,
    pub(crate) rings: Vec<Named<Ring>>,
    pub(crate) threads: Vec<Named<Thread>>,
    pub(crate) leases: Vec<Named<Lease>>,
}
