//! A seeded runtime: one thread plays all workers, chance says who steps, and time passes when everybody waits.
//!
//! ```text
//!   run ── takes its turn, and the worker_set ──► the body, on a strand of its own
//!            the body waits, or lets others go first:
//!              ┌─► alarms that are due go off
//!              │   who can do something? ── nobody ──► time jumps to the next alarm; none: a deadlock
//!              └── chance picks one: it takes a step; or the body, if it was woken ──► back to the body
//! ```
//!
//! # Invariants
//! The same program with the same seed and number of workers takes the same steps. When `run` returns nothing of it is left.
//!
//! # Why they hold
//! Everything happens on one thread, and whatever could go one way or another is asked of [`Chance`]; numbers of tasks and times begin anew with every run. Everything started
//! belongs to a nursery of the body, which has ended when the body has, or to an owned one, which is ended then.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::ThreadId,
    time::Duration,
};

use vocab::TaskId;

use super::{
    chance::{Chance, Decision, Divergence, Plan},
    shared::Shared,
    trace::{Event, Recorder, Trace, What},
    worker::Worker,
};
use crate::{
    error::{Reason, TaskError, TaskLabel},
    nursery::NurseryCore,
    places,
    raw::{current, loan, worker_set::WorkerSet},
    strand::{self, Strand},
};

/// What a step costs on the virtual clock: so that who asks for the time again and again sees it pass.
const STEP_TIME: Duration = Duration::from_micros(1);

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
    options: Mutex<Options>,
    /// Who runs now, and whoever waits for its turn.
    turn: Mutex<Option<ThreadId>>,
    over: Condvar,
    /// At rest between runs.
    worker_set: Mutex<Option<WorkerSet>>,
    run: Mutex<Run>,
    last: Mutex<Last>,
    tasks: AtomicU64,
    /// Panics are not printed: somebody tries many seeds.
    pub(crate) quiet: AtomicBool,
    /// The run ends in spite of shields.
    breaks_shields: AtomicBool,
    /// What somebody wanted to do that no run with a seed can.
    refused: Mutex<Option<Reason>>,
}

/// A run under way.
struct Run {
    chance: Chance,
    recorder: Recorder,
    steps: u64,
}

/// What the last run left.
#[derive(Default)]
struct Last {
    trace: Trace,
    diverged: Option<Divergence>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
    pub(super) fn preempts(&self) -> bool {
        lock(&self.run).chance.preempts()
    }

    pub(super) fn note(&self, worker: Option<u32>, what: What, task: Option<TaskId>) {
        lock(&self.run).recorder.note(Event::new(worker, what, task));
    }

    /// Whether the run came to a deadlock behind a shield.
    pub(crate) fn breaks_shields(&self) -> bool {
        self.breaks_shields.load(Relaxed)
    }

    /// Somebody is about to wait for a runtime whose threads no seed decides: the run fails.
    #[cold]
    pub(crate) fn refuse_foreign(&self) -> TaskError {
        let seed = lock(&self.options).plan.seed();
        let error = TaskError::msg(format!(
            "a run with a seed (this one: {seed}) cannot wait for another runtime, whose threads no seed decides; use `run` and \
             `nursery`, which stay in the run, or call the other runtime outside of it"
        ));
        lock(&self.refused).get_or_insert_with(|| error.reason().clone());
        error
    }

    /// A number for a task: the first of a run is 1.
    pub(crate) fn next_task_id(&self) -> TaskId {
        TaskId(self.tasks.fetch_add(1, Relaxed) + 1)
    }

    /// Waits until no other thread runs something here.
    fn take_turn(&self) -> Result<Turn<'_>, TaskError> {
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

struct Turn<'a>(&'a Seeded);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.turn) = None;
        self.0.over.notify_one();
    }
}

impl Run {
    fn new(options: &Options) -> Self {
        Self {
            chance: Chance::new(options.plan.clone(), options.one_in),
            recorder: Recorder::new(options.events_max),
            steps: 0,
        }
    }
}

/// Runs `body`, which opens a nursery of `shared`. In a seeded runtime it is driven from here, on a strand of its own.
pub(crate) fn run<T>(shared: &'static Shared, body: impl FnOnce() -> Result<T, TaskError>) -> Result<T, TaskError> {
    let Some(seeded) = &shared.seeded else { return body() };
    if strand::with(|strand| strand.is_of(shared)) {
        return body(); // it is driven already
    }
    strand::with(Strand::ensure_much_room); // it plays the workers on top of this stack
    let _turn = seeded.take_turn()?;
    if let Err(error) = mech_fiber::prepare_thread() {
        eprintln!("bursar: this thread cannot tell who overflows its stack: {error}");
    }
    let driver = Rc::new(Driver::begin(shared, seeded));
    let root = strand::driving(driver.clone());
    // What runs in there runs on behalf of the caller, and may do and spend no more.
    let outcome = loan::lend(&strand::current(), |loan| {
        current::enter(&root, || {
            loan.on(&root, || {
                let outcome = catch_unwind(AssertUnwindSafe(body));
                shared.end_groups(); // what handles own that outlive the run, or were forgotten
                outcome
            })
        })
    });
    strand::retire_thread(&root);
    drop(root);
    let driver = Rc::into_inner(driver).expect("no strand outlives its run");
    match (driver.end(), outcome) {
        // What else failed is a consequence: everything was cancelled.
        (Some(reason), outcome) => {
            let others = outcome.ok().and_then(Result::err).filter(|error| error.is_panic());
            Err(TaskError::new(reason, None).with_others(others.into_iter().collect()))
        }
        (None, Ok(outcome)) => outcome,
        (None, Err(payload)) => strand::current().rethrow(payload),
    }
}

/// Plays the workers of one run.
pub(crate) struct Driver {
    pub(crate) shared: &'static Shared,
    seeded: &'static Seeded,
    workers: Vec<Rc<Worker>>,
    trunks: Vec<Strand>,
    /// Strands of this thread that stopped in the middle of an unwinding that it goes on to count: `panicking` does not tell them apart.
    pub(crate) stopped_unwinding: Rc<Cell<u32>>,
    /// Who stepped last: a worker, or (one more than there are) the body.
    last: Cell<usize>,
    root: RefCell<Option<Weak<NurseryCore>>>,
    steps_max: u64,
    replays: bool,
    /// Why the body was told to stop.
    gave_up: RefCell<Option<Reason>>,
}

impl Driver {
    fn begin(shared: &'static Shared, seeded: &'static Seeded) -> Self {
        let workers = lock(&seeded.worker_set).take().expect("between runs the worker_set rests").wake();
        let options = lock(&seeded.options).clone();
        *lock(&seeded.run) = Run::new(&options);
        *lock(&seeded.last) = Last::default();
        seeded.tasks.store(0, Relaxed);
        seeded.breaks_shields.store(false, Relaxed);
        lock(&seeded.refused).take();
        shared.clock.rewind();
        workers.iter().for_each(|worker| worker.begin_run());
        let stopped_unwinding = workers[0].stopped_unwinding.clone();
        stopped_unwinding.set(u32::from(std::thread::panicking())); // the caller's, for as long as this runs
        let worker_strand = |worker: &Rc<Worker>| Strand::new(places::take_waiter(worker.inbox), Some(worker.clone()));
        Self {
            shared,
            seeded,
            trunks: workers.iter().map(worker_strand).collect(),
            stopped_unwinding,
            last: Cell::new(workers.len()),
            workers,
            root: RefCell::new(None),
            steps_max: options.steps_max,
            replays: options.plan.replays(),
            gave_up: RefCell::new(None),
        }
    }

    /// Puts the worker_set to rest. Says why it gave up, if it did.
    fn end(self) -> Option<Reason> {
        for (worker, worker_strand) in self.workers.iter().zip(&self.trunks) {
            worker.end_fibers(worker_strand);
            places::give_waiter(worker_strand.waiter);
        }
        drop(self.trunks);
        let options = lock(&self.seeded.options).clone();
        let run =
            std::mem::replace(&mut *lock(&self.seeded.run), Run::new(&Options { plan: Plan::Seed(0), ..options }));
        let (decisions, diverged) = run.chance.finish();
        let trace = Trace {
            seed: options.plan.seed(),
            workers: self.workers.len(),
            one_in: options.one_in,
            steps: run.steps,
            decisions,
            ..run.recorder.finish()
        };
        *lock(&self.seeded.last) = Last { trace, diverged };
        self.seeded.set_worker_set(Some(WorkerSet::rest(self.workers)));
        self.gave_up.into_inner().or_else(|| lock(&self.seeded.refused).take())
    }

    /// Notes the nursery of the body: all others are inside it.
    pub(crate) fn note_root(&self, nursery: &Arc<NurseryCore>) {
        self.root.borrow_mut().get_or_insert_with(|| Arc::downgrade(nursery));
    }

    /// Plays the workers until `strand`, the body's or one that stands in for a worker's worker_strand, has been woken.
    pub(crate) fn until_woken(&self, strand: &Strand) {
        let inbox = strand.waiter.inbox();
        self.aside(strand, || while !self.advance(|| inbox.has_arrivals()) {});
        let _ = inbox.arrivals(); // it has one waiter, so this was it
    }

    /// Lets the workers go first, if chance will have it.
    pub(crate) fn interleave(&self, strand: &Strand) {
        if self.seeded.preempts() {
            self.others_first(strand);
        }
    }

    /// Lets the workers go first, until chance picks `strand`.
    pub(crate) fn others_first(&self, strand: &Strand) {
        self.aside(strand, || while !self.advance(|| true) {});
    }

    /// While others run on this thread, it does not count `strand`'s unwinding; see [`Strand::aside_while`].
    fn aside(&self, strand: &Strand, others: impl FnOnce()) {
        strand.aside_while(strand.unwinding.get(), strand.is_unwinding(), &self.stopped_unwinding, others);
    }

    /// One turn: of a worker, or of the clock. True if it is the turn of the caller, who may have it if `is_ready` says so.
    fn advance(&self, is_ready: impl Fn() -> bool) -> bool {
        while self.alarm(false) {}
        self.look_after();
        let body = self.workers.len();
        let is_able = |index: usize| if index == body { is_ready() } else { self.workers[index].is_able() };
        let last = self.last.get();
        let yielded = last < body && self.workers[last].own().yielded.get();
        let first = last + usize::from(yielded);
        let able: Vec<usize> = (first..=first + body).map(|i| i % (body + 1)).filter(|&i| is_able(i)).collect();
        if able.is_empty() {
            if !self.alarm(true) {
                self.deadlocked();
            }
            return false;
        }
        let chosen = able[self.seeded.choose(able.len(), Decision::Step)];
        self.last.set(chosen);
        if chosen == body {
            return true;
        }
        lock(&self.seeded.run).steps += 1;
        self.workers[chosen].step(&self.trunks[chosen]);
        self.shared.clock.pass(STEP_TIME);
        false
    }

    fn alarm(&self, may_move: bool) -> bool {
        let at = self.shared.clock.go_off(may_move);
        if let Some(at) = at {
            self.seeded.note(None, What::Alarmed { at }, None);
        }
        at.is_some()
    }

    /// Ends the run if it takes too long, is not the one that was to be replayed, or did what it must not.
    fn look_after(&self) {
        if self.gave_up.borrow().is_some() {
            return;
        }
        let refused = lock(&self.seeded.refused).take();
        if let Some(reason) = refused {
            return self.give_up(reason);
        }
        let steps = lock(&self.seeded.run).steps;
        if steps >= self.steps_max {
            let seed = self.seed();
            return self.give_up(Reason::StepLimit { steps, seed });
        }
        if !self.replays {
            return;
        }
        let diverged = lock(&self.seeded.run).chance.diverged().cloned();
        if let Some(Divergence { at, expected, found }) = diverged {
            self.give_up(Reason::Diverged { at, expected: expected.into(), found: found.into() });
        }
    }

    fn seed(&self) -> u64 {
        lock(&self.seeded.options).plan.seed()
    }

    /// Nobody can go on, and nothing will happen.
    #[cold]
    fn deadlocked(&self) {
        let waiting = self.waiting();
        let reason = Reason::Deadlock { waiting: waiting.into(), seed: self.seed() };
        if self.gave_up.borrow().is_none() {
            return self.give_up(reason);
        }
        // Everything was cancelled, and somebody waits behind a shield: for ever, so the shield protects nothing any more.
        let root = self.root.borrow().as_ref().and_then(Weak::upgrade);
        match root {
            _ if !self.seeded.breaks_shields.swap(true, Relaxed) => {
                root.into_iter().chain(self.shared.groups.cores()).for_each(|nursery| nursery.break_shields());
            }
            _ => {
                // In a destructor, while its task unwinds: that cannot unwind again. To leave would take from it what it borrows.
                eprintln!(
                    "bursar: {reason}. It waits in a destructor that runs while its task unwinds, so the process cannot go on"
                );
                std::process::abort();
            }
        }
    }

    /// Tells everything to stop.
    fn give_up(&self, reason: Reason) {
        self.gave_up.replace(Some(reason.clone()));
        let root = self.root.borrow().as_ref().and_then(Weak::upgrade);
        for nursery in root.into_iter().chain(self.shared.groups.cores()) {
            nursery.cancel_for(reason.clone());
        }
    }

    /// Who waits on a fiber, oldest first.
    fn waiting(&self) -> Vec<TaskLabel> {
        let mut waiting: Vec<_> = self.workers.iter().flat_map(|worker| worker.fibers.labels()).collect();
        waiting.sort_by_key(|label| label.id);
        waiting
    }
}
