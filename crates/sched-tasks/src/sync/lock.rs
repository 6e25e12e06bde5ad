//! The lock in a [`Mutex`](super::Mutex): one word, and a wait list.
//!
//! Room: mechanism.
//!
//! ```text
//!              acquire 1                     acquire, must wait 3
//!   0 ───────────────────────► LOCKED ────────────────────────────► LOCKED|WAITERS
//!     ◄───────────────────────        ◄──────────────────────────── │         │ ▲
//!              release 2               release 4: hands over, last   │         └─┘ release 4: hands over
//!   WAITERS ◄─────────────────────────────────────────────────────┘ release 4: wakes one
//! ```
//!
//! # Invariants
//! 1. One strand at a time has LOCKED.
//! 2. While a strand waits, the lock is held, or a strand is awake that will try to take it.
//! 3. No strand waits for ever: one that was woken and came too late once is first in the list, and the lock is handed
//!    to it.
//!
//! # Why they hold
//! 1. LOCKED is set by CAS from a word without it, or stays set for the strand that is handed the lock by its claim.
//! 2. WAITERS changes under the list's lock. A strand enlists only while LOCKED is set, and then makes sure that
//!    WAITERS is set; so the holder's release finds it and claims one. A claimed strand tries, cancelled or not: it has
//!    the lock, or another one holds it and will find WAITERS.
//! 3. The first in the list with the code HANDED gets the lock at the next release, and no strand behind it is woken
//!    before.
//!
//! # Rejected
//! Handing over at every release: fair, but then the lock is idle for the time it takes each next fiber to run, and a busy lock is several times slower.
//! Barging always: fast, but a fiber on another worker may come too late for ever.

use std::{
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Instant,
};

use mech_sync::SpinLock;

use crate::{
    strand::room,
    strand::{self, Strand},
    wait::{self, End},
    wait_queue::WaitList,
};

const LOCKED: u32 = 1;
const WAITERS: u32 = 2;

/// Codes of claims: the lock is free, try it; or it is yours.
const TRY: u16 = 0;
const HANDED: u16 = 1;

/// A lock, without what it protects.
#[derive(Debug)]
pub struct Lock {
    word: AtomicU32,
    waits: SpinLock<WaitList>,
}

/// What ends a wait for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InterruptedBy {
    Cancellation,
    /// Only the deadlock of a seeded run.
    Deadlock,
    Nothing,
}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(0), waits: SpinLock::new(WaitList::new()) }
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }

    #[inline]
    pub(crate) fn try_acquire(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & LOCKED == 0 {
            match self.word.compare_exchange_weak(word, word | LOCKED, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(changed) => word = changed,
            }
        }
        false
    }

    /// Waits for the lock until `deadline`. False if time was up.
    #[inline]
    pub(crate) fn acquire(&self, deadline: Option<Instant>) -> bool {
        strand::with(|strand| {
            strand.take_turn();
            if strand.needs_attention() {
                return self.acquire_with_checkpoint(strand, deadline);
            }
            self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok()
                || self.acquire_slowly(strand, deadline, InterruptedBy::Cancellation)
        })
    }

    /// The same after a checkpoint that has something to do. In a seeded run the release must take the slow path too,
    /// where other tasks may run first.
    #[cold]
    fn acquire_with_checkpoint(&self, strand: &Strand, deadline: Option<Instant>) -> bool {
        strand.check_closely();
        let acquired = self.try_acquire() || self.acquire_slowly(strand, deadline, InterruptedBy::Cancellation);
        if acquired {
            self.force_slow_release(strand);
        }
        acquired
    }

    fn force_slow_release(&self, strand: &Strand) {
        if strand.shared().is_some_and(|shared| shared.seeded.is_some()) {
            let _waits = self.waits.lock();
            self.word.fetch_or(WAITERS, Relaxed); // perhaps wrong; the release corrects it
        }
    }

    /// Waits for the lock as an operation of a task, but neither a cancellation nor a pause stops it.
    #[inline]
    pub(crate) fn acquire_uninterrupted(&self) {
        strand::with(|strand| {
            strand.take_turn_regardless();
            if strand.needs_attention() {
                return self.acquire_interleaving(strand);
            }
            if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
                self.acquire_slowly(strand, None, InterruptedBy::Deadlock);
            }
        });
    }

    #[cold]
    fn acquire_interleaving(&self, strand: &Strand) {
        strand.interleave();
        if !self.try_acquire() {
            self.acquire_slowly(strand, None, InterruptedBy::Deadlock);
        }
        self.force_slow_release(strand);
    }

    /// Waits for the lock, and does not unwind meanwhile.
    pub(crate) fn acquire_regardless(&self) {
        if !self.try_acquire() {
            strand::with(|strand| self.acquire_slowly(strand, None, InterruptedBy::Nothing));
        }
    }

    #[cold]
    fn acquire_slowly(&self, strand: &Strand, deadline: Option<Instant>, interrupted_by: InterruptedBy) -> bool {
        wait::spin_until(strand, || !self.is_locked());
        let mut came_too_late = false;
        loop {
            if self.try_acquire() {
                return true;
            }
            let token = strand.waiter.token();
            {
                let mut waits = self.waits.lock();
                if self.word.fetch_or(WAITERS, Relaxed) & LOCKED == 0 {
                    continue; // free again; if WAITERS is wrong now, the next release corrects it
                }
                if came_too_late {
                    waits.push_front(token, HANDED, ());
                } else {
                    waits.push(token, TRY, ());
                }
            }
            let end = match interrupted_by {
                InterruptedBy::Cancellation => wait::wait_through_pauses(strand, token, deadline),
                InterruptedBy::Deadlock => wait::wait_shielded(strand, token),
                InterruptedBy::Nothing => End::Claimed(wait::wait_regardless(strand, token)),
            };
            match end {
                End::Claimed(HANDED) => return true,
                End::Claimed(_) => came_too_late = true, // if the lock is taken again by now
                End::TimedOut => {
                    self.waits.lock().leave();
                    return self.try_acquire();
                }
                End::Cancelled => {
                    self.waits.lock().leave();
                    strand.unwind();
                }
            }
        }
    }

    /// Releases the lock. Only its holder may do so.
    #[inline]
    pub(crate) fn release(&self) {
        if self.word.compare_exchange(LOCKED, 0, Release, Relaxed).is_err() {
            self.release_slowly();
        }
    }

    #[cold]
    fn release_slowly(&self) {
        let _room = room::to_drop();
        let claimed = {
            let mut waits = self.waits.lock();
            let claimed = waits.claim();
            let waiters = if waits.len() == 0 { 0 } else { WAITERS };
            let handed = claimed.as_ref().is_some_and(|claimed| claimed.code == HANDED);
            // A plain store: we have LOCKED, so no CAS can succeed, and WAITERS changes under this lock.
            self.word.store(waiters | if handed { LOCKED } else { 0 }, Release);
            claimed
        };
        if let Some(claimed) = claimed {
            claimed.go();
        }
        strand::with(Strand::interleave);
    }
}
