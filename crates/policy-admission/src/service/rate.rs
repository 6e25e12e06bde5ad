//! How many of something are taken in a time: a token bucket.
//!
//! Room: state.
//!
//! # Invariant
//! In any time `t` no more than `burst + t * per_second` are taken, however the clock jumps.

use policy_cpu::Nanos;

use super::refusal::Refusal;

const SECOND: Nanos = 1_000_000_000;

/// A bucket of tokens that fills up again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    burst: u32,
    per_second: u32,
    left: u32,
    /// When the last token was added.
    filled_at: Nanos,
}

/// There is no token left.
#[derive(Debug)]
pub(super) struct Empty {
    burst: u32,
    per_second: u32,
}

impl Empty {
    pub(super) const fn of(self, what: &'static str) -> Refusal {
        Refusal::TooFast { what, burst: self.burst, per_second: self.per_second }
    }
}

impl Rate {
    pub(super) const fn new(burst: u32, per_second: u32) -> Rate {
        Rate { burst, per_second, left: burst, filled_at: 0 }
    }

    /// Takes one.
    pub(super) fn take(&mut self, now: Nanos) -> Result<(), Empty> {
        let each = SECOND / Nanos::from(self.per_second);
        // A clock that goes back gives nothing, and takes nothing.
        let more = now.saturating_sub(self.filled_at) / each;
        if more >= Nanos::from(self.burst - self.left) {
            (self.left, self.filled_at) = (self.burst, self.filled_at.max(now));
        } else {
            self.left += more as u32;
            self.filled_at += more * each;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Empty { burst: self.burst, per_second: self.per_second }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_and_then_so_many_in_a_second() {
        let mut rate = Rate::new(3, 2);
        let mut taken = |now| rate.take(now).is_ok();
        assert_eq!([0, 0, 0, 0].map(&mut taken), [true, true, true, false]);
        assert_eq!([SECOND / 2, SECOND / 2, SECOND].map(&mut taken), [true, false, true]);
        assert_eq!([100 * SECOND; 4].map(&mut taken), [true, true, true, false], "nothing is saved beyond the burst");
        assert!(!taken(0), "a clock that goes back gives nothing");
    }
}
