//! Rounds that alternate, and the best of each side.
//!
//! # Invariant
//! In one call of [`Plan::best_of`] every side does the same number of operations, is
//! warmed up by one round that does not count, and is timed by the same code.
//!
//! # Why the best
//! Noise on a busy machine only ever adds time. The smallest of several rounds is the one
//! with the least of it; a mean would measure other processes.

use std::cell::{Cell, RefCell, RefMut};
use std::hint::black_box;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::split::Sheet;
use crate::{Failure, watchdog};

/// One side of a comparison: does the whole work of a round when called.
pub struct Side<'a> {
    name: &'static str,
    work: Box<dyn FnMut() -> Result<(), Failure> + 'a>,
}

impl<'a> Side<'a> {
    pub fn new(name: &'static str, work: impl FnMut() -> Result<(), Failure> + 'a) -> Self {
        Self { name, work: Box::new(work) }
    }
}

/// Moves what follows it by some bytes: in every copy of a function others. Where a short loop lies changes its time by a fifth; the mean over several places is
/// what to expect of an arbitrary one.
#[inline(always)]
pub fn shift<const COPY: u64>() {
    macro_rules! more {
        ($($copy:literal)*) => { $(if COPY > $copy { black_box($copy as u8); })* };
    }
    more!(1 2 3 4 5);
}

/// More rounds than these find no better one.
const ROUNDS_MAX: usize = 50;

/// How much to do, and where to say what is being done.
pub struct Plan {
    quick: bool,
    terminal: bool,
    /// The workload under way, as [`Plan::say`] was told.
    title: Cell<String>,
    sheet: RefCell<Sheet>,
}

impl Plan {
    pub fn new(quick: bool) -> Self {
        Self { quick, terminal: io::stderr().is_terminal(), title: Cell::default(), sheet: RefCell::default() }
    }

    /// `full`, or `quick` under `--quick`.
    pub fn pick(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// Nanoseconds of one operation for each side, in its best round.
    ///
    /// Short rounds are repeated more often: the shorter a round is, the likelier another process spoils it.
    pub fn best_of<const N: usize>(&self, operations: usize, mut sides: [Side<'_>; N]) -> Result<[f64; N], Failure> {
        let rounds = self.pick(7, 3);
        let time_min = Duration::from_millis(self.pick(1500, 400) as u64);
        let mut best = [f64::INFINITY; N];
        for side in &mut sides {
            self.step(&format!("{}, warming up", side.name));
            (side.work)()?;
        }
        let began = Instant::now();
        for round in 1.. {
            for (side, best) in sides.iter_mut().zip(&mut best) {
                self.step(&format!("{}, round {round}", side.name));
                let started = Instant::now();
                (side.work)()?;
                let nanoseconds = started.elapsed().as_secs_f64() * 1e9 / operations as f64;
                *best = best.min(nanoseconds);
            }
            if round >= ROUNDS_MAX || (round >= rounds && began.elapsed() > time_min) {
                break;
            }
        }
        Ok(best)
    }

    /// Where rows go that tell work from what is around it.
    pub fn sheet(&self) -> RefMut<'_, Sheet> {
        self.sheet.borrow_mut()
    }

    /// A workload begins.
    pub fn say(&self, title: &str) {
        self.title.set(title.to_owned());
        if !self.terminal {
            eprintln!("{title} …");
        }
    }

    /// A step of the workload begins: shown on a terminal, watched everywhere.
    pub fn step(&self, what: &str) {
        self.step_within(what, watchdog::ROUND);
    }

    /// The same for a step that may take so long.
    pub fn step_within(&self, what: &str, limit: Duration) {
        let title = self.title.take();
        let line = format!("{title}: {what}");
        self.title.set(title);
        self.rewrite(&line);
        watchdog::enter(line, limit);
    }

    /// The workload is over.
    pub fn done(&self, what: &str) {
        self.rewrite("");
        eprintln!("{what}");
    }

    fn rewrite(&self, line: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{line}");
            // Progress that cannot be shown is no reason to stop measuring.
            let _ = io::stderr().flush();
        }
    }
}

/// The value below which `percent` of the samples lie.
///
/// # Panics
/// If there are no samples.
pub fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    per_mille(samples, percent * 10)
}

/// The value below which so many thousandths of the samples lie.
///
/// # Panics
/// If there are no samples.
pub fn per_mille(samples: &mut [f64], thousandths: usize) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[(samples.len() * thousandths / 1000).min(samples.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_runs_equally_often_and_once_to_warm_up() {
        let (left, right) = (Cell::new(0), Cell::new(0));
        let best = Plan::new(true)
            .best_of(
                1,
                [
                    Side::new("left", || {
                        left.set(left.get() + 1);
                        Ok(())
                    }),
                    Side::new("right", || {
                        right.set(right.get() + 1);
                        Ok(())
                    }),
                ],
            )
            .expect("neither side fails");
        assert_eq!((left.get(), right.get()), (ROUNDS_MAX + 1, ROUNDS_MAX + 1));
        assert!(best.iter().all(|nanoseconds| nanoseconds.is_finite()));
    }

    #[test]
    fn a_failing_side_stops_the_comparison() {
        let outcome = Plan::new(true).best_of(1, [Side::new("bad", || Err("it broke".into()))]);
        assert_eq!(outcome.unwrap_err().to_string(), "it broke");
    }

    #[test]
    fn percentiles_are_taken_from_the_sorted_samples() {
        let mut samples: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples, 50), 50.0);
        assert_eq!(percentile(&mut samples, 99), 99.0);
        assert_eq!(percentile(&mut [7.0], 99), 7.0);
        let mut samples: Vec<f64> = (0..2000).rev().map(f64::from).collect();
        assert_eq!(per_mille(&mut samples, 999), 1998.0);
    }
}
