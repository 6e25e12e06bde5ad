//! What the workers of a runtime share.
//!
//! Room: state. Knows queues and workers; knows nothing of how a task runs.

use std::sync::{
    Condvar, Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed},
    },
};

use mech_sync::{Idle, Inbox, Injector, Stealer};
use policy_admission::{Ledger, Profile};
use vocab::{Priority, TaskId};

use super::{
    clock::Clock,
    groups::Groups,
    log::Log,
    seeded::Seeded,
    shares::Shares,
    strand,
    takes::Takes,
    task::{Runnable, RunnableRef},
    watchdog::{Watchdog, Watched},
};
use crate::{
    authority::Demands, decide::VictimStrategy, error::RunError, stacks::Stacks, stats::Counters, threads::Pool,
};

/// What one runtime has. Leaked: tokens, wakers and handles may point to it after the runtime is gone. Its stacks are given back; the largest buffer
/// each deque had is not. That is some 3 kB for a runtime and 9 kB for each worker, of which 4 are the first buffers of its two deques and 3 the wheel of its timers.
pub(crate) struct Shared {
    pub(crate) high: Injector<RunnableRef>,
    pub(crate) injected: Injector<RunnableRef>,
    pub(crate) low: Injector<RunnableRef>,
    pub(crate) modes: Modes,
    pub(crate) shares: Shares,
    pub(crate) idle: Idle,
    pub(crate) clock: Clock,
    pub(crate) pool: Pool,
    pub(crate) watchdog: Watchdog,
    pub(crate) workers: Box<[WorkerSlot]>,
    pub(crate) strategy: VictimStrategy,
    pub(crate) seed: u64,
    pub(crate) stacks: Stacks,
    /// Its builder vouched for all frames: an overflow skips them.
    pub(crate) skips_frames: bool,
    /// How much it insists on, if anything.
    pub(crate) profile: Option<Profile>,
    /// Where authority comes from, if only from there.
    pub(crate) ledger: Option<Ledger>,
    /// How many rounds of a loop go by without a check.
    pub(crate) yield_interval: u32,
    pub(crate) stopping: AtomicBool,
    pub(crate) process: u32,
    /// Whether it may pay to watch for what another worker brings.
    pub(crate) spins: bool,
    /// Nurseries that handles own.
    pub(crate) groups: Groups,
    /// One thread plays all workers.
    pub(crate) seeded: Option<Box<Seeded>>,
}

/// What workers read at every choice: on a line of its own, which is hardly ever written.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Modes {
    /// Workers do not take the short way: their choices are made step by step, logged or counted, or there are groups.
    pub(crate) long_way: AtomicBool,
    pub(crate) has_groups: AtomicBool,
}

/// What others may know of a worker.
pub(crate) struct WorkerSlot {
    pub(crate) inbox: &'static Inbox,
    pub(crate) stealer: Stealer<Runnable>,
    /// Futures that yielded: see `choosing/requeue.rs`.
    pub(crate) yielded: Stealer<Runnable>,
    pub(crate) ended: Ended,
    pub(crate) takes: Takes,
    /// A test asked this worker to fail.
    pub(crate) fails_next: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) watch: Watched,
    pub(crate) log: Option<Log>,
}

/// Whether a worker has ended, and whether its thread will.
#[derive(Default)]
pub(crate) struct Ended {
    may_end: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Ended {
    /// The worker has ended. Does not return if the thread must not end: its locals stay, as the frames that may have lent them on.
    pub(crate) fn set(&self, may_end: bool) {
        *self.may_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(may_end);
        self.changed.notify_all();
        if !may_end {
            loop {
                std::thread::park();
            }
        }
    }

    pub(crate) fn wait(&self) -> bool {
        let mut may_end = self.may_end.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *may_end {
                Some(may_end) => return may_end,
                None => may_end = self.changed.wait(may_end).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Shared {
    /// Makes a task known: to the caller's own queue if it is one of our workers, else to all.
    #[inline(never)] // inlined into code of another crate, it would reach the thread's strand by a call
    pub(crate) fn publish(&'static self, runnable: RunnableRef) {
        strand::with(|strand| match &strand.worker {
            Some(worker) if std::ptr::eq(worker.shared, self) => worker.push(runnable),
            _ => self.inject(&self.injected, runnable),
        });
    }

    /// The same for a future that was woken.
    #[inline(never)] // as `publish`
    pub(crate) fn publish_woken(&'static self, future: RunnableRef) {
        strand::with(|strand| match &strand.worker {
            Some(worker) if std::ptr::eq(worker.shared, self) => worker.push_woken(future),
            _ => self.inject(&self.injected, future),
        });
    }

    /// The same with a hint.
    pub(crate) fn publish_as(&'static self, priority: Priority, runnable: RunnableRef) {
        if self.goes_long_way() && self.has_groups() {
            return self.publish_in_group(priority, runnable);
        }
        match priority {
            Priority::Normal => self.publish(runnable),
            Priority::High => self.inject(&self.high, runnable),
            Priority::Low => self.inject(&self.low, runnable),
        }
    }

    /// The same while there are groups, of which it may be in one.
    #[cold]
    #[inline(never)]
    fn publish_in_group(&'static self, priority: Priority, runnable: RunnableRef) {
        if runnable.scope().group().is_none() {
            return match priority {
                Priority::Normal => self.publish(runnable),
                Priority::High => self.inject(&self.high, runnable),
                Priority::Low => self.inject(&self.low, runnable),
            };
        }
        strand::with(|strand| match &strand.worker {
            Some(worker) if std::ptr::eq(worker.shared, self) => worker.push_long_way(priority, runnable),
            _ => {
                self.shares.injected.push((priority, runnable));
                self.idle.published();
            }
        });
    }

    /// Whether a worker has to look at more than its own queues.
    #[inline(always)]
    pub(crate) fn goes_long_way(&self) -> bool {
        self.modes.long_way.load(Relaxed)
    }

    /// Whether there are groups of tasks with shares of their own.
    #[inline(always)]
    pub(crate) fn has_groups(&self) -> bool {
        self.modes.has_groups.load(Relaxed)
    }

    /// The first group is there, or the last is gone. Under the lock of the groups.
    pub(crate) fn set_groups(&self, has_groups: bool) {
        let is_watched = |worker: &WorkerSlot| worker.log.is_some() || worker.counters.is_diagnosed;
        let is_watched = self.seeded.is_some() || self.workers.iter().any(is_watched);
        self.modes.has_groups.store(has_groups, Relaxed);
        self.modes.long_way.store(has_groups || is_watched, Relaxed);
    }

    /// The time, for charging: in a seeded run that of its clock.
    pub(crate) fn charging_now(&self) -> u64 {
        if self.seeded.is_some() { self.clock.nanos() } else { mech_sync::ticks::nanos() }
    }

    pub(crate) fn inject(&self, queue: &Injector<RunnableRef>, runnable: RunnableRef) {
        if self.has_groups() && runnable.scope().group().is_some() {
            self.shares.injected.push((Priority::Normal, runnable));
        } else {
            queue.push(runnable);
        }
        self.idle.published();
    }

    /// Refuses a fork of the process that has the workers: whatever it waits for would never come.
    pub(crate) fn check_process(&self) -> Result<(), RunError> {
        if std::process::id() == self.process { Ok(()) } else { Err(RunError::Forked { parent: self.process }) }
    }

    /// What it asks of the authority of those that run here.
    pub(crate) fn demands(&self) -> Demands<'_> {
        Demands { profile: self.profile, ledger: self.ledger.as_ref() }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Acquire)
    }

    /// Whether there is work that any worker may take.
    pub(crate) fn has_work(&self, except: usize) -> bool {
        self.has_queued(except)
            || self.has_stealable(except)
            || self.has_lined_futures(except)
            || self.has_groups()
                && (!self.shares.injected.is_empty() && self.workers[except].takes.shared()
                    || self.workers[except].takes.steals() && self.shares.has_stealable(except))
    }

    /// Whether there may be something that some worker could take. Groups are not looked at closely.
    pub(crate) fn has_any_work(&self) -> bool {
        !self.high.is_empty()
            || !self.injected.is_empty()
            || !self.low.is_empty()
            || self.has_groups()
            || self.workers.iter().any(|worker| !worker.stealer.is_empty() || !worker.yielded.is_empty())
    }

    /// Whether worker `index` would find something in the queues that all workers share.
    #[inline]
    pub(crate) fn has_queued(&self, index: usize) -> bool {
        (!self.high.is_empty() || !self.injected.is_empty() || !self.low.is_empty())
            && self.workers[index].takes.shared()
    }

    /// Whether worker `thief` could steal a future that was woken.
    fn has_lined_futures(&self, thief: usize) -> bool {
        self.workers[thief].takes.steals()
            && self.workers.iter().enumerate().any(|(index, worker)| index != thief && !worker.yielded.is_empty())
    }

    /// Whether worker `thief` could steal something that has not begun.
    pub(crate) fn has_stealable(&self, thief: usize) -> bool {
        self.workers[thief].takes.steals()
            && self.workers.iter().enumerate().any(|(index, worker)| index != thief && !worker.stealer.is_empty())
    }
}

/// Numbers for tasks, given out by the block so that workers do not meet over them.
pub(crate) struct TaskIds {
    next: std::cell::Cell<u64>,
    end: std::cell::Cell<u64>,
    /// A seeded runtime counts its own tasks, one by one.
    seeded: Option<&'static Seeded>,
}

const ID_BLOCK: u64 = 1024;

impl TaskIds {
    pub(crate) const fn new(seeded: Option<&'static Seeded>) -> Self {
        Self { next: std::cell::Cell::new(0), end: std::cell::Cell::new(0), seeded }
    }

    #[inline]
    pub(crate) fn next(&self) -> TaskId {
        static BLOCKS: AtomicU64 = AtomicU64::new(0);
        let mut next = self.next.get();
        if next == self.end.get() {
            if let Some(seeded) = self.seeded {
                return seeded.next_task_id();
            }
            next = BLOCKS.fetch_add(1, Relaxed) * ID_BLOCK + 1;
            self.end.set(next + ID_BLOCK);
        }
        self.next.set(next + 1);
        TaskId(next)
    }
}
