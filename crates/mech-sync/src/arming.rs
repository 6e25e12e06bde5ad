//! The watchdog is armed while any worker runs, and disarmed once all sleep.
//!
//! Room: mechanism. Knows which workers are awake and whether a check is due; knows nothing of clocks, nor of what is checked.
//!
//! # Invariant
//! While a worker is awake one check is due, never two. Once all sleep, the check that is due is the last.
//!
//! # Why it holds
//! A worker that wakes does *set its flag, fence, read `due`*. A check that is over does *clear `due`, fence, read all
//! flags*. Two SeqCst fences have one order. The worker's first: the check sees it awake and arms the timer again. The
//! check's first: the worker finds `due` clear, or set again by another that found it clear. `due` is set by a swap, so
//! of all that find it clear one is told to arm the timer. Only a check clears it, when its own timer has fired.
//!
//! Falling asleep orders nothing: seen late, it costs one check more.
//!
//! # Rejected
//! A count of the workers that are awake: exact, but every worker that sleeps or wakes would write the same cache line.
//!
//! Checked by `tests/loom/arming.rs`: without either fence, or with `due` cleared only after reading,
//! `a_check_is_due_while_a_worker_is_awake` fails; with `due` set in two steps, `two_workers_that_wake_arm_one_timer`.
//! Also `a_check_that_finds_all_asleep_is_the_last`.

use crate::sync::{
    atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
        fence,
    },
    or_planted,
};

/// Whether one worker is awake. Only that worker writes it.
#[derive(Debug, Default)]
pub struct Awake(AtomicBool);

impl Awake {
    /// Asleep, for now.
    pub fn new() -> Self {
        Self::default()
    }

    /// The worker is about to sleep.
    pub fn mark_asleep(&self) {
        self.0.store(false, Relaxed);
    }
}

/// Whether a check is due. See the module.
#[derive(Debug, Default)]
pub struct Arming {
    due: AtomicBool,
}

impl Arming {
    /// All sleep, and no check is due.
    pub fn new() -> Self {
        Self::default()
    }

    /// The worker has something to do: one load, if it was awake already. True if the caller must now arm the timer for
    /// a check.
    ///
    /// ```
    /// use mech_sync::{Awake, Arming};
    ///
    /// let (arming, worker) = (Arming::new(), Awake::new());
    /// assert!(arming.mark_awake(&worker)); // the timer is armed
    /// assert!(!arming.mark_awake(&worker));
    ///
    /// assert!(arming.rearm([&worker])); // the timer fired; it is armed again
    /// worker.mark_asleep();
    /// assert!(!arming.rearm([&worker])); // and not again
    /// assert!(arming.mark_awake(&worker));
    /// ```
    #[inline(always)]
    #[must_use = "if the timer is not armed, no check ever comes"]
    pub fn mark_awake(&self, worker: &Awake) -> bool {
        !worker.0.load(Relaxed) && self.wake(worker)
    }

    #[cold]
    fn wake(&self, worker: &Awake) -> bool {
        worker.0.store(true, Relaxed);
        or_planted!(fence(SeqCst), "wake-without-fence" => ()); // pairs with the fence in `rearm`
        !self.due.load(Relaxed) && self.claim_due()
    }

    /// A check is over. True if a worker of `all` is awake and the caller must arm the timer for the next check; else
    /// checking stops until a worker wakes.
    #[must_use = "if the timer is not armed, no check ever comes"]
    pub fn rearm<'a>(&self, all: impl IntoIterator<Item = &'a Awake>) -> bool {
        or_planted!(self.due.store(false, Relaxed), "due-cleared-late" => ());
        or_planted!(fence(SeqCst), "rearm-without-fence" => ()); // pairs with the fence in `wake`
        let any_awake = all.into_iter().any(|one| one.0.load(Relaxed));
        #[cfg(loom)]
        or_planted!((), "due-cleared-late" => self.due.store(false, Relaxed));
        any_awake && self.claim_due()
    }

    fn claim_due(&self) -> bool {
        !or_planted!(self.due.swap(true, Relaxed), "due-in-two-steps" => {
            let was = self.due.load(Relaxed);
            self.due.store(true, Relaxed);
            was
        })
    }
}
