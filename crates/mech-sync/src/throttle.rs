//! A throttle: on while a budget is used up. What it holds back is told when it is off again.
//!
//! Room: mechanism. Knows what waits and what is counted; knows nothing of time, nor of who sets the alarm.
//!
//! # Invariant
//! What waits for a throttle waits while it is on, and is told once when that ends. Its gates are closed if and only if it is on.
//!
//! # Why it holds
//! One lock for all of it. [`Throttle::begin`] closes the gates, [`Throttle::end`] opens them and takes the list of those that wait. [`Throttle::wait`] adds to the list only while it is on; else
//! the caller tries again. So what is on the list was added before `end` took it, or after the next `begin`. Of several that find the budget used up at once one begins, and sets the alarm.
//!
//! Something else may concern what waits before it ends. A thread does *change it, [`Throttle::holds_back`]*, and tells all workers if it is on; one that begins to wait does *`wait`, look at it*. By
//! the lock one of the two comes first: the look sees the change, or the thread finds it on.
//!
//! Who ends it tells each on the list, and publishes what came out of the gates (see `idle.rs`, `inbox.rs`): so no worker sleeps over what may run.
//!
//! # Rejected
//! To wake all workers when it ends, which then look at everything that they held back: each refill of a hundred thousand would look at a hundred thousand.
//!
//! Checked by `tests/loom/throttle.rs`: with `wait` that does not look whether it is still on, `what_waits_for_a_refill_is_told`
//! fails; with the gates opened outside the lock, `gates_are_open_when_the_throttle_is_off`; with `holds_back` outside the lock, `a_change_is_seen_by_what_begins_to_wait`. With `idle.rs`, `a_refill_wakes_a_thief`.

use crate::{
    counts::{Counts, Gates},
    spin::SpinLock,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        or_planted,
    },
};

/// Whether a budget is used up, and what waits for it.
#[derive(Debug)]
pub struct Throttle<W> {
    is_on: AtomicBool,
    waiting: SpinLock<Vec<W>>,
    gates: Gates,
}

/// What a throttle held back.
#[derive(Debug)]
#[must_use = "what waited has to be told, and what came out has to be published"]
pub struct Released<W> {
    /// All that waited.
    pub waiting: Vec<W>,
    /// How many items came out of its gates.
    pub items: usize,
}

impl<W> Throttle<W> {
    /// It is off; with gates for the items of so many workers.
    pub fn new(workers: usize) -> Self {
        Self { is_on: AtomicBool::new(false), waiting: SpinLock::new(Vec::new()), gates: Gates::new(workers) }
    }

    /// Whether it is on, as of a moment ago.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// The gates of what it holds back.
    #[inline]
    pub fn gates(&self) -> &Gates {
        &self.gates
    }

    /// The budget is used up. True if it was off: then the caller sees to it that [`end`](Self::end) is called. `outer` are the gates around its own.
    #[must_use = "if the alarm is not set, what waits is never told"]
    pub fn begin<'a>(&self, counts: &Counts, outer: impl Iterator<Item = &'a Gates> + Clone) -> bool {
        let _locked = self.waiting.lock();
        if self.is_on() {
            return false;
        }
        self.is_on.store(true, Relaxed);
        self.gates.close(counts, outer);
        true
    }

    /// Has `who` told when it ends; gives it back if it is off.
    pub fn wait(&self, who: W) -> Result<(), W> {
        let mut waiting = self.waiting.lock();
        if or_planted!(self.is_on(), "wait-without-look" => true) {
            waiting.push(who);
            Ok(())
        } else {
            Err(who)
        }
    }

    /// Whether it is on, ordered with [`wait`](Self::wait): a thread that changes something and then finds it off is seen by all that wait later; one that finds it on tells all that may wait.
    pub fn holds_back(&self) -> bool {
        let _locked = or_planted!(Some(self.waiting.lock()), "holds-back-without-lock" => None);
        self.is_on()
    }

    /// There is something to use again. None if it was off.
    ///
    /// ```
    /// use mech_sync::{Counts, Line, Throttle};
    ///
    /// let (counts, line, throttle) = (Counts::new(1), Line::default(), Throttle::new(1));
    /// counts.push(0, [throttle.gates()].into_iter(), &line, "a task");
    /// assert!(throttle.begin(&counts, [].into_iter()));
    /// assert_eq!((counts.of(0), throttle.wait("a group")), (0, Ok(())));
    ///
    /// let released = throttle.end(&counts, [].into_iter()).unwrap();
    /// assert_eq!((released.waiting, released.items, counts.of(0)), (vec!["a group"], 1, 1));
    /// assert_eq!(throttle.wait("another"), Err("another"));
    /// ```
    pub fn end<'a>(&self, counts: &Counts, outer: impl Iterator<Item = &'a Gates> + Clone) -> Option<Released<W>> {
        let mut waiting = self.waiting.lock();
        if !self.is_on() {
            return None;
        }
        self.is_on.store(false, Relaxed);
        let waiting = or_planted!(std::mem::take(&mut *waiting), "gates-open-late" => {
            let taken = std::mem::take(&mut *waiting);
            drop(waiting);
            taken
        });
        let items = self.gates.open(counts, outer);
        Some(Released { waiting, items })
    }
}
