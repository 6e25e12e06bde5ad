//! Submission rings: requests that one thread takes, and what is counted of them.
//!
//! Room: state.
//!
//! # Invariant
//! A request's deadline is metadata. It is counted, and may say that a request is not worth serving any more; it is never seen by the scheduler.

use std::collections::VecDeque;
use std::fmt;

use policy_cpu::{LeaseError, LeaseId, Nanos};

use crate::histogram::Histogram;

/// What becomes of a request that is taken after its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// It is served, and counted as missed.
    #[default]
    Serve,
    /// It is dropped, and counted as dropped.
    Drop,
}

/// What a ring is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingSpec {
    /// Its name in the report.
    pub name: String,
    /// Requests that it holds; a request that finds it full is dropped.
    pub capacity: u32,
    /// Time from request to request, from the first to the second.
    pub every: (Nanos, Nanos),
    /// What a request costs the thread that serves it, from the first to the second.
    pub cost: (Nanos, Nanos),
    /// By when after its submission a request should have been served.
    pub deadline: Option<Nanos>,
    /// What becomes of one that is late.
    pub late: Late,
    /// How long a look at an empty ring takes that is polled.
    pub poll_interval: Nanos,
}

impl RingSpec {
    /// A ring of 64 requests without a deadline, which a poller looks at every 10 µs.
    pub fn new(name: &str, every: Nanos, cost: Nanos) -> Self {
        RingSpec {
            name: name.to_owned(),
            capacity: 64,
            every: (every, every),
            cost: (cost, cost),
            deadline: None,
            late: Late::Serve,
            poll_interval: 10_000,
        }
    }
}

/// Why a ring is not polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingError {
    /// Its lease is refused: no CPU, no accounting target, or not exactly one consumer.
    Lease(LeaseError),
    /// The lease is for threads, not for polling.
    NotForPolling,
    /// The time of its consumer is not charged to the accounting target of the lease.
    NotCharged,
}

impl From<LeaseError> for RingError {
    fn from(error: LeaseError) -> Self {
        RingError::Lease(error)
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingError::Lease(error) => error.fmt(f),
            RingError::NotForPolling => f.write_str("the lease is not for polling; ask for `LeaseMode::Polling`"),
            RingError::NotCharged => {
                f.write_str("the consumer is not charged to the context of the lease; bind that context to it")
            }
        }
    }
}

impl std::error::Error for RingError {}

/// What was counted of a ring.
#[derive(Debug, Clone, Default)]
pub struct RingReport {
    /// Its name.
    pub name: String,
    /// Requests that were submitted.
    pub submitted: u64,
    /// Requests that were served, in time or late.
    pub served: u64,
    /// Requests that were served after their deadlines.
    pub missed: u64,
    /// Requests that were not served because they were late.
    pub dropped_late: u64,
    /// Requests that found the ring full.
    pub dropped_full: u64,
    /// Looks that found nothing.
    pub empty_polls: u64,
    /// Times from submission to the end of service.
    pub latency: Histogram,
}

/// A request that waits, or is served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) submitted: Nanos,
    pub(crate) cost: Nanos,
}

/// A ring of the machine.
pub(crate) struct Ring {
    pub(crate) spec: RingSpec,
    pub(crate) waiting: VecDeque<Request>,
    /// The request that its consumer serves.
    pub(crate) served: Option<Request>,
    /// The lease under which it is polled.
    pub(crate) lease: Option<LeaseId>,
    /// Its consumer waits for a request.
    pub(crate) sleeper: Option<u32>,
    pub(crate) report: RingReport,
}

impl Ring {
    pub(crate) fn new(spec: RingSpec) -> Self {
        let report = RingReport { name: spec.name.clone(), ..RingReport::default() };
        Ring {
            waiting: VecDeque::with_capacity(spec.capacity as usize),
            spec,
            served: None,
            lease: None,
            sleeper: None,
            report,
        }
    }

    fn is_late(&self, request: Request, now: Nanos) -> bool {
        self.spec.deadline.is_some_and(|deadline| now > request.submitted + deadline)
    }

    pub(crate) fn submit(&mut self, request: Request) {
        self.report.submitted += 1;
        if self.waiting.len() < self.spec.capacity as usize {
            self.waiting.push_back(request);
        } else {
            self.report.dropped_full += 1;
        }
    }

    /// The next request that is worth serving.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Request> {
        while let Some(request) = self.waiting.pop_front() {
            if self.spec.late == Late::Drop && self.is_late(request, now) {
                self.report.dropped_late += 1;
                continue;
            }
            self.served = Some(request);
            return Some(request);
        }
        None
    }

    /// The request that was taken last is served.
    pub(crate) fn complete(&mut self, now: Nanos) {
        if let Some(request) = self.served.take() {
            self.report.served += 1;
            self.report.missed += u64::from(self.is_late(request, now));
            self.report.latency.add(now - request.submitted);
        }
    }
}
