//! Graphics cards: which job is on which card.
//!
//! Room: decisions.
//!
//! # Invariant
//! The jobs on a card never need more video memory than it has, and no job shares a card that another job has for itself.
//!
//! # Why it holds
//! `take` is the only way to use more of a card, and asserts it, also in release. A job gets its cards when it starts and keeps them
//! until it ends, paused or not: a process that sees one card cannot use memory of another.
//!
//! # Rejected
//! One sum over all cards: a job of 12 GB would start on two cards of 8 GB, and fail there.
//! The emptiest card first: small jobs would spread over all cards, and no card would have room for a large one.
//!
//! Checked after every step of random histories by `laws_hold_after_every_step`.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use super::Core;
use super::room::{Kept, MB_MAX, Room};
use crate::demand::{Demand, GPUS_MAX, Gpu, Limits};
use crate::error::SubmitError;

impl Limits {
    /// Refuses a demand that can never be met, as a scheduler with these limits would when `job` is submitted.
    ///
    /// # Errors
    /// [`SubmitError::NeverFits`] and [`SubmitError::NoCard`], with the numbers.
    pub fn check_demand(&self, job: &str, demand: &Demand) -> Result<(), SubmitError> {
        let room = Room::new(self, 1, 1);
        let never = |resource: &str, wanted: u64, hard_limit: u64| SubmitError::NeverFits {
            job: job.to_owned(),
            resource: resource.to_owned(),
            wanted,
            hard_limit,
        };
        let (wanted, limit) = (u64::from(demand.cpu_slots), room.cpu_limit());
        if wanted > limit {
            return Err(never("CPU slots", wanted, limit));
        }
        for (name, wanted) in &demand.named {
            let limit = self.named.iter().find(|(known, _)| known == name).map(|(_, limit)| *limit);
            if let Some(limit) = limit.filter(|limit| wanted > limit) {
                return Err(never(name, *wanted, limit));
            }
        }
        room.check_cards(job, demand)
    }
}

impl Core {
    /// The graphics cards that a job holds.
    pub fn cards(&self, id: u32) -> Vec<Gpu> {
        self.held_cards(id).iter().map(|card| self.rules.limits.gpus[card].clone()).collect()
    }

    /// Gives a job its cards when it starts: those it had in an earlier process of this run, if they are free.
    #[cold]
    pub(super) fn choose_cards(&mut self, id: u32, need: CardNeed, kept: Option<KeptCards>) -> CardSet {
        let (cards, was_on) = (&self.room.cards, self.extras.get(&id).map_or(CardSet::NONE, |extra| extra.was_on));
        let on = if cards.can_have(need, was_on, kept) {
            was_on
        } else {
            cards.choose(need, kept, Counting::Machine).expect("what fits has cards")
        };
        self.cards.insert(id, on);
        on
    }

    pub(super) fn held_cards(&self, id: u32) -> CardSet {
        self.cards.get(&id).copied().unwrap_or_default()
    }
}

/// What a job needs of graphics cards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct CardNeed {
    /// The number of cards; 0 for a job without cards.
    pub(crate) count: u32,
    /// The memory on each, in MB; 0 for the whole card.
    pub(crate) each_mb: u64,
}

impl CardNeed {
    fn is_whole(self) -> bool {
        self.each_mb == 0
    }

    /// Whether it needs less than the other: fewer cards, or less of each.
    fn is_less_than(self, other: CardNeed) -> bool {
        let size = |need: CardNeed| if need.is_whole() { u64::MAX } else { need.each_mb };
        self.count < other.count || size(self) < size(other)
    }
}

/// A set of cards, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CardSet(u64);

impl CardSet {
    pub(crate) const NONE: CardSet = CardSet(0);

    pub(crate) fn has(self, card: usize) -> bool {
        self.0 >> card & 1 != 0
    }

    pub(crate) fn with(self, card: usize) -> CardSet {
        CardSet(self.0 | 1 << card)
    }

    /// The numbers of its cards, in rising order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let card = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (card < u64::BITS).then_some(card as usize)
        })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn len(self) -> u32 {
        self.0.count_ones()
    }
}

/// Cards that are reserved for a job, and how much of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptCards {
    pub(crate) need: CardNeed,
    pub(crate) on: CardSet,
}

/// What other runs on this machine hold of one card, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CardUse {
    /// Memory that they hold, in MB. More than the card has: they have it for themselves.
    pub held_mb: u64,
    /// Memory that is really free and promised to no run, in MB; `None` if unknown.
    pub free_mb: Option<u64>,
}

/// Which usage counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counting {
    /// Our own jobs.
    Own,
    /// Our own jobs and other runs.
    Others,
    /// These, and what other programs really use.
    Machine,
}

#[derive(Debug, Clone, Default)]
struct Card {
    /// 0 if unknown.
    vram_mb: u64,
    used_mb: u64,
    jobs: u32,
    /// Whether a job has it for itself.
    is_whole: bool,
    /// The part of `used_mb` that paused jobs keep, for an unknown time.
    paused_mb: u64,
    paused_jobs: u32,
    elsewhere: CardUse,
}

impl Card {
    fn limit(&self) -> u64 {
        if self.vram_mb == 0 { MB_MAX } else { self.vram_mb }
    }

    /// How much of the card a job that needs `each` holds.
    fn share(&self, each: u64) -> u64 {
        if each == 0 { self.vram_mb } else { each }
    }

    /// How much of it is free for such a job, if that is enough. A reservation (`kept`) counts as used.
    fn spare(&self, need: CardNeed, kept: Option<CardNeed>, counting: Counting) -> Option<u64> {
        let elsewhere = if counting >= Counting::Others { self.elsewhere.held_mb } else { 0 };
        if self.is_whole || kept.is_some_and(CardNeed::is_whole) {
            return None;
        }
        if need.is_whole() {
            return (self.jobs == 0 && elsewhere == 0 && kept.is_none()).then_some(self.limit());
        }
        let kept_mb = kept.map_or(0, |kept| kept.each_mb);
        let spare = self.limit().saturating_sub(self.used_mb.saturating_add(elsewhere).saturating_add(kept_mb));
        let really = self.elsewhere.free_mb.filter(|_| counting == Counting::Machine);
        let enough = spare >= need.each_mb && really.is_none_or(|free| need.each_mb.saturating_add(kept_mb) <= free);
        enough.then_some(spare)
    }

    /// Whether such a job would fit if all running jobs had ended.
    fn fits_when_idle(&self, need: CardNeed) -> bool {
        if need.is_whole() {
            self.paused_jobs == 0
        } else {
            self.limit().saturating_sub(self.paused_mb) >= need.each_mb
        }
    }

    /// Memory that is free for a job that shares the card, in MB.
    fn free_mb(&self) -> u64 {
        if self.is_whole {
            return 0;
        }
        let free = self.limit().saturating_sub(self.used_mb.saturating_add(self.elsewhere.held_mb));
        self.elsewhere.free_mb.map_or(free, |really| free.min(really))
    }
}

/// What `why` says about a job that waits for a card.
#[derive(Debug, Clone, Copy)]
pub(super) struct CardShortage {
    /// Cards that have enough free now.
    pub(super) fit: u32,
    pub(super) all: u32,
    /// Free and total memory of the card with most free.
    pub(super) most_free_mb: u64,
    pub(super) its_limit_mb: u64,
    pub(super) elsewhere_mb: u64,
    /// Whether only other programs block it.
    pub(super) machine: bool,
}

/// All cards that jobs may use.
#[derive(Debug, Clone, Default)]
pub(super) struct Cards {
    cards: Vec<Card>,
}

impl Cards {
    pub(super) fn new(gpus: &[Gpu]) -> Self {
        let card = |gpu: &Gpu| Card { vram_mb: gpu.vram_mb.min(MB_MAX), ..Card::default() };
        Self { cards: gpus.iter().take(GPUS_MAX).map(card).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// The number of cards, the number of cards that are large enough, and the memory of the largest.
    pub(super) fn could_ever(&self, need: CardNeed) -> (u32, u32, u64) {
        let fit = self.cards.iter().filter(|card| card.limit() >= need.each_mb).count();
        (self.cards.len() as u32, fit as u32, self.cards.iter().map(|card| card.vram_mb).max().unwrap_or(0))
    }

    pub(super) fn set_elsewhere(&mut self, others: &[CardUse]) {
        for (at, card) in self.cards.iter_mut().enumerate() {
            card.elsewhere = others.get(at).copied().unwrap_or_default();
        }
    }

    /// The cards that such a job gets now: best fit, that is those with least free memory, then those with the lowest numbers.
    pub(super) fn choose(&self, need: CardNeed, kept: Option<KeptCards>, counting: Counting) -> Option<CardSet> {
        let mut chosen = CardSet::NONE;
        for _ in 0..need.count {
            let left = self.cards.iter().enumerate().filter(|(at, _)| !chosen.has(*at));
            let spare = left.filter_map(|(at, card)| {
                let kept = kept.filter(|kept| kept.on.has(at)).map(|kept| kept.need);
                Some((card.spare(need, kept, counting)?, at))
            });
            chosen = chosen.with(spare.min()?.1);
        }
        Some(chosen)
    }

    #[cold]
    pub(super) fn fits(&self, need: CardNeed, kept: Option<Kept<'_>>) -> bool {
        self.choose(need, kept.and_then(Kept::cards), Counting::Machine).is_some()
    }

    /// Whether such a job fits on exactly these cards now.
    pub(super) fn can_have(&self, need: CardNeed, on: CardSet, kept: Option<KeptCards>) -> bool {
        on.len() == need.count
            && on.iter().all(|at| {
                let kept = kept.filter(|kept| kept.on.has(at)).map(|kept| kept.need);
                self.cards.get(at).is_some_and(|card| card.spare(need, kept, Counting::Machine).is_some())
            })
    }

    /// Whether such a job could start if all running jobs had ended.
    pub(super) fn fits_when_idle(&self, need: CardNeed) -> bool {
        let count = need.count as usize;
        count == 0 || self.cards.iter().filter(|card| card.fits_when_idle(need)).count() >= count
    }

    /// The cards that are reserved for a job that does not fit: those chosen `before` as long as they are suitable, else the least used
    /// ones. They must not change while it waits: each change would let new jobs start on the cards it has waited for.
    pub(super) fn keep_for(&self, need: CardNeed, before: CardSet) -> CardSet {
        let would_do = |at: usize| self.cards.get(at).is_some_and(|card| card.fits_when_idle(need));
        if before.len() == need.count && before.iter().all(would_do) {
            return before;
        }
        let mut kept = CardSet::NONE;
        for _ in 0..need.count {
            let left = self.cards.iter().enumerate().filter(|(at, _)| would_do(*at) && !kept.has(*at));
            let least = left.min_by_key(|(at, card)| (card.used_mb.saturating_add(card.elsewhere.held_mb), *at));
            let Some((at, _)) = least else { break };
            kept = kept.with(at);
        }
        kept
    }

    /// Whether the first job, if it starts now, takes cards from the second one, which fits now and needs more.
    pub(super) fn passes_over(&self, first: CardNeed, second: CardNeed) -> bool {
        if first.count == 0 || second.count == 0 || !first.is_less_than(second) {
            return false;
        }
        let taken = self.choose(first, None, Counting::Machine);
        taken.is_some_and(|on| self.choose(second, Some(KeptCards { need: first, on }), Counting::Machine).is_none())
    }

    // Cold: few jobs have cards.
    #[cold]
    pub(super) fn take(&mut self, need: CardNeed, on: CardSet) {
        debug_assert_eq!(on.len(), need.count, "as many cards as it needs");
        for at in on.iter() {
            let card = &mut self.cards[at];
            let share = card.share(need.each_mb);
            let is_taken = card.is_whole || (need.is_whole() && card.jobs > 0);
            assert!(!is_taken, "another job has card {at} for itself");
            card.used_mb += share;
            assert!(card.used_mb <= card.limit(), "card {at} over its video memory");
            card.jobs += 1;
            card.is_whole = need.is_whole();
            if let Some(free) = &mut card.elsewhere.free_mb {
                *free = free.saturating_sub(share);
            }
        }
    }

    #[cold]
    pub(super) fn give_back(&mut self, need: CardNeed, on: CardSet) {
        for at in on.iter() {
            let card = &mut self.cards[at];
            card.used_mb -= card.share(need.each_mb);
            card.jobs -= 1;
            card.is_whole = false;
        }
    }

    /// A job on these cards was paused: it keeps them.
    pub(super) fn pause(&mut self, need: CardNeed, on: CardSet) {
        for at in on.iter() {
            let card = &mut self.cards[at];
            card.paused_mb += card.share(need.each_mb);
            card.paused_jobs += 1;
        }
    }

    /// A paused job runs again, or has ended.
    pub(super) fn release_paused(&mut self, need: CardNeed, on: CardSet) {
        for at in on.iter() {
            let card = &mut self.cards[at];
            card.paused_mb -= card.share(need.each_mb);
            card.paused_jobs -= 1;
        }
    }

    /// The memory in use on each card; for a card that a job has for itself, more than any card has.
    pub(super) fn held_mb(&self) -> Vec<u64> {
        self.cards.iter().map(|card| if card.is_whole { MB_MAX } else { card.used_mb }).collect()
    }

    /// The memory in use on all cards.
    pub(super) fn used_mb(&self) -> u64 {
        self.cards.iter().map(|card| card.used_mb).sum()
    }

    /// Why such a job cannot start; `None` if it fits.
    pub(super) fn shortage(&self, need: CardNeed, kept: Option<KeptCards>) -> Option<CardShortage> {
        if self.choose(need, kept, Counting::Machine).is_some() {
            return None;
        }
        let fits_on = |(at, card): (usize, &Card)| {
            let kept = kept.filter(|kept| kept.on.has(at)).map(|kept| kept.need);
            card.spare(need, kept, Counting::Machine).is_some()
        };
        let most = self.cards.iter().max_by_key(|card| (card.free_mb(), card.vram_mb));
        Some(CardShortage {
            fit: self.cards.iter().enumerate().filter(|card| fits_on(*card)).count() as u32,
            all: self.cards.len() as u32,
            most_free_mb: most.map_or(0, Card::free_mb),
            its_limit_mb: most.map_or(0, |card| card.vram_mb),
            elsewhere_mb: self
                .cards
                .iter()
                .map(|card| card.elsewhere.held_mb.min(card.vram_mb))
                .fold(0, u64::saturating_add),
            machine: self.choose(need, kept, Counting::Others).is_some(),
        })
    }

    /// How much video memory a holder has on cards that a job with the `wanted` need could use.
    pub(super) fn holds_mb(&self, held: CardNeed, on: CardSet, wanted: CardNeed) -> u64 {
        let useful = on.iter().filter(|at| self.cards[*at].limit() >= wanted.each_mb);
        useful.map(|at| self.cards[at].share(held.each_mb).max(1)).sum()
    }

    #[cfg(test)]
    pub(super) fn figures(&self) -> Vec<(u64, u32, bool)> {
        self.cards.iter().map(|card| (card.used_mb, card.jobs, card.is_whole)).collect()
    }
}
