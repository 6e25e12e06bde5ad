//! Alarms: what is to happen at a time.
//!
//! Room: driver. Knows time; knows nothing of what a wait is for.
//!
//! Waits of a worker's own tasks are ended by that worker (`timers.rs`). For all others one thread per runtime, started by the first alarm, sleeps until the earliest. Setting and clearing
//! such an alarm is a lock and a step in a tree; there is no polling.
//!
//! The clock of a seeded runtime has no thread. It stands still until the driver moves it, and alarms go off on the driver's thread: the earliest first, and of two
//! for the same time the one that was set first.

use std::{
    collections::BTreeMap,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mech_sync::{WaitToken, tally};

use super::{
    cpu_server::CpuServer,
    nursery::NurseryCore,
    shared::Shared,
    strand,
    timers::{TICK_BITS, WorkerTimers},
    wake,
};
pub(crate) use crate::deadline::later;
use crate::{error::Reason, trace::nanos, wheel};

/// What happens when the time comes.
pub(crate) enum Alarm {
    /// A wait is over, with this code.
    Wake(WaitToken, u16),
    /// A nursery had its time.
    Deadline { nursery: Weak<NurseryCore>, after: Duration },
    /// A cancelled nursery had its grace.
    Interrupt(Weak<NurseryCore>),
    /// The watchdog looks at the workers.
    Look(&'static Shared),
    /// Time of a context has come back.
    Refill(Weak<CpuServer>),
    /// Waits of futures may be overdue, since their worker is kept by a task.
    Overdue { clock: &'static Clock, worker: usize, at: u64 },
}

/// Names an alarm, to clear it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlarmKey {
    Shared(SharedKey),
    OfWorker(u32, wheel::Key),
}

/// Names an alarm of the clock's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SharedKey {
    at: Instant,
    /// Two alarms may be due at the same time.
    number: u64,
}

pub(crate) struct Clock {
    state: Mutex<State>,
    changed: Condvar,
    /// When it was made.
    base: Instant,
    /// The timers of each worker. None in a seeded run: there the order of all alarms is one.
    timers: Box<[WorkerTimers]>,
    /// Time that passes only when it is told to.
    virtual_time: Option<VirtualTime>,
}

struct VirtualTime {
    nanos: AtomicU64,
}

#[derive(Default)]
struct State {
    alarms: BTreeMap<SharedKey, Alarm>,
    next_number: u64,
    /// Alarms with smaller numbers were set in earlier runs of a seeded runtime.
    first_of_run: u64,
    thread: Option<JoinHandle<()>>,
    stopped: bool,
}

/// What time it is for the caller. In a seeded run that is a time of its own, which passes only while all wait, and a microsecond with every step; else the
/// system's.
///
/// ```
/// use std::time::Duration;
/// use bursar::{Runtime, now, sleep};
///
/// let runtime = Runtime::builder().workers(2).seeded(1).build()?;
/// let slept = runtime.run(|| {
///     let begun = now();
///     sleep(Duration::from_secs(3600)); // takes no time
///     now() - begun
/// })?;
/// assert!(slept >= Duration::from_secs(3600));
/// # Ok::<(), bursar::RunError>(())
/// ```
pub fn now() -> Instant {
    strand::with(|strand| strand.shared().map_or_else(Instant::now, |shared| shared.clock.now()))
}

/// When `after` from now is.
pub(crate) fn due(after: Duration) -> Instant {
    later(now(), after)
}

impl Clock {
    /// A clock for so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            base: Instant::now(),
            timers: (0..workers).map(|_| WorkerTimers::default()).collect(),
            virtual_time: None,
        }
    }

    /// A clock that is moved by a driver.
    pub(crate) fn stepped() -> Self {
        Self { virtual_time: Some(VirtualTime { nanos: AtomicU64::new(0) }), ..Self::new(0) }
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Instant {
        match &self.virtual_time {
            None => Instant::now(),
            Some(time) => later(self.base, Duration::from_nanos(time.nanos.load(Relaxed))),
        }
    }

    /// The virtual time of a seeded run, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        self.virtual_time().nanos.load(Relaxed)
    }

    fn virtual_time(&self) -> &VirtualTime {
        self.virtual_time.as_ref().expect("only a seeded runtime moves its clock")
    }

    /// Begins anew, for the next run.
    pub(crate) fn rewind(&self) {
        self.virtual_time().nanos.store(0, Relaxed);
        self.end_run();
    }

    /// A run is over: nothing goes off at its times any more. Futures that still wait for one are woken, and go on with another clock; numbers go on, since such a future keeps the key of its alarm.
    pub(crate) fn end_run(&self) {
        let alarms = {
            let mut state = self.lock();
            state.first_of_run = state.next_number;
            std::mem::take(&mut state.alarms)
        };
        wake_waits(alarms);
    }

    /// Lets a little time pass. After 584 years time stands still: what is due later is due then.
    pub(crate) fn pass(&self, time: Duration) {
        let passed = |now: u64| Some(now.saturating_add(nanos(time)));
        _ = self.virtual_time().nanos.fetch_update(Relaxed, Relaxed, passed);
    }

    /// Has the earliest alarm go off, if it is due; time may be moved on for it. Says when that was, since the beginning of the run.
    pub(crate) fn go_off(&self, may_move: bool) -> Option<Duration> {
        let time = self.virtual_time();
        let (alarm, at) = {
            let mut state = self.lock();
            let (&first, _) = state.alarms.first_key_value()?;
            let at = first.at.saturating_duration_since(self.base);
            if nanos(at) > time.nanos.load(Relaxed) {
                if !may_move {
                    return None;
                }
                time.nanos.store(nanos(at), Relaxed);
            }
            (state.alarms.remove(&first).expect("it is the first"), at)
        };
        alarm.go_off();
        Some(at)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        tally::lock(&self.state)
    }

    /// What time it is on the wheels of the workers.
    pub(super) fn tick(&self) -> u64 {
        nanos(self.base.elapsed()) >> TICK_BITS
    }

    pub(super) fn time_of(&self, tick: u64) -> Instant {
        later(self.base, Duration::from_nanos(tick.saturating_mul(1 << TICK_BITS)))
    }

    pub(super) fn timers(&self, worker: usize) -> &WorkerTimers {
        &self.timers[worker]
    }

    /// Ends the wait of `token` at this time, with this code. The timer is that of the worker that the caller runs on, if it is one of ours.
    pub(crate) fn set_wake(&'static self, at: Instant, token: WaitToken, code: u16) -> AlarmKey {
        strand::with(|strand| match &strand.worker {
            Some(worker) if std::ptr::eq(&worker.shared.clock, self) && !self.timers.is_empty() => {
                let due = nanos(at.saturating_duration_since(self.base)).div_ceil(1 << TICK_BITS);
                let (key, guard_at) = self.timers[worker.index].set(due, token, code, worker.inbox);
                worker.next_timer.set(worker.next_timer.get().min(due));
                if let Some(guard_at) = guard_at {
                    self.guard(worker.index, guard_at);
                }
                AlarmKey::OfWorker(worker.index as u32, key)
            }
            _ => self.set_at(at, Alarm::Wake(token, code)),
        })
    }

    /// Looks after the timers of a worker at this time.
    #[cold]
    fn guard(&'static self, worker: usize, at: u64) {
        self.set_at(self.time_of(at), Alarm::Overdue { clock: self, worker, at });
    }

    /// Sets an alarm.
    pub(crate) fn set(&'static self, after: Duration, alarm: Alarm) -> AlarmKey {
        self.set_at(later(self.now(), after), alarm)
    }

    /// Sets an alarm.
    fn set_at(&'static self, at: Instant, alarm: Alarm) -> AlarmKey {
        let mut state = self.lock();
        let key = SharedKey { at, number: state.next_number };
        state.next_number += 1;
        state.alarms.insert(key, alarm);
        let is_first = state.alarms.first_key_value().is_some_and(|(first, _)| *first == key);
        if state.thread.is_none() && !state.stopped && self.virtual_time.is_none() {
            let thread = std::thread::Builder::new().name("bursar-clock".into()).spawn(|| self.keep_time());
            state.thread = Some(thread.expect("the system starts one more thread for timers"));
        }
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
        AlarmKey::Shared(key)
    }

    /// Clears an alarm that may have gone off.
    pub(crate) fn clear(&self, key: AlarmKey) {
        match key {
            AlarmKey::Shared(key) => {
                let alarm = self.lock().alarms.remove(&key);
                drop(alarm);
            }
            AlarmKey::OfWorker(worker, key) => self.timers[worker as usize].clear(key),
        }
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

    /// Whether the runtime has ended, or the seeded run, in which this alarm was set: then nothing is woken at its time any more.
    pub(crate) fn is_over_for(&self, alarm: AlarmKey) -> bool {
        let state = self.lock();
        state.stopped || matches!(alarm, AlarmKey::Shared(key) if key.number < state.first_of_run)
    }

    /// Ends the thread, and wakes the futures that still wait for a time: they go on with another clock.
    pub(crate) fn stop(&self) {
        let (thread, alarms) = {
            let mut state = self.lock();
            state.stopped = true;
            (state.thread.take(), std::mem::take(&mut state.alarms))
        };
        wake_waits(alarms);
        self.timers.iter().for_each(WorkerTimers::wake_all);
        self.changed.notify_one();
        if let Some(thread) = thread {
            thread.join().expect("the clock does not panic");
        }
    }
}

/// Ends the waits among these alarms, before their time.
fn wake_waits(alarms: BTreeMap<SharedKey, Alarm>) {
    for alarm in alarms.into_values() {
        if let Alarm::Wake(token, code) = alarm {
            wake::wake(token, code);
        }
    }
}

impl Alarm {
    fn go_off(self) {
        match self {
            Alarm::Wake(token, code) => {
                wake::wake(token, code);
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
            Alarm::Refill(server) => {
                if let Some(server) = server.upgrade() {
                    server.refill();
                }
            }
            Alarm::Overdue { clock, worker, at } => {
                if let Some(next) = clock.timers[worker].end_overdue(at, clock.tick()) {
                    clock.guard(worker, next);
                }
            }
        }
    }
}
