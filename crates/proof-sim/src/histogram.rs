//! How times are distributed, within a thirtieth.
//!
//! Room: values.

use policy_cpu::Nanos;

/// Parts of each power of two.
const PARTS_BITS: u32 = 5;
const PARTS: usize = 1 << PARTS_BITS;

/// Times by their size: 32 buckets for each power of two, so what it says is at most a thirtieth too large.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// As many as the longest time needs.
    buckets: Vec<u32>,
    count: u64,
    sum: Nanos,
    max: Nanos,
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Nanos) {
        let bucket = bucket(time);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += time;
        self.max = self.max.max(time);
    }

    /// Adds all times of another.
    pub fn merge(&mut self, other: &Histogram) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += other;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many are not longer than this; those that are at most a thirtieth longer may be among them.
    pub fn count_up_to(&self, time: Nanos) -> u64 {
        self.buckets.iter().take(bucket(time) + 1).map(|&count| u64::from(count)).sum()
    }

    /// The longest.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// Their mean; 0 of none.
    pub fn mean(&self) -> Nanos {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// The time that so many thousandths of all do not exceed; 0 of none.
    pub fn per_mille(&self, thousandths: u64) -> Nanos {
        let wanted = (self.count * thousandths).div_ceil(1000);
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += u64::from(count);
            if seen >= wanted && seen > 0 {
                return end(bucket).min(self.max);
            }
        }
        self.max
    }
}

/// Below 64 each time has its own; above, each power of two has 32.
fn bucket(time: Nanos) -> usize {
    let power = time.max(1).ilog2().saturating_sub(PARTS_BITS);
    (time >> power) as usize + power as usize * PARTS
}

/// The longest time of a bucket.
fn end(bucket: usize) -> Nanos {
    let power = (bucket / PARTS).saturating_sub(1);
    ((bucket - power * PARTS + 1) as u64).checked_shl(power as u32).map_or(Nanos::MAX, |end| end - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_a_bucket_whose_end_is_at_most_a_thirtieth_later() {
        for time in (0..2_000).chain((0..58).map(|power| 3 << power)).chain((6..60).map(|power| (1 << power) - 1)) {
            let end = end(bucket(time));
            assert!(end >= time && end - time <= time / 30, "{time} is counted as {end}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_times() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|time| histogram.add(time * 1000));
        for (per_mille, time) in [(500, 500_000), (990, 990_000), (1000, 1_000_000)] {
            let said = histogram.per_mille(per_mille);
            assert!(said >= time && said - time <= time / 30, "{per_mille}: {said}");
        }
        assert_eq!((histogram.count(), histogram.max(), histogram.mean()), (1000, 1_000_000, 500_500));
        assert_eq!(Histogram::default().per_mille(990), 0);
        assert_eq!([0, 999, 1_000, 999_999_999].map(|time| histogram.count_up_to(time)), [0, 1, 1, 1000]);
        assert!((500..=517).contains(&histogram.count_up_to(500_000)));
        let mut two = Histogram::default();
        two.add(2_000_000);
        two.merge(&histogram);
        assert_eq!((two.count(), two.max(), two.per_mille(500)), (1001, 2_000_000, histogram.per_mille(501)));
    }
}
