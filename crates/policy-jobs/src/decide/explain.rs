//! Why a job waits, computed from the same room and ranks that the scheduler uses.
//!
//! Room: decisions.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::graph::{CANCELLING, PAUSING, RESUMING};
use super::reserve::Reservation;
use super::room::{Kept, Need};
use super::{Alarm, Core};
use crate::aging::Time;
use crate::demand::Resource;
use crate::state::State;
use crate::why::{Holder, Waits, Why};

/// How many names an answer lists at most.
const NAMES_MAX: usize = 5;

impl Core {
    /// Why a job is not running. `progress` is the progress that it reports.
    pub fn why(&self, now: Time, id: u32, progress: Option<f32>) -> Why {
        let node = &self.nodes[id as usize];
        let waits = match node.state {
            State::Queued => self.why_queued(now, id),
            State::Ready => self.why_ready(now, id),
            State::Running => Waits::Nothing {
                since: Duration::from_nanos(now.saturating_sub(node.started)),
                progress,
                left: self.left(now, id),
                pausing: node.is(PAUSING),
                cancelling: node.is(CANCELLING),
                inside: None,
            },
            State::Paused => Waits::Resume { from: node.paused_from, asked: node.is(RESUMING) },
            _ => Waits::Ended { cause: self.cause(id).cloned() },
        };
        Why { job: self.name(id).into_owned(), state: node.state, waits }
    }

    fn why_queued(&self, now: Time, id: u32) -> Waits {
        let node = &self.nodes[id as usize];
        if node.unmet == 0 {
            let alarm =
                self.alarms.iter().find(|Reverse(alarm)| (alarm.1, alarm.2, alarm.3) == (id, node.stamp, Alarm::Retry));
            let at = alarm.map_or(now, |Reverse(alarm)| alarm.0);
            let error = self.cause(id).cloned();
            return Waits::BackOff {
                left: Duration::from_nanos(at.saturating_sub(now)),
                error,
                attempt: node.attempt + 1,
            };
        }
        let unmet = self.needs_of(id).filter(|need| self.state(*need) != State::Succeeded);
        let mut unmet: Vec<u32> = unmet.collect();
        unmet.dedup();
        let first =
            unmet.iter().take(NAMES_MAX).map(|need| (self.name(*need).into_owned(), self.state(*need))).collect();
        Waits::Dependencies { first, count: unmet.len() }
    }

    fn why_ready(&self, now: Time, id: u32) -> Waits {
        let rank = self.rank_of(id, now);
        let ahead = self
            .lanes
            .entries()
            .filter(|(_, entry)| self.nodes[entry.id as usize].stamp == entry.stamp)
            .filter(|(lane, entry)| self.lanes.rank(lane.priority, *entry, now) > rank)
            .count();
        let owed = self.reservation.filter(|reservation| reservation.id != id).filter(|reservation| {
            self.nodes[reservation.id as usize].state == State::Ready && self.is_owed(reservation, now)
        });
        let need = self.need(id);
        let plain = self.room.shortages(need, None);
        let (mut short, reserved_for) = match owed {
            Some(reservation) if plain.is_empty() => (
                self.room.shortages(need, Some(self.kept_for(reservation))),
                Some(self.name(reservation.id).into_owned()),
            ),
            Some(reservation) => (plain, Some(self.name(reservation.id).into_owned())),
            None => (plain, None),
        };
        let is_kept = owed.is_some_and(|reservation| !self.room.fits(need, Some(self.kept_for(reservation))));
        if short.is_empty() && is_kept {
            // No single resource is short: the other job must run alone.
            return Waits::Room { short, holders: Vec::new(), ahead, reserved_for, starts_in: None };
        }
        if short.is_empty() {
            return Waits::Turn { ahead };
        }
        short.sort_by_key(|short| {
            Reverse(short.needs.saturating_sub(short.free).saturating_mul(1000) / short.limit.max(1))
        });
        let resource = short[0].resource.clone();
        let mut holders: Vec<Holder> = self
            .holding
            .iter()
            .map(|&holder| (holder, self.state(holder) == State::Paused))
            .filter(|(_, paused)| !paused || !matches!(resource, Resource::Cpu | Resource::Worker))
            .map(|(holder, paused)| Holder {
                job: self.name(holder).into_owned(),
                amount: self.holds(holder, &resource, need),
                left: if paused { None } else { self.left(now, holder) },
                paused,
            })
            .filter(|holder| holder.amount > 0)
            .collect();
        holders.sort_by_key(|holder| (holder.left.unwrap_or(Duration::MAX), Reverse(holder.amount)));
        // If no job ranks before it, it starts when enough of the holders have ended.
        let starts_in = if matches!(resource, Resource::Gpu) || short[0].cards.is_some() {
            self.card_free_in(now, need)
        } else {
            let missing = short[0].needs.saturating_sub(short[0].free);
            let mut freed = 0;
            holders.iter().find_map(|holder| {
                freed += holder.amount;
                (freed >= missing).then_some(holder.left).flatten()
            })
        };
        let starts_in = starts_in.filter(|_| ahead == 0 && short.len() == 1);
        let reserved_for = reserved_for.or_else(|| self.room.is_reserved_elsewhere().then(|| "another run".to_owned()));
        Waits::Room { short, holders, ahead, reserved_for, starts_in }
    }

    /// What is reserved for a job that is owed room. If its cards are not chosen yet, those that would be chosen now.
    fn kept_for(&self, Reservation { id, on, .. }: Reservation) -> Kept<'_> {
        let need = self.need(id);
        Kept { need, on: self.room.cards.keep_for(need.cards, on) }
    }

    /// How much of `resource` a job holds that a job with this need could use.
    fn holds(&self, holder: u32, resource: &Resource, need: &Need) -> u64 {
        let held = self.need(holder);
        match resource {
            Resource::Vram if need.cards.count > 0 => {
                self.room.cards.holds_mb(held.cards, self.held_cards(holder), need.cards)
            }
            resource => self.room.holds(held, resource),
        }
    }

    /// When enough of a card is free, if running jobs end when they are expected to.
    fn card_free_in(&self, now: Time, need: &Need) -> Option<Duration> {
        let mut cards = self.room.cards.clone();
        let running = self.holding.iter().filter(|holder| self.state(**holder) == State::Running);
        let mut ends: Vec<(Duration, u32)> =
            running.filter_map(|&holder| Some((self.left(now, holder)?, holder))).collect();
        ends.sort_unstable();
        ends.into_iter().find_map(|(left, holder)| {
            cards.give_back(self.need(holder).cards, self.held_cards(holder));
            cards.fits(need.cards, None).then_some(left)
        })
    }

    /// How long a running job is expected to run on.
    pub(crate) fn left(&self, now: Time, id: u32) -> Option<Duration> {
        let expected = self.extras.get(&id)?.expected?;
        Some(expected.saturating_sub(Duration::from_nanos(now.saturating_sub(self.nodes[id as usize].started))))
    }
}
