//! Where the time of a worker goes: into tasks, into choosing and searching, or into sleep.
//!
//! Room: mechanism. Knows one worker's clock; knows nothing of why it goes from one phase to the next.
//!
//! # Invariant
//! From the moment a worker begins, each nanosecond of it is counted in one phase. What a reader sees adds up to the time since then.
//!
//! # Why it holds
//! The worker alone changes the phase. It reads the clock once: at that time the old phase ends and the new one begins. A reader adds what passed since the last change. `since` says
//! [`CHANGING`] before anything else of a change is stored, and is stored last; a reader that saw part of a change, or read its clock after one, finds another `since` afterwards, and looks again.
//!
//! Sleeping is always counted, since a worker that sleeps has time to read a clock. Tasks and scheduler are told apart only on demand: that reads a clock twice for each task that is begun or goes on.

use std::{
    hint,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{Duration, Instant},
};

use mech_sync::ticks;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Phase {
    /// It chooses, searches or switches. Also what it does in tasks, if that is not told apart.
    Scheduler = 0,
    Task = 1,
    Idle = 2,
}

impl Phase {
    const MASK: u64 = 3;

    const fn of(since: u64) -> Self {
        match since & Self::MASK {
            0 => Self::Scheduler,
            1 => Self::Task,
            _ => Self::Idle,
        }
    }

    /// This phase began at `nanos`.
    const fn since(self, nanos: u64) -> u64 {
        nanos << 2 | self as u64
    }
}

/// In `since`: a change is under way. No phase has these bits.
const CHANGING: u64 = u64::MAX;

/// So often a reader looks again at once: a change takes some tens of nanoseconds. Then it pauses between two looks, since the worker must have lost its CPU in the middle of a change; and after
/// a second it does without that worker's last phase.
const LOOKS_AT_ONCE: u32 = 1_000;
const LOOKS_MOST: u32 = 11_000;
const PAUSE: Duration = Duration::from_micros(100);

/// The clock of one worker.
#[derive(Debug)]
pub(crate) struct Timing {
    /// Tasks and scheduler are told apart.
    tells_apart: bool,
    base: Instant,
    /// When the worker began; 0: not yet.
    began: AtomicU64,
    /// When the phase began, and which it is.
    since: AtomicU64,
    /// What earlier phases of each kind took, in nanoseconds.
    spent: [AtomicU64; 3],
}

/// Where the time of a worker went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    pub(crate) wall: Duration,
    pub(crate) idle: Duration,
    pub(crate) scheduler: Duration,
    pub(crate) tasks: Duration,
}

impl Timing {
    pub(crate) fn new(tells_apart: bool) -> Self {
        Self {
            tells_apart,
            base: Instant::now(),
            began: AtomicU64::new(0),
            since: AtomicU64::new(0),
            spent: Default::default(),
        }
    }

    /// Where clocks are read all the time, the processor's own; else the system's, which need not be measured first.
    fn now(&self) -> u64 {
        1 + if self.tells_apart { ticks::nanos() } else { self.base.elapsed().as_nanos() as u64 }
    }

    /// The worker's thread begins.
    pub(crate) fn begin(&self) {
        let now = self.now();
        self.since.store(Phase::Scheduler.since(now), Relaxed);
        self.began.store(now, Release);
    }

    /// The worker goes to sleep.
    pub(crate) fn fall_asleep(&self) {
        self.change(Phase::Idle);
    }

    /// It is awake again.
    pub(crate) fn wake_up(&self) {
        self.change(Phase::Scheduler);
    }

    /// A task has stopped or ended, if one ran.
    pub(crate) fn enter_scheduler(&self) {
        if self.tells_apart {
            self.change(Phase::Scheduler);
        }
    }

    /// A task begins or goes on.
    pub(crate) fn enter_task(&self) {
        if self.tells_apart {
            self.change(Phase::Task);
        }
    }

    /// For the worker alone.
    fn change(&self, next: Phase) {
        let since = self.since.load(Relaxed);
        let last = Phase::of(since);
        if last == next {
            return;
        }
        let began = since >> 2;
        self.since.store(CHANGING, Relaxed); // before the clock is read: else a reader could count more of the old phase than we do
        let now = self.now().max(began);
        let spent = &self.spent[last as usize];
        spent.store(spent.load(Relaxed) + (now - began), Release); // after CHANGING
        self.since.store(next.since(now), Release);
    }

    /// Where the time went so far. All zero before the worker began.
    pub(crate) fn read(&self) -> Times {
        let began = self.began.load(Acquire);
        if began == 0 {
            return Times::default();
        }
        let mut looks = 0;
        let (spent, now) = loop {
            let since = self.since.load(Acquire);
            let mut spent = self.spent.each_ref().map(|nanos| nanos.load(Acquire));
            let now = self.now();
            if since != CHANGING && self.since.load(Relaxed) == since {
                spent[Phase::of(since) as usize] += now.saturating_sub(since >> 2); // it goes on until now
                break (spent, now);
            }
            looks += 1;
            if looks == LOOKS_MOST {
                break (spent, now);
            }
            if looks < LOOKS_AT_ONCE { hint::spin_loop() } else { std::thread::sleep(PAUSE) }
        };
        let [scheduler, tasks, idle] = spent.map(Duration::from_nanos);
        Times { wall: Duration::from_nanos(now.saturating_sub(began)), idle, scheduler, tasks }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        thread,
    };

    use super::*;

    /// The counters of two CPUs may differ by some microseconds, where the system moves a thread between them. What is missed or seen twice adds up.
    const OFF_BY: Duration = Duration::from_micros(20);

    /// Ends the other thread, also if an assertion fails.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }

    #[test]
    fn before_it_begins_a_worker_has_no_time() {
        assert_eq!(Timing::new(true).read(), Times::default());
    }

    #[test]
    fn whenever_it_is_read_the_phases_add_up_to_the_time_since_the_beginning() {
        for tells_apart in [false, true] {
            let timing = &Timing::new(tells_apart);
            let (over, rounds) = (&AtomicBool::new(false), &AtomicU64::new(0));
            timing.begin();
            thread::scope(|threads| {
                threads.spawn(move || {
                    while !over.load(SeqCst) {
                        timing.enter_task();
                        timing.enter_scheduler();
                        timing.fall_asleep();
                        timing.wake_up();
                        rounds.fetch_add(1, Relaxed);
                    }
                });
                let ends = Over(over);
                let mut last = Times::default();
                let mut looks = 0;
                while looks < 20_000 || rounds.load(Relaxed) < 20_000 {
                    looks += 1;
                    let Times { wall, idle, scheduler, tasks } = timing.read();
                    let sum = idle + scheduler + tasks;
                    assert!(sum.abs_diff(wall) <= OFF_BY, "{sum:?} of {wall:?}");
                    let (now, before) = ([idle, scheduler, tasks], [last.idle, last.scheduler, last.tasks]);
                    assert!(wall >= last.wall, "{wall:?} after {:?}", last.wall);
                    let grows = |(now, before): (&Duration, Duration)| *now + OFF_BY >= before;
                    assert!(now.iter().zip(before).all(grows), "{now:?} after {before:?}");
                    last = Times { wall, idle, scheduler, tasks };
                }
                drop(ends);
                assert_eq!(last.tasks > Duration::ZERO, tells_apart);
            });
        }
    }

    #[test]
    fn a_phase_that_goes_on_is_counted_up_to_now() {
        let timing = Timing::new(true);
        timing.begin();
        timing.fall_asleep();
        let (before, begun) = (timing.read(), Instant::now());
        while begun.elapsed() < Duration::from_millis(2) {
            hint::spin_loop();
        }
        let passed = timing.read().idle - before.idle;
        assert!(passed >= Duration::from_millis(1), "{passed:?}");
    }
}
