//! Work done, and the time it took.

use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

use crate::Host;

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) units: u64,
    pub(crate) seconds: f64,
}

impl Work {
    pub(crate) fn units_per_second(self) -> f64 {
        self.units as f64 / self.seconds.max(1e-9)
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, more: Self) {
        self.units += more.units;
        self.seconds += more.seconds;
    }
}

/// Measures what the innocents do.
pub(crate) struct Clock {
    at: Instant,
    units: u64,
}

impl Clock {
    pub(crate) fn start(host: &Host) -> Self {
        Self { at: Instant::now(), units: host.units() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// Since the start.
    pub(crate) fn work(&self, host: &Host) -> Work {
        Work { units: host.units() - self.units, seconds: self.at.elapsed().as_secs_f64() }
    }
}
