//! The clock of a flow: real or virtual.
//!
//! Room: driver.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sched_tasks::now;

use crate::message::Time;

/// Real time (in a seeded run, the virtual clock of that run); or a number that advances when nothing else can happen.
pub(crate) enum Clock {
    /// Measured from the start of the flow. Before that, no time passes.
    Real(OnceLock<Instant>),
    Virtual(AtomicU64),
}

impl Clock {
    pub(crate) fn real() -> Self {
        Clock::Real(OnceLock::new())
    }

    pub(crate) fn virtual_time() -> Self {
        Clock::Virtual(AtomicU64::new(0))
    }

    /// Starts the clock.
    pub(crate) fn begin(&self) {
        if let Clock::Real(began) = self {
            began.get_or_init(now);
        }
    }

    pub(crate) fn now(&self) -> Time {
        match self {
            Clock::Real(began) => {
                began.get().map_or(Time::START, |began| Time::START + now().saturating_duration_since(*began))
            }
            Clock::Virtual(nanos) => Time::from_nanos(nanos.load(Relaxed)),
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual(_))
    }

    /// Advances virtual time.
    pub(crate) fn jump(&self, to: Time) {
        if let Clock::Virtual(nanos) = self {
            nanos.fetch_max(to.nanos(), Relaxed);
        }
    }

    /// The real time from now until `then`.
    pub(crate) fn until(&self, then: Time) -> Duration {
        then.since(self.now())
    }
}
