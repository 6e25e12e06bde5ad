//! Time, real and virtual, as numbers that the caller brings.
//!
//! Room: values. Knows nothing of clocks.
//!
//! Real time is in nanoseconds of any monotonic clock. Virtual time runs faster for light entities and slower for heavy ones: an entity of weight `w` that
//! runs for `t` nanoseconds advances by `t * 2^20 / w`.
//!
//! # Invariant
//! No comparison of virtual times depends on where they started: [`VirtualTime`] wraps around, and two that are compared are less than 2^62 apart. That is two
//! hours of one charge at the lightest weight, and [`CHARGE_MAX`] is below it.

use core::fmt;

/// A point in real time, or a length of it, in nanoseconds.
pub type Nanos = u64;

/// The most that one charge counts: about 18 minutes. A longer one is counted as this long, so that virtual times stay comparable.
pub const CHARGE_MAX: Nanos = 1 << 40;

/// A point in virtual time. Wraps around: compare by [`is_before`](Self::is_before), not by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct VirtualTime(pub(crate) u64);

impl VirtualTime {
    /// A point in virtual time, for tests of the wrap-around and for restored states.
    pub const fn from_bits(bits: u64) -> Self {
        VirtualTime(bits)
    }

    /// How far this is after `other`; negative if before.
    pub const fn since(self, other: VirtualTime) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// Whether this is strictly before `other`.
    pub const fn is_before(self, other: VirtualTime) -> bool {
        self.since(other) < 0
    }

    /// This point, so much later; earlier if negative.
    #[must_use]
    pub const fn plus(self, distance: i64) -> VirtualTime {
        VirtualTime(self.0.wrapping_add_signed(distance))
    }
}

impl fmt::Debug for VirtualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0 as i64)
    }
}

/// The share of an entity, relative to others of the same CPU.
///
/// Between [`Weight::MIN`] and [`Weight::MAX`]; [`Weight::NORMAL`] is that of nice 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    weight: u32,
    /// `2^52 / weight`, so that a charge multiplies instead of dividing.
    inverse: u64,
}

impl Weight {
    /// The lightest.
    pub const MIN: u32 = 1;
    /// The heaviest.
    pub const MAX: u32 = 1 << 20;
    /// That of an entity that asks for nothing special.
    pub const NORMAL: Weight = Weight::clamped(1024);

    /// A weight, or none if it is outside [`MIN`](Self::MIN)`..=`[`MAX`](Self::MAX).
    pub const fn new(weight: u32) -> Option<Weight> {
        if weight >= Self::MIN && weight <= Self::MAX { Some(Self::clamped(weight)) } else { None }
    }

    /// The nearest weight that is allowed.
    pub const fn clamped(weight: u32) -> Weight {
        let weight = if weight < Self::MIN {
            Self::MIN
        } else if weight > Self::MAX {
            Self::MAX
        } else {
            weight
        };
        Weight { weight, inverse: (1 << 52) / weight as u64 }
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.weight
    }

    /// How far virtual time advances for an entity of this weight in so much real time.
    pub const fn virtual_length(self, real: Nanos) -> i64 {
        let real = if real > CHARGE_MAX { CHARGE_MAX } else { real };
        ((real as u128 * self.inverse as u128) >> 32) as i64
    }

    /// The real time in which an entity of this weight advances so far: rounded up, so that it arrives.
    pub const fn real_length(self, distance: i64) -> Nanos {
        if distance <= 0 {
            return 0;
        }
        ((distance as u128 * self.weight as u128).div_ceil(1 << 20)) as Nanos
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weight({})", self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_times_compare_the_same_on_both_sides_of_the_wrap() {
        for start in [0, u64::MAX - 5, 1 << 63, (1 << 63) - 3] {
            let early = VirtualTime(start);
            let late = early.plus(10);
            assert!(early.is_before(late) && !late.is_before(early) && !early.is_before(early));
            assert_eq!((late.since(early), early.since(late)), (10, -10));
        }
    }

    #[test]
    fn twice_the_weight_is_half_the_virtual_length() {
        for weight in [1, 2, 1024, 1 << 19] {
            let light = Weight::clamped(weight).virtual_length(3_000_000);
            let heavy = Weight::clamped(2 * weight).virtual_length(3_000_000);
            assert!((light - 2 * heavy).abs() <= 2, "{weight}: {light}, {heavy}");
        }
        assert_eq!(Weight::NORMAL.virtual_length(1000), 1_024_000);
    }

    #[test]
    fn an_entity_that_runs_for_the_real_length_of_a_distance_has_covered_it() {
        for weight in [1, 3, 15, 1000, 1024, 88_761, Weight::MAX] {
            let weight = Weight::clamped(weight);
            for distance in [1, 7, 1 << 20, 3_072_000_000, 1 << 50] {
                let real = weight.real_length(distance);
                if real <= CHARGE_MAX {
                    let covered = weight.virtual_length(real);
                    // The inverse is rounded down, by less than one part in 2^32.
                    assert!(covered >= distance - (distance >> 31) - 1, "{weight:?} {distance}: {covered}");
                }
            }
        }
    }

    #[test]
    fn the_extremes_stay_comparable() {
        let longest = Weight::clamped(Weight::MIN).virtual_length(u64::MAX);
        assert!(longest > 0 && longest < 1 << 62, "{longest}");
        assert_eq!(Weight::new(0), None);
        assert_eq!(Weight::new(Weight::MAX + 1), None);
    }
}
