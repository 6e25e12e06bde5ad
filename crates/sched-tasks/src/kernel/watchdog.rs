//! Names the task that keeps a worker for itself, and saves from it what can be saved.
//!
//! Room: driver. Knows workers and time; knows nothing of what a task does.
//!
//! Four times in the time a task may take, the clock's thread looks at every worker, leaves a question and goes. A task that begins, stops or goes on moves the
//! worker's counters; a checkpoint that finds nothing else to do answers the question. Neither happened for too long: the task is stuck.
//!
//! # Invariants
//! While a worker is awake a look is due; while all sleep none is. A task that comes to a checkpoint is never named, and nor is a worker that sleeps.
//! What a stuck worker has not started, others can take.
//!
//! # Why they hold
//! When a look is due is decided by `mech_sync::arming`, which has a model; the worker that it tells to sets the alarm at once. A worker whose task stops clears its name slot or
//! writes another name; and time counts only from look to look, at most twice the usual, so a process that was halted accuses no task.
//!
//! Unstarted tasks can be stolen anyway, unless the workers that may steal are stuck themselves; and futures that yielded are in a queue that only their worker serves.
//! The look moves both into the shared queue, from which all workers take. Started fibers cannot move: they are counted.
//!
//! # Rejected
//! A pointer to the task in the name slot: the task may be gone when it is read. A thread of its own: the clock has one, and it sleeps as long.

use std::{
    collections::VecDeque,
    fmt,
    io::Write,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use mech_sync::{Arming, Awake, Steal, Stealer};
use vocab::TaskId;

use super::{
    clock::Alarm,
    name_slot::{Name, NameSlot},
    shared::Shared,
    task::{Runnable, RunnableRef},
};
use crate::stats;

/// So many looks fall into the time a task may take.
const LOOKS: u32 = 4;

/// Shorter is noise: the system itself takes a thread off its CPU for some milliseconds.
const LIMIT_MIN: Duration = Duration::from_millis(4);

/// So many stuck tasks are remembered.
const REMEMBERED_MAX: usize = 64;

/// Most fibers that are counted as held up.
const HELD_UP_MAX: usize = 1 << 20;

/// A task that held a worker for too long without a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stuck {
    /// The worker it held.
    pub worker: usize,
    /// Its number.
    pub task: TaskId,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
    /// For how long it has been seen to hold the worker.
    pub for_at_least: Duration,
    /// How many started tasks of that worker could go on and had to wait. Tasks that had not started were left to other workers.
    pub held_up: usize,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, task, spawned_at, for_at_least, held_up } = self;
        let seconds = for_at_least.as_secs_f64();
        write!(
            f,
            "task {task} (spawned at {spawned_at}) has held worker {worker} for {seconds:.1} s without a checkpoint, \
             and {held_up} started tasks behind it; call `bursar::checkpoint()` in its loop, mark the function \
             `#[bursar::budgeted]`, or use `bursar::unblock` if it blocks the thread"
        )
    }
}

/// What is called with each stuck task.
#[derive(Clone)]
pub(crate) struct Hook(pub(crate) Arc<dyn Fn(&Stuck) + Send + Sync>);

impl Default for Hook {
    fn default() -> Self {
        Self(Arc::new(|stuck| {
            let _ = writeln!(std::io::stderr(), "bursar: {stuck}"); // it may have no reader
        }))
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// What a worker lets the watchdog see; on lines of its own, since the worker writes it all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Watched {
    name: NameSlot,
    /// How many started tasks are in the worker's line, futures that yielded among them.
    ready: AtomicUsize,
    /// The watchdog's question; a checkpoint takes it back.
    asked: AtomicBool,
    awake: Awake,
}

impl Watched {
    /// This task runs now: one that begins, or one that stopped and goes on.
    #[inline(always)]
    pub(crate) fn show(&self, name: Name) {
        self.name.show(name);
    }

    /// Whether this task runs now, as far as the name slot says.
    pub(crate) fn shows(&self, task: TaskId) -> bool {
        self.name.read().task().is_some_and(|(id, _)| id == task)
    }

    /// So many are ready on the worker. A yield from one to the next leaves their number as it is, so it need not say.
    #[inline(always)]
    pub(crate) fn count_ready(&self, ready: usize) {
        self.ready.store(ready, Relaxed);
    }

    /// No task runs.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.name.clear();
    }

    /// A checkpoint: one load, unless there is a question.
    #[inline(always)]
    pub(crate) fn answer(&self) {
        if self.asked.load(Relaxed) {
            self.asked.store(false, Relaxed);
        }
    }

    /// The worker is about to sleep.
    pub(crate) fn rest(&self) {
        self.awake.mark_asleep();
    }
}

/// One runtime's watchdog.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// How long a task may take; none: there is no watchdog.
    limit: Option<Duration>,
    hook: Hook,
    arming: Arming,
    pub(crate) looks: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    suspects: Vec<Suspect>,
    last_look: Option<Instant>,
    stuck: VecDeque<Stuck>,
}

/// What is known of one worker from look to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Suspect {
    beat: u64,
    /// For how long it has given no sign of life.
    held: Duration,
    /// The last task that was reported, and how long it must hold the worker to be reported again.
    reported: Option<(TaskId, Duration)>,
    /// Futures taken out of its line since the last sign of life.
    futures_taken: usize,
}

impl Suspect {
    const FRESH: Self = Self { beat: u64::MAX, held: Duration::ZERO, reported: None, futures_taken: 0 };
}

/// What a look saw of one worker.
#[derive(Debug, Clone, Copy)]
struct Observation {
    task: Option<TaskId>,
    beat: u64,
    /// A checkpoint came by since the last look.
    answered: bool,
    /// How long ago the last look was.
    elapsed: Duration,
}

/// What a look concludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Verdict {
    /// It moved, or has nothing to do.
    Alive,
    /// It did not move, but not for long.
    Quiet,
    /// It has not moved for too long. `is_new`: at the last look that was not so yet. `report`: the hook is called.
    Stuck { is_new: bool, report: bool },
}

/// Judges one worker. Pure: time arrives in `view`.
fn judge(suspect: Suspect, view: Observation, limit: Duration) -> (Suspect, Verdict) {
    let mut next = suspect;
    let moved = view.beat != suspect.beat || view.answered;
    let Some(task) = view.task.filter(|_| !moved) else {
        next = Suspect { beat: view.beat, reported: suspect.reported, ..Suspect::FRESH };
        return (next, Verdict::Alive);
    };
    next.held += view.elapsed;
    if next.held < limit {
        return (next, Verdict::Quiet);
    }
    let due = match suspect.reported {
        Some((reported, due)) if reported == task => due,
        _ => limit,
    };
    let report = next.held >= due;
    if report {
        next.reported = Some((task, next.held.saturating_mul(2)));
    }
    (next, Verdict::Stuck { is_new: suspect.held < limit, report })
}

impl Watchdog {
    pub(crate) fn new(limit: Option<Duration>, hook: Hook, workers: usize) -> Self {
        Self {
            limit: limit.map(|limit| limit.max(LIMIT_MIN)),
            hook,
            arming: Arming::new(),
            looks: AtomicU64::new(0),
            state: Mutex::new(State { suspects: vec![Suspect::FRESH; workers], ..State::default() }),
        }
    }

    /// The tasks that were stuck lately, oldest first.
    pub(crate) fn stuck(&self) -> Vec<Stuck> {
        self.lock().stuck.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker has something to do: from now on it is watched.
    #[inline(always)]
    pub(crate) fn arm(&self, watched: &Watched, shared: &'static Shared) {
        if self.arming.mark_awake(&watched.awake) {
            self.set_alarm(shared);
        }
    }

    #[cold]
    fn set_alarm(&self, shared: &'static Shared) {
        if let Some(limit) = self.limit {
            shared.clock.set(limit / LOOKS, Alarm::Look(shared));
        }
    }

    /// Sets the next alarm, unless all sleep.
    fn rest_or_go_on(&self, shared: &'static Shared) {
        if self.arming.rearm(shared.workers.iter().map(|worker| &worker.watch.awake)) {
            self.set_alarm(shared);
        } else {
            // The next time begins with the next look. A worker that woke just now may have set its alarm: then a quarter of the time is forgiven.
            self.lock().last_look = None;
        }
    }

    /// One look at every worker. On the clock's thread.
    pub(crate) fn look(&self, shared: &'static Shared) {
        let Some(limit) = self.limit else { return };
        stats::add(&self.looks, 1);
        let mut to_report = Vec::new();
        {
            let mut state = self.lock();
            let now = Instant::now();
            let elapsed = state.last_look.replace(now).map_or(Duration::ZERO, |last| now - last);
            for index in 0..shared.workers.len() {
                to_report.extend(state.look_at(shared, index, elapsed.min(limit / LOOKS * 2), limit));
            }
        }
        for stuck in &to_report {
            // A panic of the hook ends here: timers depend on this thread. The panic hook has printed it.
            let _ = catch_unwind(AssertUnwindSafe(|| (self.hook.0)(stuck)));
        }
        self.rest_or_go_on(shared);
    }
}

impl State {
    /// Looks at one worker. If it is stuck, helps those behind it, and returns it if it is to be reported.
    fn look_at(&mut self, shared: &Shared, index: usize, elapsed: Duration, limit: Duration) -> Option<Stuck> {
        let worker = &shared.workers[index];
        let beat = || worker.counters.executed.load(Relaxed).wrapping_add(worker.counters.switches.load(Relaxed));
        let before = beat();
        let name = worker.watch.name.read();
        let named = name.task().filter(|_| beat() == before);
        let answered = !worker.watch.asked.load(Relaxed);
        let view = Observation { task: named.map(|(task, _)| task), beat: before, answered, elapsed };
        let (suspect, verdict) = judge(self.suspects[index], view, limit);
        self.suspects[index] = suspect;
        let (is_new, report) = match verdict {
            Verdict::Alive => {
                worker.watch.asked.store(true, Relaxed);
                return None;
            }
            Verdict::Quiet => return None,
            Verdict::Stuck { is_new, report } => (is_new, report),
        };
        let (task, spawned_at) = named?;
        let taken = rescue(shared, index, |other| self.suspects[other].held < limit);
        self.suspects[index].futures_taken += taken;
        let fibers = worker.watch.ready.load(Relaxed).saturating_sub(self.suspects[index].futures_taken);
        let held_up = fibers + worker.inbox.arrivals_len(HELD_UP_MAX);
        let stuck = Stuck { worker: index, task, spawned_at, for_at_least: suspect.held, held_up };
        if is_new {
            stats::add(&worker.counters.stuck, 1);
            if self.stuck.len() == REMEMBERED_MAX {
                self.stuck.pop_front();
            }
            self.stuck.push_back(stuck.clone());
        } else if let Some(known) = self.stuck.iter_mut().rfind(|known| (known.worker, known.task) == (index, task)) {
            *known = stuck.clone();
        }
        report.then_some(stuck)
    }
}

/// Puts what a stuck worker has not started where others take it. Says how many futures it took out of its line.
fn rescue(shared: &Shared, index: usize, moves: impl Fn(usize) -> bool) -> usize {
    if shared.workers.len() == 1 {
        return 0; // there are no others
    }
    let stuck = &shared.workers[index];
    let may_steal = |other: usize| shared.workers[other].takes.steals();
    if !(0..shared.workers.len()).any(|other| other != index && moves(other) && may_steal(other)) {
        share_out(shared, &stuck.stealer);
    } else if !stuck.stealer.is_empty() {
        shared.idle.published();
    }
    share_out(shared, &stuck.yielded) + share_out_groups(shared, index)
}

/// The same for futures of groups.
fn share_out_groups(shared: &Shared, index: usize) -> usize {
    if !shared.has_groups() {
        return 0;
    }
    let mut moved = 0;
    for group in shared.shares.all() {
        let yielded = &group.lines[index].yielded;
        for _ in 0..yielded.len() {
            let Some(future) = yielded.pop_oldest() else { break };
            shared.inject(&shared.injected, future);
            moved += 1;
        }
    }
    moved
}

/// Moves what is in a deque now into the shared queue.
fn share_out(shared: &Shared, from: &Stealer<Runnable>) -> usize {
    let there = from.len(); // not until it is empty: its owner may fill it as fast as we take
    (0..there)
        .filter(|_| match from.steal() {
            Steal::Taken(item) => {
                shared.inject(&shared.injected, RunnableRef::from_item(item));
                true
            }
            Steal::Empty | Steal::Lost => false, // what a thief won has a runner; the rest waits for the next look
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);
    const TASK: TaskId = TaskId(7);

    fn view(beat: u64) -> Observation {
        Observation { task: Some(TASK), beat, answered: false, elapsed: LIMIT / 4 }
    }

    /// The looks, counted from the first, at which something is reported, and how often a new episode begins.
    fn reported(sights: impl IntoIterator<Item = Observation>) -> (Vec<usize>, usize) {
        let mut suspect = Suspect::FRESH;
        let (mut reported, mut episodes) = (Vec::new(), 0);
        for (look, view) in sights.into_iter().enumerate() {
            let verdict;
            (suspect, verdict) = judge(suspect, view, LIMIT);
            if let Verdict::Stuck { is_new, report } = verdict {
                episodes += usize::from(is_new);
                if report {
                    reported.push(look);
                }
            }
        }
        (reported, episodes)
    }

    #[test]
    fn a_stuck_task_is_reported_once_and_then_whenever_the_time_has_doubled() {
        assert_eq!(reported((0..40).map(|_| view(1))), (vec![4, 8, 16, 32], 1));
    }

    #[test]
    fn a_worker_that_moves_answers_or_has_nothing_to_do_is_not_stuck() {
        assert_eq!(reported((0..40).map(view)).1, 0, "its counters move");
        assert_eq!(reported((0..40).map(|look| Observation { answered: look % 3 == 0, ..view(1) })).1, 0, "it answers");
        assert_eq!(reported((0..40).map(|_| Observation { task: None, ..view(1) })).1, 0, "it sleeps");
    }

    #[test]
    fn a_task_that_is_stuck_again_is_counted_and_reported_only_if_it_is_worse() {
        let episodes = |looks: usize| (0..3).flat_map(move |episode| (0..looks).map(move |_| view(episode)));
        assert_eq!(reported(episodes(6)), (vec![4], 3));
        assert_eq!(reported(episodes(10)), (vec![4, 8], 3));
        let others =
            (0..3).flat_map(|task| (0..6).map(move |_| Observation { task: Some(TaskId(task)), ..view(task) }));
        assert_eq!(reported(others), (vec![4, 10, 16], 3));
    }

    #[test]
    fn it_says_who_where_how_long_and_the_way_out() {
        let spawned_at = Location::caller();
        let stuck = Stuck { worker: 1, task: TASK, spawned_at, for_at_least: Duration::from_secs(1), held_up: 3 };
        let text = stuck.to_string();
        let place = format!("task #7 (spawned at {spawned_at}) has held worker 1 for 1.0 s without a checkpoint");
        assert!(text.starts_with(&place) && text.contains("`bursar::checkpoint()`"), "{text}");
    }
}
