//! The resources in use, and those that are free.
//!
//! Room: decisions.
//!
//! # Invariant
//! CPU slots, workers and named resources in use never exceed their limits. Memory exceeds its limit only for a job that runs alone. Where cards are
//! known, video memory is counted per card (`cards.rs`) and not as one sum: then the limit here is 0, which means none.
//!
//! # Why it holds
//! `take` is the only way to use more, and asserts it, also in release.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::cards::{CardNeed, CardSet, Cards, Counting, KeptCards};
use super::others::Others;
use super::pending_demand::PendingDemand;
use crate::demand::{Demand, Limits, Resource};
use crate::error::SubmitError;
use crate::why::{CardAvailability, ResourceShortage};

pub(super) const CPU: usize = 0;
pub(super) const RAM: usize = 1;
pub(super) const VRAM: usize = 2;
pub(super) const WORKER: usize = 3;
pub(super) const PLAIN: usize = 4;
/// More memory than any machine has, in MB. Sums of it do not overflow.
pub(super) const MB_MAX: u64 = 1 << 40;
/// Soft limits: a job may exceed them when nothing else runs, and 0 means no limit.
const SOFT: [bool; PLAIN] = [false, true, true, false];

/// A demand, with its names looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Need {
    pub(super) plain: [u64; PLAIN],
    /// Index of the named resource, and how much.
    pub(super) named: Box<[(u16, u64)]>,
    /// Cards, where cards are known; otherwise video memory is in `plain`, as a sum.
    pub(super) cards: CardNeed,
}

/// What is reserved for a job that is owed room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) need: &'a Need,
    pub(super) on: CardSet,
}

impl Kept<'_> {
    pub(super) fn cards(self) -> Option<KeptCards> {
        (!self.on.is_empty()).then_some(KeptCards { need: self.need.cards, on: self.on })
    }
}

impl Need {
    /// The need that covers both. Only jobs without cards share a chain.
    pub(super) fn with(&self, other: &Need) -> Need {
        debug_assert_eq!((self.cards.count, other.cards.count), (0, 0), "a chain has no cards");
        let mut both = self.clone();
        for (own, its) in both.plain.iter_mut().zip(other.plain) {
            *own = (*own).max(its);
        }
        let mut named = both.named.into_vec();
        for &(name, amount) in &other.named {
            match named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, own)) => *own = (*own).max(amount),
                None => named.push((name, amount)),
            }
        }
        named.sort_unstable();
        both.named = named.into();
        both
    }
}

#[derive(Debug)]
pub(crate) struct Room {
    limit: [u64; PLAIN],
    used: [u64; PLAIN],
    elsewhere: [u64; PLAIN],
    /// The part of `used` that paused jobs keep, for an unknown time.
    paused: [u64; PLAIN],
    named_paused: Vec<u64>,
    /// What is really free on the machine, where it was measured.
    really_free: [Option<u64>; PLAIN],
    could_be_free: [Option<u64>; PLAIN],
    pub(super) cards: Cards,
    names: Vec<Arc<str>>,
    named_limit: Vec<u64>,
    named_used: Vec<u64>,
    named_elsewhere: Vec<u64>,
    /// The part of `elsewhere` that is not held but reserved for another run.
    kept_elsewhere: Option<[u64; 3]>,
    pub(super) running: usize,
    running_elsewhere: usize,
    /// Whether this run shares the machine with others: then `elsewhere` is correct only during a `share`.
    pub(super) is_shared: bool,
    /// The limit of running jobs, whatever they need.
    running_max: usize,
}

impl Room {
    pub(super) fn new(limits: &Limits, workers: usize, running_max: usize) -> Self {
        let n = limits.named.len();
        let vram_mb = if limits.gpus.is_empty() { limits.vram_mb } else { 0 };
        Self {
            limit: [u64::from(limits.cpu_slots), limits.ram_mb, vram_mb, workers as u64],
            cards: Cards::new(&limits.gpus),
            used: [0; PLAIN],
            elsewhere: [0; PLAIN],
            paused: [0; PLAIN],
            named_paused: vec![0; n],
            really_free: [None; PLAIN],
            could_be_free: [None; PLAIN],
            names: limits.named.iter().map(|(name, _)| Arc::from(name.as_str())).collect(),
            named_limit: limits.named.iter().map(|(_, amount)| *amount).collect(),
            named_used: vec![0; n],
            named_elsewhere: vec![0; n],
            kept_elsewhere: None,
            running: 0,
            running_elsewhere: 0,
            is_shared: false,
            running_max,
        }
    }

    pub(super) fn cpu_limit(&self) -> u64 {
        self.limit[CPU]
    }

    pub(super) fn named(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.names.iter().zip(self.named_limit.iter().copied())
    }

    /// Looks up the names of `demand`; `Err` with a name that was not declared.
    pub(super) fn need(&self, demand: &Demand, workers: u64) -> Result<Need, String> {
        let cards = self.card_need(demand);
        // With cards, only the memory on them counts; the sum is used to report how much a job holds.
        let vram_mb = demand.vram_mb.min(MB_MAX).saturating_mul(u64::from(cards.count.max(1)));
        let plain = [u64::from(demand.cpu_slots), demand.ram_mb.min(MB_MAX), vram_mb, workers];
        let mut named: Vec<(u16, u64)> = Vec::with_capacity(demand.named.len());
        for (name, amount) in &demand.named {
            let index = self.names.iter().position(|known| **known == **name).ok_or_else(|| name.clone())?;
            let index = u16::try_from(index).expect("fewer than 65,536 named resources");
            match named.iter_mut().find(|(known, _)| *known == index) {
                Some((_, sum)) => *sum = sum.saturating_add(*amount), // named twice
                None => named.push((index, *amount)),
            }
        }
        named.sort_unstable(); // so that equal demands share a lane, whatever their order
        Ok(Need { plain, named: named.into(), cards })
    }

    /// Refuses a demand that the cards here can never satisfy.
    pub(super) fn check_cards(&self, job: &str, demand: &Demand) -> Result<(), SubmitError> {
        let need = self.card_need(demand);
        let (cards, fit, largest_mb) = self.cards.could_ever(need);
        if need.count <= fit {
            return Ok(());
        }
        let (job, wanted, vram_mb) = (job.to_owned(), need.count, need.each_mb);
        Err(SubmitError::NoCard { job, wanted, vram_mb, cards, fit, largest_mb })
    }

    /// The part of `demand` that is about cards: all video memory, where cards are known.
    pub(super) fn card_need(&self, demand: &Demand) -> CardNeed {
        let wants_one = demand.vram_mb > 0 && !self.cards.is_empty();
        let count = if demand.gpus == 0 { u32::from(wants_one) } else { demand.gpus };
        CardNeed { count, each_mb: if count == 0 { 0 } else { demand.vram_mb.min(MB_MAX) } }
    }

    pub(super) fn set_elsewhere(&mut self, others: &Others) {
        self.elsewhere = [others.cpu_slots, others.ram_mb, others.vram_mb, 0];
        let vram_free_mb = others.vram_free_mb.filter(|_| self.cards.is_empty());
        self.really_free = [None, others.ram_free_mb, vram_free_mb, None];
        self.could_be_free = [None, others.ram_most_mb, None, None];
        self.cards.set_elsewhere(&others.cards);
        self.running_elsewhere = others.running;
        self.kept_elsewhere = others.kept;
        self.is_shared = true;
        for (name, held) in self.names.iter().zip(&mut self.named_elsewhere) {
            *held = others.named.iter().find(|(other, _)| **other == **name).map_or(0, |(_, amount)| *amount);
        }
    }

    /// Whether room is reserved for a run that has waited longer than this one.
    pub(super) fn is_reserved_elsewhere(&self) -> bool {
        self.kept_elsewhere.is_some()
    }

    /// What other runs really hold.
    fn held_elsewhere(&self, i: usize) -> u64 {
        let kept = self.kept_elsewhere.and_then(|kept| kept.get(i).copied()).unwrap_or(0);
        self.elsewhere[i].saturating_sub(kept)
    }

    /// Whether nothing runs, here or elsewhere: then one job may exceed the soft limits.
    fn is_idle(&self) -> bool {
        self.running == 0 && self.running_elsewhere == 0
    }

    /// Whether a job that may run alone must wait for memory that other programs use. `returning` is what our own jobs will release.
    fn waits_for_machine(&self, i: usize, wanted: u64, returning: u64) -> bool {
        let is_short = |free: u64| wanted > free.saturating_add(returning);
        self.really_free[i].is_some_and(is_short) && self.could_be_free[i].is_some_and(|most| wanted <= most)
    }

    /// Whether a job with this need exceeds a soft limit even if all running jobs here had ended: then it can only run alone.
    fn only_alone(&self, need: &Need) -> bool {
        (0..PLAIN)
            .filter(|i| SOFT[*i] && self.limit[*i] > 0 && need.plain[*i] > 0)
            .any(|i| self.paused[i].saturating_add(self.elsewhere[i]).saturating_add(need.plain[i]) > self.limit[i])
    }

    /// Whether a job with this need could start if all running jobs here had ended.
    pub(super) fn fits_when_idle(&self, need: &Need) -> bool {
        let named = need.named.iter().all(|&(i, wanted)| {
            self.named_paused[usize::from(i)].saturating_add(wanted) <= self.named_limit[usize::from(i)]
        });
        let machine = (0..PLAIN).any(|i| self.waits_for_machine(i, need.plain[i], self.used[i]));
        named
            && !machine
            && self.cards.fits_when_idle(need.cards)
            && (self.running_elsewhere == 0 || !self.only_alone(need))
    }

    /// Whether the first job, if it starts now, keeps the second one, which fits now, from starting, although the first needs less of the
    /// contended resource.
    pub(super) fn passes_over(&self, first: &Need, second: &Need) -> bool {
        let plain = (0..PLAIN).any(|i| {
            let (less, more) = (first.plain[i], second.plain[i]);
            let taken = self.used[i].saturating_add(self.elsewhere[i]).saturating_add(more);
            let limited = !(SOFT[i] && self.limit[i] == 0);
            let alone = SOFT[i] && limited && taken > self.limit[i]; // it fits because nothing runs
            let dispute = less > 0
                && (limited && taken.saturating_add(less) > self.limit[i]
                    || self.really_free[i].is_some_and(|free| less.saturating_add(more) > free));
            less < more && (alone || dispute)
        });
        plain
            || self.cards.passes_over(first.cards, second.cards)
            || second.named.iter().any(|&(i, more)| {
                let less = first.named.iter().find(|(other, _)| *other == i).map_or(0, |(_, less)| *less);
                let i = usize::from(i);
                let taken = self.named_used[i].saturating_add(self.named_elsewhere[i]).saturating_add(more);
                0 < less && less < more && taken.saturating_add(less) > self.named_limit[i]
            })
    }

    /// Whether a job with this need may start now, without using what is `reserved` for another.
    #[inline]
    pub(super) fn fits(&self, need: &Need, reserved: Option<Kept<'_>>) -> bool {
        if self.running >= self.running_max || reserved.is_some_and(|kept| self.only_alone(kept.need)) {
            return false;
        }
        let idle = self.is_idle();
        for (i, soft) in SOFT.into_iter().enumerate() {
            let wanted = need.plain[i];
            if wanted == 0 {
                continue;
            }
            if soft && idle && reserved.is_none() {
                if self.waits_for_machine(i, wanted, 0) {
                    return false;
                }
                continue;
            }
            let kept = reserved.map_or(0, |kept| kept.need.plain[i]);
            if !(soft && self.limit[i] == 0) {
                let sum = self.used[i].saturating_add(self.elsewhere[i]).saturating_add(kept).saturating_add(wanted);
                if sum > self.limit[i] {
                    return false;
                }
            }
            if self.really_free[i].is_some_and(|free| wanted.saturating_add(kept) > free) {
                return false;
            }
        }
        if need.cards.count > 0 && !self.cards.fits(need.cards, reserved) {
            return false;
        }
        need.named.iter().all(|&(i, wanted)| {
            let kept = reserved
                .and_then(|kept| kept.need.named.iter().find(|(other, _)| *other == i))
                .map_or(0, |(_, amount)| *amount);
            let i = usize::from(i);
            let sum = self.named_used[i].saturating_add(self.named_elsewhere[i]).saturating_add(kept);
            sum.saturating_add(wanted) <= self.named_limit[i]
        })
    }

    /// Whether a job that needs at least this much could start now.
    pub(super) fn has(&self, least: &[u64; PLAIN], reserved: Option<Kept<'_>>) -> bool {
        self.fits(&Need { plain: *least, named: Box::default(), cards: CardNeed::default() }, reserved)
    }

    /// A job starts, on these cards.
    pub(super) fn take(&mut self, need: &Need, on: CardSet) {
        self.running += 1;
        if !on.is_empty() {
            self.cards.take(need.cards, on);
        }
        for (i, soft) in SOFT.into_iter().enumerate() {
            self.used[i] += need.plain[i];
            assert!(soft || self.used[i] <= self.limit[i], "{} over a hard limit", self.resource(i));
            if let Some(free) = &mut self.really_free[i] {
                *free = free.saturating_sub(need.plain[i]);
            }
        }
        for &(i, amount) in &need.named {
            let i = usize::from(i);
            self.named_used[i] += amount;
            assert!(self.named_used[i] <= self.named_limit[i], "{} over its limit", self.names[i]);
        }
    }

    /// A job ended.
    pub(super) fn give_back(&mut self, need: &Need, on: CardSet) {
        self.running -= 1;
        if !on.is_empty() {
            self.cards.give_back(need.cards, on);
        }
        for i in 0..PLAIN {
            self.used[i] -= need.plain[i];
        }
        for &(i, amount) in &need.named {
            self.named_used[usize::from(i)] -= amount;
        }
    }

    /// A running job was paused: it gives back its worker and CPU slots, and keeps its memory and named resources.
    pub(super) fn pause(&mut self, need: &Need, on: CardSet) {
        self.cards.pause(need.cards, on);
        self.running -= 1;
        self.used[CPU] -= need.plain[CPU];
        self.used[WORKER] -= need.plain[WORKER];
        for i in [RAM, VRAM] {
            self.paused[i] += need.plain[i];
        }
        for &(i, amount) in &need.named {
            self.named_paused[usize::from(i)] += amount;
        }
    }

    /// Whether a paused job can run again now.
    pub(super) fn can_resume(&self, need: &Need) -> bool {
        self.running < self.running_max
            && [CPU, WORKER]
                .into_iter()
                .all(|i| need.plain[i] == 0 || self.used[i] + self.elsewhere[i] + need.plain[i] <= self.limit[i])
    }

    /// Whether a paused job could run again if other runs released everything.
    pub(super) fn could_resume(&self, need: &Need) -> bool {
        self.running < self.running_max
            && [CPU, WORKER].into_iter().all(|i| self.used[i] + need.plain[i] <= self.limit[i])
    }

    /// A paused job runs again.
    pub(super) fn resume(&mut self, need: &Need, on: CardSet) {
        self.release_paused(need, on);
        self.running += 1;
        for i in [CPU, WORKER] {
            self.used[i] += need.plain[i];
            assert!(self.used[i] <= self.limit[i], "{} over a hard limit", self.resource(i));
        }
    }

    /// A job that was paused while it ran was cancelled or has ended: it gives back what it kept.
    pub(super) fn give_back_paused(&mut self, need: &Need, on: CardSet) {
        self.release_paused(need, on);
        self.running += 1;
        self.used[CPU] += need.plain[CPU];
        self.used[WORKER] += need.plain[WORKER];
        self.give_back(need, on);
    }

    fn release_paused(&mut self, need: &Need, on: CardSet) {
        self.cards.release_paused(need.cards, on);
        for i in [RAM, VRAM] {
            self.paused[i] -= need.plain[i];
        }
        for &(i, amount) in &need.named {
            self.named_paused[usize::from(i)] -= amount;
        }
    }

    fn resource(&self, i: usize) -> Resource {
        match i {
            CPU => Resource::Cpu,
            RAM => Resource::Ram,
            VRAM => Resource::Vram,
            WORKER => Resource::Worker,
            named => Resource::Named(self.names[named - PLAIN].clone()),
        }
    }

    /// Everything that keeps a job with this need from starting now.
    pub(super) fn shortages(&self, need: &Need, reserved: Option<Kept<'_>>) -> Vec<ResourceShortage> {
        let mut shortages = Vec::new();
        let idle = self.is_idle() && reserved.is_none();
        for (i, soft) in SOFT.into_iter().enumerate() {
            let needs = need.plain[i];
            if needs == 0 || (soft && idle && !self.waits_for_machine(i, needs, 0)) {
                continue;
            }
            let kept = reserved.map_or(0, |kept| kept.need.plain[i]);
            let limit = self.limit[i];
            let short = |free, machine| {
                let (resource, elsewhere) = (self.resource(i), self.held_elsewhere(i));
                ResourceShortage { resource, needs, free, limit, elsewhere, kept, machine, cards: None }
            };
            if !(soft && (limit == 0 || idle)) {
                let free = limit.saturating_sub(self.used[i]).saturating_sub(self.elsewhere[i]).saturating_sub(kept);
                if needs > free {
                    shortages.push(short(free, false));
                    continue;
                }
            }
            if let Some(free) = self.really_free[i].map(|free| free.saturating_sub(kept)).filter(|free| needs > *free) {
                shortages.push(short(free, true));
            }
        }
        for &(i, needs) in &need.named {
            let i = usize::from(i);
            let kept = reserved
                .and_then(|kept| kept.need.named.iter().find(|(other, _)| usize::from(*other) == i))
                .map_or(0, |(_, amount)| *amount);
            let limit = self.named_limit[i];
            let free =
                limit.saturating_sub(self.named_used[i]).saturating_sub(self.named_elsewhere[i]).saturating_sub(kept);
            if needs > free {
                let (resource, elsewhere) = (self.resource(PLAIN + i), self.named_elsewhere[i]);
                shortages.push(ResourceShortage {
                    resource,
                    needs,
                    free,
                    limit,
                    elsewhere,
                    kept,
                    machine: false,
                    cards: None,
                });
            }
        }
        shortages.extend(self.card_shortage(need, reserved.and_then(Kept::cards)));
        if shortages.is_empty() && self.running >= self.running_max {
            shortages.push(ResourceShortage {
                resource: Resource::Worker,
                needs: 1,
                free: 0,
                limit: self.running_max as u64,
                elsewhere: 0,
                kept: 0,
                machine: false,
                cards: None,
            });
        }
        shortages
    }

    fn card_shortage(&self, need: &Need, kept: Option<KeptCards>) -> Option<ResourceShortage> {
        let CardNeed { count, each_mb } = need.cards;
        let short = self.cards.shortage(need.cards, kept)?;
        let (fit, all) = (u64::from(short.fit), u64::from(short.all));
        let is_whole = each_mb == 0;
        Some(ResourceShortage {
            resource: if is_whole { Resource::Gpu } else { Resource::Vram },
            needs: if is_whole { count.into() } else { each_mb },
            free: if is_whole { fit } else { short.most_free_mb },
            limit: if is_whole { all } else { short.its_limit_mb },
            elsewhere: if is_whole { 0 } else { short.elsewhere_mb },
            kept: if is_whole { 0 } else { kept.map_or(0, |kept| kept.need.each_mb) },
            machine: short.machine,
            cards: (!is_whole).then_some(CardAvailability { wanted: count, fit: short.fit, all: short.all }),
        })
    }

    /// How much of `resource` a job with this need holds.
    pub(super) fn holds(&self, need: &Need, resource: &Resource) -> u64 {
        match resource {
            Resource::Cpu => need.plain[CPU],
            Resource::Ram => need.plain[RAM],
            Resource::Vram => need.plain[VRAM],
            Resource::Gpu => need.cards.count.into(),
            Resource::Worker => need.plain[WORKER],
            Resource::Named(name) => {
                let index = self.names.iter().position(|known| known == name);
                let held = need.named.iter().find(|(i, _)| Some(usize::from(*i)) == index);
                held.map_or(0, |(_, amount)| *amount)
            }
        }
    }

    /// What keeps a job with this need from starting, if it does not fit.
    pub(super) fn blocked_by(&self, need: &Need) -> Option<BlockedBy> {
        if self.fits(need, None) {
            return None;
        }
        let exceeds = |i: usize, elsewhere: u64| {
            let wanted = need.plain[i];
            let free_of_limit = wanted == 0 || (SOFT[i] && self.limit[i] == 0);
            !free_of_limit && self.used[i].saturating_add(elsewhere).saturating_add(wanted) > self.limit[i]
        };
        let named_exceeds = |&(i, wanted): &(u16, u64), elsewhere: &dyn Fn(usize) -> u64| {
            let i = usize::from(i);
            self.named_used[i].saturating_add(elsewhere(i)).saturating_add(wanted) > self.named_limit[i]
        };
        let own = self.running >= self.running_max
            || (0..PLAIN).any(|i| !(SOFT[i] && self.running == 0) && exceeds(i, 0))
            || self.lacks_card(need, Counting::Own)
            || need.named.iter().any(|named| named_exceeds(named, &|_| 0));
        let others = (0..PLAIN).any(|i| !(SOFT[i] && self.is_idle()) && exceeds(i, self.elsewhere[i]))
            || self.lacks_card(need, Counting::Others)
            || need.named.iter().any(|named| named_exceeds(named, &|i| self.named_elsewhere[i]));
        Some(match (own, others) {
            (true, _) => BlockedBy::Own,
            (false, true) => BlockedBy::Others,
            (false, false) => BlockedBy::Machine,
        })
    }

    fn lacks_card(&self, need: &Need, counting: Counting) -> bool {
        need.cards.count > 0 && self.cards.choose(need.cards, None, counting).is_none()
    }

    /// Whether a job with this need runs only when nothing else runs.
    pub(super) fn must_be_alone(&self, need: &Need) -> bool {
        (0..PLAIN).any(|i| SOFT[i] && self.limit[i] > 0 && need.plain[i] > self.limit[i])
    }

    /// What running and paused jobs use now.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            running: self.running,
            cpu_slots: self.used[CPU],
            ram_mb: self.used[RAM],
            vram_mb: if self.cards.is_empty() { self.used[VRAM] } else { self.cards.used_mb() },
            cards: self.cards.held_mb(),
            named: self.names.iter().map(|name| name.to_string()).zip(self.named_used.iter().copied()).collect(),
            wanted: None,
            lacks_memory: false,
        }
    }
}

/// What keeps a ready job from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockedBy {
    /// Our own jobs.
    Own,
    /// Other runs: if they released everything, it would start.
    Others,
    /// Other programs: the machine has no more memory.
    Machine,
}

/// What the jobs of one scheduler use at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many run.
    pub running: usize,
    /// CPU slots.
    pub cpu_slots: u64,
    /// Memory, in MB, as demanded.
    pub ram_mb: u64,
    /// Video memory, in MB, as demanded.
    pub vram_mb: u64,
    /// Video memory in use on each card, in MB; more than any card has if a job has the card for itself.
    pub cards: Vec<u64>,
    /// Named resources: every declared one.
    pub named: Vec<(String, u64)>,
    /// The job that has waited longest for something that other runs hold.
    pub wanted: Option<PendingDemand>,
    /// Whether a job waits only for memory that other programs use: no event announces that it is free.
    pub lacks_memory: bool,
}
