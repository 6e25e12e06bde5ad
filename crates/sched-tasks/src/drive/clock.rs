//! Alarms: what is to happen at a time.
//!
//! One thread per runtime, started by the first alarm, sleeps until the earliest. Setting and clearing an alarm is a lock and a step in a tree; nobody polls.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mech_sync::{TIMEOUT, Ticket};

use super::shared::Shared;
use crate::{error::Reason, nursery::NurseryCore, strand};

/// What happens when the time comes.
pub(crate) enum Alarm {
    /// A wait is over.
    Wake(Ticket),
    /// A nursery had its time.
    Deadline { nursery: Weak<NurseryCore>, after: Duration },
    /// A cancelled nursery had its grace.
    Interrupt(Weak<NurseryCore>),
    /// The watchdog looks round.
    Look(&'static Shared),
}

/// Names an alarm, to clear it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AlarmKey {
    at: Instant,
    /// Two alarms may be due at the same time.
    number: u64,
}

#[derive(Default)]
pub(crate) struct Clock {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    alarms: BTreeMap<AlarmKey, Alarm>,
    next_number: u64,
    thread: Option<JoinHandle<()>>,
    stopped: bool,
}

/// Further away than anybody waits: a deadline beyond what an `Instant` can hold is no deadline.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// When `after` from now is.
pub(crate) fn due(after: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(after).unwrap_or_else(|| now + FAR)
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets an alarm.
    pub(crate) fn set(&'static self, after: Duration, alarm: Alarm) -> AlarmKey {
        self.set_at(due(after), alarm)
    }

    /// Sets an alarm.
    pub(crate) fn set_at(&'static self, at: Instant, alarm: Alarm) -> AlarmKey {
        let mut state = self.lock();
        let key = AlarmKey { at, number: state.next_number };
        state.next_number += 1;
        state.alarms.insert(key, alarm);
        let is_first = state.alarms.first_key_value().is_some_and(|(first, _)| *first == key);
        if state.thread.is_none() && !state.stopped {
            let thread = std::thread::Builder::new().name("bursar-clock".into()).spawn(|| self.keep_time());
            state.thread = Some(thread.expect("the system starts one more thread for timers"));
        }
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
        key
    }

    /// Clears an alarm that may have gone off.
    pub(crate) fn clear(&self, key: AlarmKey) {
        let alarm = self.lock().alarms.remove(&key);
        drop(alarm);
    }

    fn keep_time(&self) {
        let mut state = self.lock();
        while !state.stopped {
            let Some((&first, _)) = state.alarms.first_key_value() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = first.at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let alarm = state.alarms.remove(&first).expect("it is the first");
                drop(state);
                alarm.go_off();
                state = self.lock();
            } else {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut state = self.lock();
            state.stopped = true;
            state.alarms.clear();
            state.thread.take()
        };
        self.changed.notify_one();
        if let Some(thread) = thread {
            thread.join().expect("the clock does not panic");
        }
    }
}

impl Alarm {
    fn go_off(self) {
        match self {
            Alarm::Wake(ticket) => {
                strand::wake(ticket, TIMEOUT);
            }
            Alarm::Deadline { nursery, after } => {
                if let Some(nursery) = nursery.upgrade() {
                    nursery.cancel_for(Reason::DeadlineExceeded { after });
                }
            }
            Alarm::Interrupt(nursery) => {
                if let Some(nursery) = nursery.upgrade() {
                    nursery.interrupt();
                }
            }
            Alarm::Look(shared) => shared.watchdog.look(shared),
        }
    }
}
