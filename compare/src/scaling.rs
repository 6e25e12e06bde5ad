//! The same work done in several ways on more and more workers: rounds that alternate, and what goes onto the sheet.
//!
//! As in `measure.rs`, the best round of each way counts; here with all that belongs to it: a work time of another round would not fit its total.

use std::thread;
use std::time::Instant;

use crate::Failure;
use crate::measure::Plan;
use crate::primes::{CHUNKS, Checksum, Found};
use crate::split::{Counts, Split};
use crate::table::{Bar, Row};

/// What one round came to, and what was counted in it.
pub type Round = (Found, Option<Counts>);

/// A way to do all the work.
pub struct Way<'a> {
    side: &'static str,
    work: Box<dyn FnMut() -> Result<Round, Failure> + 'a>,
}

impl<'a> Way<'a> {
    pub fn new(side: &'static str, work: impl FnMut() -> Result<Round, Failure> + 'a) -> Self {
        Self { side, work: Box::new(work) }
    }
}

/// 1, 2, 4 … and twice the number of CPUs at most.
pub fn worker_counts() -> impl Iterator<Item = usize> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    (0..).map(|power| 1 << power).take_while(move |&workers| workers <= (2 * cpus).min(CHUNKS))
}

/// Takes every way once, to warm up, and then some rounds in turn; keeps the quickest of each.
pub fn best<const N: usize>(
    plan: &Plan,
    workload: &'static str,
    workers: usize,
    mut ways: [Way<'_>; N],
) -> Result<[Split; N], Failure> {
    let rounds = plan.pick(5, 2);
    let mut best = ways.each_ref().map(|_| None::<Split>);
    for round in 0..=rounds {
        for (Way { side, work }, best) in ways.iter_mut().zip(&mut best) {
            plan.step(&format!("{side}, {workers} workers, round {round}"));
            let began = Instant::now();
            let (found, counts) = work()?;
            let wall = began.elapsed();
            if round > 0 && best.as_ref().is_none_or(|best| wall < best.wall) {
                *best = Some(Split { workload, side, workers, wall, found, counts });
            }
        }
    }
    Ok(best.map(|best| best.expect("there is a round that counts")))
}

/// Puts rows onto the sheet, and compares the first, ours, with the others. A row that was refused is compared with none.
pub fn compared(plan: &Plan, splits: impl IntoIterator<Item = Split>, expected: Checksum) -> Vec<Row> {
    let mut taken = splits.into_iter().map(|split| plan.sheet().add(split.clone(), expected).then_some(split));
    let Some(Some(ours)) = taken.next() else {
        taken.for_each(drop); // the others are judged all the same
        return Vec::new();
    };
    let millis = |split: &Split| split.wall.as_secs_f64() * 1e3;
    let row =
        |theirs: Split| Row::new(theirs.workload, theirs.way(), [millis(&ours), millis(&theirs)], "ms", Bar::Open);
    taken.flatten().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn workers_double_up_to_twice_the_cpus() {
        let counts: Vec<_> = worker_counts().collect();
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(counts[0], 1);
        assert!(counts.windows(2).all(|two| two[1] == 2 * two[0]));
        assert!(counts.last().is_some_and(|most| (cpus + 1..=2 * cpus).contains(most)), "{counts:?} for {cpus} CPUs");
    }

    #[test]
    fn a_way_with_a_wrong_result_is_refused_and_the_others_are_compared() {
        let right = Checksum { count: 4, sum: 17 };
        let found = |checksum| Ok((Found { checksum, work: Duration::ZERO }, None));
        let plan = Plan::new(true);
        let splits = best(
            &plan,
            "thread-scale",
            1,
            [
                Way::new("ours", || found(right)),
                Way::new("wrong", || found(Checksum { sum: 16, ..right })),
                Way::new("good", || found(right)),
            ],
        );
        let rows = compared(&plan, splits.expect("none fails"), right);
        assert_eq!(rows.len(), 1, "ours with the good one");
        assert!(rows[0].json().contains(r#""peer":"good, 1 worker""#), "{}", rows[0].json());
        let refused = plan.sheet().refused().to_vec();
        assert!(refused.len() == 1 && refused[0].starts_with("thread-scale: wrong, 1 worker:"), "{refused:?}");
    }

    #[test]
    fn if_ours_is_wrong_it_is_compared_with_none_and_the_others_are_on_the_sheet() {
        let right = Checksum { count: 4, sum: 17 };
        let found = |checksum| Ok((Found { checksum, work: Duration::ZERO }, None));
        let plan = Plan::new(true);
        let ways = [Way::new("ours", || found(Checksum::default())), Way::new("good", || found(right))];
        let splits = best(&plan, "thread-scale", 2, ways).expect("none fails");
        assert!(compared(&plan, splits, right).is_empty());
        let sheet = plan.sheet();
        assert_eq!((sheet.rows().len(), sheet.refused().len()), (1, 1));
    }
}
