//! A reservation for the oldest ready job, with backfill: smaller jobs run around it.
//!
//! Room: decisions.
//!
//! # Invariant
//! From the moment a job is the oldest ready job, smaller jobs delay it by at most three aging intervals and the longest run time of a job.
//!
//! # Why it holds
//! The oldest ready job has the *reservation*. No older job can arrive, so it stays the oldest until it leaves its lane, and only then is the
//! next one looked for. It counts as the oldest since the one before left, or since it is ready itself. That is never too late. It is
//! too early by at most a quarter of an interval, because that is how often it is looked for while jobs are picked.
//! After two intervals the job is *owed* room. If it does not fit, no job starts that needs the same resources, unless both fit; and no job at all
//! starts if the owed job can only run alone. If it fits, it starts before a job that would take room from it and needs less. So only jobs that ran
//! before delay it. When the last of them has ended it fits, or nothing runs and it may exceed the soft limits.
//!
//! On graphics cards, room is reserved on the same cards until the job starts: each change would let new jobs start on the cards that it has
//! waited for.
//!
//! There is no reservation for a job that would not fit on an idle machine because paused jobs hold what it needs: the room would stay unused
//! until they are resumed. Nor for a job that must run alone while other runs on this machine have running jobs: it waits until they have none.
//! Among jobs with equal demands only the rank decides.
//!
//! # Rejected
//! Reserving from the first moment: while a large job waits for one slow job, half the machine would be idle, for a wait that may
//! be over soon. Counting from the first start that passed it over: starts may be rare, and then it waits for the longest job twice.
//!
//! Checked by `no_job_starves_under_any_stream_of_smaller_jobs`.

use super::Core;
use super::cards::CardSet;
use super::lanes::Entry;
use super::room::Kept;
use crate::aging::{Aging, Time};

/// The job that has the reservation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    pub(super) id: u32,
    /// Since when it has been the oldest.
    since: Time,
    /// The cards that are reserved for it, once it is owed some.
    pub(super) on: CardSet,
}

impl Core {
    /// The aging interval; the default one if waiting gains no rank.
    fn reserve_interval(&self) -> Time {
        let aging = self.rules.aging;
        if aging.interval.is_zero() { Aging::default().interval_ns() } else { aging.interval_ns() }
    }

    /// The job that is owed room, if one has waited long enough.
    #[inline]
    pub(super) fn owed(&mut self, now: Time) -> Option<u32> {
        if self.reservation.is_none() && now >= self.next_sweep {
            self.reserve_for_oldest(now);
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

    /// What is reserved for the job that is owed room.
    pub(super) fn kept(&self) -> Option<Kept<'_>> {
        let Reservation { id, on, .. } = self.reservation?;
        Some(Kept { need: self.need(id), on })
    }

    pub(super) fn is_owed(&self, reservation: &Reservation, now: Time) -> bool {
        now >= reservation.since.saturating_add(self.reserve_interval().saturating_mul(2))
            && self.room.fits_when_idle(self.need(reservation.id))
    }

    #[cold]
    fn reserve_for_oldest(&mut self, now: Time) {
        self.next_sweep = now.saturating_add(self.reserve_interval() / 4);
        let oldest = self.lanes.heads().map(|(_, head)| (head.ready_since, head.id)).min();
        self.reservation = oldest.map(|(ready_since, id)| Reservation {
            id,
            since: ready_since.max(self.oldest_left),
            on: CardSet::NONE,
        });
    }

    /// Whether this job has the reservation.
    #[inline]
    pub(super) fn is_reserved_for(&self, id: u32) -> bool {
        self.reservation.is_some_and(|reservation| reservation.id == id)
    }

    /// A job is back at its old position in its lane. If it is older than the job with the reservation, the oldest is looked for again.
    pub(super) fn rejoined(&mut self, entry: Entry) {
        let reserved = self.reservation.map(|reserved| (self.nodes[reserved.id as usize].ready_since, reserved.id));
        if reserved.is_some_and(|reserved| (entry.ready_since, entry.id) < reserved) {
            self.reservation = None;
            self.next_sweep = 0;
        }
    }

    /// A job has left its lane.
    #[inline]
    pub(super) fn has_left(&mut self, now: Time, id: u32) {
        if self.is_reserved_for(id) {
            self.reservation = None;
            self.oldest_left = now;
        }
    }
}
