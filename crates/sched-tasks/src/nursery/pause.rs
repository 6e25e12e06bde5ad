//! Pausing a nursery: what runs in it stands still at its next checkpoint, until it is resumed.
//!
//! Room: interface. Knows nurseries; how a task stands still is `strand/pause.rs`.
//!
//! # Invariants
//! 1. Between [`Pauser::pause`] and [`Pauser::resume`] no task of the nursery, or of one inside it, passes a checkpoint, begins, or is polled; unless it is shielded.
//! 2. Every task that stands still goes on after `resume`, or unwinds when it is cancelled.
//!
//! # Why they hold
//! 1. `pause` sets the flag under the nursery's lock and then asks for attention in the whole tree. A nursery that opens inside enlists first and looks at the one
//!    around it after, as for a cancellation: one of the two sees the other. A task that checks looks at every nursery around it.
//! 2. A task that stands still leaves its token under the lock, if the flag is still set there; `resume` clears the flag and takes all tokens under the same lock. A cancellation interrupts
//!    it like any task that waits.
//!
//! A task that comes back from a wait stands still before it goes on, except for one that was woken to take a lock: others would wait for them. No operation stands still with a lock of its own
//! held: a [`Condvar`](crate::Condvar) does so while the mutex is free.
//!
//! Attention stays asked for after `resume`: a checkpoint there costs some nanoseconds more.

use std::{
    fmt,
    sync::{Arc, Weak},
    task::Waker,
};

use crate::{
    kernel::nursery::{NurseryCore, Standing},
    strand::{self, Strand},
};

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

impl Pauser {
    pub(crate) fn of(core: &Arc<NurseryCore>) -> Self {
        Self(Arc::downgrade(core))
    }

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

    /// Whether everything in the nursery waits for something now, its owner and all tasks in it and in those inside: if it is paused, none goes on.
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
