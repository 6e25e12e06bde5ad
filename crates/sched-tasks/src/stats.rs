//! What workers count. Each number has one writer, so counting is a load and a store.
//!
//! Room: values.
//!
//! # Permanent and diagnostic
//! Permanent counters are there in every runtime, and their meaning stays. They must cost the short ways nothing: what happens at every yield or spawn is not counted if it follows from
//! what is counted elsewhere. A fiber that goes on is an entry into a fiber which was not made to begin something; a task that was the newest of its queue is one that came from nowhere else.
//!
//! Diagnostic counters tell how this scheduler works inside, and may change with it. They are counted on the long way only, for runtimes that ask for them: see
//! [`Builder::diagnostics`](crate::Builder::diagnostics).

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use mech_sync::Tally;

use crate::timing::Timing;

/// One worker's counters, kept apart from its neighbours'.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) executed: AtomicU64,
    /// Begun or polled after they were taken from a queue that all workers share.
    pub(crate) shared_pops: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) stolen: AtomicU64,
    pub(crate) failed_steals: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) wakes: AtomicU64,
    pub(crate) switches: AtomicU64,
    /// Of these, for something else than a task that goes on because it was chosen: to begin one, or for a cleanup; in a seeded run also after an interruption.
    pub(crate) other_entries: AtomicU64,
    /// Tasks that were chosen to go on when they were about to stop: without a switch.
    pub(crate) stayed: AtomicU64,
    /// Taken from the old end of its own queue.
    pub(crate) oldest: AtomicU64,
    /// Futures that had yielded here.
    pub(crate) repolled: AtomicU64,
    /// Taken from the lines of a group.
    pub(crate) group_begun: AtomicU64,
    pub(crate) group_resumed: AtomicU64,
    pub(crate) pulled: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) searches: AtomicU64,
    pub(crate) overflows: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// The watchdog's.
    pub(crate) stuck: AtomicU64,
    pub(crate) tally: Tally,
    pub(crate) timing: Timing,
    /// What follows is counted.
    pub(crate) is_diagnosed: bool,
    pub(crate) candidates: AtomicU64,
}

/// Adds to a counter that only the caller writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// What a worker has done so far. All but [`diagnostics`](Self::diagnostics) is counted in every runtime, and keeps its meaning.
///
/// Of tasks, what is counted at the same time by two workers, or read while it is counted, may differ by those that are just on their way. At rest it adds up:
/// `choices.made()` is `executed + refused + resumed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Tasks it began, and futures it polled.
    pub executed: u64,
    /// Of these, taken from other workers.
    pub stolen: u64,
    /// Of these, taken from its own queue: all that were neither stolen nor taken from a queue that the workers share.
    pub local_pops: u64,
    /// Tasks that came to their end on it, well or not: all but the cancelled.
    pub completed: u64,
    /// Tasks that ended on it because they were cancelled, those that had not begun included.
    pub cancelled: u64,
    /// Attempts to steal that brought nothing.
    pub failed_steals: u64,
    /// Times it went to sleep.
    pub parks: u64,
    /// Times it was woken.
    pub wakes: u64,
    /// Times it entered a fiber.
    pub switches: u64,
    /// Times a task that had stopped went on because the worker chose it.
    pub resumed: u64,
    /// Tasks it could not begin, for there was no stack for them.
    pub refused: u64,
    /// What its choices came to.
    pub choices: Choices,
    /// Unstarted tasks of groups that it took over from other workers, without choosing them yet; others may take them on.
    pub pulled: u64,
    /// Sleeping threads that it woke: workers, and threads outside that waited for a task. What other threads send, as timers and those that call [`Runtime::run`](crate::Runtime::run), no worker
    /// counts: so this need not be what all workers have as [`wakes`](Self::wakes).
    pub signals: u64,
    /// Tasks that overflowed their stack on it.
    pub overflows: u64,
    /// Times it was restarted after a panic of its own.
    pub restarts: u64,
    /// Times a task held it for too long without a checkpoint; see [`Builder::watchdog`](crate::Builder::watchdog).
    pub stuck: u64,
    /// How long its thread has been there. Zero in a [seeded](crate::Builder::seeded) runtime, whose workers have no threads, and no times.
    pub wall: Duration,
    /// Of that, how long it slept, up to now.
    pub idle: Duration,
    /// What only a runtime with [`Builder::diagnostics`](crate::Builder::diagnostics) counts.
    pub diagnostics: Option<Diagnostics>,
}

/// What the choices of a worker came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choices {
    /// A task that had stopped here and could go on, or a future that had yielded here.
    pub ready: u64,
    /// The newest unstarted task of its own queue.
    pub newest: u64,
    /// The oldest one.
    pub oldest: u64,
    /// A task from a queue that all workers share: from another thread, or with a priority.
    pub shared: u64,
    /// An unstarted task of another worker.
    pub stolen: u64,
    /// A task of a group with a share of its own; see [`NurseryOptions::weight`](crate::NurseryOptions::weight). Those that were stolen count as stolen.
    pub group: u64,
    /// Nothing: it began to search, and then to sleep.
    pub nothing: u64,
}

impl Choices {
    /// All that came to something.
    pub fn made(&self) -> u64 {
        self.ready + self.newest + self.oldest + self.shared + self.stolen + self.group
    }
}

/// What tells the cost of the scheduler from the work. For people who look into it, not for programs: what counts as a candidate or a lock changes with the scheduler.
///
/// In a [seeded](crate::Builder::seeded) runtime candidates are the same whenever the seed is, no lock is ever taken, and times are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostics {
    /// Queues, other workers and groups that it looked at while it chose. A look at all other workers counts each of them, also if the first one had something.
    pub candidates: u64,
    /// Locks of the runtime that it found taken, in its tasks too: those of queues, channels, nurseries, timers. Not those of the stacks' memory, of owned nurseries, of the watchdog and of
    /// the admission of CPU time, nor those of programs: for a [`Mutex`](crate::Mutex) a task waits.
    pub contended_locks: u64,
    /// How long it chose, searched, switched, and made stacks.
    ///
    /// Not exact: a task pays for what it does before it stops and after it goes on, as to spawn, send, wake others or end; a switch is cut in the middle; and time that the system gave to other
    /// programs is part of what was interrupted.
    pub in_scheduler: Duration,
    /// How long tasks ran on it; the rest. With [`idle`](WorkerStats::idle) and `in_scheduler` that is [`wall`](WorkerStats::wall).
    pub in_tasks: Duration,
}

impl Counters {
    pub(crate) fn new(is_diagnosed: bool) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            executed: zero(),
            shared_pops: zero(),
            ended: zero(),
            cancelled: zero(),
            stolen: zero(),
            failed_steals: zero(),
            parks: zero(),
            wakes: zero(),
            switches: zero(),
            other_entries: zero(),
            stayed: zero(),
            oldest: zero(),
            repolled: zero(),
            group_begun: zero(),
            group_resumed: zero(),
            pulled: zero(),
            refused: zero(),
            searches: zero(),
            overflows: zero(),
            restarts: zero(),
            stuck: zero(),
            tally: Tally::default(),
            timing: Timing::new(is_diagnosed),
            is_diagnosed,
            candidates: zero(),
        }
    }

    pub(crate) fn read(&self) -> WorkerStats {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        // What is taken off first: read a moment later it could be more than what it is taken off from.
        let (stolen, shared, cancelled) = (of(&self.stolen), of(&self.shared_pops), of(&self.cancelled));
        let (oldest, repolled, group_begun) = (of(&self.oldest), of(&self.repolled), of(&self.group_begun));
        let (other_entries, group_resumed, refused) =
            (of(&self.other_entries), of(&self.group_resumed), of(&self.refused));
        let (executed, switches, stayed) = (of(&self.executed), of(&self.switches), of(&self.stayed));
        let resumed = (switches + stayed).saturating_sub(other_entries);
        let times = self.timing.read();
        WorkerStats {
            executed,
            stolen,
            local_pops: executed.saturating_sub(stolen + shared),
            completed: of(&self.ended).saturating_sub(cancelled),
            cancelled,
            failed_steals: of(&self.failed_steals),
            parks: of(&self.parks),
            wakes: of(&self.wakes),
            switches,
            resumed,
            refused,
            choices: Choices {
                ready: (resumed + repolled).saturating_sub(group_resumed),
                newest: (executed + refused).saturating_sub(stolen + shared + oldest + repolled + group_begun),
                oldest,
                shared,
                stolen,
                group: group_begun + group_resumed,
                nothing: of(&self.searches),
            },
            pulled: of(&self.pulled),
            signals: self.tally.signals(),
            overflows: of(&self.overflows),
            restarts: of(&self.restarts),
            stuck: of(&self.stuck),
            wall: times.wall,
            idle: times.idle,
            diagnostics: self.is_diagnosed.then(|| Diagnostics {
                candidates: of(&self.candidates),
                contended_locks: self.tally.contended(),
                in_scheduler: times.scheduler,
                in_tasks: times.tasks,
            }),
        }
    }
}

/// What a runtime has done so far: one entry per worker. Displayed it is a table, with a line for each worker and one for all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The workers, by index.
    pub workers: Vec<WorkerStats>,
}

impl Stats {
    /// All workers together: times too are those of all workers.
    pub fn total(&self) -> WorkerStats {
        self.workers.iter().copied().reduce(WorkerStats::plus).unwrap_or_default()
    }
}

impl WorkerStats {
    fn plus(self, one: Self) -> Self {
        Self {
            executed: self.executed + one.executed,
            stolen: self.stolen + one.stolen,
            local_pops: self.local_pops + one.local_pops,
            completed: self.completed + one.completed,
            cancelled: self.cancelled + one.cancelled,
            failed_steals: self.failed_steals + one.failed_steals,
            parks: self.parks + one.parks,
            wakes: self.wakes + one.wakes,
            switches: self.switches + one.switches,
            resumed: self.resumed + one.resumed,
            refused: self.refused + one.refused,
            choices: self.choices.plus(one.choices),
            pulled: self.pulled + one.pulled,
            signals: self.signals + one.signals,
            overflows: self.overflows + one.overflows,
            restarts: self.restarts + one.restarts,
            stuck: self.stuck + one.stuck,
            wall: self.wall + one.wall,
            idle: self.idle + one.idle,
            diagnostics: self.diagnostics.zip(one.diagnostics).map(|(sum, one)| sum.plus(one)),
        }
    }
}

impl Choices {
    fn plus(self, one: Self) -> Self {
        Self {
            ready: self.ready + one.ready,
            newest: self.newest + one.newest,
            oldest: self.oldest + one.oldest,
            shared: self.shared + one.shared,
            stolen: self.stolen + one.stolen,
            group: self.group + one.group,
            nothing: self.nothing + one.nothing,
        }
    }
}

impl Diagnostics {
    fn plus(self, one: Self) -> Self {
        Self {
            candidates: self.candidates + one.candidates,
            contended_locks: self.contended_locks + one.contended_locks,
            in_scheduler: self.in_scheduler + one.in_scheduler,
            in_tasks: self.in_tasks + one.in_tasks,
        }
    }
}
