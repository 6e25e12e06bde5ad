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
    strand::with(Strand::checkpoint);
}

/// Charges the running task, without stopping it.
#[inline]
fn note(_ops: u32) {}

#[inline(always)]
fn alarmed() -> bool {
    ALARM.get()
}
