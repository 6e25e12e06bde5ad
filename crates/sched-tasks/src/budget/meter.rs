//! A meter: what the task that runs here may still spend.
//!
//! Room: state. Knows numbers; knows nothing of pools.
//!
//! Only the strand's own thread touches it, so a charge is a few loads, tests and stores, and for a task without a budget a load and a test.
//!
//! # Invariants
//! The numbers of a task without a budget are neither read nor changed: a charge asks first whether there is one.
//! Of a metered task no component ever shows more than `granted`. What was drawn for it is settled when it ends, `granted - left` as spent.
//! Of what a task owes, nothing is left. `looks` is set while it owes something or was refused something.
//! Once a task was refused what it asked for, no charge succeeds any more until its meter is settled.
//!
//! # Why the last holds
//! Every operation costs at least one `ops`, and a refused meter shows none: what was left of them is kept beside, for the settlement. So the common charge looks at
//! nothing new.

use std::cell::Cell;

use vocab::{Budget, Component, Shortage, UNLIMITED};

use super::{account::Account, pool::Settlement};

/// What is left of a task's budget.
#[derive(Debug)]
pub(crate) struct Meter {
    ops: Cell<u64>,
    memory: Cell<u64>,
    spawns: Cell<u64>,
    channel_ops: Cell<u64>,
    syscalls: Cell<u64>,
    /// All that was drawn for it.
    granted: Cell<Budget>,
    /// What was spent beyond what was left, by what cannot wait or unwind: an allocation, a destructor during a panic. It is paid at the next check.
    owed: Cell<Budget>,
    /// Something is owed, or was refused: the next check looks closer.
    looks: Cell<bool>,
    metered: Cell<bool>,
    /// More was drawn for it than it began with.
    recharged: Cell<bool>,
    /// Of which account's children the numbers show the first share, untouched, though no task has them: if the next task is such a child, it can begin with them as they are.
    primed_for: Cell<u64>,
    /// What the task asked for and was refused: it does not go on.
    refused: Cell<Option<Refused>>,
}

/// What a task was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) component: Component,
    pub(crate) granted: u64,
    pub(crate) wanted: u64,
    /// Operations that were left then: they may not be spent, and they are not spent.
    ops_kept: u64,
}

/// A meter that was put aside: while its task owns an open nursery, or a future waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) granted: Budget,
    pub(crate) left: Budget,
    owed: Budget,
    metered: bool,
    refused: Option<Refused>,
}

impl Reading {
    /// Of a task without a budget.
    pub(crate) const UNMETERED: Reading = Reading {
        granted: Budget::UNLIMITED,
        left: Budget::UNLIMITED,
        owed: Budget::ZERO,
        metered: false,
        refused: None,
    };

    /// What goes back to where it was drawn, of a task that does not go on.
    pub(crate) fn settlement(&self) -> Settlement {
        let left = with_kept(self.left, self.refused);
        Settlement { left, spent: self.granted.saturating_sub(&left) }
    }

    /// Gives a part of it away: as much of `wanted` as there is.
    pub(crate) fn draw(&mut self, wanted: &Budget) -> Budget {
        let drawn = self.left.min(wanted);
        self.left.charge(&drawn).expect("no more than there is");
        drawn
    }

    /// Takes over what a nursery's owner still owes.
    pub(crate) fn owe(&mut self, amount: &Budget) {
        self.owed.recharge(amount);
    }
}

impl Meter {
    pub(crate) const fn unmetered() -> Self {
        Self {
            ops: Cell::new(UNLIMITED),
            memory: Cell::new(UNLIMITED),
            spawns: Cell::new(UNLIMITED),
            channel_ops: Cell::new(UNLIMITED),
            syscalls: Cell::new(UNLIMITED),
            granted: Cell::new(Budget::UNLIMITED),
            owed: Cell::new(Budget::ZERO),
            looks: Cell::new(false),
            metered: Cell::new(false),
            recharged: Cell::new(false),
            primed_for: Cell::new(0),
            refused: Cell::new(None),
        }
    }

    /// The task gets no more of what it asked for: nothing can be paid from now on.
    pub(crate) fn refuse(&self, shortage: &Shortage) {
        let (component, granted) = (shortage.component, self.granted.get()[shortage.component]);
        let ops_kept = self.ops.replace(0);
        self.refused.set(Some(Refused { component, granted, wanted: shortage.wanted, ops_kept }));
        self.looks.set(true);
        self.recharged.set(true); // it is not as it began
    }

    /// Whether the task was refused what it asked for.
    #[inline(always)]
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.get().is_some()
    }

    /// What it was refused.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused.get()
    }

    /// Whether the task must not go on before its meter is checked.
    #[inline(always)]
    pub(crate) fn needs_look(&self) -> bool {
        self.looks.get()
    }

    /// From now on it owes so much.
    fn set_owed(&self, owed: Budget) {
        self.owed.set(owed);
        self.looks.set(owed != Budget::ZERO || self.is_refused());
    }

    /// Whether the task has a budget.
    #[inline(always)]
    pub(crate) fn is_metered(&self) -> bool {
        self.metered.get()
    }

    /// Charges no task while `body` runs: it works for the runtime.
    pub(crate) fn while_off<R>(&self, body: impl FnOnce() -> R) -> R {
        struct On<'a>(&'a Cell<bool>, bool);
        impl Drop for On<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _on = On(&self.metered, self.metered.replace(false));
        body()
    }

    /// All that was drawn for the task.
    pub(crate) fn granted(&self) -> Budget {
        self.granted.get()
    }

    #[inline(always)]
    pub(crate) fn left(&self) -> Budget {
        Budget {
            ops: self.ops.get(),
            memory: self.memory.get(),
            spawns: self.spawns.get(),
            channel_ops: self.channel_ops.get(),
            syscalls: self.syscalls.get(),
        }
    }

    #[inline(always)]
    fn set_left(&self, left: &Budget) {
        self.ops.set(left.ops);
        self.memory.set(left.memory);
        self.spawns.set(left.spawns);
        self.channel_ops.set(left.channel_ops);
        self.syscalls.set(left.syscalls);
    }

    /// Begins a task that may spend `budget`.
    #[inline(always)]
    pub(crate) fn begin(&self, budget: &Budget) {
        self.set_left(budget);
        self.granted.set(*budget);
        self.metered.set(true);
        self.recharged.set(false);
        self.refused.set(None);
        debug_assert!(!self.looks.get(), "the task before settled what it owed");
        self.primed_for.set(0);
    }

    /// Begins a task that may spend a child's first share of `account`.
    #[inline(always)]
    pub(crate) fn begin_child(&self, account: &Account) {
        if self.primed_for.get() == account.serial() {
            self.metered.set(true);
        } else {
            self.begin(account.child());
        }
    }

    /// Ends a task of `account` that spent nothing. False if it did: then it has not ended.
    #[inline(always)]
    pub(crate) fn end_untouched(&self, account: &Account) -> bool {
        let child = account.child();
        let spent = (self.ops.get() ^ child.ops)
            | (self.memory.get() ^ child.memory)
            | (self.spawns.get() ^ child.spawns)
            | (self.channel_ops.get() ^ child.channel_ops)
            | (self.syscalls.get() ^ child.syscalls);
        let untouched = spent == 0 && !self.looks.get() && !self.recharged.get();
        if untouched {
            self.metered.set(false);
            self.primed_for.set(account.serial());
        }
        untouched
    }

    /// Ends it: what goes back to where it was drawn.
    #[inline(always)]
    pub(crate) fn end(&self) -> Settlement {
        let left = with_kept(self.left(), self.refused.get());
        let spent = self.granted.get().saturating_sub(&left);
        self.put(&Reading::UNMETERED);
        Settlement { left, spent }
    }

    /// The same, but it goes on with nothing. What it owes it still owes.
    pub(crate) fn end_and_wait(&self) -> Settlement {
        let (owed, refused) = (self.owed.get(), self.refused.get());
        let settlement = self.end();
        self.begin(&Budget::ZERO);
        self.refused.set(refused.map(|refused| Refused { ops_kept: 0, ..refused }));
        self.set_owed(owed);
        settlement
    }

    /// Takes back operations that were paid and not done.
    pub(crate) fn unpay_ops(&self, ops: u64) {
        self.ops.set(self.ops.get().saturating_add(ops).min(self.granted.get().ops));
    }

    /// Puts the reading aside.
    pub(crate) fn take(&self) -> Reading {
        let reading = Reading {
            granted: self.granted.get(),
            left: self.left(),
            owed: self.owed.get(),
            metered: self.metered.get(),
            refused: self.refused.get(),
        };
        self.put(&Reading::UNMETERED);
        reading
    }

    /// Goes on from a reading.
    #[inline(always)]
    pub(crate) fn put(&self, reading: &Reading) {
        self.set_left(&reading.left);
        self.granted.set(reading.granted);
        self.metered.set(reading.metered);
        self.refused.set(reading.refused);
        self.set_owed(reading.owed);
        self.recharged.set(true); // perhaps; it is only asked for what began here
        self.primed_for.set(0);
    }

    /// Adds what was drawn for the task. What it owes is paid first.
    pub(crate) fn recharge(&self, amount: &Budget) {
        let (mut granted, mut left) = (self.granted.get(), self.left());
        granted.recharge(amount);
        left.recharge(amount);
        self.granted.set(granted);
        self.recharged.set(true);
        self.set_left(&left);
        self.pay_debts();
    }

    fn pay_debts(&self) {
        let (mut left, owed) = (self.left(), self.owed.get());
        let paid = left.min(&owed);
        left.charge(&paid).expect("no more than there is");
        self.set_left(&left);
        self.set_owed(owed.saturating_sub(&paid));
    }

    /// Gives a part of it away, to be brought back: what is drawn is less than `wanted` if there is less.
    pub(crate) fn draw(&self, wanted: &Budget) -> Budget {
        let mut left = self.left();
        let drawn = left.min(wanted);
        left.charge(&drawn).expect("no more than there is");
        self.set_left(&left);
        drawn
    }

    /// The common charge: operations. False if there are too few, or memory is overdrawn: then nothing was taken.
    #[inline(always)]
    pub(crate) fn pay_ops(&self, ops: u64) -> bool {
        let left = self.ops.get();
        let enough = left >= ops && self.owed.get().memory == 0;
        if enough {
            self.ops.set(left - ops);
        }
        enough
    }

    /// One operation of a channel.
    #[inline(always)]
    pub(crate) fn pay_channel_op(&self) -> bool {
        let (ops, channel_ops) = (self.ops.get(), self.channel_ops.get());
        let enough = ops != 0 && channel_ops != 0 && self.owed.get().memory == 0;
        if enough {
            self.ops.set(ops - 1);
            self.channel_ops.set(channel_ops - 1);
        }
        enough
    }

    /// Any cost. Nothing is taken while something is owed.
    pub(crate) fn pay(&self, cost: &Budget) -> Result<(), Shortage> {
        let owed = self.owed.get();
        if let Some(component) = Component::ALL.into_iter().find(|&component| owed[component] != 0) {
            return Err(Shortage { component, wanted: owed[component], left: 0 });
        }
        let mut left = self.left();
        left.charge(cost)?;
        self.set_left(&left);
        Ok(())
    }

    /// Takes `cost`, for what cannot be stopped: what there is of it now, the rest at the next check.
    pub(crate) fn owe(&self, cost: &Budget) {
        if !self.looks.get() && self.pay(cost).is_ok() {
            return;
        }
        let mut owed = self.owed.get();
        owed.recharge(cost);
        self.owed.set(owed);
        self.recharged.set(true); // it is not as it began
        self.pay_debts();
    }

    /// Bytes were allocated. False if that was more than was left, which is owed.
    #[inline]
    pub(crate) fn allocated(&self, bytes: u64) -> bool {
        self.ops.set(self.ops.get().saturating_sub(1));
        let left = self.memory.get();
        if left >= bytes {
            self.memory.set(left - bytes);
            return true;
        }
        self.memory.set(0);
        self.set_owed(self.owed.get().memory(self.owed.get().memory.saturating_add(bytes - left)));
        false
    }

    /// Bytes were freed. They may have been another task's: no task gets back more than was granted.
    #[inline]
    pub(crate) fn freed(&self, bytes: u64) {
        let owed = self.owed.get();
        let repaid = owed.memory.min(bytes);
        if repaid != 0 {
            self.set_owed(owed.memory(owed.memory - repaid));
        }
        let left = self.memory.get().saturating_add(bytes - repaid);
        self.memory.set(left.min(self.granted.get().memory));
    }

    /// What it owes.
    pub(crate) fn owed(&self) -> Budget {
        self.owed.get()
    }
}

/// What is left, with what a refusal keeps beside.
fn with_kept(mut left: Budget, refused: Option<Refused>) -> Budget {
    if let Some(refused) = refused {
        left.ops = left.ops.saturating_add(refused.ops_kept);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_refused_pays_nothing_more_and_settles_what_it_had() {
        let meter = Meter::unmetered();
        meter.begin(&Budget::ops(10).channel_ops(2).syscalls(3));
        assert!(meter.pay_ops(4));
        meter.refuse(&Shortage { component: Component::Ops, wanted: 50, left: 6 });
        assert!(!meter.pay_ops(1) && !meter.pay_channel_op() && meter.needs_look());
        assert!(meter.pay(&Budget::ops(1).syscalls(1)).is_err());
        let reading = meter.take();
        assert!(!meter.needs_look(), "the next task is another");
        let settlement = Settlement { left: Budget::ops(6).channel_ops(2).syscalls(3), spent: Budget::ops(4) };
        assert_eq!(reading.settlement(), settlement);
        meter.put(&reading);
        assert!(!meter.pay_ops(1));
        assert_eq!(meter.end(), settlement);
    }

    #[test]
    fn what_is_freed_is_never_more_than_was_granted() {
        let meter = Meter::unmetered();
        meter.begin(&Budget::ops(10).memory(100));
        assert!(meter.allocated(60));
        meter.freed(1000);
        assert_eq!(meter.left().memory, 100);
    }

    #[test]
    fn what_is_owed_is_paid_first() {
        let meter = Meter::unmetered();
        meter.begin(&Budget::ops(10).memory(100));
        assert!(!meter.allocated(130));
        assert_eq!((meter.left().memory, meter.owed().memory), (0, 30));
        meter.freed(40);
        assert_eq!((meter.left().memory, meter.owed().memory), (10, 0));
        assert!(!meter.allocated(20));
        meter.recharge(&Budget::ZERO.memory(50));
        assert_eq!((meter.left().memory, meter.owed().memory), (40, 0));
        meter.owe(&Budget::ops(15).channel_ops(2));
        assert_eq!(
            (meter.left().ops, meter.owed()),
            (0, Budget::ops(7).channel_ops(2)),
            "two allocations cost one each"
        );
        assert!(meter.needs_look() && meter.pay(&Budget::ZERO).is_err());
        meter.recharge(&Budget::ops(10).channel_ops(1));
        assert_eq!((meter.left().ops, meter.owed()), (3, Budget::ZERO.channel_ops(1)));
        meter.recharge(&Budget::ZERO.channel_ops(1));
        assert!(!meter.needs_look() && meter.pay(&Budget::ops(3)) == Ok(()));
    }

    #[test]
    fn a_task_settles_what_it_spent() {
        let meter = Meter::unmetered();
        meter.begin(&Budget::ops(10).channel_ops(2));
        assert!(meter.pay_ops(3) && meter.pay_channel_op());
        assert!(!meter.pay_ops(7), "6 are left");
        assert_eq!(
            meter.end(),
            Settlement { left: Budget::ops(6).channel_ops(1), spent: Budget::ops(4).channel_ops(1) }
        );
        assert!(!meter.is_metered());
    }
}
