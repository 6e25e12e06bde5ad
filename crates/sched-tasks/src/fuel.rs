//! The counter that `#[budgeted]` writes into functions: it says when to check.
//!
//! Room: mechanism. Knows counters and the alarm; knows nothing of what a budget is spent on.
//!
//! # Invariant
//! Every operation counted is charged to the budget exactly once: at a check, or when the counter is dropped. Between
//! two checks of the budget a loop does at most `interval` iterations.
//!
//! # Why it holds
//! What is counted and not yet charged is `interval - left`. `tick` counts before it checks, so `left` is from 1 to
//! `interval` between calls. A check sets `left` back *before* it charges, so an unwinding check leaves nothing for the
//! destructor to charge again.
//!
//! # Why it is cheap
//! The counter is two integers, and its address is never taken: all of it is inlined, and the check gets plain numbers.
//! So `left` stays in a register. It is compared with the alarm, a number in a thread-local, so one branch answers both
//! questions. What remains of an iteration is a subtraction, a comparison with memory and a branch that is not taken.
//! The alarm needs no atomics: a fiber never changes threads, and only its own thread sets it.
//!
//! # Rejected
//! - A flag beside the counter: two branches, a fifth slower where a loop does little else.
//! - Passing the difference to the check: the compiler then keeps the counter from before the subtraction too, and
//!   copies it in every iteration.
//! - An atomic flag for each task, set by the canceller: an indirection more, for an answer some microseconds earlier.

use std::ops::Range;

use vocab::Budget;

use crate::{
    alarm,
    strand::{self, Strand, give_way},
};

/// The iterations left until the next check.
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
        if self.left <= alarm::level() {
            let left = std::mem::replace(&mut self.left, self.interval);
            check(self.interval, left);
        }
    }

    /// Cuts a range into chunks, with a check between them when the interval is over. For loops that only compute: they
    /// are checked once in a chunk, and the compiler may vectorise the iterations.
    #[inline(always)]
    pub fn chunks<T>(range: Range<T>, fuel: &mut Self) -> Chunks<'_, T>
    where
        T: Clone,
        Range<T>: Iterator<Item = T>,
    {
        Chunks { range, fuel, out: 0 }
    }

    /// `turns` iterations were done, at most what was left.
    #[inline(always)]
    fn did(&mut self, turns: u32) {
        self.left -= turns;
        if self.left <= alarm::level() {
            let left = std::mem::replace(&mut self.left, self.interval);
            check(self.interval, left);
        }
    }

    /// A check, whatever is left. Waiting costs nothing itself.
    #[inline(always)]
    pub fn at_await(&mut self) {
        let left = std::mem::replace(&mut self.left, self.interval);
        spend(self.interval - left);
    }

    /// Lets a future through that is about to be awaited.
    #[inline(always)]
    pub fn awaiting<F>(future: F, fuel: &mut Self) -> F {
        fuel.at_await();
        future
    }
}

/// The chunks of a range; made by [`Fuel::chunks`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Chunks<'a, T> {
    range: Range<T>,
    fuel: &'a mut Fuel,
    /// How many iterations the last chunk had: they are counted when they are done.
    out: u32,
}

impl<T> Iterator for Chunks<'_, T>
where
    T: Clone,
    Range<T>: Iterator<Item = T>,
{
    type Item = Range<T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Range<T>> {
        if self.out > 0 {
            self.fuel.did(std::mem::take(&mut self.out));
        }
        let (start, end) = (self.range.start.clone(), self.range.end.clone());
        let most = self.fuel.left as usize;
        let mut rest = start.clone()..end.clone();
        match rest.nth(most) {
            Some(middle) => {
                self.range.start = middle.clone();
                self.out = self.fuel.left;
                Some(start..middle)
            }
            None => {
                let last = start..end.clone();
                let turns = last.size_hint().0; // no more than `most`
                self.range.start = end;
                self.out = turns as u32;
                (turns > 0).then_some(last)
            }
        }
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

/// Out of line and out of the way.
#[cold]
#[inline(never)]
fn check(interval: u32, left: u32) {
    alarm::calm();
    spend(interval - left);
    strand::with(give_way); // the interval is over
}

/// Lets other tasks have a turn. A plain thread has its turns from the system.
fn give_way(strand: &Strand) {
    if strand.worker.is_some() {
        give_way::yield_now(strand);
    }
}

/// How many iterations go by without a check, unless the function says otherwise.
#[inline(always)]
fn interval() -> u32 {
    strand::with(Strand::yield_interval)
}

/// Charges the running task. May stop it: for a while or, by unwinding, for ever.
#[inline(never)]
fn spend(ops: u32) {
    #[cfg(test)]
    tests::spent(ops);
    strand::with(|strand| {
        strand.charge_ops(ops.into());
        strand.checkpoint(); // calls that call themselves are loops, too: they count as operations
    });
}

/// Charges the running task, without stopping it.
#[inline]
fn note(ops: u32) {
    #[cfg(test)]
    tests::noted(ops);
    strand::with(|strand| {
        if strand.meter.is_metered() {
            strand.meter.owe(&Budget::ops(ops.into()));
        }
    });
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        panic::{catch_unwind, resume_unwind},
    };

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Charged {
        Spent(u32),
        Noted(u32),
    }
    use Charged::{Noted, Spent};

    thread_local! {
        static CHARGED: RefCell<Vec<Charged>> = const { RefCell::new(Vec::new()) };
        /// A check that is charged this much unwinds.
        static FATAL: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(super) fn spent(ops: u32) {
        CHARGED.with_borrow_mut(|charged| charged.push(Spent(ops)));
        if FATAL.get() == Some(ops) {
            resume_unwind(Box::new("stopped"));
        }
    }

    pub(super) fn noted(ops: u32) {
        CHARGED.with_borrow_mut(|charged| charged.push(Noted(ops)));
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
        assert_eq!(CHARGED.take(), [Spent(1), Spent(4), Spent(4), Noted(2)]);
        iterate(4, 8);
        assert_eq!(CHARGED.take(), [Spent(1), Spent(4), Spent(4)], "nothing is left to note");
    }

    #[test]
    fn an_unwinding_check_is_not_charged_twice() {
        FATAL.set(Some(4));
        assert!(catch_unwind(|| iterate(4, 10)).is_err());
        assert_eq!(CHARGED.take(), [Spent(1), Spent(4)]);
    }

    #[test]
    fn an_unwinding_entry_is_charged_once() {
        FATAL.set(Some(1));
        assert!(catch_unwind(|| iterate(4, 10)).is_err());
        assert_eq!(CHARGED.take(), [Spent(1)]);
    }

    #[test]
    fn an_alarm_makes_the_next_iteration_check() {
        let mut fuel = Fuel::enter();
        fuel.tick();
        fuel.tick();
        assert_eq!(CHARGED.take(), [Spent(1)]);
        alarm::sound();
        fuel.tick();
        alarm::calm();
        assert_eq!(CHARGED.take(), [Spent(3)]);
        fuel.tick();
        drop(fuel);
        assert_eq!(CHARGED.take(), [Noted(1)]);
    }

    #[test]
    fn an_await_checks_and_costs_nothing_itself() {
        let mut fuel = Fuel::enter();
        fuel.tick();
        assert_eq!(Fuel::awaiting("the future", &mut fuel), "the future");
        fuel.at_await();
        drop(fuel);
        assert_eq!(CHARGED.take(), [Spent(1), Spent(1), Spent(0)]);
    }

    #[test]
    fn chunks_are_the_range_and_are_charged_when_they_are_done() {
        let mut fuel = Fuel::enter_every(4);
        let mut seen = Vec::new();
        for chunk in Fuel::chunks(-3..7_i64, &mut fuel) {
            seen.extend(chunk);
        }
        assert_eq!(seen, (-3..7).collect::<Vec<_>>());
        drop(fuel);
        assert_eq!(CHARGED.take(), [Spent(1), Spent(4), Spent(4), Noted(2)]);
    }

    #[test]
    fn an_empty_range_costs_nothing() {
        let mut fuel = Fuel::enter_every(4);
        #[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
        let chunks = Fuel::chunks(5..3_u8, &mut fuel).count();
        drop(fuel);
        assert_eq!((chunks, CHARGED.take()), (0, vec![Spent(1)]));
    }

    #[test]
    fn chunks_reach_the_ends_of_their_types() {
        let mut fuel = Fuel::enter_every(100);
        assert_eq!(Fuel::chunks(i8::MIN..i8::MAX, &mut fuel).map(Iterator::count).sum::<usize>(), 255);
        assert_eq!(
            Fuel::chunks('a'..'\u{e000}', &mut fuel).map(Iterator::count).sum::<usize>(),
            ('a'..'\u{e000}').count()
        );
        drop(fuel);
        CHARGED.take();
    }

    #[test]
    fn an_interval_of_nothing_is_one() {
        iterate(0, 2);
        assert_eq!(CHARGED.take(), [Spent(1), Spent(1), Spent(1)]);
    }
}
