//! Somebody looks round while anybody is awake, and rests while all sleep.
//!
//! Room: mechanism. Knows who is awake and whether a look is due; knows nothing of clocks, nor of what is looked for.
//!
//! # Invariant
//! While somebody is awake one look is due, never two. Once all sleep, the look that is due is the last.
//!
//! # Why it holds
//! Whoever wakes does *say so, fence, read `due`*. A look that is over does *clear `due`, fence, read who is awake*. Two SeqCst fences have one
//! order. The waker's first: the look sees it awake and goes on. The look's first: the waker finds `due` clear, or set again by one who
//! found it clear. `due` is set by a swap, so of all who find it clear one is told to set the alarm; and only a look clears it,
//! when its own alarm has been used up.
//!
//! Falling asleep orders nothing: seen late, it costs one look more.
//!
//! # Rejected
//! A count of those who are awake: exact, but every worker that sleeps or wakes would write the same line.
//!
//! Checked by `tests/loom/arming.rs`: without either fence, or with `due` cleared only after reading, `whoever_is_awake_is_looked_at` fails;
//! with `due` set in two steps, `two_who_wake_set_one_alarm`. Also `a_look_that_finds_all_asleep_is_the_last`.

use crate::sync::{
    atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
        fence,
    },
    or_planted,
};

/// Whether one of the watched is awake. Only it writes that.
#[derive(Debug, Default)]
pub struct Awake(AtomicBool);

impl Awake {
    /// Sleeps, for now.
    pub fn new() -> Self {
        Self::default()
    }

    /// It is about to sleep.
    pub fn rest(&self) {
        self.0.store(false, Relaxed);
    }
}

/// Whether a look is due. See the module.
#[derive(Debug, Default)]
pub struct Arming {
    due: AtomicBool,
}

impl Arming {
    /// All sleep, and no look is due.
    pub fn new() -> Self {
        Self::default()
    }

    /// `who` has something to do: one load, if it was awake already. True if the caller must now set the alarm for a look.
    ///
    /// ```
    /// use mech_sync::{Awake, Arming};
    ///
    /// let (arming, worker) = (Arming::new(), Awake::new());
    /// assert!(arming.attend(&worker)); // the alarm is set
    /// assert!(!arming.attend(&worker));
    ///
    /// assert!(arming.go_on([&worker])); // the alarm rang; it is set again
    /// worker.rest();
    /// assert!(!arming.go_on([&worker])); // and not again
    /// assert!(arming.attend(&worker));
    /// ```
    #[inline(always)]
    #[must_use = "if nobody sets the alarm, no look ever comes"]
    pub fn attend(&self, who: &Awake) -> bool {
        !who.0.load(Relaxed) && self.wake(who)
    }

    #[cold]
    fn wake(&self, who: &Awake) -> bool {
        who.0.store(true, Relaxed);
        or_planted!(fence(SeqCst), "attend-without-fence" => ()); // pairs with the fence in `go_on`
        !self.due.load(Relaxed) && self.is_mine_to_set()
    }

    /// A look is over. True if somebody of `all` is awake and the caller must set the alarm for the next one; else looking rests.
    #[must_use = "if nobody sets the alarm, no look ever comes"]
    pub fn go_on<'a>(&self, all: impl IntoIterator<Item = &'a Awake>) -> bool {
        or_planted!(self.due.store(false, Relaxed), "due-cleared-late" => ());
        or_planted!(fence(SeqCst), "go-on-without-fence" => ()); // pairs with the fence in `wake`
        let any_awake = all.into_iter().any(|one| one.0.load(Relaxed));
        #[cfg(loom)]
        or_planted!((), "due-cleared-late" => self.due.store(false, Relaxed));
        any_awake && self.is_mine_to_set()
    }

    fn is_mine_to_set(&self) -> bool {
        !or_planted!(self.due.swap(true, Relaxed), "due-in-two-steps" => {
            let was = self.due.load(Relaxed);
            self.due.store(true, Relaxed);
            was
        })
    }
}
