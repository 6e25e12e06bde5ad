//! Pausing a nursery: what runs in it stands still at its next checkpoint, until it is resumed.
//!
//! # Invariants
//! 1. Between [`Pauser::pause`] and [`Pauser::resume`] no task of the nursery, or of one inside it, passes a checkpoint, begins, or is polled; unless it is shielded.
//! 2. Every task that stands still goes on after `resume`, or unwinds when it is cancelled.
//!
//! # Why they hold
//! 1. `pause` sets the flag under the nursery's lock and then asks for attention in the whole tree. A nursery that opens inside enlists first and looks at the one
//!    around it after, as for a cancellation: one of the two sees the other. Who attends looks at every nursery around it.
//! 2. Who stands still leaves its token under the lock, if the flag is still set there; `resume` clears the flag and takes all tokens under the same lock. A cancellation interrupts
//!    it like anyone who waits.
//!
//! Who comes back from a wait stands still before it goes on, but for those who were woken to take a lock: others would wait for them. No operation stands still with a lock of its own
//! held: a [`Condvar`](crate::Condvar) does so while the mutex is free.
//!
//! Attention stays asked for after `resume`: a checkpoint there costs some nanoseconds more.

use std::{
    fmt,
    sync::{Arc, Weak},
    task::Waker,
};

use mech_sync::WaitToken;

use super::NurseryCore;
use crate::{
    raw::scope::ScopeRef,
    scope::Nursery,
    strand::{self, Strand},
    wait::{self, End},
};

/// Those who stand still in a nursery.
#[derive(Default)]
pub(crate) struct Standing {
    pub(crate) is_paused: bool,
    tokens: Vec<WaitToken>,
    wakers: Vec<Waker>,
}

/// Lets the tasks of a nursery stand still, and go on, from anywhere. Does nothing once the nursery is over.
///
/// ```
/// use bursar::{checkpoint, nursery, yield_now};
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let rounds = AtomicU64::new(0);
/// nursery(|n| {
///     let pauser = nursery(|inner| {
///         let pauser = inner.pauser();
///         pauser.pause();
///         inner.spawn(|| rounds.fetch_add(1, Relaxed)); // does not begin
///         let (waiting, rounds) = (pauser.clone(), &rounds);
///         n.spawn(move || {
///             assert_eq!(rounds.load(Relaxed), 0);
///             waiting.resume();
///         });
///         Ok(pauser)
///     })?; // waits for its task, which waits to be resumed
///     pauser.resume(); // over: nothing happens
///     Ok(())
/// })?;
/// assert_eq!(rounds.load(Relaxed), 1);
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Clone)]
pub struct Pauser(Weak<NurseryCore>);

impl Nursery<'_, '_> {
    /// Something that can pause this nursery, and resume it.
    ///
    /// What is paused, the body of the nursery included, stands still at its next checkpoint: an operation of this library that may wait, or [`checkpoint`](crate::checkpoint). One that waits goes on to
    /// wait, and stands still when it comes back (one that waits for a [`Mutex`](crate::Mutex), at the next operation). What it holds meanwhile, locks and permits, it keeps. One that is
    /// [shielded](crate::shield) goes on until it is not. Deadlines go on.
    pub fn pauser(&self) -> Pauser {
        Pauser(self.downgrade())
    }
}

impl Pauser {
    /// Everything in the nursery, and in those inside it, stands still from its next checkpoint on. Does not wait for that.
    pub fn pause(&self) {
        strand::with(Strand::ensure_room);
        if let Some(core) = self.0.upgrade() {
            core.pause();
        }
    }

    /// Everything goes on.
    pub fn resume(&self) {
        strand::with(Strand::ensure_room);
        if let Some(core) = self.0.upgrade() {
            core.resume();
        }
    }

    /// Whether everything in the nursery waits for something now, the one who opened it and all tasks in it and in those inside: if it is paused, none goes on.
    pub fn is_still(&self) -> bool {
        let Some(core) = self.0.upgrade() else { return true };
        let mut all = vec![core];
        while let Some(nursery) = all.pop() {
            if !nursery.waits() {
                return false;
            }
            all.extend(nursery.nested());
        }
        true
    }
}

impl fmt::Debug for Pauser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pauser").finish_non_exhaustive()
    }
}

impl NurseryCore {
    fn pause(&self) {
        self.standing(|standing| standing.is_paused = true);
        self.ask_attention();
        let mut inside = self.nested();
        while let Some(nursery) = inside.pop() {
            if !nursery.is_shielded() {
                nursery.ask_attention();
                inside.extend(nursery.nested());
            }
        }
    }

    fn resume(&self) {
        let Standing { tokens, wakers, .. } = self.standing(std::mem::take);
        tokens.into_iter().for_each(|token| _ = strand::wake(token, 0));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl ScopeRef {
    /// The innermost nursery around that is paused.
    fn paused(self) -> Option<ScopeRef> {
        let mut at = self;
        loop {
            if at.standing(|standing| standing.is_paused) {
                return Some(at);
            }
            if at.is_shielded() {
                return None;
            }
            at = at.outer()?;
        }
    }

    /// Has `waker` called when the nursery is resumed. False if nothing is paused.
    #[cold]
    pub(crate) fn holds_back(self, waker: &Waker) -> bool {
        let Some(paused) = self.paused() else { return false };
        let waker = waker.clone();
        paused.standing(|standing| {
            if standing.is_paused {
                standing.wakers.push(waker);
            }
            standing.is_paused
        })
    }
}

impl Strand {
    /// The same at the entry of an operation that is no checkpoint of its own.
    #[inline]
    pub(crate) fn stand_still_if_paused(&self) {
        if self.needs_attention() {
            self.stand_still();
        }
    }

    /// Stands still as long as a nursery around is paused. Unwinds if it is cancelled meanwhile.
    #[cold]
    pub(crate) fn stand_still(&self) {
        if !self.rest_while_paused() {
            self.unwind();
        }
    }

    /// The same for who has something to finish first: a cancellation ends it, and is heeded at the next checkpoint. False if one did.
    #[cold]
    pub(crate) fn rest_while_paused(&self) -> bool {
        while let Some(paused) = self.scope.get().and_then(ScopeRef::paused) {
            if self.shields.get() > 0 || self.turn.is_fixed() || self.is_unwinding() {
                return true;
            }
            let token = self.token();
            let stands = paused.standing(|standing| {
                if standing.is_paused {
                    standing.tokens.push(token);
                }
                standing.is_paused
            });
            if stands && wait::wait_through_pauses(self, token, None) == End::Cancelled {
                return false; // the token is withdrawn: whoever wakes it later wakes nobody
            }
        }
        true
    }
}

impl Nursery<'_, '_> {
    fn downgrade(&self) -> Weak<NurseryCore> {
        Arc::downgrade(self.shared_core())
    }
}
