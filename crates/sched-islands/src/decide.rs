//! Which task of a leased CPU runs now, or until when there is none.
//!
//! Room: decisions. Knows budgets, releases and deadlines as numbers; knows nothing of clocks, threads or closures.
//!
//! Cycle `k` of a task is *released* at `origin + k · period`, and due one deadline later. Tasks are not interrupted: of those that are released the one with the earliest deadline
//! runs, to its end. A cycle whose period is over before it began is left out, so a task that was late is not late for ever, and keeps its phase.
//!
//! # Invariants
//! - No cycle runs before its release, or twice. Each cycle of the past has been run or is counted as left out: `cycles + skipped + bypassed` is the number of the next one.
//! - In no window of a period does a task begin a cycle with its rank after it has used up its budget there ([`Refills`]).
//! - Nothing is allocated after [`Timetable::new`].
//!
//! # Why releases and not starts are charged
//! A cycle may begin a little later than the last one did within its period. Were its time to come back one period after it *began*, the next one, if it begins earlier, would find
//! none. So what a cycle used comes back one period after its release.

use policy_cpu::{ContextSpec, Nanos, Refills};
use sched_tasks::Overrun;

/// What is counted of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Cycles that ran.
    pub(crate) cycles: u64,
    /// Cycles that were not done by their deadline: those that ran too long or too late, and all that did not run.
    pub(crate) missed: u64,
    /// Cycles that did not run since their period was over.
    pub(crate) skipped: u64,
    /// Cycles that did not run since the task had no time left.
    pub(crate) bypassed: u64,
    /// Cycles that took longer than the budget.
    pub(crate) overruns: u64,
}

/// A task of this CPU.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) spec: ContextSpec,
    pub(crate) overrun: Overrun,
    /// The task that runs before it in every period, by its place.
    pub(crate) after: Option<usize>,
}

#[derive(Debug, Clone)]
struct Slot {
    entry: Entry,
    /// The number of its next cycle.
    next: u64,
    /// The number of the last one that ran.
    ran: Option<u64>,
    refills: Refills,
    counts: Counts,
    /// Cycles that did not run since the last one that did.
    left_out: u64,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Run a task.
    Run(Run),
    /// Nothing, until then.
    Sleep {
        /// When the next cycle is released.
        until: Nanos,
    },
    /// End the island: a task has no time left, and that is what it asked for.
    End {
        /// Which.
        task: usize,
    },
}

/// A cycle that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) task: usize,
    pub(crate) number: u64,
    pub(crate) release: Nanos,
    pub(crate) deadline: Nanos,
    /// How long it may run.
    pub(crate) left: Nanos,
    /// It has no time left: it runs without its rank.
    pub(crate) is_demoted: bool,
    /// Cycles that did not run since the last one that did.
    pub(crate) left_out: u64,
}

/// How a cycle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// How long after its release it began.
    pub(crate) late: Nanos,
    pub(crate) ran: Nanos,
}

/// The tasks of one CPU.
#[derive(Debug, Clone)]
pub(crate) struct Timetable {
    origin: Nanos,
    slots: Box<[Slot]>,
}

impl Timetable {
    /// Cycle 0 of all tasks is released at `origin`. A task stands behind the one it comes after.
    pub(crate) fn new(entries: Vec<Entry>, origin: Nanos) -> Self {
        let slot = |(place, entry): (usize, Entry)| {
            assert!(entry.after.is_none_or(|after| after < place), "a task stands behind the one it comes after");
            let refills = Refills::new(entry.spec.budget, entry.spec.period, origin);
            Slot { entry, next: 0, ran: None, refills, counts: Counts::default(), left_out: 0 }
        };
        Self { origin, slots: entries.into_iter().enumerate().map(slot).collect() }
    }

    pub(crate) fn counts(&self, task: usize) -> Counts {
        self.slots[task].counts
    }

    /// What to do at `now`.
    pub(crate) fn next(&mut self, now: Nanos) -> Next {
        let (mut best, mut until) = (None::<Run>, Nanos::MAX);
        for task in 0..self.slots.len() {
            match self.look(task, now) {
                Look::Waits(release) => until = until.min(release),
                Look::Ends => return Next::End { task },
                Look::Runs(run) => {
                    let rank = |run: &Run| (run.is_demoted, run.deadline);
                    if best.as_ref().is_none_or(|best| rank(&run) < rank(best)) {
                        best = Some(run);
                    }
                }
            }
        }
        best.map_or(Next::Sleep { until }, Next::Run)
    }

    /// What one task could do at `now`. Counts the cycles that it lets go by.
    fn look(&mut self, task: usize, now: Nanos) -> Look {
        let Entry { spec, overrun, after } = self.slots[task].entry.clone();
        // The cycle whose period it is: those before are over.
        let due = now.saturating_sub(self.origin) / spec.period;
        let before = after.map(|before| (self.slots[before].next, self.slots[before].ran));
        let slot = &mut self.slots[task];
        slot.skip_to(due);
        loop {
            let release = self.origin.saturating_add(slot.next.saturating_mul(spec.period));
            if release > now {
                return Look::Waits(release);
            }
            match before {
                Some((next, _)) if next <= slot.next => return Look::Waits(Nanos::MAX), // it is looked at when that one has run
                Some((_, ran)) if ran != Some(slot.next) => {
                    slot.leave_out(|counts| &mut counts.skipped, 1); // that one did not run, and has nothing for it
                    continue;
                }
                _ => {}
            }
            slot.refills.wake(release);
            let left = slot.refills.available(release);
            if left == 0 && overrun == Overrun::Cancel {
                return Look::Ends;
            }
            if left == 0 && overrun != Overrun::Demote {
                slot.leave_out(|counts| &mut counts.bypassed, 1);
                continue;
            }
            return Look::Runs(Run {
                task,
                number: slot.next,
                release,
                deadline: release.saturating_add(spec.deadline),
                left,
                is_demoted: left == 0,
                left_out: slot.left_out,
            });
        }
    }

    /// A cycle has run from `began` to `now`.
    pub(crate) fn ended(&mut self, run: Run, began: Nanos, now: Nanos) -> Ended {
        let slot = &mut self.slots[run.task];
        assert_eq!(slot.next, run.number, "a cycle runs once");
        let ran = now.saturating_sub(began);
        slot.refills.charge(ran);
        slot.ran = Some(slot.next);
        slot.next += 1;
        slot.left_out = 0;
        slot.counts.cycles += 1;
        slot.counts.missed += u64::from(now > run.deadline);
        slot.counts.overruns += u64::from(ran > slot.entry.spec.budget);
        slot.check();
        Ended { late: began.saturating_sub(run.release), ran }
    }
}

enum Look {
    /// Until then, if nothing happens before.
    Waits(Nanos),
    Runs(Run),
    Ends,
}

impl Slot {
    /// Leaves the cycles out that are before `due`.
    fn skip_to(&mut self, due: u64) {
        if due > self.next {
            self.leave_out(|counts| &mut counts.skipped, due - self.next);
        }
    }

    fn leave_out(&mut self, reason: impl FnOnce(&mut Counts) -> &mut u64, cycles: u64) {
        self.next += cycles;
        self.left_out += cycles;
        self.counts.missed += cycles;
        *reason(&mut self.counts) += cycles;
        self.check();
    }

    fn check(&self) {
        let Counts { cycles, skipped, bypassed, .. } = self.counts;
        assert_eq!(cycles + skipped + bypassed, self.next, "each cycle has run or is counted as left out");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Nanos = 1_000_000;

    fn entry(budget: Nanos, period: Nanos) -> Entry {
        Entry { spec: ContextSpec::new(budget, period), overrun: Overrun::Throttle, after: None }
    }

    fn run(table: &mut Timetable, now: Nanos) -> Run {
        match table.next(now) {
            Next::Run(run) => run,
            other => panic!("{other:?} at {now}"),
        }
    }

    #[test]
    fn a_task_runs_once_in_every_period() {
        let mut table = Timetable::new(vec![entry(MS, 5 * MS)], 100);
        assert_eq!(table.next(0), Next::Sleep { until: 100 });
        for number in 0..10 {
            let release = 100 + number * 5 * MS;
            let cycle = run(&mut table, release);
            assert_eq!((cycle.number, cycle.release, cycle.deadline), (number, release, release + 5 * MS));
            assert_eq!(cycle.left, MS, "also if it began late in the period before");
            let began = release + if number % 2 == 0 { MS } else { 0 };
            assert_eq!(table.ended(cycle, began, began + MS).ran, MS);
            assert_eq!(table.next(began + MS), Next::Sleep { until: release + 5 * MS });
        }
        assert_eq!(table.counts(0), Counts { cycles: 10, ..Counts::default() });
    }

    #[test]
    fn the_earliest_deadline_goes_first_and_nothing_is_interrupted() {
        let mut table = Timetable::new(vec![entry(2 * MS, 20 * MS), entry(MS, 5 * MS)], 0);
        let first = run(&mut table, 0);
        assert_eq!(first.task, 1);
        table.ended(first, 0, MS);
        let second = run(&mut table, MS);
        assert_eq!(second.task, 0);
        table.ended(second, MS, 3 * MS);
        assert_eq!(table.next(3 * MS), Next::Sleep { until: 5 * MS });
    }

    #[test]
    fn what_comes_after_another_runs_when_that_has_run() {
        let after = Entry { after: Some(0), ..entry(MS, 5 * MS) };
        let mut table = Timetable::new(vec![entry(MS, 5 * MS), after], 0);
        for number in 0..3 {
            let release = number * 5 * MS;
            let before = run(&mut table, release);
            assert_eq!(before.task, 0);
            table.ended(before, release, release + MS);
            let behind = run(&mut table, release + MS);
            assert_eq!((behind.task, behind.number, behind.release), (1, number, release));
            table.ended(behind, release + MS, release + 2 * MS);
        }
        // The first did not come to run in one period: neither does the second.
        let before = run(&mut table, 21 * MS);
        assert_eq!((before.task, before.number, before.left_out), (0, 4, 1));
        table.ended(before, 21 * MS, 22 * MS);
        let behind = run(&mut table, 22 * MS);
        assert_eq!((behind.task, behind.number, behind.left_out), (1, 4, 1));
    }

    #[test]
    fn what_comes_after_a_cycle_that_was_left_out_is_left_out() {
        let after = Entry { after: Some(0), ..entry(MS, 5 * MS) };
        let mut table = Timetable::new(vec![entry(MS, 5 * MS), after], 0);
        let before = run(&mut table, 0);
        table.ended(before, 0, 2 * MS); // it has used the time of the next cycle, too
        let behind = run(&mut table, 2 * MS);
        table.ended(behind, 2 * MS, 3 * MS);
        assert_eq!(table.next(5 * MS), Next::Sleep { until: 10 * MS });
        assert_eq!((table.counts(0).bypassed, table.counts(1).skipped), (1, 1));
        assert_eq!(run(&mut table, 10 * MS).task, 0);
    }

    #[test]
    fn a_late_task_leaves_cycles_out_and_keeps_its_phase() {
        let mut table = Timetable::new(vec![entry(MS, 5 * MS)], 0);
        let cycle = run(&mut table, 0);
        table.ended(cycle, 0, MS / 2);
        let cycle = run(&mut table, 17 * MS);
        assert_eq!((cycle.number, cycle.release, cycle.left_out), (3, 15 * MS, 2));
        table.ended(cycle, 17 * MS, 18 * MS);
        assert_eq!(table.counts(0), Counts { cycles: 2, missed: 2, skipped: 2, ..Counts::default() });
    }

    #[test]
    fn an_overrun_is_paid_by_cycles_that_are_left_out() {
        let mut table = Timetable::new(vec![entry(MS, 5 * MS)], 0);
        let cycle = run(&mut table, 0);
        table.ended(cycle, 0, 3 * MS);
        // It has used the time of the next two cycles.
        assert_eq!(table.next(5 * MS), Next::Sleep { until: 10 * MS });
        assert_eq!(table.next(10 * MS), Next::Sleep { until: 15 * MS });
        assert_eq!(run(&mut table, 15 * MS).left_out, 2);
        assert_eq!(table.counts(0), Counts { cycles: 1, missed: 2, bypassed: 2, overruns: 1, ..Counts::default() });
    }

    #[test]
    fn a_demoted_task_goes_behind_those_with_time() {
        let demoted = Entry { overrun: Overrun::Demote, ..entry(MS, 5 * MS) };
        let mut table = Timetable::new(vec![demoted, entry(MS, 10 * MS)], 0);
        let cycle = run(&mut table, 0);
        assert_eq!((cycle.task, cycle.is_demoted), (0, false));
        table.ended(cycle, 0, 4 * MS);
        let cycle = run(&mut table, 5 * MS);
        assert_eq!(cycle.task, 1, "its deadline is later, but it has time");
        table.ended(cycle, 5 * MS, 6 * MS);
        let cycle = run(&mut table, 6 * MS);
        assert_eq!((cycle.task, cycle.is_demoted), (0, true));
    }

    #[test]
    fn a_task_that_asks_for_it_ends_the_island_when_it_has_no_time() {
        let ends = Entry { overrun: Overrun::Cancel, ..entry(MS, 5 * MS) };
        let mut table = Timetable::new(vec![ends], 0);
        let cycle = run(&mut table, 0);
        table.ended(cycle, 0, 2 * MS);
        assert_eq!(table.next(5 * MS), Next::End { task: 0 });
    }

    proptest! {
        /// Whatever cycles take, and whenever they begin: each cycle is run or counted, none before its release, and no task gets more than its share in the long run.
        #[test]
        fn every_cycle_is_accounted_for(
            tasks in prop::collection::vec((1..4u64, 5..30u64, any::<bool>()), 1..5),
            steps in prop::collection::vec((0..3 * MS, 0..6 * MS), 1..200),
        ) {
            let entries: Vec<_> = tasks.iter().map(|&(budget, period, demotes)| Entry {
                overrun: if demotes { Overrun::Demote } else { Overrun::Throttle },
                ..entry(budget * MS, period * MS)
            }).collect();
            let mut table = Timetable::new(entries.clone(), 7);
            let mut now = 0;
            let mut used = vec![0; entries.len()];
            let mut longest = vec![0; entries.len()];
            for (late, takes) in steps {
                match table.next(now) {
                    Next::Sleep { until } => {
                        prop_assert!(until > now);
                        now = until + late;
                    }
                    Next::Run(run) => {
                        prop_assert!(run.release <= now);
                        table.ended(run, now, now + takes);
                        if !run.is_demoted {
                            used[run.task] += takes;
                            longest[run.task] = takes.max(longest[run.task]);
                        }
                        now += takes;
                    }
                    Next::End { .. } => prop_assert!(false, "no task asked for it"),
                }
            }
            for (task, entry) in entries.iter().enumerate() {
                let periods = now / entry.spec.period + 1;
                // With its rank: the budget of every period, and the last cycle that began within it.
                prop_assert!(used[task] <= periods * entry.spec.budget + longest[task], "{} of {periods}", used[task]);
            }
        }
    }
}
