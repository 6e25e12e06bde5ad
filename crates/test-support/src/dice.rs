//! Pseudo-random numbers: the same for the same seed.
//!
//! Room: tests.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The increment of the state: an odd number near 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64. Threads may share it; then the seed does not decide which thread gets which number.
#[derive(Debug)]
pub struct Dice(AtomicU64);

impl Dice {
    /// Neighbouring seeds give unrelated sequences.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed.wrapping_mul(0xD129_0B27_22C9_4F4D) ^ 0x5EED))
    }

    /// Any number.
    pub fn throw(&self) -> u64 {
        let x = self.0.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// From 0 to `sides` - 1; 0 if `sides` is 0.
    pub fn below(&self, sides: u64) -> u64 {
        self.throw() % sides.max(1)
    }

    /// True with this probability, in percent.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several, each with the same probability.
    pub fn one_of<T: Clone>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

/// The copy continues with the same numbers.
impl Clone for Dice {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Relaxed)))
    }
}
