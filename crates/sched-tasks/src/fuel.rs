//! What `#[budgeted]` writes into functions: a counter that says when to look up.
//!
//! # Invariant
//! Every operation counted is told to the budget exactly once: at a check, or when the counter is dropped. Between two looks at the budget
//! a loop does at most `interval` iterations.
//!
//! # Why it holds
//! What is counted and not yet told is `interval - left`. `tick` counts before it looks, so `left` is from 1 to `interval` between calls; a check sets `left` back
//! *before* it tells, so an unwinding check leaves nothing for the destructor to tell again.
//!
//! # Why it is cheap
//! The counter is two integers, and nothing is ever given its address: all of it is inlined, and the check gets a plain number. So `left` stays in a register. The
//! alarm is a plain load of a thread-local: a fiber never changes threads, and only its own thread sets it, so the compiler may keep it in a register
//! as long as nothing is called. What remains of an iteration is a subtraction and a branch or two that are never taken.
//!
//! # Rejected
//! An atomic flag for each task, set by whoever cancels: a load that cannot be hoisted, for an answer some microseconds earlier.

use std::cell::Cell;

use crate::strand::{self, Strand};

thread_local! {
    /// The running task must stop at its very next check, and not at the end of its interval.
    static ALARM: Cell<bool> = const { Cell::new(false) };
}

/// How far it is to the next check.
#[doc(hidden)]
#[derive(Debug)]
pub struct Fuel {
    left: u32,
    interval: u32,
}

impl Fuel {
    /// At the entry of a function: one operation, and a check.
    #[inline(always)]
    #[must_use]
    pub fn enter() -> Self {
        Self::enter_every(interval())
    }

    /// The same, with another interval than the runtime's.
    #[inline(always)]
    #[must_use]
    pub fn enter_every(interval: u32) -> Self {
        spend(1);
        let interval = interval.max(1);
        Self { left: interval, interval }
    }

    /// At the top of a loop's body: one operation; a check if the interval is over, or the alarm is set.
    #[inline(always)]
    pub fn tick(&mut self) {
        self.left -= 1;
        if self.left == 0 || alarmed() {
            self.at_await();
        }
    }

    /// A check, whatever is left. Waiting costs nothing itself.
    #[inline(always)]
    pub fn at_await(&mut self) {
        let counted = self.interval - self.left;
        self.left = self.interval;
        check(counted);
    }

    /// Lets a future through that is about to be awaited.
    #[inline(always)]
    pub fn awaiting<F>(future: F, fuel: &mut Self) -> F {
        fuel.at_await();
        future
    }
}

impl Drop for Fuel {
    #[inline(always)]
    fn drop(&mut self) {
        let counted = self.interval - self.left;
        if counted > 0 {
            note(counted);
        }
    }
}

#[cold]
#[inline(never)]
fn check(counted: u32) {
    spend(counted);
}

/// How many iterations go by without a check, unless the function says otherwise.
#[inline(always)]
fn interval() -> u32 {
    1024
}

/// Charges the running task. May stop it: for a while or, by unwinding, for ever.
#[inline]
fn spend(_ops: u32) {
    #[cfg(test)]
    tests::spent(_ops);
    strand::with(Strand::checkpoint);
}

/// Charges the running task, without stopping it.
#[inline]
fn note(_ops: u32) {
    #[cfg(test)]
    tests::noted(_ops);
}

#[inline(always)]
fn alarmed() -> bool {
    ALARM.get()
}

#[cfg(test)]
mod tests {
    use std::{
        cell::RefCell,
        panic::{catch_unwind, resume_unwind},
    };

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Told {
        Spent(u32),
        Noted(u32),
    }
    use Told::{Noted, Spent};

    thread_local! {
        static TOLD: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
        /// A check that is told so much unwinds.
        static FATAL: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(super) fn spent(ops: u32) {
        TOLD.with_borrow_mut(|told| told.push(Spent(ops)));
        if FATAL.get() == Some(ops) {
            resume_unwind(Box::new("stopped"));
        }
    }

    pub(super) fn noted(ops: u32) {
        TOLD.with_borrow_mut(|told| told.push(Noted(ops)));
    }

    fn iterate(interval: u32, iterations: u32) {
        let mut fuel = Fuel::enter_every(interval);
        for _ in 0..iterations {
            fuel.tick();
        }
    }

    #[test]
    fn a_check_comes_every_interval_and_the_rest_is_noted_at_the_end() {
        iterate(4, 10);
        assert_eq!(TOLD.take(), [Spent(1), Spent(4), Spent(4), Noted(2)]);
        iterate(4, 8);
        assert_eq!(TOLD.take(), [Spent(1), Spent(4), Spent(4)], "nothing is left to note");
    }

    #[test]
    fn an_unwinding_check_is_not_told_twice() {
        FATAL.set(Some(4));
        assert!(catch_unwind(|| iterate(4, 10)).is_err());
        assert_eq!(TOLD.take(), [Spent(1), Spent(4)]);
    }

    #[test]
    fn an_unwinding_entry_is_told_once() {
        FATAL.set(Some(1));
        assert!(catch_unwind(|| iterate(4, 10)).is_err());
        assert_eq!(TOLD.take(), [Spent(1)]);
    }

    #[test]
    fn an_alarm_makes_the_next_iteration_check() {
        let mut fuel = Fuel::enter();
        fuel.tick();
        fuel.tick();
        assert_eq!(TOLD.take(), [Spent(1)]);
        ALARM.set(true);
        fuel.tick();
        ALARM.set(false);
        assert_eq!(TOLD.take(), [Spent(3)]);
        fuel.tick();
        drop(fuel);
        assert_eq!(TOLD.take(), [Noted(1)]);
    }

    #[test]
    fn an_await_checks_and_costs_nothing_itself() {
        let mut fuel = Fuel::enter();
        fuel.tick();
        assert_eq!(Fuel::awaiting("the future", &mut fuel), "the future");
        fuel.at_await();
        drop(fuel);
        assert_eq!(TOLD.take(), [Spent(1), Spent(1), Spent(0)]);
    }

    #[test]
    fn an_interval_of_nothing_is_one() {
        iterate(0, 2);
        assert_eq!(TOLD.take(), [Spent(1), Spent(1), Spent(1)]);
    }
}
