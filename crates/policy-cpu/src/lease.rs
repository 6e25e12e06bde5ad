//! Isolation leases: CPUs for one owner alone.
//!
//! Room: state. Knows conditions and states; knows nothing of queues.
//!
//! A lease grants a place, not time: the owner's threads still need weight or a context. It is granted first, and activated when the caller has shown that
//! the CPUs are free of everybody else's work.
//!
//! ```text
//!            activate               revoke              the CPUs are empty, or time is up
//!  Granted ───────────▶ Active ───────────▶ Revoking ───────────────────────▶ gone
//!     └──────────── revoke, owner ends ─────────────────────────────────────────▶
//! ```

use core::fmt;

use crate::context::{ContextId, Endpoint};
use crate::cpus::CpuSet;
use crate::ids::Id;
use crate::thread::ProcessId;
use crate::time::Nanos;

/// What a lease is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseMode {
    /// Threads of the owner run there, and no others.
    Exclusive,
    /// A kernel thread polls a submission ring of the owner there.
    Polling,
}

/// Work of the system that must not be pinned to a leased CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Housekeeping {
    /// Timers of others.
    Timers,
    /// Cleanup that was put off.
    Cleanup,
    /// Polling of network devices.
    Network,
    /// Debugging and watchdogs.
    Watchdog,
}

impl Housekeeping {
    /// All kinds.
    pub const ALL: [Housekeeping; 4] =
        [Housekeeping::Timers, Housekeeping::Cleanup, Housekeeping::Network, Housekeeping::Watchdog];
}

/// What a lease is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseSpec {
    /// Who has it. When the process ends, the lease does.
    pub owner: ProcessId,
    /// Which CPUs.
    pub cpus: CpuSet,
    /// What for.
    pub mode: LeaseMode,
    /// Work of the system that the owner tolerates there.
    pub tolerated: [bool; Housekeeping::ALL.len()],
    /// What time on these CPUs is charged to.
    pub accounting: ContextId,
    /// Within what time the CPUs are given back.
    pub revocation_latency_max: Nanos,
    /// Who hears of the revocation.
    pub endpoint: Option<Endpoint>,
}

/// What the caller has found out about the CPUs of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// By kind of [`Housekeeping`]: where work of that kind is pinned.
    pub pinned: [CpuSet; Housekeeping::ALL.len()],
    /// How many consumers the ring has, for a lease that polls.
    pub ring_consumers: u32,
    /// How long a revocation takes at most: the longest section of the kernel that cannot be interrupted there.
    pub revocation_latency: Nanos,
}

/// Why a lease is not activated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease, its owner or its accounting target is gone.
    Stale,
    /// No CPU is left for the work of the system.
    NoHousekeepingCpu {
        /// What was asked for.
        wanted: CpuSet,
    },
    /// A CPU belongs to another lease, or does not exist.
    Unavailable {
        /// Which.
        cpu: u32,
    },
    /// Work of the system is pinned to a CPU.
    Pinned {
        /// Which.
        cpu: u32,
        /// What work.
        work: Housekeeping,
    },
    /// The ring does not have exactly one consumer.
    RingConsumers {
        /// How many it has.
        count: u32,
    },
    /// Its accounting target is gone or may not be used on these CPUs.
    NotChargeable,
    /// A revocation would take longer than the lease allows.
    RevocationTooSlow {
        /// How long.
        latency: Nanos,
        /// How long it may take.
        limit: Nanos,
    },
    /// All leases that the scheduler can hold exist.
    Full,
    /// It is active already, or being revoked.
    NotGranted,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseError::Stale => f.write_str("the lease or its owner is gone; grant another"),
            LeaseError::NoHousekeepingCpu { wanted } => {
                write!(f, "a lease of CPUs {wanted} leaves none for the system; leave at least one out")
            }
            LeaseError::Unavailable { cpu } => {
                write!(f, "CPU {cpu} is leased already, or does not exist; revoke that lease, or name another CPU")
            }
            LeaseError::Pinned { cpu, work } => {
                write!(f, "{work:?} is pinned to CPU {cpu}; move it, or tolerate it in the lease")
            }
            LeaseError::RingConsumers { count } => {
                write!(
                    f,
                    "the ring has {count} consumers; a ring that is polled has exactly one: let one thread of the owner poll it"
                )
            }
            LeaseError::NotChargeable => {
                f.write_str("its accounting target is gone, or may not be used on these CPUs; name a context that may")
            }
            LeaseError::RevocationTooSlow { latency, limit } => {
                write!(f, "a revocation takes up to {latency} ns, and the lease allows {limit} ns; allow {latency} ns")
            }
            LeaseError::Full => f.write_str(
                "there are as many leases as the scheduler can hold; revoke one, or give it a larger `Capacity`",
            ),
            LeaseError::NotGranted => f.write_str("the lease is active already, or is being revoked"),
        }
    }
}

impl core::error::Error for LeaseError {}

/// Names a lease.
pub type LeaseId = Id<Lease>;

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// It exists, and has no CPU yet.
    Granted,
    /// Its CPUs are its owner's alone.
    Active,
    /// Its CPUs are being given back.
    Revoking {
        /// By when.
        until: Nanos,
    },
}

/// A lease that exists.
pub struct Lease {
    pub(crate) spec: LeaseSpec,
    pub(crate) state: LeaseState,
}

impl Lease {
    /// What it grants.
    pub const fn spec(&self) -> &LeaseSpec {
        &self.spec
    }

    /// Where it stands.
    pub const fn state(&self) -> LeaseState {
        self.state
    }

    /// What is to be shown about its CPUs themselves. Each condition is refused on its own.
    pub(crate) fn check(&self, evidence: &Evidence, taken: CpuSet, machine: CpuSet) -> Result<(), LeaseError> {
        let spec = &self.spec;
        if let Some(cpu) = spec.cpus.without(machine).or(spec.cpus.and(taken)).iter().next() {
            return Err(LeaseError::Unavailable { cpu });
        }
        if machine.without(taken).without(spec.cpus).is_empty() {
            return Err(LeaseError::NoHousekeepingCpu { wanted: spec.cpus });
        }
        for (index, work) in Housekeeping::ALL.into_iter().enumerate() {
            if let (false, Some(cpu)) = (spec.tolerated[index], evidence.pinned[index].and(spec.cpus).iter().next()) {
                return Err(LeaseError::Pinned { cpu, work });
            }
        }
        if spec.mode == LeaseMode::Polling && evidence.ring_consumers != 1 {
            return Err(LeaseError::RingConsumers { count: evidence.ring_consumers });
        }
        let (latency, limit) = (evidence.revocation_latency, spec.revocation_latency_max);
        if latency > limit {
            return Err(LeaseError::RevocationTooSlow { latency, limit });
        }
        Ok(())
    }
}
