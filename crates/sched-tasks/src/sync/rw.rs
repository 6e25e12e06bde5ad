//! The lock in a [`RwLock`](super::RwLock): who holds it, and requests in the order they came.
//!
//! Room: mechanism.
//!
//! # Invariants
//! 1. One writer holds the lock and no reader, or any number of readers and no writer.
//! 2. No request is served before one that came earlier, so neither side starves; readers with no writer between them
//!    hold the lock together.
//! 3. No request waits while the first of them could be served.
//!
//! # Why they hold
//! Everything happens under one lock (`Semaphore` does the same). A request is served at once only if no other waits;
//! else it is queued. What makes room, or leaves the queue, then serves the first request again and again, until it has
//! to wait. To serve a request is to claim its wait and to count it as a holder in one step, so one that is claimed has
//! the lock, cancelled or not; one that leaves unclaimed has nothing, and those behind it are looked at again.
//!
//! # Rejected
//! To let readers pass a writer that waits: more of them at a time, but a stream of readers would keep the writer out
//! for ever. To let a task that runs already be faster, as `lock.rs` does: then a writer that comes too late once must go
//! before the readers that came with it.

use std::time::Instant;

use mech_sync::{SpinLock, WaitToken};

use crate::{
    strand::{self, Strand, room},
    wait::{self, End},
    wait_queue::{Claimed, WaitList},
};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// What ends a wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptedBy {
    Cancellation,
    /// Only the deadlock of a seeded run.
    Deadlock,
}

/// A readers-writer lock, without what it protects.
#[derive(Debug)]
pub(crate) struct SharedLock {
    state: SpinLock<State>,
}

#[derive(Debug)]
struct State {
    holders: Holders,
    requests: WaitList<Access>,
}

#[derive(Debug)]
struct Holders {
    readers: usize,
    has_writer: bool,
}

impl Holders {
    fn admit(&self, access: Access) -> bool {
        !self.has_writer && (access == Access::Read || self.readers == 0)
    }

    fn add(&mut self, access: Access) {
        assert!(self.admit(access), "a writer is alone");
        match access {
            Access::Read => self.readers += 1,
            Access::Write => self.has_writer = true,
        }
    }

    fn remove(&mut self, access: Access) {
        match access {
            Access::Read => self.readers -= 1,
            Access::Write => self.has_writer = false,
        }
    }
}

impl State {
    /// Claims the first request if there is room for it.
    fn grant_one(&mut self) -> Option<Claimed> {
        let mut granted = Access::Read;
        let claimed = self.requests.claim_if(|&access| {
            granted = access;
            self.holders.admit(access)
        })?;
        self.holders.add(granted);
        Some(claimed)
    }
}

impl SharedLock {
    pub(crate) const fn new() -> Self {
        Self {
            state: SpinLock::new(State {
                holders: Holders { readers: 0, has_writer: false },
                requests: WaitList::new(),
            }),
        }
    }

    /// Whether it is held; and by a writer.
    pub(crate) fn held(&self) -> (bool, bool) {
        let state = self.state.lock();
        (!state.holders.admit(Access::Write), state.holders.has_writer)
    }

    /// Takes the lock if it is free for that, and no request waits.
    pub(crate) fn try_acquire(&self, access: Access) -> bool {
        let mut state = self.state.lock();
        let is_free = state.holders.admit(access) && !state.requests.any();
        if is_free {
            state.holders.add(access);
        }
        is_free
    }

    /// Waits for the lock until `deadline`. False if time was up.
    #[inline]
    pub(crate) fn acquire(&self, access: Access, deadline: Option<Instant>) -> bool {
        strand::with(|strand| {
            strand.checkpoint();
            self.try_acquire(access) || self.acquire_slowly(strand, access, deadline, InterruptedBy::Cancellation)
        })
    }

    /// Waits for the lock as an operation of a task, but neither a cancellation nor a pause stops it.
    pub(crate) fn acquire_uninterrupted(&self, access: Access) {
        strand::with(|strand| {
            strand.take_turn_regardless();
            strand.interleave();
            if !self.try_acquire(access) {
                self.acquire_slowly(strand, access, None, InterruptedBy::Deadlock);
            }
        });
    }

    #[cold]
    fn acquire_slowly(&self, strand: &Strand, access: Access, deadline: Option<Instant>, by: InterruptedBy) -> bool {
        let token = strand.waiter.token();
        self.enlist(token, access);
        let end = match by {
            InterruptedBy::Cancellation => wait::wait_through_pauses(strand, token, deadline), // others may wait behind it
            InterruptedBy::Deadlock => wait::wait_shielded(strand, token),
        };
        match end {
            End::Claimed(_) => true,
            End::TimedOut => {
                self.leave();
                false
            }
            End::Cancelled => {
                self.leave();
                strand.unwind();
            }
        }
    }

    /// Queues a request. It is served at once if it is the first and there is room.
    pub(crate) fn enlist(&self, token: WaitToken, access: Access) {
        self.state.lock().requests.push(token, 0, access);
        self.grant();
    }

    /// A request left unserved: those behind it may be served now.
    pub(crate) fn leave(&self) {
        self.state.lock().requests.leave();
        self.grant();
    }

    /// Releases the lock. Only a holder may do so, with the access it has.
    pub(crate) fn release(&self, access: Access) {
        let _room = room::to_drop();
        self.state.lock().holders.remove(access);
        self.grant();
        strand::with(Strand::interleave);
    }

    /// The writer becomes a reader; readers that are first in the queue join it.
    pub(crate) fn downgrade(&self) {
        let _room = room::to_drop();
        {
            let mut state = self.state.lock();
            state.holders.remove(Access::Write);
            state.holders.add(Access::Read);
        }
        self.grant();
        strand::with(Strand::interleave);
    }

    fn grant(&self) {
        loop {
            let claimed = self.state.lock().grant_one();
            match claimed {
                Some(claimed) => claimed.go(),
                None => return,
            }
        }
    }
}
