//! The oldest job that does not fit gets a reservation; smaller jobs fill in around it.
//!
//! # Invariant
//! Once a job is the oldest that does not fit while others start, it waits at most three aging intervals and the longest job that
//! runs.
//!
//! # Why it holds
//! At the first start at which a job is passed over for its size, or at most a quarter of an interval of such starts later, it is
//! noted. Two intervals later the reservation is *owed*: from then on nothing starts that needs what it needs, unless both fit. So only jobs
//! that ran before are in its way, and when the last of them has ended it fits, or nothing runs and it may exceed the soft limits. Whoever is older
//! takes over the note; younger ones wait.
//!
//! # Rejected
//! Keeping room from the first moment: while a large job waits for one slow job, half the machine would idle, for a wait that may
//! be over soon.
//!
//! Checked by `no_job_starves_under_any_stream_of_smaller_jobs`.

use super::Core;
use crate::aging::{Aging, Time};
use crate::state::State;

/// For whom room is kept, or will be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    pub(super) id: u32,
    /// Since when others have been seen to start while it did not fit.
    since: Time,
}

impl Core {
    /// What counts as an interval here; if waiting gains no rank, the usual one.
    fn patience(&self) -> Time {
        let aging = self.rules.aging;
        if aging.interval.is_zero() { Aging::default().interval_ns() } else { aging.interval_ns() }
    }

    /// The job that is owed room, if any has waited long enough.
    pub(super) fn owed(&mut self, now: Time) -> Option<u32> {
        let reservation = self.reservation?;
        if self.nodes[reservation.id as usize].state != State::Ready {
            self.reservation = None;
            return None;
        }
        self.is_owed(&reservation, now).then_some(reservation.id)
    }

    pub(super) fn is_owed(&self, reservation: &Reservation, now: Time) -> bool {
        now >= reservation.since.saturating_add(self.patience().saturating_mul(2))
    }

    /// `picked` is about to start: notes the oldest job that does not fit, now and then.
    #[inline]
    pub(super) fn sweep(&mut self, now: Time, picked: u32) {
        if now >= self.next_sweep {
            self.sweep_now(now, picked);
        }
    }

    #[cold]
    fn sweep_now(&mut self, now: Time, picked: u32) {
        self.next_sweep = now.saturating_add(self.patience() / 4);
        let oldest = self
            .lanes
            .heads()
            .filter(|(lane, head)| head.id != picked && !self.room.fits(&self.needs[lane.demand as usize], None))
            .map(|(_, head)| (head.ready_since, head.id))
            .min();
        let noted = self
            .reservation
            .map(|reservation| reservation.id)
            .filter(|&id| id != picked && self.nodes[id as usize].state == State::Ready)
            .map(|id| (self.nodes[id as usize].ready_since, id));
        match (oldest, noted) {
            (Some(oldest), Some(noted)) if noted <= oldest => {}
            (Some((_, id)), _) => self.reservation = Some(Reservation { id, since: now }),
            (None, Some(_)) => {}
            (None, None) => self.reservation = None,
        }
    }
}
