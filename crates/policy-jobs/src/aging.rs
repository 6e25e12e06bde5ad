//! How waiting raises rank.
//!
//! Room: decisions.

use core::cmp::{Ordering, Reverse};
use core::time::Duration;

/// A point in time: nanoseconds since the scheduler started.
pub type Time = u64;

/// How much rank a job gains by waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aging {
    /// A job that waited this long gains `boost`; twice as long, twice as much. Zero: waiting gains nothing.
    pub interval: Duration,
    /// What it gains.
    pub boost: u32,
}

impl Default for Aging {
    fn default() -> Self {
        Self { interval: Duration::from_millis(500), boost: 1 }
    }
}

impl Aging {
    /// The interval in nanoseconds; 0 if there is none.
    #[inline]
    pub(crate) fn interval_ns(self) -> Time {
        u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX)
    }

    /// `base + floor(waited / interval) * boost`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use policy_jobs::Aging;
    ///
    /// let aging = Aging::default(); // +1 every 500 ms
    /// assert_eq!(aging.effective_priority(10, Duration::from_millis(1_499)), 12);
    /// ```
    pub fn effective_priority(self, base: i32, waited: Duration) -> i128 {
        self.effective(base, u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn effective(self, base: i32, waited: Time) -> i128 {
        let interval = self.interval_ns();
        if waited < interval || interval == 0 {
            return i128::from(base); // most jobs, and no division for them
        }
        i128::from(base) + i128::from(waited / interval) * i128::from(self.boost)
    }
}

/// The rank of a ready job. The greatest runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) effective: i128,
    pub(crate) ready_since: Time,
    pub(crate) id: u32,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |rank: &Rank| (rank.effective, Reverse(rank.ready_since), Reverse(rank.id));
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
