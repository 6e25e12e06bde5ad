//! Waits of a worker's own tasks for a time: the worker ends them itself.
//!
//! Room: driver. Knows workers and times; knows nothing of what a wait is for.
//!
//! A worker looks at its timers between two tasks, now and then, and sleeps no longer than until the first is due. So a sleep costs no thread but its own, and no lock that others want.
//!
//! # Invariant
//! A wait ends soon after it is due: as soon as its worker comes to look. If that worker is kept by a task, the waits of futures end [`GRACE`] later; other workers may run these.
//!
//! # Why it holds
//! A worker's timers are set by itself, so what it saw before it went to sleep is all there is. While there is a wait of a future, the clock has one alarm for this worker (`guard_at`), not later
//! than [`GRACE`] after the first of them: it ends what is overdue, and is set again while there are any. A fiber cannot leave its worker, so it would gain nothing.
//!
//! Timers may be cleared by any thread, and ended by two: both happen under a lock. A token is claimed once.

use std::sync::atomic::Ordering::Relaxed;

use mech_sync::{Inbox, SpinLock, WaitToken};

use super::{wake, worker::Worker};
use crate::wheel::{Key, Wheel};

/// The time between two numbers on a wheel: 2^10 ns.
pub(crate) const TICK_BITS: u32 = 10;
/// After so many ticks, a millisecond, waits of futures end without their worker.
const GRACE: u64 = 1_000_000 >> TICK_BITS;
/// There is no timer.
pub(crate) const NEVER: u64 = u64::MAX;
/// So many waits are ended without a look at the lock.
const BATCH: usize = 16;
/// So many are ended at one look: then those that were woken have their turn.
const AT_ONCE_MAX: usize = 1024;
/// A worker looks at the time after so many tasks, or turns of a task that is alone.
const LOOK_INTERVAL: u32 = 8;

/// The timers of one worker.
#[derive(Debug)]
pub(crate) struct WorkerTimers(SpinLock<State>);

#[derive(Debug)]
struct State {
    wheel: Wheel<Timer>,
    /// How many of them are of futures.
    of_futures: usize,
    /// When the clock looks after them.
    guard_at: u64,
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    token: WaitToken,
    code: u16,
    is_of_future: bool,
}

/// What is due, and when to look again.
struct Due {
    timers: [Option<Timer>; BATCH],
    next_look: u64,
}

impl Default for WorkerTimers {
    fn default() -> Self {
        Self(SpinLock::new(State { wheel: Wheel::new(), of_futures: 0, guard_at: NEVER }))
    }
}

impl WorkerTimers {
    /// Sets a timer of the worker with this inbox. Says when the clock has to look after it, if it does not know.
    pub(crate) fn set(&self, due: u64, token: WaitToken, code: u16, inbox: &'static Inbox) -> (Key, Option<u64>) {
        let is_of_future = !token.waiter().is_of(inbox);
        let mut state = self.0.lock();
        let key = state.wheel.set(due, Timer { token, code, is_of_future });
        state.of_futures += usize::from(is_of_future);
        let guard_at = due.saturating_add(GRACE);
        let is_guarded = !is_of_future || state.guard_at <= guard_at;
        if !is_guarded {
            state.guard_at = guard_at;
        }
        (key, (!is_guarded).then_some(guard_at))
    }

    pub(crate) fn clear(&self, key: Key) {
        let mut state = self.0.lock();
        if let Some(timer) = state.wheel.clear(key) {
            state.of_futures -= usize::from(timer.is_of_future);
        }
    }

    /// The runtime ends: what waits is woken, and finds that out. Only futures are left, which others may poll.
    pub(crate) fn wake_all(&self) {
        let timers = {
            let mut state = self.0.lock();
            state.of_futures = 0;
            state.wheel.clear_all()
        };
        for timer in timers {
            wake::wake(timer.token, timer.code);
        }
    }

    /// When to look again: no timer is due before.
    fn next_look(&self) -> u64 {
        self.0.lock().wheel.next_look().unwrap_or(NEVER)
    }

    fn take_due(&self, now: u64) -> Due {
        let mut state = self.0.lock();
        let mut timers = [None; BATCH];
        for place in &mut timers {
            let Some(timer) = state.wheel.take(now) else { break };
            state.of_futures -= usize::from(timer.is_of_future);
            *place = Some(timer);
        }
        Due { timers, next_look: state.wheel.next_look().unwrap_or(NEVER) }
    }

    /// Ends waits that are due, a bounded number, and says when to look again. May run foreign wakers.
    fn end_due(&self, now: u64) -> u64 {
        let mut ended = 0;
        loop {
            let due = self.take_due(now);
            for timer in due.timers.iter().flatten() {
                wake::wake(timer.token, timer.code);
            }
            ended += BATCH;
            if due.next_look > now || ended >= AT_ONCE_MAX {
                return due.next_look;
            }
        }
    }

    /// On the clock's thread, at the time of an alarm for this worker: ends what is overdue. Says when to look next, if there is anything to look after.
    pub(crate) fn end_overdue(&self, alarm_at: u64, now: u64) -> Option<u64> {
        if self.0.lock().guard_at != alarm_at {
            return None; // there is another alarm, which is earlier
        }
        while self.end_due(now.saturating_sub(GRACE)) <= now.saturating_sub(GRACE) {}
        let mut state = self.0.lock();
        let next = state.wheel.next_look().filter(|_| state.of_futures > 0);
        state.guard_at = next.map_or(NEVER, |next| next.max(now).saturating_add(GRACE));
        next.map(|_| state.guard_at)
    }
}

impl Worker {
    /// Ends the waits of its tasks that are due. On its own stack, or at the foot of a fiber's: that may run foreign wakers.
    #[inline(always)]
    pub(crate) fn end_due_waits(&self) {
        if self.next_timer.get() != NEVER {
            self.end_due_waits_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_due_waits_now(&self) {
        let now = self.shared.clock.tick();
        if now >= self.next_timer.get() {
            self.next_timer.set(self.timers().end_due(now));
        }
    }

    /// The same, now and then.
    #[inline(always)]
    pub(crate) fn end_due_waits_at_times(&self) {
        if self.next_timer.get() != NEVER && (self.counters.executed.load(Relaxed) as u32).is_multiple_of(LOOK_INTERVAL)
        {
            self.end_due_waits_now();
        }
    }

    /// For a task that may go on without a switch: whether there are waits to end. Looks at the time now and then.
    #[inline(always)]
    pub(crate) fn has_due_waits(&self) -> bool {
        self.next_timer.get() != NEVER && self.has_due_waits_at_times()
    }

    #[cold]
    #[inline(never)]
    fn has_due_waits_at_times(&self) -> bool {
        let asked = self.timer_asked.get().wrapping_add(1);
        self.timer_asked.set(asked);
        asked.is_multiple_of(LOOK_INTERVAL) && self.has_due_waits_now()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn has_due_waits_now(&self) -> bool {
        self.next_timer.get() != NEVER && self.shared.clock.tick() >= self.next_timer.get()
    }

    /// When the worker has to be awake, by its timers: exact, since others may have cleared some.
    pub(crate) fn first_timer(&self) -> Option<std::time::Instant> {
        if self.next_timer.get() == NEVER {
            return None;
        }
        self.next_timer.set(self.timers().next_look());
        Some(self.next_timer.get()).filter(|tick| *tick != NEVER).map(|tick| self.shared.clock.time_of(tick))
    }

    fn timers(&self) -> &WorkerTimers {
        self.shared.clock.timers(self.index)
    }
}
