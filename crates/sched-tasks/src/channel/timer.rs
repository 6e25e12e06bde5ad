//! A channel that time sends into: one value when its time has come, or one in every period.
//!
//! Room: driver.
//!
//! # Invariants
//! 1. At most one value is there at a time. Ticks that no task received in time are skipped: the next one is the first
//!    after now, and still a whole number of periods after the first of all.
//! 2. An alarm is set for each receiver that waits, and for nothing else: a timer that no task waits for costs nothing,
//!    and does not keep a seeded run from seeing a deadlock.
//!
//! # Why they hold
//! 1. Nothing is stored but when the next value is due. It is there if that is not later than now; to receive it is to
//!    move that on, under the lock.
//! 2. A receiver that enlists sets an alarm, which claims its token; it clears it when its wait is over, claimed or not.
//!    If another receiver was faster, it finds a later time and waits again.
//!
//! # Rejected
//! A sender on the clock's thread: it would wake that thread in every period, also if no task waits.

use std::{
    fmt,
    time::{Duration, Instant},
};

use mech_sync::{SpinLock, WaitToken};

use super::error::TryRecvError;
use crate::{
    drive::runtime,
    kernel::clock::{self, AlarmKey, Clock, later},
    strand,
};

pub(crate) struct Timer<T> {
    state: SpinLock<State>,
    /// None: it has one value.
    period: Option<Duration>,
    /// Channels are generic; the values of this one are times.
    value: fn(Instant) -> T,
}

struct State {
    /// When the next value is there; none if there is no next one.
    due: Option<Instant>,
    waits: Vec<Wait>,
}

/// A receiver that waits, and the alarm that wakes it.
struct Wait {
    token: WaitToken,
    code: u16,
    clock: &'static Clock,
    alarm: AlarmKey,
}

impl<T> Timer<T> {
    pub(super) fn new(due: Instant, period: Option<Duration>, value: fn(Instant) -> T) -> Self {
        Self { state: SpinLock::new(State { due: Some(due), waits: Vec::new() }), period, value }
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let now = clock::now();
        let due = {
            let mut state = self.state.lock();
            let due = state.due.ok_or(TryRecvError::Closed)?;
            if due > now {
                return Err(TryRecvError::Empty);
            }
            state.due = self.period.map(|period| tick_after(due, period, now));
            due
        };
        Ok((self.value)(due))
    }

    /// Sets an alarm for a receiver. True if it should not wait but try again.
    pub(super) fn enlist(&self, token: WaitToken, code: u16) -> bool {
        let due = self.state.lock().due;
        let Some(due) = due.filter(|due| *due > clock::now()) else { return true };
        let clock = &runtime::here().clock;
        let alarm = clock.set_wake(due, token, code);
        let mut state = self.state.lock();
        state.waits.push(Wait { token, code, clock, alarm });
        state.due.is_none() // closed meanwhile
    }

    /// The wait has ended, claimed or not: its alarm is cleared.
    pub(super) fn leave(&self, token: WaitToken) {
        while let Some(wait) = self.take(|wait| wait.token.is_same(token)) {
            wait.clock.clear(wait.alarm);
        }
    }

    fn take(&self, which: impl Fn(&Wait) -> bool) -> Option<Wait> {
        let mut state = self.state.lock();
        let at = state.waits.iter().position(which)?;
        Some(state.waits.swap_remove(at))
    }

    pub(super) fn close(&self) -> bool {
        let was_open = self.state.lock().due.take().is_some();
        while let Some(wait) = self.take(|_| true) {
            wait.clock.clear(wait.alarm);
            strand::wake(wait.token, wait.code);
        }
        was_open
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().due.is_none()
    }

    pub(super) fn len(&self) -> usize {
        let now = clock::now();
        usize::from(self.state.lock().due.is_some_and(|due| due <= now))
    }
}

impl<T> fmt::Debug for Timer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("period", &self.period).finish_non_exhaustive()
    }
}

/// The first tick after now, if one was due at `due`.
fn tick_after(due: Instant, period: Duration, now: Instant) -> Instant {
    let since_last = (now - due).as_nanos() % period.as_nanos();
    later(now, period - Duration::from_nanos(since_last as u64)) // a tick that is centuries ago was never waited for
}
