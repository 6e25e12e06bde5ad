//! What a seeded runtime has beside what all have: its chance, its trace, and whose run it is. How a run is driven is `drive/seeded.rs`.
//!
//! Room: state. Knows choices and steps; knows nothing of fibers.
//!
//! # Invariant
//! Whatever could go one way or another in a run is asked of [`Chance`]; numbers of tasks begin anew with every run.

use std::{
    cell::Cell,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::ThreadId,
};

use vocab::TaskId;

use super::{nursery::NurseryCore, shared::Shared, strand::Strand, worker_set::WorkerSet};
use crate::{
    chance::{Chance, Decision, Divergence, Plan},
    error::{Reason, TaskError},
    trace::{Event, Recorder, Trace, What},
};

/// Plays the workers of a seeded runtime on the thread of the run, while that thread waits. Behind a pointer, since to play them is to run tasks, which is done above.
pub(crate) trait Driver {
    fn shared(&self) -> &'static Shared;

    /// Strands of this thread that stopped in the middle of an unwinding that the thread goes on to count: `panicking` does not tell them apart.
    fn stopped_unwinding(&self) -> &Cell<u32>;

    /// Notes the nursery of the body: all others are inside it.
    fn note_root(&self, nursery: &Arc<NurseryCore>);

    /// Plays the workers until `strand`, of the body or one that stands in for a worker's own, has been woken.
    fn until_woken(&self, strand: &Strand);

    /// Lets the workers go first, if chance says so.
    fn interleave(&self, strand: &Strand);

    /// Lets the workers go first, until chance picks `strand`.
    fn others_first(&self, strand: &Strand);
}

/// How the runs of a seeded runtime are to be.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    /// One operation in so many is interrupted, on average; 0: none.
    pub(crate) one_in: u32,
    pub(crate) steps_max: u64,
    pub(crate) events_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { plan: Plan::Seed(0), one_in: 8, steps_max: u64::MAX, events_max: 64 << 10 }
    }
}

/// What a seeded runtime has beside what all have.
pub(crate) struct Seeded {
    pub(crate) options: Mutex<Options>,
    /// Which thread has a run now; others wait for their turn.
    pub(crate) turn: Mutex<Option<ThreadId>>,
    pub(crate) over: Condvar,
    /// At rest between runs.
    pub(crate) worker_set: Mutex<Option<WorkerSet>>,
    pub(crate) run: Mutex<Run>,
    pub(crate) last: Mutex<Last>,
    pub(crate) tasks: AtomicU64,
    /// Panics are not printed: many seeds are tried.
    pub(crate) quiet: AtomicBool,
    /// The run ends in spite of shields.
    pub(crate) breaks_shields: AtomicBool,
    /// What a task wanted to do that no run with a seed can.
    pub(crate) refused: Mutex<Option<Reason>>,
}

/// A run under way.
pub(crate) struct Run {
    pub(crate) chance: Chance,
    pub(crate) recorder: Recorder,
    pub(crate) steps: u64,
}

/// What the last run left.
#[derive(Default)]
pub(crate) struct Last {
    pub(crate) trace: Trace,
    pub(crate) diverged: Option<Divergence>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seeded {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            run: Mutex::new(Run::new(&options)),
            options: Mutex::new(options),
            turn: Mutex::new(None),
            over: Condvar::new(),
            worker_set: Mutex::new(None),
            last: Mutex::default(),
            tasks: AtomicU64::new(0),
            quiet: AtomicBool::new(false),
            breaks_shields: AtomicBool::new(false),
            refused: Mutex::new(None),
        }
    }

    /// Gives it its workers, or takes them away.
    pub(crate) fn set_worker_set(&self, worker_set: Option<WorkerSet>) {
        *lock(&self.worker_set) = worker_set;
    }

    /// Changes what the next run is to be like.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Options)) {
        change(&mut lock(&self.options));
    }

    /// What happened in the last run.
    pub(crate) fn trace(&self) -> Trace {
        lock(&self.last).trace.clone()
    }

    /// Its hash, and how many steps it took.
    pub(crate) fn summary(&self) -> (u64, u64) {
        let last = lock(&self.last);
        (last.trace.hash(), last.trace.steps())
    }

    /// Where the last run left the list it was to follow.
    pub(crate) fn diverged(&self) -> Option<Divergence> {
        lock(&self.last).diverged.clone()
    }

    /// A number below `among`.
    pub(crate) fn choose(&self, among: usize, why: Decision) -> usize {
        let among = u32::try_from(among).expect("fewer than 2^32 ways");
        lock(&self.run).chance.choose(among, why) as usize
    }

    /// Whether to interrupt.
    pub(crate) fn preempts(&self) -> bool {
        lock(&self.run).chance.preempts()
    }

    pub(crate) fn note(&self, worker: Option<u32>, what: What, task: Option<TaskId>) {
        lock(&self.run).recorder.note(Event::new(worker, what, task));
    }

    /// Whether the run came to a deadlock behind a shield.
    pub(crate) fn breaks_shields(&self) -> bool {
        self.breaks_shields.load(Relaxed)
    }

    /// A task is about to wait for a runtime whose threads no seed decides: the run fails.
    #[cold]
    pub(crate) fn refuse_foreign(&self) -> TaskError {
        let seed = lock(&self.options).plan.seed();
        let error = TaskError::msg(format!(
            "a run with a seed (this one: {seed}) cannot wait for another runtime, whose threads no seed decides; stay on \
             the runtime of the run, or call the other one outside of it"
        ));
        lock(&self.refused).get_or_insert_with(|| error.reason().clone());
        error
    }

    /// A number for a task: the first of a run is 1.
    pub(crate) fn next_task_id(&self) -> TaskId {
        TaskId(self.tasks.fetch_add(1, Relaxed) + 1)
    }

    /// Waits until no other thread runs something here.
    pub(crate) fn take_turn(&self) -> Result<Turn<'_>, TaskError> {
        let me = std::thread::current().id();
        let mut turn = lock(&self.turn);
        while let Some(other) = *turn {
            if other == me {
                return Err(TaskError::msg(
                    "a seeded runtime runs one thing at a time, and this thread is in the middle of it, inside another \
                     runtime; build a second seeded runtime",
                ));
            }
            turn = self.over.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        *turn = Some(me);
        Ok(Turn(self))
    }
}

pub(crate) struct Turn<'a>(&'a Seeded);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.turn) = None;
        self.0.over.notify_one();
    }
}

impl Run {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            chance: Chance::new(options.plan.clone(), options.one_in),
            recorder: Recorder::new(options.events_max),
            steps: 0,
        }
    }
}
