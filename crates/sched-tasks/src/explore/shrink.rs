//! Simplifies a list of decisions, as long as it still shows the failure. Pure: the caller says what a list shows, and
//! when to stop.
//!
//! Room: decisions.
//!
//! # Invariant
//! The result shows the failure; and its weight is no more than that of the input.
//!
//! # Why it holds
//! A list replaces the best one only if it was tried, showed the failure, and is lighter.

use crate::{chance::Drawn, trace::Trace};

/// How much there is to understand in a run: the decisions that were not the default, then the steps.
fn weight(trace: &Trace) -> (usize, u64) {
    (unusual(&trace.decisions), trace.steps)
}

/// Decisions that were not the default.
pub(super) fn unusual(decisions: &[Drawn]) -> usize {
    decisions.iter().filter(|drawn| drawn.chosen != 0).count()
}

/// Resets decisions of `best` to the default: half of them, a quarter, at last one by one; and again, until nothing
/// helps. `show` tries a list, and gives the trace if the failure is still seen; it says `Err` when it has tried
/// enough.
pub(super) fn shrink(mut best: Trace, mut show: impl FnMut(Vec<Drawn>) -> Result<Option<Trace>, Enough>) -> Trace {
    loop {
        let before = weight(&best);
        if round(&mut best, &mut show).is_err() || weight(&best) >= before {
            return best;
        }
    }
}

/// Time is up.
pub(super) struct Enough;

fn round(best: &mut Trace, show: &mut impl FnMut(Vec<Drawn>) -> Result<Option<Trace>, Enough>) -> Result<(), Enough> {
    let mut chunk = best.decisions.len().max(1);
    loop {
        let mut at = 0;
        while at < best.decisions.len() {
            let end = (at + chunk).min(best.decisions.len());
            if unusual(&best.decisions[at..end]) > 0 {
                let mut plainer = best.decisions.clone();
                plainer[at..end].iter_mut().for_each(|drawn| drawn.chosen = 0);
                if let Some(trace) = show(plainer)?
                    && weight(&trace) < weight(best)
                {
                    *best = trace;
                }
            }
            at += chunk;
        }
        if chunk == 1 {
            return Ok(());
        }
        chunk = chunk.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Decision;

    fn trace(chosen: &[u32]) -> Trace {
        let decisions = chosen.iter().map(|&chosen| Drawn::new(Decision::Step, 4, chosen)).collect();
        Trace { decisions, steps: chosen.len() as u64, ..Trace::default() }
    }

    fn chosen(trace: &Trace) -> Vec<u32> {
        trace.decisions.iter().map(|drawn| drawn.chosen).collect()
    }

    #[test]
    fn only_the_decisions_that_matter_stay() {
        let start: Vec<u32> = (0..100).map(|i| i % 4).collect();
        let mut tries = 0;
        let shrunk = shrink(trace(&start), |drawn| {
            tries += 1;
            let fails = drawn[13].chosen == 1 && drawn[50].chosen == 2;
            Ok(fails.then(|| Trace { decisions: drawn, steps: 100, ..Trace::default() }))
        });
        assert_eq!(unusual(&shrunk.decisions), 2);
        assert_eq!((shrunk.decisions[13].chosen, shrunk.decisions[50].chosen), (1, 2));
        assert!(tries < 200, "{tries} tries for a list of 100");
    }

    #[test]
    fn a_failure_that_needs_no_decision_is_shown_without_any() {
        let shrunk = shrink(trace(&[3, 2, 1, 3]), |drawn| Ok(Some(Trace { decisions: drawn, ..Trace::default() })));
        assert_eq!(chosen(&shrunk), [0, 0, 0, 0]);
    }

    #[test]
    fn when_time_is_up_the_best_so_far_is_kept() {
        let mut left = 3;
        let shrunk = shrink(trace(&[1; 8]), |drawn| {
            left -= 1;
            if left == 0 {
                return Err(Enough);
            }
            Ok((drawn[7].chosen == 1).then(|| Trace { decisions: drawn, ..Trace::default() }))
        });
        assert_eq!(chosen(&shrunk), [0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn what_is_not_lighter_is_not_taken() {
        let shrunk = shrink(trace(&[1, 1]), |_| Ok(Some(trace(&[2, 2, 2]))));
        assert_eq!(chosen(&shrunk), [1, 1]);
    }
}
