//! What other runs use, and what is reserved for a run that has waited too long.
//!
//! Room: decisions.
//!
//! # Invariant
//! Once a run has waited longest, and for three aging intervals, no other run starts a job that would keep its job from starting.
//!
//! # Why it holds
//! Its job starts when what all others hold leaves room for it under *its* limit. So for every other run what it wants counts as held,
//! and its limit replaces theirs where it is lower. Younger waiters yield to it, it yields to none, and all runs see the same ages.
//!
//! A run that is stopped (Ctrl-Z) can start nothing: nothing is reserved for it.

use sched_jobs::{CardUse, Others};

use crate::record::{Amounts, CPU, Named, RAM, Record, VRAM, Want};

/// More than any limit, and small enough to be summed.
pub(crate) const TOO_MUCH: u64 = u64::MAX / 16;

/// This run, for the comparison.
#[derive(Debug)]
pub(crate) struct OwnRun<'a> {
    pub(crate) id: u64,
    pub(crate) limit: Amounts,
    /// Since when a job of ours has waited for others.
    pub(crate) since: Option<u64>,
    /// Named resources: what we call them, their numbers and their limits.
    pub(crate) named: &'a [(String, u64, u64)],
    /// Graphics cards: their ids and numbers.
    pub(crate) cards: &'a [(String, u64)],
}

/// Others that hold so much that no job of ours can start.
pub(crate) fn closed(own_run: &OwnRun<'_>) -> Others {
    Others {
        running: 1,
        cpu_slots: TOO_MUCH,
        ram_mb: TOO_MUCH,
        vram_mb: TOO_MUCH,
        named: own_run.named.iter().map(|(name, ..)| (name.clone(), TOO_MUCH)).collect(),
        cards: vec![CardUse { held_mb: TOO_MUCH, free_mb: None }; own_run.cards.len()],
        kept: Some([TOO_MUCH; 3]),
        ..Others::default()
    }
}

/// The overdue run to yield to, if there is one.
pub(crate) fn overdue<'a>(
    own_run: &OwnRun<'_>,
    others: &'a [(usize, Record)],
    now: u64,
    overdue_after: u64,
    is_stopped: impl Fn(u32) -> bool,
) -> Option<(&'a Record, Want)> {
    let age = |since: u64, id: u64| (since, id);
    let waiting = others.iter().filter_map(|(_, run)| Some((run, run.want?)));
    let mut overdue: Vec<_> = waiting
        .filter(|(_, want)| now.saturating_sub(want.since) >= overdue_after)
        .filter(|(run, want)| own_run.since.is_none_or(|since| age(want.since, run.id) < age(since, own_run.id)))
        .collect();
    overdue.sort_by_key(|(run, want)| age(want.since, run.id));
    overdue.into_iter().find(|(run, _)| !is_stopped(run.pid))
}

/// What counts as held by others: what they hold, and what is reserved for `overdue`.
pub(crate) fn count(own_run: &OwnRun<'_>, others: &[(usize, Record)], overdue: Option<(&Record, Want)>) -> Others {
    if overdue.is_some_and(|(_, want)| want.alone) {
        return closed(own_run);
    }
    let sum = |part: usize| others.iter().fold(0_u64, |sum, (_, run)| sum.saturating_add(run.held[part]));
    let with_kept = |held: u64, wanted: u64, limit: u64, its_limit: u64| {
        // It must find room under its limit, not ours: where its limit is lower, there is that much less for us.
        let stricter = limit.saturating_sub(its_limit);
        if wanted == 0 { held } else { held.saturating_add(wanted).saturating_add(stricter) }.min(TOO_MUCH)
    };
    let plain = |part: usize| match overdue {
        // A soft limit of 0 is no limit: it cannot wait for that resource.
        Some((run, want)) if run.limit[part] > 0 => {
            with_kept(sum(part), want.amounts[part], own_run.limit[part], run.limit[part])
        }
        _ => sum(part).min(TOO_MUCH),
    };
    let named = own_run.named.iter().map(|(name, number, limit)| {
        let of = |run: &Record| run.named.iter().find(|named| named.name == *number).copied();
        let held =
            others.iter().filter_map(|(_, run)| of(run)).fold(0_u64, |sum, named| sum.saturating_add(named.held));
        let held = match overdue.and_then(|(run, _)| of(run)) {
            Some(Named { wanted, limit: its_limit, .. }) => with_kept(held, wanted, *limit, its_limit),
            None => held.min(TOO_MUCH),
        };
        (name.clone(), held)
    });
    // Which cards it will get is not known, so all of them are reserved for it. Otherwise small jobs of other runs would take turns on each.
    let all_kept = overdue.is_some_and(|(_, want)| want.cards);
    let cards = own_run.cards.iter().map(|(_, number)| {
        let held = others.iter().fold(0_u64, |sum, (_, run)| sum.saturating_add(run.held_of(*number)));
        CardUse { held_mb: if all_kept { TOO_MUCH } else { held.min(TOO_MUCH) }, free_mb: None }
    });
    let running: u64 = others.iter().fold(0, |sum, (_, run)| sum.saturating_add(run.running));
    Others {
        // With a run to yield to, we are not alone: no job may exceed the soft limits.
        running: usize::try_from(running).unwrap_or(usize::MAX).saturating_add(usize::from(overdue.is_some())),
        cpu_slots: plain(CPU),
        ram_mb: plain(RAM),
        vram_mb: plain(VRAM),
        named: named.collect(),
        cards: cards.collect(),
        kept: overdue.map(|_| [CPU, RAM, VRAM].map(|part| plain(part).saturating_sub(sum(part)))),
        ..Others::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::sample;

    fn run(id: u64, held: Amounts, want: Option<(u64, Amounts)>) -> (usize, Record) {
        let want = want.map(|(since, amounts)| Want { since, amounts, alone: false, cards: false });
        (id as usize, Record { id, held, want, running: 1, limit: [4, 4000, 0], named: Vec::new(), ..sample() })
    }

    fn own_run(since: Option<u64>) -> OwnRun<'static> {
        OwnRun { id: 50, limit: [4, 4000, 0], since, named: &[], cards: &[] }
    }

    fn counted(own_run: &OwnRun<'_>, others: &[(usize, Record)], now: u64) -> Others {
        count(own_run, others, overdue(own_run, others, now, 1500, |_| false))
    }

    #[test]
    fn what_others_hold_is_added_up() {
        let others = [run(1, [1, 100, 7], None), run(2, [2, 200, 0], None)];
        let counted = counted(&own_run(None), &others, 10_000);
        assert_eq!((counted.running, counted.cpu_slots, counted.ram_mb, counted.vram_mb), (2, 3, 300, 7));
    }

    #[test]
    fn what_is_wanted_counts_only_after_three_intervals() {
        let others = [run(1, [0, 0, 0], Some((1000, [3, 0, 0])))];
        assert_eq!(counted(&own_run(None), &others, 2499).cpu_slots, 0);
        let overdue = counted(&own_run(None), &others, 2500);
        assert_eq!((overdue.cpu_slots, overdue.kept), (3, Some([3, 0, 0])));
    }

    #[test]
    fn the_younger_gives_way_and_the_older_does_not() {
        let others = [run(1, [0, 0, 0], Some((1000, [3, 0, 0])))];
        assert_eq!(counted(&own_run(Some(999)), &others, 9000).cpu_slots, 0);
        assert_eq!(counted(&own_run(Some(1001)), &others, 9000).cpu_slots, 3);
        assert_eq!(
            counted(&own_run(Some(1000)), &others, 9000).cpu_slots,
            3,
            "of the same age the lower number goes first"
        );
    }

    #[test]
    fn only_the_oldest_is_kept_for() {
        let others = [run(1, [0; 3], Some((2000, [1, 0, 0]))), run(2, [0; 3], Some((1000, [2, 0, 0])))];
        assert_eq!(counted(&own_run(None), &others, 9000).cpu_slots, 2);
    }

    #[test]
    fn a_stopped_run_is_passed_over() {
        let others = [run(1, [0; 3], Some((1000, [2, 0, 0])))];
        assert!(overdue(&own_run(None), &others, 9000, 1500, |_| true).is_none());
    }

    #[test]
    fn a_waiter_with_a_lower_limit_finds_room_under_it() {
        // It may start when others hold at most 2 - 1 = 1. We, whose limit is 8, may then hold 1: 8 - 7.
        let mut others = [run(1, [0; 3], Some((1000, [1, 0, 0])))];
        others[0].1.limit = [2, 0, 0];
        let own_run = OwnRun { limit: [8, 0, 0], ..own_run(None) };
        assert_eq!(counted(&own_run, &others, 9000).cpu_slots, 7);
    }

    #[test]
    fn one_that_must_be_alone_lets_nothing_start() {
        let mut others = [run(1, [0; 3], Some((1000, [1, 9000, 0])))];
        others[0].1.want.as_mut().expect("it wants").alone = true;
        assert!(counted(&own_run(None), &others, 9000).cpu_slots >= TOO_MUCH);
    }

    #[test]
    fn named_resources_are_shared_by_those_who_declare_them() {
        let mut others = [run(1, [0; 3], None)];
        let declared = [("licence".to_owned(), 11, 2), ("ours alone".to_owned(), 12, 2)];
        others[0].1.named = [(11, 1), (13, 5)].map(|(name, held)| Named { name, held, wanted: 0, limit: 2 }).to_vec();
        let own_run = OwnRun { named: &declared, ..own_run(None) };
        let expected = [("licence".to_owned(), 1), ("ours alone".to_owned(), 0)];
        assert_eq!(counted(&own_run, &others, 0).named, expected);
    }

    #[test]
    fn what_others_hold_of_a_card_is_counted_and_an_elder_that_wants_one_has_all() {
        let mut others = [run(1, [0; 3], Some((1000, [0, 0, 9]))), run(2, [0; 3], None)];
        let cards = [("a".to_owned(), 21), ("b".to_owned(), 22)];
        for (_, run) in &mut others {
            run.named = vec![Named { name: 22, held: 3, wanted: 0, limit: 0 }];
        }
        let own_run = OwnRun { cards: &cards, ..own_run(None) };
        let held = |others: &[(usize, Record)], now| {
            counted(&own_run, others, now).cards.iter().map(|card| card.held_mb).collect::<Vec<_>>()
        };
        assert_eq!(held(&others, 0), [0, 6]);
        assert_eq!(held(&others, 9_000), [0, 6], "it waits for something else");
        others[0].1.want.as_mut().expect("it wants").cards = true;
        assert_eq!(held(&others, 0), [0, 6], "it has not waited long enough");
        assert_eq!(held(&others, 9_000), [TOO_MUCH; 2]);
    }

    #[test]
    fn nonsense_amounts_do_not_overflow() {
        let others = [run(1, [u64::MAX; 3], Some((0, [u64::MAX; 3]))), run(2, [u64::MAX; 3], None)];
        let counted = counted(&own_run(None), &others, u64::MAX);
        assert!(counted.cpu_slots <= TOO_MUCH && counted.ram_mb <= TOO_MUCH);
    }
}
