//! Points in the time of a flow.
//!
//! Room: values.

use core::{fmt, ops::Add, time::Duration};

/// A point in time: how long the flow has been running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// When the flow began.
    pub const START: Time = Time(0);
    /// After everything.
    pub const NEVER: Time = Time(u64::MAX);

    /// So many nanoseconds after the flow began.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the flow began.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, later: Duration) -> Time {
        let nanos = later.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(later.subsec_nanos()));
        Time(self.0.saturating_add(nanos))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}
