//! Waits for the first of several channel operations that can be completed.
//!
//! Room: interface.
//!
//! # Invariant
//! Exactly one case is completed. No value is taken for a case that was not chosen, and no value is sent for one.
//!
//! # Why it holds
//! A select completes a case only while no live token of its own is out: before it enlists, after it took its token
//! back, or after the token was claimed. One token is in every wait queue with the number of its case as code; it can
//! be claimed once, and the code says by which case. That case is then tried first; if what it was claimed for is gone,
//! no other waiter need be woken and the select begins again. The other queues are left before anything else is done,
//! and offered values come back.
//!
//! Cases that can be completed at once are tried in random order, so that a busy channel does not hide the others.
//! Queues are entered in random order too: two selects that keep each other from waiting at two rendezvous channels
//! will not do so for ever. A biased select tries its cases in the order they were added; it enters queues in random order
//! all the same.

mod arms;
mod cases;

use std::{
    fmt,
    time::{Duration, Instant},
};

use mech_sync::{TIMEOUT, WaitToken};
use smallvec::SmallVec;

use crate::{
    chance::Decision,
    kernel::clock,
    strand::{self, Strand},
    wait::{self, End},
};

pub use self::cases::{RecvCase, SendCase};
pub(crate) use self::sealed::Steps;

/// One operation that a [`Select`] may complete: a [`RecvCase`] or a [`SendCase`], or that of a receiver of [`watch`](crate::watch) or [`broadcast`](crate::broadcast).
pub trait Case: sealed::Steps {}

mod sealed {
    use mech_sync::WaitToken;

    /// What a select asks of a case.
    pub trait Steps {
        /// Whether it is still to be completed.
        fn is_open(&self) -> bool;
        /// Completes the case if that can be done at once.
        fn attempt(&mut self) -> bool;
        /// Puts the token into the channel's wait queue. True if the select should not wait but try again.
        fn enlist(&mut self, token: WaitToken, code: u16) -> bool;
        /// The token's wait has ended, and was not claimed here.
        fn leave(&mut self, token: WaitToken, code: u16);
        /// The token was claimed here. True if that completed the case.
        fn claimed(&mut self, token: WaitToken, code: u16) -> bool;
    }
}

/// Several cases, of which one is to be completed. The [`select!`](crate::select!) macro writes this for you.
///
/// ```
/// use std::time::Duration;
/// use bursar::{channel, mpmc::Select};
///
/// let (tx, rx) = channel(0);
/// let (_idle, quiet) = channel::<()>(1);
/// let (mut send, mut recv) = (tx.case(1), quiet.case());
/// std::thread::scope(|s| {
///     s.spawn(|| rx.recv());
///     assert_eq!(Select::new().with(&mut send).with(&mut recv).wait(), Some(0));
/// });
/// assert_eq!(send.take(), Ok(()));
/// assert_eq!(Select::new().with(&mut recv).wait_timeout(Duration::from_millis(1)), None);
/// ```
#[derive(Default)]
#[must_use = "a select does nothing before `wait`"]
pub struct Select<'a> {
    /// With the numbers the user knows them by; their order changes. Those of a common select need no allocation.
    cases: SmallVec<[(usize, &'a mut dyn Case); 8]>,
    is_biased: bool,
}

impl<'a> Select<'a> {
    /// No cases yet.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tries the cases in the order they are added, not in random order: if several can be completed, the first of them is.
    ///
    /// ```
    /// use bursar::{channel, mpmc::Select};
    ///
    /// let (tx, rx) = channel(2);
    /// let (stop, stopped) = channel(1);
    /// tx.send(1)?;
    /// stop.send(())?;
    /// let (mut first, mut second) = (stopped.case(), rx.case());
    /// assert_eq!(Select::new().biased().with(&mut first).with(&mut second).wait(), Some(0));
    /// # first.take()?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn biased(mut self) -> Self {
        self.is_biased = true;
        self
    }

    /// Adds a case.
    ///
    /// # Panics
    /// If another select completed it: take its [outcome](RecvCase::take) first; a value that was sent is gone.
    #[inline]
    pub fn with(mut self, case: &'a mut impl Case) -> Self {
        assert!(
            case.is_open(),
            "a case was completed by an earlier select; take its outcome, and make a new case to send again"
        );
        self.cases.push((self.cases.len(), case));
        assert!(self.cases.len() < usize::from(TIMEOUT), "a select has fewer than {TIMEOUT} cases");
        self
    }

    /// Completes a case if one can be completed now: the default of a select. Returns its number.
    pub fn poll(mut self) -> Option<usize> {
        strand::with(|strand| {
            strand.checkpoint();
            strand.charge_channel_op();
            self.attempt(strand)
        })
    }

    /// Completes one case, and waits until that can be done. Returns its number, counting from 0; None if there are no
    /// cases.
    pub fn wait(self) -> Option<usize> {
        if self.cases.is_empty() { None } else { self.until(None) }
    }

    /// The same, waiting up to `time`. None if time was up first.
    pub fn wait_timeout(self, time: Duration) -> Option<usize> {
        self.until(Some(clock::due(time)))
    }

    fn until(mut self, deadline: Option<Instant>) -> Option<usize> {
        strand::with(|strand| {
            strand.checkpoint();
            strand.charge_channel_op();
            loop {
                if let Some(done) = self.attempt(strand) {
                    return Some(done);
                }
                let token = strand.waiter.token();
                if self.enlist(strand, token) && token.withdraw() {
                    self.leave(token, None);
                    continue;
                }
                match wait::wait(strand, token, deadline) {
                    End::Claimed(code) => {
                        self.leave(token, Some(code));
                        let (number, case) = &mut self.cases[usize::from(code)];
                        if case.claimed(token, code) {
                            return Some(*number);
                        }
                    }
                    End::TimedOut => {
                        self.leave(token, None);
                        return self.attempt(strand);
                    }
                    End::Cancelled => {
                        self.leave(token, None);
                        strand.unwind();
                    }
                }
            }
        })
    }

    /// Tries all cases, in random order or in the order they were added.
    #[inline]
    fn attempt(&mut self, strand: &Strand) -> Option<usize> {
        if self.is_biased {
            self.cases.sort_unstable_by_key(|(number, _)| *number);
            return self.cases.iter_mut().find_map(|(number, case)| case.attempt().then_some(*number));
        }
        // Chance is asked only about those that are tried. If none can be completed, the order of all is random afterwards.
        for tried in 0..self.cases.len() {
            self.choose_next(strand, tried);
            let (number, case) = &mut self.cases[tried];
            if case.attempt() {
                return Some(*number);
            }
        }
        None
    }

    /// Puts one of those from `place` on there.
    #[inline]
    fn choose_next(&mut self, strand: &Strand, place: usize) {
        let left = self.cases.len() - place;
        if left > 1 {
            self.cases.swap(place, place + strand.choose(left, Decision::Select));
        }
    }

    fn shuffle(&mut self, strand: &Strand) {
        (0..self.cases.len()).for_each(|place| self.choose_next(strand, place));
    }

    /// Enters every wait queue, in random order: a case's position is its code. True if one of them should be tried
    /// again.
    fn enlist(&mut self, strand: &Strand, token: WaitToken) -> bool {
        if self.is_biased {
            self.shuffle(strand); // else the order of the last attempt is random enough
        }
        let mut ready = false;
        for (place, (_, case)) in self.cases.iter_mut().enumerate() {
            ready |= case.enlist(token, place as u16);
        }
        ready
    }

    fn leave(&mut self, token: WaitToken, except: Option<u16>) {
        for (place, (_, case)) in self.cases.iter_mut().enumerate() {
            if Some(place as u16) != except {
                case.leave(token, place as u16);
            }
        }
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("cases", &self.cases.len()).finish()
    }
}
