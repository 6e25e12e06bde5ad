//! The time a scheduling context has, as a sporadic server keeps it.
//!
//! Room: decisions. Knows amounts and times; knows nothing of threads or CPUs.
//!
//! What was used comes back one period after it could be used. So the budget is a list of *refills*, each an amount and the time from which it may be used.
//!
//! # Invariants
//! - The amounts add up to the budget, before and after every operation. Asserted in release, too: a refill that is lost or made is a thread that starves or
//!   overruns for ever.
//! - Times never fall along the list, and it holds at most [`REFILLS_MAX`].
//! - In any window of one period no more is used than the budget, and what an earlier overrun took in advance.
//!
//! # Why it holds
//! An amount that is used moves to `its time + period`, and no refill is ever moved to an earlier time. Where the list is full, two neighbours become one at the time of the later:
//! the earlier amount is delayed, never advanced. [`Refills::wake`] moves refills that lie in the past to `now`: otherwise a context that slept would use an old amount late,
//! and have it back at once.
//!
//! Checked by `no_window_of_a_period_has_more_than_the_budget`.

use crate::time::Nanos;

/// The most refills that a context keeps. A context that is interrupted more often in one period gets some of its time later than it could.
pub const REFILLS_MAX: usize = 8;

/// An amount of time that may be used from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Refill {
    /// From when.
    pub at: Nanos,
    /// How much.
    pub amount: Nanos,
}

/// The refills of one context. See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refills {
    budget: Nanos,
    period: Nanos,
    list: [Refill; REFILLS_MAX],
    len: usize,
}

impl Refills {
    /// A whole budget that may be used from `now` on.
    pub fn new(budget: Nanos, period: Nanos, now: Nanos) -> Self {
        assert!(0 < budget && budget <= period, "a budget of {budget} ns in a period of {period} ns");
        let mut list = [Refill::default(); REFILLS_MAX];
        list[0] = Refill { at: now, amount: budget };
        Refills { budget, period, list, len: 1 }
    }

    /// What it has in each period.
    pub const fn budget(&self) -> Nanos {
        self.budget
    }

    /// After how long an amount comes back.
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// The refills, in the order of their times.
    pub fn list(&self) -> &[Refill] {
        &self.list[..self.len]
    }

    /// How much may be used now without a pause.
    pub fn available(&self, now: Nanos) -> Nanos {
        self.list().iter().take_while(|refill| refill.at <= now).map(|refill| refill.amount).sum()
    }

    /// From when the first amount may be used.
    pub const fn next_at(&self) -> Nanos {
        self.list[0].at
    }

    /// Called when its thread becomes runnable: what could have been used in the past may be used from `now` on.
    pub fn wake(&mut self, now: Nanos) {
        let due = self.list().iter().take_while(|refill| refill.at <= now).count();
        if due > 0 {
            let amount = self.list[..due].iter().map(|refill| refill.amount).sum();
            self.list.copy_within(due..self.len, 1);
            self.list[0] = Refill { at: now, amount };
            self.len = self.len - due + 1;
        }
        self.check();
    }

    /// Charges what was used. More than is available is taken from later refills, which come later by that.
    pub fn charge(&mut self, used: Nanos) {
        // A whole budget moves every refill by a period. At once, however many: a small budget may be overrun by very much.
        let (rounds, mut left) = (used / self.budget, used % self.budget);
        if rounds > 0 {
            let later = rounds.saturating_mul(self.period);
            self.list[..self.len].iter_mut().for_each(|refill| refill.at = refill.at.saturating_add(later));
        }
        while left > 0 {
            let first = self.list[0];
            let part = first.amount.min(left);
            left -= part;
            if part == first.amount {
                self.list.copy_within(1..self.len, 0);
                self.len -= 1;
            } else {
                self.list[0].amount -= part;
            }
            // Of a budget that is all used, and used again, each round comes a period later.
            self.add(Refill { at: first.at.saturating_add(self.period), amount: part });
        }
        self.check();
    }

    /// Changes budget and period. What is used stays used: a smaller budget takes from the latest refills, a larger one adds at the end.
    pub fn adjust(&mut self, budget: Nanos, period: Nanos, now: Nanos) {
        assert!(0 < budget && budget <= period, "a budget of {budget} ns in a period of {period} ns");
        let before = self.budget;
        (self.budget, self.period) = (budget, period);
        if budget > before {
            let at = self.list[self.len - 1].at.max(now);
            self.add(Refill { at, amount: budget - before });
        }
        let mut excess = before.saturating_sub(budget);
        while excess > 0 {
            let last = &mut self.list[self.len - 1];
            let part = last.amount.min(excess);
            last.amount -= part;
            excess -= part;
            if last.amount == 0 {
                self.len -= 1;
            }
        }
        self.check();
    }

    /// Adds a refill behind those that are not later.
    fn add(&mut self, refill: Refill) {
        if self.len > 0 && self.list[self.len - 1].at >= refill.at {
            // Not later than the last: it waits for that one. Happens only where two became one.
            self.list[self.len - 1].amount += refill.amount;
            return;
        }
        if self.len == REFILLS_MAX {
            let last = &mut self.list[REFILLS_MAX - 1];
            *last = Refill { at: refill.at, amount: last.amount + refill.amount };
            return;
        }
        self.list[self.len] = refill;
        self.len += 1;
    }

    fn check(&self) {
        let sum: Nanos = self.list().iter().map(|refill| refill.amount).sum();
        assert!(sum == self.budget, "refills of {sum} ns for a budget of {} ns", self.budget);
        debug_assert!(self.list().windows(2).all(|pair| pair[0].at <= pair[1].at), "{:?}", self.list());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use vocab::SplitMix64;

    #[test]
    fn what_was_used_comes_back_a_period_later() {
        let mut refills = Refills::new(4, 10, 100);
        refills.charge(3);
        assert_eq!(refills.list(), [Refill { at: 100, amount: 1 }, Refill { at: 110, amount: 3 }]);
        assert_eq!((refills.available(103), refills.available(109), refills.available(110)), (1, 1, 4));
    }

    #[test]
    fn a_budget_that_is_spent_is_there_again_when_its_first_part_is() {
        let mut refills = Refills::new(4, 10, 0);
        refills.charge(1);
        refills.wake(5);
        refills.charge(3);
        assert_eq!(refills.available(8), 0);
        assert_eq!(refills.next_at(), 10);
        assert_eq!((refills.available(10), refills.available(15)), (1, 4));
    }

    #[test]
    fn an_overrun_is_paid_from_the_next_refill() {
        let mut refills = Refills::new(4, 10, 0);
        refills.charge(6);
        assert_eq!(refills.list(), [Refill { at: 10, amount: 2 }, Refill { at: 20, amount: 2 }]);
    }

    #[test]
    fn an_overrun_of_many_budgets_moves_all_refills_in_a_few_steps() {
        let mut refills = Refills::new(4, 10, 100);
        refills.charge(1);
        refills.charge(4 * 5 + 2);
        assert_eq!(refills.list(), [Refill { at: 150, amount: 1 }, Refill { at: 160, amount: 3 }]);
        let mut smallest = Refills::new(1, 1_000, 0);
        smallest.charge(1_000_000_000_000); // one by one this would take an hour
        assert_eq!(smallest.list(), [Refill { at: 1_000_000_000_000_000, amount: 1 }]);
        smallest.charge(Nanos::MAX);
        assert_eq!(smallest.next_at(), Nanos::MAX);
    }

    #[test]
    fn a_smaller_budget_is_taken_from_what_is_latest() {
        let mut refills = Refills::new(6, 10, 0);
        refills.charge(4);
        refills.adjust(3, 10, 4);
        assert_eq!(refills.list(), [Refill { at: 0, amount: 2 }, Refill { at: 10, amount: 1 }]);
        refills.adjust(5, 20, 4);
        assert_eq!(refills.list(), [Refill { at: 0, amount: 2 }, Refill { at: 10, amount: 3 }]);
    }

    #[test]
    fn no_window_of_a_period_has_more_than_the_budget() {
        for seed in 0..2_000 {
            let mut dice = SplitMix64::new(seed);
            let mut below = |limit: u64| dice.next_u64() % limit;
            let (budget, period) = (1 + below(20), 20 + below(50));
            let mut now = below(1000);
            let mut refills = Refills::new(budget, period, now);
            let mut used = Vec::new(); // each tick in which it ran
            for _ in 0..200 {
                now += below(12);
                refills.wake(now);
                // It never runs without time, and may be interrupted at any moment.
                let ran = below(8).min(refills.available(now));
                used.extend(now..now + ran);
                now += ran;
                refills.charge(ran);
            }
            for (index, &from) in used.iter().enumerate() {
                let within = used[index..].iter().take_while(|&&at| at < from + period).count() as u64;
                assert!(within <= budget, "seed {seed}: {within} of {budget} in {period} from {from}");
            }
        }
    }

    #[test]
    fn a_context_that_always_wants_to_run_gets_all_its_budget() {
        let mut refills = Refills::new(3, 10, 0);
        let (mut now, mut got) = (0, 0);
        while now < 10_000 {
            let available = refills.available(now);
            if available == 0 {
                now = refills.next_at();
                refills.wake(now);
                continue;
            }
            now += available;
            got += available;
            refills.charge(available);
        }
        assert_eq!(got, 3_000);
    }
}
