//! One thread polls for events of sockets, or a monitor will soon see that none does.
//!
//! Room: mechanism. Knows who polls; knows nothing of what is polled.
//!
//! A worker that has nothing to run polls instead of sleeping, and gives the role up when it has something to run. While all workers are busy none may poll.
//! A monitor thread looks some time after a worker gave the role up, and polls itself if it is free.
//!
//! ```text
//!            take 1                    give_up 2
//!    FREE ───────────► WORKER ────────────────────────► FREE
//!     │ look 3                      give_up 2
//!     └──────────────► MONITOR ───────────────────────► FREE
//! ```
//!
//! # Invariants
//! 1. One thread has the role.
//! 2. If the role is free, the monitor is going to look.
//!
//! # Why they hold
//! 1. The role changes hands by CAS from `FREE`.
//! 2. Who gives it up does *free it, fence, read `is_watched`*, and tells the monitor if that is false. A monitor that looks does *clear `is_watched`, fence, take the role if it is free*. Two SeqCst
//!    fences have one order. The former first: the look finds the role free. The latter first: `is_watched` is found clear, and the monitor is told. Of several that find it clear one tells: it is set by a swap.
//!
//! Checked by `tests/loom/poller_role.rs`: without either fence, or with `is_watched` cleared only after the look, `a_free_role_is_watched` fails.

use crate::sync::{
    atomic::{
        AtomicBool, AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        fence,
    },
    or_planted,
};

const FREE: u32 = 0;
const WORKER: u32 = 1;
const MONITOR: u32 = 2;

/// Who polls.
#[derive(Debug, Default)]
pub struct PollerRole {
    holder: AtomicU32,
    is_watched: AtomicBool,
}

/// What a worker is told that wants to poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It does.
    Yes,
    /// Another worker does.
    ByWorker,
    /// The monitor does, and gives the role up if it is asked to.
    ByMonitor,
}

impl PollerRole {
    /// The role is free, and not watched.
    pub fn new() -> Self {
        Self::default()
    }

    /// A worker wants to poll.
    pub fn take(&self) -> Taken {
        match self.holder.compare_exchange(FREE, WORKER, AcqRel, Acquire) {
            Ok(_) => Taken::Yes,
            Err(MONITOR) => Taken::ByMonitor,
            Err(_) => Taken::ByWorker,
        }
    }

    /// Whether no thread polls.
    pub fn is_free(&self) -> bool {
        self.holder.load(Relaxed) == FREE
    }

    /// Its holder does not poll any more. True if the monitor is to be told that it has to look.
    #[must_use = "a free role must be watched"]
    pub fn give_up(&self) -> bool {
        self.holder.store(FREE, Release);
        or_planted!(fence(SeqCst), "give-up-role-without-fence" => ()); // pairs with the fence in `look`
        self.watch()
    }

    /// The monitor has to look. True if it does not know yet.
    #[must_use = "the monitor is to be told"]
    pub fn watch(&self) -> bool {
        !self.is_watched.load(Relaxed) && !self.is_watched.swap(true, Relaxed)
    }

    /// The monitor looks. True if the role was free: it polls now. Else it rests until it is told to look again.
    pub fn look(&self) -> bool {
        or_planted!(self.is_watched.store(false, Relaxed), "clear-after-look" => ());
        or_planted!(fence(SeqCst), "look-without-fence" => ()); // pairs with the fence in `give_up`
        let is_taken = self.holder.compare_exchange(FREE, MONITOR, AcqRel, Acquire).is_ok();
        #[cfg(loom)]
        or_planted!((), "clear-after-look" => self.is_watched.store(false, Relaxed));
        is_taken
    }
}
