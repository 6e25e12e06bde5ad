//! In which order threads of the fair class run: three policies, one queue.
//!
//! Room: decisions. Knows tags of one entity; knows nothing of trees, CPUs or threads.
//!
//! A queue holds each entity by a *key*, and lets it be picked only when a *gate* is reached. So a policy is what it writes there:
//!
//! | policy | key | gate | who joins starts at |
//! |---|---|---|---|
//! | [`Eevdf`](Policy::Eevdf) | its virtual deadline | its virtual runtime reaches the mean | the mean, less its lag |
//! | [`Wfq`](Policy::Wfq) | the start of its request | none | the start of the request that is served, and its debt |
//! | [`RoundRobin`](Policy::RoundRobin) | a count | none | the end of the queue |
//!
//! Everything else (charging, classes, contexts, leases, placement) is the same. So two runs of one workload differ by the policy alone.
//!
//! *Rejected:* a type parameter of the queue. The branch is always predicted, and a parameter would stand at every function of the scheduler and of all who drive it.

use core::fmt;

use crate::time::{Nanos, VirtualTime};

/// What round robin gives each entity at a time.
pub(crate) const QUANTUM: Nanos = 3_000_000;

/// The order of the fair class. See the head of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// Earliest eligible virtual deadline first.
    #[default]
    Eevdf,
    /// Start-time fair queueing: weights are shares, and a request that was begun is served to its end. Without eligibility, deadlines, and credit for who slept.
    Wfq,
    /// One after the other, for an equal slice each. Weights and latency classes mean nothing.
    RoundRobin,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 3] = [Policy::Eevdf, Policy::Wfq, Policy::RoundRobin];

    /// Its short name: `eevdf`, `wfq`, `rr`.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Eevdf => "eevdf",
            Policy::Wfq => "wfq",
            Policy::RoundRobin => "rr",
        }
    }

    /// The gate of an entity that may be picked at any time, and the limit that lets it through.
    pub(crate) const OPEN: VirtualTime = VirtualTime(0);

    /// Up to which gate entities may be picked, at a virtual time of `now`.
    pub(crate) const fn limit(self, now: VirtualTime) -> VirtualTime {
        match self {
            Policy::Eevdf => now,
            Policy::Wfq | Policy::RoundRobin => Policy::OPEN,
        }
    }

    /// Whether weights of entities may differ.
    pub(crate) const fn has_weights(self) -> bool {
        !matches!(self, Policy::RoundRobin)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
