//! Whether a set of reservations can be served by one CPU, by earliest deadline first.
//!
//! Room: decisions.
//!
//! If every deadline is the end of its period, they can if the utilisation is at most one. Else the demand of every interval must fit into it: what is released and due within `t`
//! is `h(t) = Σ ((t − D) / T + 1) · C` over reservations with `D ≤ t`, and `h(t) ≤ t` must hold for every `t`. Zhang and Burns' *quick processor-demand analysis* looks at few of these:
//! it goes back from the largest interval that matters, from `t` to `h(t)`.
//!
//! # Invariant
//! What cannot be shown to fit does not. All rounding is up, and the search is bounded.

use policy_cpu::{ContextSpec, Nanos};

/// How many intervals are looked at before it is given up. Real sets need some dozens.
const LOOKS_MAX: u32 = 10_000;

/// So much time, by a deadline, in every period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// How much.
    pub budget: Nanos,
    /// By when.
    pub deadline: Nanos,
    /// How often.
    pub period: Nanos,
}

impl Reservation {
    /// What a context asks for.
    pub const fn of(spec: &ContextSpec) -> Self {
        Reservation { budget: spec.budget, deadline: spec.deadline, period: spec.period }
    }
}

/// Utilisation is counted in parts of this.
const WHOLE: u128 = 1 << 52;

/// Whether one CPU, of which `reserve` thousandths are kept, serves all of them in time.
pub fn is_schedulable(all: &[Reservation], reserve: u32) -> bool {
    if all.is_empty() {
        return true;
    }
    if reserve >= 1000 {
        return false;
    }
    // A slower CPU is one on which everything takes longer: exact, in thousandths of a nanosecond.
    let speed = u128::from(1000 - reserve);
    let scale = |one: &Reservation| {
        let [budget, deadline, period] = [one.budget, one.deadline, one.period].map(u128::from);
        (budget * 1000, deadline * speed, period * speed)
    };
    let scaled: Vec<(u128, u128, u128)> = all.iter().map(scale).collect();
    if scaled.iter().any(|&(budget, deadline, _)| budget == 0 || budget > deadline) {
        return false;
    }
    let used: u128 = scaled.iter().map(|&(budget, _, period)| (budget * WHOLE).div_ceil(period)).sum();
    // Rounding up may have added one part for each: only then the fractions are added up as they are.
    if used > WHOLE && (used > WHOLE + scaled.len() as u128 || exact_sum_is_over_one(&scaled)) {
        return false;
    }
    if scaled.iter().all(|&(_, deadline, period)| deadline == period) {
        return true;
    }
    let Some(longest) = longest_interval(&scaled, used) else { return false };
    demand_fits(&scaled, longest)
}

/// Whether the utilisations add up to more than one, exactly; also if that cannot be said with 128 bits.
fn exact_sum_is_over_one(all: &[(u128, u128, u128)]) -> bool {
    let add = |(sum, whole): (u128, u128), &(budget, _, period): &(u128, u128, u128)| {
        let common = gcd(whole, period);
        let (factor, other) = (period / common, whole / common);
        Some((sum.checked_mul(factor)?.checked_add(budget.checked_mul(other)?)?, whole.checked_mul(factor)?))
    };
    all.iter().try_fold((0, 1), add).is_none_or(|(sum, whole)| sum > whole)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The largest interval that can matter: two bounds, the smaller of which counts.
fn longest_interval(all: &[(u128, u128, u128)], used: u128) -> Option<u128> {
    let latest = all.iter().map(|&(_, deadline, _)| deadline).max()?;
    if used < WHOLE {
        // After this, what is left over of every period has paid for the early deadlines.
        let slack = WHOLE - used;
        let early: u128 = all
            .iter()
            .map(|&(budget, deadline, period)| {
                (budget.checked_mul(period - deadline)?.checked_mul(1 << 32)).map(|part| part.div_ceil(period))
            })
            .sum::<Option<u128>>()?;
        let bound = early.div_ceil((slack >> 32).max(1));
        return Some(bound.max(latest));
    }
    // A CPU that is never idle: until everything that was released at once has been served.
    let mut busy: u128 = all.iter().map(|&(budget, ..)| budget).sum();
    for _ in 0..LOOKS_MAX {
        let next: u128 = all.iter().map(|&(budget, _, period)| busy.div_ceil(period) * budget).sum();
        if next == busy {
            return Some(busy.max(latest));
        }
        busy = next;
    }
    None
}

fn demand_fits(all: &[(u128, u128, u128)], longest: u128) -> bool {
    let demand = |time: u128| -> u128 {
        let due = all.iter().filter(|&&(_, deadline, _)| deadline <= time);
        due.map(|&(budget, deadline, period)| ((time - deadline) / period + 1) * budget).sum()
    };
    // The latest deadline before a time.
    let before = |time: u128| -> Option<u128> {
        let due = all.iter().filter(|&&(_, deadline, _)| deadline < time);
        due.map(|&(_, deadline, period)| (time - deadline - 1) / period * period + deadline).max()
    };
    let Some(first) = all.iter().map(|&(_, deadline, _)| deadline).min() else { return true };
    let Some(mut time) = before(longest + 1) else { return true };
    for _ in 0..LOOKS_MAX {
        let due = demand(time);
        if due > time {
            return false;
        }
        if due <= first {
            return true;
        }
        time = if due < time { due } else { before(time).unwrap_or(0) };
    }
    false
}

/// The largest budget that a reservation of this deadline and period could have beside the others; 0 if none.
pub fn largest_budget(others: &[Reservation], wanted: Reservation, reserve: u32) -> Nanos {
    let mut all = others.to_vec();
    let mut fits = |budget: Nanos| {
        all.truncate(others.len());
        all.push(Reservation { budget, ..wanted });
        is_schedulable(&all, reserve)
    };
    let (mut low, mut high) = (0, wanted.deadline + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::SplitMix64;

    fn reservation(budget: Nanos, deadline: Nanos, period: Nanos) -> Reservation {
        Reservation { budget, deadline, period }
    }

    #[test]
    fn a_whole_cpu_can_be_given_away_and_not_a_nanosecond_more() {
        let thirds = [reservation(10, 30, 30); 3];
        assert!(is_schedulable(&thirds, 0));
        for period in [1 << 40, 1 << 60, u64::MAX] {
            let more = [thirds.as_slice(), &[reservation(1, period, period)]].concat();
            assert!(!is_schedulable(&more, 0), "rounding lets nothing through");
        }
        assert!(!is_schedulable(&thirds, 1));
    }

    #[test]
    fn early_deadlines_need_more_than_utilisation() {
        let tight = [reservation(5, 5, 100), reservation(5, 6, 100)];
        assert!(!is_schedulable(&tight, 0));
        assert!(is_schedulable(&[reservation(5, 5, 100), reservation(5, 10, 100)], 0));
    }

    #[test]
    fn what_is_left_fits_and_one_more_does_not() {
        let others = [reservation(300, 5_000, 5_000), reservation(900, 4_000, 5_000)];
        let wanted = reservation(0, 2_000, 5_000);
        let left = largest_budget(&others, wanted, 50);
        let with = |budget| {
            let all = [others.as_slice(), &[Reservation { budget, ..wanted }]].concat();
            is_schedulable(&all, 50)
        };
        assert!(left > 0 && with(left) && !with(left + 1), "{left}");
    }

    /// Serves everything by earliest deadline, released at once, unit by unit.
    fn served_in_time(all: &[Reservation], until: Nanos) -> bool {
        let mut jobs: Vec<(Nanos, Nanos)> = Vec::new(); // deadline, left
        for now in 0..until {
            for one in all.iter().filter(|one| now % one.period == 0) {
                jobs.push((now + one.deadline, one.budget));
            }
            if jobs.iter().any(|&(deadline, left)| left > 0 && deadline <= now) {
                return false;
            }
            if let Some(job) = jobs.iter_mut().filter(|job| job.1 > 0).min_by_key(|job| job.0) {
                job.1 -= 1;
            }
        }
        true
    }

    #[test]
    fn the_verdict_is_that_of_a_cpu_that_serves_by_earliest_deadline() {
        let (mut yes, mut no) = (0, 0);
        for seed in 0..3_000 {
            let mut dice = SplitMix64::new(seed);
            let mut below = |limit: u64| dice.next_u64() % limit;
            let all: Vec<_> = (0..1 + below(4))
                .map(|_| {
                    let period = [4, 5, 6, 8, 10, 12][below(6) as usize];
                    let deadline = 1 + below(period);
                    reservation(1 + below(deadline), deadline, period)
                })
                .collect();
            // Released at once is the worst case, and 120 is a multiple of every period.
            let served = served_in_time(&all, 2 * 120 + 1);
            assert_eq!(is_schedulable(&all, 0), served, "seed {seed}: {all:?}");
            if served { yes += 1 } else { no += 1 }
        }
        assert!(yes > 300 && no > 300, "{yes}, {no}");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let huge = [reservation(u64::MAX / 4, u64::MAX / 3, u64::MAX / 2), reservation(1, 1, u64::MAX)];
        let _ = is_schedulable(&huge, 50);
        assert!(!is_schedulable(&[reservation(u64::MAX, u64::MAX, u64::MAX)], 50));
        assert!(!is_schedulable(&[reservation(1, 1, 1)], 1000));
    }
}
