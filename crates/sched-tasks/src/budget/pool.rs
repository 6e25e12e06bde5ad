//! A nursery's pool: what it was granted, and where that is now.
//!
//! Room: values.
//!
//! # Invariant
//! For every component with a limit: `granted == left + out + spent`. Nothing is made and nothing is lost, whatever the order of
//! draws, returns, charges and recharges.
//!
//! # Why it holds
//! Every function here moves an amount from one of the three to another, or adds it to `granted` and to `left` alike; each ends by checking the sum. A
//! component without a limit has nothing to conserve: it stays unlimited, and what is out and spent is only counted.
//!
//! Checked by `no_sequence_makes_or_loses_budget` over random histories of a whole tree of pools.

use vocab::{Budget, Component, Shortage, UNLIMITED};

/// What of a grant is where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pool {
    /// All it ever got.
    granted: Budget,
    /// What it has.
    left: Budget,
    /// What others drew and have not settled: tasks, workers, nurseries inside.
    out: Budget,
    /// What is gone. Of memory: what is held.
    spent: Budget,
}

/// What comes back of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settlement {
    /// What was not used.
    pub left: Budget,
    /// What was.
    pub spent: Budget,
}

impl Pool {
    /// A pool that has all of `grant`.
    pub fn new(grant: Budget) -> Pool {
        Pool { granted: grant, left: grant, ..Pool::default() }
    }

    /// All it ever got.
    pub fn granted(&self) -> Budget {
        self.granted
    }

    /// What it has.
    pub fn left(&self) -> Budget {
        self.left
    }

    /// What others drew and have not settled.
    pub fn out(&self) -> Budget {
        self.out
    }

    /// What is gone.
    pub fn spent(&self) -> Budget {
        self.spent
    }

    /// Gives out as much of `wanted` as there is.
    #[must_use = "what is drawn is to be settled"]
    pub fn draw(&mut self, wanted: &Budget) -> Budget {
        let drawn = self.left.min(wanted);
        self.take(&drawn);
        self.out.recharge(&drawn);
        self.check();
        drawn
    }

    /// Takes back what was drawn.
    pub fn settle(&mut self, settlement: &Settlement) {
        for component in Component::ALL {
            let (left, spent) = (settlement.left[component], settlement.spent[component]);
            if self.granted[component] != UNLIMITED {
                let out = self.out[component].checked_sub(left + spent);
                self.out.set(component, out.expect("more is brought back than was drawn"));
            }
        }
        self.left.recharge(&settlement.left);
        self.spent.recharge(&settlement.spent);
        self.check();
    }

    /// Pays `cost` itself: all of it or nothing.
    pub fn charge(&mut self, cost: &Budget) -> Result<(), Shortage> {
        if let Some(shortage) = self.left.shortage(cost) {
            return Err(shortage);
        }
        self.take(cost);
        self.spent.recharge(cost);
        self.check();
        Ok(())
    }

    /// Takes back a charge that was not needed after all, or memory that was freed.
    pub fn refund(&mut self, cost: &Budget) {
        let refund = self.spent.min(cost);
        self.spent = self.spent.saturating_sub(&refund);
        self.left.recharge(&refund);
        self.check();
    }

    /// Gets more.
    pub fn recharge(&mut self, amount: &Budget) {
        self.granted.recharge(amount);
        self.left.recharge(amount);
        for component in Component::ALL {
            if self.granted[component] == UNLIMITED {
                self.left.set(component, UNLIMITED);
            }
        }
        self.check();
    }

    /// An amount that a nursery further out gave goes through this pool to the task that asked: it will be settled here like a draw.
    pub fn pass_down(&mut self, amount: &Budget) {
        self.granted.recharge(amount);
        self.out.recharge(amount);
        for component in Component::ALL {
            if self.granted[component] == UNLIMITED {
                self.left.set(component, UNLIMITED);
            }
        }
        self.check();
    }

    /// A task that had drawn is gone and will never settle: what is out when the pool closes is spent.
    fn forfeit(&mut self) {
        for component in Component::ALL {
            if self.granted[component] != UNLIMITED {
                self.spent.set(component, self.spent[component] + self.out[component]);
                self.out.set(component, 0);
            }
        }
    }

    /// A new period: it has `budget` again. What is left from the last one is not saved; what is out stays with those that drew it, so that in the long run no more
    /// than one budget a period is spent. Memory is a level, not a flow: it comes back when it is freed.
    pub fn replenish(&mut self, budget: &Budget) {
        let mut missing = budget.saturating_sub(&self.left);
        missing.memory = 0;
        self.recharge(&missing);
    }

    /// Closes it: what is to go back to where the grant came from. Everything drawn has been settled, unless `lost`: then a holder went down with its
    /// stack, and what it had is spent.
    #[must_use]
    pub fn close(mut self, lost: bool) -> Settlement {
        if lost {
            self.forfeit();
        }
        for component in Component::ALL {
            let open = self.granted[component] != UNLIMITED && self.out[component] != 0;
            assert!(!open, "a pool closes while {} {component} are out", self.out[component]);
        }
        Settlement { left: self.left, spent: self.spent }
    }

    fn take(&mut self, amount: &Budget) {
        self.left.charge(amount).expect("the caller has seen that there is enough");
    }

    fn check(&self) {
        for component in Component::ALL {
            let granted = self.granted[component];
            let sum = [self.left, self.out, self.spent].iter().map(|part| u128::from(part[component])).sum::<u128>();
            assert!(
                granted == UNLIMITED || u128::from(granted) == sum,
                "{component}: {granted} became {sum}: {self:?}"
            );
        }
    }
}

impl Settlement {
    /// Adds what another brings back.
    pub fn add(&mut self, other: &Settlement) {
        self.left.recharge(&other.left);
        self.spent.recharge(&other.spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_gives_what_there_is() {
        let mut pool = Pool::new(Budget::ops(15).spawns(1));
        assert_eq!(pool.draw(&Budget::ops(10).memory(5)), Budget::ops(10));
        assert_eq!(pool.draw(&Budget::ops(10)), Budget::ops(5));
        assert_eq!(pool.out(), Budget::ops(15));
        pool.settle(&Settlement { left: Budget::ops(4), spent: Budget::ops(11) });
        assert_eq!((pool.left(), pool.spent()), (Budget::ops(4).spawns(1), Budget::ops(11)));
        assert_eq!(pool.close(false).left, Budget::ops(4).spawns(1));
    }

    #[test]
    fn a_period_saves_nothing() {
        let period = Budget::ops(100).memory(50);
        let mut pool = Pool::new(period);
        let drawn = pool.draw(&Budget::ops(30).memory(20));
        assert_eq!(pool.charge(&Budget::ops(50)), Ok(()));
        pool.replenish(&period);
        assert_eq!(pool.left(), period.memory(30));
        pool.settle(&Settlement { left: Budget::ZERO, spent: drawn });
        pool.replenish(&period);
        assert_eq!(pool.left(), period.memory(30));
        pool.replenish(&period);
        assert_eq!(pool.left(), period.memory(30));
    }

    #[test]
    fn without_a_limit_there_is_always_enough() {
        let mut pool = Pool::new(Budget::UNLIMITED);
        assert_eq!(pool.draw(&Budget::UNLIMITED), Budget::UNLIMITED);
        pool.settle(&Settlement { left: Budget::ops(7), spent: Budget::UNLIMITED });
        pool.recharge(&Budget::UNLIMITED);
        assert_eq!(pool.left(), Budget::UNLIMITED);
        assert_eq!(pool.close(false).left, Budget::UNLIMITED);
    }

    #[test]
    #[should_panic(expected = "more is brought back than was drawn")]
    fn nothing_comes_back_that_was_not_drawn() {
        Pool::new(Budget::ops(1)).settle(&Settlement { left: Budget::ops(1), spent: Budget::ZERO });
    }

    #[test]
    #[should_panic(expected = "a pool closes while 3 ops are out")]
    fn a_pool_does_not_close_before_all_is_settled() {
        let mut pool = Pool::new(Budget::ops(9));
        let _drawn = pool.draw(&Budget::ops(3));
        let _ = pool.close(false);
    }
}
