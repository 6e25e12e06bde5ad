//! Room is kept for the oldest job; smaller jobs fill in around it.
//!
//! # Invariant
//! From the moment a job is the oldest that is ready, smaller ones keep it waiting for at most three aging intervals and the
//! longest time a job runs.
//!
//! # Why it holds
//! The oldest ready job is *noted*. Nobody older ever comes, so it stays the oldest until it leaves the line, and only then is the
//! next one looked for. It counts as the oldest since the one before left, or since it is ready itself: that is never too late, and
//! too early by a quarter of an interval at most, as it is looked for so often while jobs are picked.
//! Two intervals later room is *owed*: if it does not fit, nothing starts that needs what it needs unless both fit, and nothing at all
//! if it can only run alone; if it fits, it goes before a job that would take room from it and needs less. So only jobs that ran before
//! are in its way, and when the last of them has ended it fits, or nothing runs and it may exceed the soft limits.
//!
//! On cards, room is kept on the same ones from the first moment to the last: each change would let new jobs start on those that it has
//! waited for.
//!
//! No room is kept for a job that could not start in an empty house, because paused jobs hold what it needs: it would stand empty
//! until somebody resumes them. Nor for one that must run alone while others on this machine run: it waits for a moment when they do not.
//! Of jobs that want equal amounts, rank alone decides.
//!
//! # Rejected
//! Keeping room from the first moment: while a large job waits for one slow job, half the machine would idle, for a wait that may
//! be over soon. Counting from the first start that passed it over: starts may be rare, and then it waits for the longest job twice.
//!
//! Checked by `no_job_starves_under_any_stream_of_smaller_jobs`.

use super::Core;
use super::cards::CardSet;
use super::lanes::Entry;
use super::room::Kept;
use crate::aging::{Aging, Time};

/// For whom room is kept, or will be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    pub(super) id: u32,
    /// Since when it has been the oldest.
    since: Time,
    /// The cards that are kept for it, once it is owed some.
    pub(super) on: CardSet,
}

impl Core {
    /// What counts as an interval here; if waiting gains no rank, the usual one.
    fn patience(&self) -> Time {
        let aging = self.rules.aging;
        if aging.interval.is_zero() { Aging::default().interval_ns() } else { aging.interval_ns() }
    }

    /// The job that is owed room, if any has waited long enough.
    #[inline]
    pub(super) fn owed(&mut self, now: Time) -> Option<u32> {
        if self.reservation.is_none() && now >= self.next_sweep {
            self.note_oldest(now);
        }
        let reservation = self.reservation?;
        if !self.is_owed(&reservation, now) {
            return None;
        }
        let cards = self.need(reservation.id).cards;
        if cards.count > 0 {
            let on = self.room.cards.keep_for(cards, reservation.on);
            self.reservation = Some(Reservation { on, ..reservation });
        }
        Some(reservation.id)
    }

    /// What is kept for the job that is owed its turn.
    pub(super) fn kept(&self) -> Option<Kept<'_>> {
        let Reservation { id, on, .. } = self.reservation?;
        Some(Kept { need: self.need(id), on })
    }

    pub(super) fn is_owed(&self, reservation: &Reservation, now: Time) -> bool {
        now >= reservation.since.saturating_add(self.patience().saturating_mul(2))
            && self.room.empty_would_do(self.need(reservation.id))
    }

    #[cold]
    fn note_oldest(&mut self, now: Time) {
        self.next_sweep = now.saturating_add(self.patience() / 4);
        let oldest = self.lanes.heads().map(|(_, head)| (head.ready_since, head.id)).min();
        self.reservation = oldest.map(|(ready_since, id)| Reservation {
            id,
            since: ready_since.max(self.oldest_left),
            on: CardSet::NONE,
        });
    }

    /// Whether room is kept for this job, or will be.
    #[inline]
    pub(super) fn is_noted(&self, id: u32) -> bool {
        self.reservation.is_some_and(|reservation| reservation.id == id)
    }

    /// A job stands in line again where it stood. If it is older than the one that was noted meanwhile, it is looked for anew.
    pub(super) fn has_come_back(&mut self, entry: Entry) {
        let noted = self.reservation.map(|noted| (self.nodes[noted.id as usize].ready_since, noted.id));
        if noted.is_some_and(|noted| (entry.ready_since, entry.id) < noted) {
            self.reservation = None;
            self.next_sweep = 0;
        }
    }

    /// A job is no longer in line.
    #[inline]
    pub(super) fn has_left(&mut self, now: Time, id: u32) {
        if self.is_noted(id) {
            self.reservation = None;
            self.oldest_left = now;
        }
    }
}
