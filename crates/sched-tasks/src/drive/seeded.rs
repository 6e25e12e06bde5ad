//! A seeded runtime: one thread plays all workers, chance says which one steps, and time passes when all wait.
//!
//! Room: driver. Knows fibers, alarms and steps; its data is `kernel/seeded.rs`.
//!
//! ```text
//!   run ── takes its turn, and the workers ──► the body, on a strand of its own
//!            the body waits, or lets others go first:
//!              ┌─► alarms that are due go off
//!              │   which can do something? ── none ──► time jumps to the next alarm; none: a deadlock
//!              └── chance picks one: it takes a step; or the body, if it was woken ──► back to the body
//! ```
//!
//! # Invariants
//! The same program with the same seed and number of workers takes the same steps. When `run` returns nothing of it is left.
//!
//! # Why they hold
//! Everything happens on one thread, and whatever could go one way or another is asked of `Chance`; numbers of tasks and times begin anew with every run. Everything started
//! belongs to a nursery of the body, which has ended when the body has, or to an owned one, which is ended then.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use crate::{
    chance::{Decision, Divergence, Plan},
    error::{Reason, TaskError, TaskLabel},
    kernel::{
        current,
        nursery::NurseryCore,
        seeded::{Driver, Last, Options, Run, Seeded, lock},
        shared::Shared,
        thread,
        worker::Worker,
        worker_set::WorkerSet,
    },
    places,
    raw::loan,
    strand::{self, Strand},
    trace::{Trace, What},
};

/// What a step costs on the virtual clock: so that a task that asks for the time again and again sees it pass.
const STEP_TIME: Duration = Duration::from_micros(1);

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
    let driver = Rc::new(SeededDriver::begin(shared, seeded));
    let root = thread::driving(driver.clone());
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
    thread::retire_thread(&root);
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
pub(crate) struct SeededDriver {
    shared: &'static Shared,
    seeded: &'static Seeded,
    workers: Vec<Rc<Worker>>,
    own_strands: Vec<Strand>,
    /// Strands of this thread that stopped in the middle of an unwinding that it goes on to count: `panicking` does not tell them apart.
    stopped_unwinding: Rc<Cell<u32>>,
    /// What stepped last: a worker, or (one more than there are) the body.
    last: Cell<usize>,
    root: RefCell<Option<Weak<NurseryCore>>>,
    steps_max: u64,
    replays: bool,
    /// Why the body was cancelled.
    gave_up: RefCell<Option<Reason>>,
}

impl Driver for SeededDriver {
    fn shared(&self) -> &'static Shared {
        self.shared
    }

    fn stopped_unwinding(&self) -> &Cell<u32> {
        &self.stopped_unwinding
    }

    fn note_root(&self, nursery: &Arc<NurseryCore>) {
        self.root.borrow_mut().get_or_insert_with(|| Arc::downgrade(nursery));
    }

    fn until_woken(&self, strand: &Strand) {
        let inbox = strand.inbox();
        self.aside(strand, || while !self.advance(|| inbox.has_arrivals()) {});
        let _ = inbox.arrivals(); // it has one waiter, so this was it
    }

    fn interleave(&self, strand: &Strand) {
        if self.seeded.preempts() {
            self.others_first(strand);
        }
    }

    fn others_first(&self, strand: &Strand) {
        self.aside(strand, || while !self.advance(|| true) {});
    }
}

impl SeededDriver {
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
            own_strands: workers.iter().map(worker_strand).collect(),
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
        for (worker, worker_strand) in self.workers.iter().zip(&self.own_strands) {
            worker.end_fibers(worker_strand);
            places::give_waiter(worker_strand.waiter);
        }
        drop(self.own_strands);
        self.shared.clock.end_run();
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

    /// While others run on this thread, it does not count `strand`'s unwinding; see [`Strand::aside_while`].
    fn aside(&self, strand: &Strand, others: impl FnOnce()) {
        strand.aside_while(strand.traces.unwinding().get(), strand.is_unwinding(), &self.stopped_unwinding, others);
    }

    /// One turn: of a worker, or of the clock. True if it is the turn of the caller, which may have it if `is_ready` says so.
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
        self.workers[chosen].step(&self.own_strands[chosen]);
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

    /// No task can go on, and nothing will happen.
    #[cold]
    fn deadlocked(&self) {
        let waiting = self.waiting();
        let reason = Reason::Deadlock { waiting: waiting.into(), seed: self.seed() };
        if self.gave_up.borrow().is_none() {
            return self.give_up(reason);
        }
        // Everything was cancelled, and a task waits behind a shield: for ever, so the shield protects nothing any more.
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

    /// The tasks that wait on a fiber, oldest first.
    fn waiting(&self) -> Vec<TaskLabel> {
        let mut waiting: Vec<_> = self.workers.iter().flat_map(|worker| worker.fibers.labels()).collect();
        waiting.sort_by_key(|label| label.id);
        waiting
    }
}
