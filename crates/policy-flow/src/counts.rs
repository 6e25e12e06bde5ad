//! The counters of a node.
//!
//! Room: values.

use alloc::{boxed::Box, sync::Arc, vec};
use core::{fmt, time::Duration};

/// Each power of two is divided into so many steps, so the error of a value is at most a quarter.
const STEPS: u32 = 4;
const BUCKETS: usize = 64 * STEPS as usize;

/// A histogram of durations. Exact to within a quarter.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::Histogram;
///
/// let mut times = Histogram::default();
/// (1..=100).for_each(|micros| times.record(Duration::from_micros(micros), 1));
/// assert_eq!(times.count(), 100);
/// assert!(times.quantile(0.5) >= Duration::from_micros(50) && times.quantile(0.5) < Duration::from_micros(65));
/// ```
#[derive(Clone)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), count: 0, sum: 0 }
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < u64::from(STEPS) {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    let step = (nanos >> (power - 2)) & u64::from(STEPS - 1);
    (power * STEPS + step as u32) as usize
}

/// The largest value that falls into a bucket.
fn highest(bucket: usize) -> u64 {
    // The first values have a bucket each; those up to where powers of two have four steps are never used.
    if bucket < 2 * STEPS as usize {
        return bucket.min(STEPS as usize - 1) as u64;
    }
    let (power, step) = (bucket as u32 / STEPS, bucket as u64 % u64::from(STEPS));
    let width = 1u64 << (power - 2);
    (1u64 << power).saturating_add(step * width).saturating_add(width - 1)
}

impl Histogram {
    /// Records `times` durations of `each`.
    pub fn record(&mut self, each: Duration, times: u64) {
        self.record_nanos(u64::try_from(each.as_nanos()).unwrap_or(u64::MAX), times);
    }

    pub(crate) fn record_nanos(&mut self, nanos: u64, times: u64) {
        self.buckets[bucket(nanos)] += times;
        self.count += times;
        self.sum = self.sum.saturating_add(nanos.saturating_mul(times));
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The mean, or zero if none was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum.checked_div(self.count).unwrap_or(0))
    }

    /// The quantile: the duration that this part (0 to 1) of all did not exceed.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = part.clamp(0.0, 1.0) * self.count as f64;
        let whole = wanted as u64;
        let wanted = (whole + u64::from((whole as f64) < wanted)).max(1); // rounded up
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(highest(at));
            }
        }
        Duration::ZERO
    }

    /// How many were at most this long, counted by whole buckets.
    pub fn count_up_to(&self, limit: Duration) -> u64 {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        (0..BUCKETS).take_while(|at| highest(*at) <= nanos).map(|at| self.buckets[at]).sum()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (self.quantile(0.5), self.quantile(0.99));
        write!(f, "Histogram({} values, p50 {p50:?}, p99 {p99:?})", self.count)
    }
}

/// What a node did so far.
#[derive(Debug, Clone, Default)]
pub struct NodeCounts {
    /// Turns it had.
    pub turns: u64,
    /// Messages it handled; of a source, how often it was asked.
    pub messages: u64,
    /// Messages it emitted.
    pub emitted: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Failed messages that were tried again.
    pub retries: u64,
    /// Messages it took and lost.
    pub lost: u64,
    /// Ticks it was given.
    pub ticks: u64,
    /// Ticks of its cadence that came while one was still due.
    pub ticks_missed: u64,
    /// How long it ran.
    pub busy_nanos: u64,
    /// How long a message took: turns, divided by their messages.
    pub latency: Histogram,
    /// Its last error.
    pub last_error: Option<Arc<str>>,
    /// Why it failed for good, or was stopped: the first cause.
    pub failure: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_at_most_a_quarter_below_the_top_of_its_bucket() {
        for shift in 0..63 {
            for nanos in [1u64 << shift, (1u64 << shift) + (1u64 << shift) / 3, (1u64 << shift) * 2 - 1] {
                let top = highest(bucket(nanos));
                assert!(top >= nanos && top as f64 <= nanos as f64 * 1.25 + 1.0, "{nanos} in a bucket up to {top}");
            }
        }
        assert_eq!(highest(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn half_of_three_are_two() {
        let mut times = Histogram::default();
        [1, 2, 3].into_iter().for_each(|nanos| times.record(Duration::from_nanos(nanos), 1));
        let quantiles = [0.0, 0.3, 0.5, 0.7, 1.0, f64::NAN].map(|part| times.quantile(part).as_nanos());
        assert_eq!(quantiles, [1, 1, 2, 3, 3, 1]);
    }

    #[test]
    fn what_took_no_longer_is_counted_up_from_the_shortest() {
        let mut times = Histogram::default();
        [0, 3, 4, 1_000, 1_000_000].into_iter().for_each(|nanos| times.record(Duration::from_nanos(nanos), 1));
        let counts = [0, 3, 4, 1_200, u64::MAX].map(|nanos| times.count_up_to(Duration::from_nanos(nanos)));
        assert_eq!(counts, [1, 2, 3, 4, 5]);
    }
}
