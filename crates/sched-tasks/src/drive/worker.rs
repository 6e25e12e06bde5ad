//! A worker: one thread that runs tasks, on stacks it changes only when a task waits.
//!
//! ```text
//!   worker_strand (the thread's own stack)
//!     │ resume ──► a fiber: runs task after task, until one of them waits
//!     │ ◄── HOP + key           it waits, yielded or is idle, and chose who runs next
//!     │ ◄── STOP                the same, but it found nobody
//!     └ search, sleep, make new fibers
//! ```
//!
//! # Invariants
//! A started task never leaves its worker. A task that does not wait costs no switch. Before a worker runs anything of another nursery, or
//! sleeps, it has told the last nursery how many of its tasks ended.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use mech_fiber::{Fiber, Step};
use mech_sync::{Deque, Inbox, Waiter};

use super::{
    pending_ends::PendingEnds,
    shared::{Shared, TaskIds, WorkerSlot},
    stats,
    stepwise::Stepwise,
    watchdog::Watched,
};
use crate::{
    decide::{self, Choice},
    error::{Reason, about_stacks},
    places,
    raw::{
        current::{self},
        fibers::Fibers,
        local_queue::LocalQueue,
        name_slot::Name,
        task::{Runnable, RunnableRef},
    },
    strand::{self, Strand},
};

/// What to resume an idle fiber with.
const GO_ON: usize = 0;
const EXIT: usize = 1;

/// What a fiber stops with: nobody to enter, or (plus its key) the fiber to enter next.
pub(super) const STOP: usize = 0;
pub(super) const HOP: usize = 1;

/// Most idle fibers a worker keeps, for its warm stacks: some 2 MiB.
const MAX_IDLE_FIBERS: usize = 256;

/// Past so many that yielded a woken fiber is found, while they wait for tasks that have not started.
const AHEAD_MOST: usize = 64;

pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: &'static Shared,
    pub(crate) inbox: &'static Inbox,
    pub(crate) watch: &'static Watched,
    pub(crate) ids: TaskIds,
    /// Unstarted tasks; others steal from it.
    pub(super) deque: Deque<Runnable>,
    /// Its choices are made step by step, or logged: then they go the long way.
    pub(super) watched: bool,
    /// In a seeded runtime.
    pub(super) stepwise: Option<Stepwise>,
    /// Started tasks that can go on, in the order they became ready.
    pub(super) ready: LocalQueue<Ready>,
    /// The futures among them, in the same order. Not in `ready` itself: behind a task that never yields, others must be able to take them.
    pub(super) yielded: Deque<Runnable>,
    pub(super) fibers: Fibers,
    /// Fibers without a task, the warmest last.
    pub(super) idle_fibers: LocalQueue<u32>,
    /// So many it keeps: the others give their stacks back, lest a burst keep memory, or stacks from other workers, for ever.
    max_idle_fibers: usize,
    /// Places of `fibers` that have none.
    pub(super) vacant: RefCell<Vec<u32>>,
    /// What an idle fiber is resumed for.
    handoff: Cell<Option<RunnableRef>>,
    /// A task that a stopping fiber found and had no fiber for.
    pub(super) found: Cell<Option<RunnableRef>>,
    pub(super) tick: Cell<u32>,
    random: Cell<u64>,
    /// What it owes to a nursery; see `pending_ends.rs`.
    pub(super) pending_ends: PendingEnds,
    /// Fibers that stopped in a destructor, in the middle of an unwinding that the thread goes on to count.
    pub(crate) stopped_unwinding: Rc<Cell<u32>>,
    /// A fiber has stopped here in the middle of an unwinding, ever: from then on who yields looks closely whose unwinding is whose.
    pub(crate) looks_closely: Cell<bool>,
    /// Undertakers of overflowed stacks, see `overflow_cleanup.rs`.
    pub(super) cleanups: RefCell<VecDeque<Burial>>,
    /// A stack of this thread was left for ever: so must the thread be.
    pub(super) lost_stacks: Cell<bool>,
}

/// What an cleaner does, on a strand of its own.
type Burial = Box<dyn FnOnce(&Strand)>;

#[derive(Clone, Copy)]
pub(super) struct Ready {
    /// Unstarted tasks older than this go first: all there were, after a yield. A task that was woken waits for none of them: it goes on where it was,
    /// deep in its tree, before the worker opens up another branch.
    pub(super) mark: isize,
    pub(super) what: ReadyWhat,
}

#[derive(Clone, Copy)]
pub(super) enum ReadyWhat {
    Fiber(&'static Waiter),
    /// The oldest of `yielded`, if it is still there.
    Future,
}

/// What to do next.
pub(super) enum Next {
    Start(RunnableRef),
    Resume(&'static Waiter),
}

impl Worker {
    pub(crate) fn new(index: usize, shared: &'static Shared, deque: Deque<Runnable>, yielded: Deque<Runnable>) -> Self {
        let WorkerSlot { inbox, watch, .. } = &shared.workers[index];
        Self {
            index,
            shared,
            inbox,
            watch,
            ids: TaskIds::new(shared.seeded.as_deref()),
            deque,
            watched: shared.seeded.is_some() || shared.workers[index].log.is_some(),
            stepwise: shared.seeded.as_deref().map(Stepwise::new),
            ready: LocalQueue::new(),
            yielded,
            fibers: Fibers::new(),
            idle_fibers: LocalQueue::new(),
            max_idle_fibers: MAX_IDLE_FIBERS.min(shared.stacks.stats().max_stacks / (4 * shared.workers.len())),
            vacant: RefCell::default(),
            handoff: Cell::new(None),
            found: Cell::new(None),
            tick: Cell::new(0),
            random: Cell::new(decide::next_random(shared.seed ^ (index as u64) << 32).0),
            pending_ends: PendingEnds::none(),
            stopped_unwinding: Rc::default(),
            looks_closely: Cell::new(false),
            cleanups: RefCell::default(),
            lost_stacks: Cell::new(false),
        }
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    #[inline]
    pub(super) fn slot(&self) -> &WorkerSlot {
        &self.shared.workers[self.index]
    }

    // ---- what tasks ask of their worker ----

    /// Adds an unstarted task that others may steal.
    #[inline]
    pub(crate) fn push(&self, runnable: RunnableRef) {
        self.deque.push(runnable.into_item());
        self.shared.idle.published();
    }

    /// Takes `item` back if nothing was pushed after it and nobody took it.
    #[inline]
    pub(crate) fn pop_if_newest(&self, item: *mut Runnable) -> bool {
        match self.deque.pop() {
            Some(newest) if newest == item => true,
            Some(other) => {
                self.deque.push(other);
                false
            }
            None => false,
        }
    }

    /// A waiter of one of our fibers was woken on this very thread.
    #[inline]
    pub(crate) fn enqueue(&self, waiter: &'static Waiter) {
        self.enqueue_ready(ReadyWhat::Fiber(waiter));
    }

    #[inline]
    fn enqueue_ready(&self, what: ReadyWhat) {
        self.ready.push(Ready { mark: self.deque.passed_mark(), what });
        self.watch.count_ready(self.ready.len());
    }

    /// One of our fibers yielded.
    #[inline]
    pub(super) fn enqueue_behind_all(&self, what: ReadyWhat) {
        self.ready.push(Ready { mark: self.deque.mark(), what });
        self.watch.count_ready(self.ready.len());
    }

    /// A future was woken while it ran: it goes to the back of the line, or to a worker that has none.
    pub(crate) fn requeue(&self, runnable: RunnableRef) {
        if self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.yielded.push(runnable.into_item());
            self.enqueue_behind_all(ReadyWhat::Future);
        }
    }

    /// The same for one whose turn was over: as a fiber, it waits for those that are ready only. Another worker gets it if that one has nothing and this one has more.
    pub(crate) fn requeue_turn(&self, runnable: RunnableRef) {
        if self.has_other_work() && self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.yielded.push(runnable.into_item());
            self.enqueue_ready(ReadyWhat::Future);
        }
    }

    /// The next of the worker's random numbers.
    pub(crate) fn random(&self) -> u64 {
        let (state, random) = decide::next_random(self.random.get());
        self.random.set(state);
        random
    }

    /// Whether anything else could run here now.
    #[inline]
    pub(crate) fn has_other_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.deque.is_empty()
            || self.inbox.has_arrivals()
            || !self.shared.high.is_empty()
            || !self.shared.injected.is_empty()
            || !self.shared.low.is_empty()
    }

    // ---- choosing ----

    /// What to run next, of what is here or can be had. Whatever was counted for a nursery is reported before something else than its tasks goes on.
    #[inline]
    pub(super) fn next(&self) -> Option<Next> {
        if self.watched { self.next_watched() } else { self.next_unwatched::<false>() }
    }

    #[inline]
    pub(super) fn next_unwatched<const LOG: bool>(&self) -> Option<Next> {
        if let Some(next) = self.next_here::<LOG>() {
            return Some(next);
        }
        if let Some(stolen) = self.steal() {
            return Some(Next::Start(stolen)); // still on the same stack: a run of stolen tasks costs no switches
        }
        self.report(); // that may make an owner ready
        self.next_ready()
    }

    /// What to run next, of what is here.
    #[inline]
    fn next_here<const LOG: bool>(&self) -> Option<Next> {
        self.take_in_any();
        loop {
            let tick = self.tick.get().wrapping_add(1);
            self.tick.set(tick);
            let choice = decide::choose(tick, self);
            let found = match choice {
                Choice::Ready => self.next_ready(),
                Choice::Ahead => self.next_ahead().or_else(|| self.next_oldest()),
                Choice::Newest => self.deque.pop().map(|item| Next::Start(RunnableRef::from_item(item))),
                Choice::Oldest => self.next_oldest(),
                Choice::High => self.shared.high.pop_batch(0, |_| {}).map(|task| self.popped_shared(task)),
                Choice::Injected => self.take_injected().map(|task| self.popped_shared(task)),
                Choice::Low => self.shared.low.pop_batch(0, |_| {}).map(|task| self.popped_shared(task)),
                Choice::Elsewhere => self.steal().map(Next::Start),
                Choice::Search => return None,
            };
            if let Some(found) = found {
                if LOG && choice != Choice::Elsewhere {
                    let nothing_ahead = choice == Choice::Ahead && matches!(found, Next::Start(_));
                    self.log_next(if nothing_ahead { Choice::Oldest } else { choice }, &found);
                }
                return Some(found); // else somebody was quicker: look again
            }
        }
    }

    #[inline]
    fn next_ready(&self) -> Option<Next> {
        loop {
            let ready = self.ready.pop_front()?;
            self.watch.count_ready(self.ready.len());
            match ready.what {
                ReadyWhat::Fiber(waiter) => {
                    self.report();
                    return Some(Next::Resume(waiter));
                }
                ReadyWhat::Future => {
                    if let Some(item) = self.yielded.pop_oldest() {
                        return Some(Next::Start(RunnableRef::from_item(item)));
                    } // else others took it, while a task kept this worker for itself
                }
            }
        }
    }

    fn next_oldest(&self) -> Option<Next> {
        self.deque.pop_oldest().map(|item| Next::Start(RunnableRef::from_item(item)))
    }

    /// The first fiber in line that waits for no unstarted task, past those that do. Futures stay: their line has one order.
    #[cold]
    fn next_ahead(&self) -> Option<Next> {
        let is_next = |ready: Ready| matches!(ready.what, ReadyWhat::Fiber(_)) && self.deque.has_passed(ready.mark);
        let ReadyWhat::Fiber(waiter) = self.ready.take_first(AHEAD_MOST, is_next)?.what else { return None };
        self.watch.count_ready(self.ready.len());
        self.report();
        Some(Next::Resume(waiter))
    }

    #[inline]
    pub(super) fn take_in_any(&self) {
        if self.inbox.has_arrivals() {
            self.take_in();
        }
    }

    /// Takes in the fibers that other threads woke.
    #[cold]
    fn take_in(&self) {
        self.inbox.arrivals().for_each(|waiter| self.enqueue(waiter));
    }

    /// What a fiber that stops leaves with: whom to enter next, or that the worker_strand must see.
    #[inline]
    pub(crate) fn choose_successor(&self) -> usize {
        self.next().map_or(STOP, |next| self.successor(next))
    }

    /// How to go on with `next`.
    #[inline(always)]
    pub(super) fn successor(&self, next: Next) -> usize {
        match next {
            Next::Resume(waiter) => HOP + waiter.tag() as usize,
            Next::Start(runnable) => {
                let idle = if self.is_for_usual_stack(&runnable) { self.idle_fibers.pop_back() } else { None };
                match idle {
                    Some(key) => {
                        self.handoff.set(Some(runnable));
                        HOP + key as usize
                    }
                    None => {
                        self.found.set(Some(runnable));
                        STOP
                    }
                }
            }
        }
    }

    /// Counts what came from a queue that all workers share: what came from its own is the rest, and need not be counted.
    fn popped_shared(&self, task: RunnableRef) -> Next {
        stats::add(&self.slot().counters.shared_pops, 1);
        Next::Start(task)
    }

    /// Whether any idle fiber's stack will do.
    #[inline]
    fn is_for_usual_stack(&self, runnable: &RunnableRef) -> bool {
        !runnable.asks_for_stack() || runnable.stack_bytes() <= self.shared.stacks.usual_bytes()
    }

    /// Takes a fair share of the shared queue.
    fn take_injected(&self) -> Option<RunnableRef> {
        let share = self.shared.injected.len() / self.shared.workers.len();
        let first = self.shared.injected.pop_batch(share.min(32), |runnable| self.deque.push(runnable.into_item()));
        if share > 0 {
            self.shared.idle.published(); // on their way from there to here nobody saw them
        }
        first
    }

    /// Whether a successor is the very fiber that sits on `waiter`.
    #[inline]
    pub(crate) fn is_key_of(&self, successor: usize, waiter: &'static Waiter) -> bool {
        successor == HOP + waiter.tag() as usize
    }

    // ---- running ----

    /// The thread's main function: restarts the worker in place if it panics. Its fibers are pinned to this thread, so the thread stays. Says at its
    /// end whether the thread may end as well: not if frames on a lost stack may have lent its thread-locals on.
    #[must_use]
    pub(crate) fn main(self: &Rc<Self>) -> bool {
        let worker_strand = Strand::new(places::take_waiter(self.inbox), Some(self.clone()));
        current::enter(&worker_strand, || {
            while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.work(&worker_strand))) {
                drop(payload); // the panic hook has told
                stats::add(&self.slot().counters.restarts, 1);
            }
            self.end_fibers(&worker_strand);
        });
        places::give_waiter(worker_strand.waiter);
        !self.lost_stacks.get()
    }

    /// Ends all fibers: none of them has a task.
    pub(super) fn end_fibers(&self, worker_strand: &Strand) {
        let waiters = current::enter(worker_strand, || self.fibers.end_all(EXIT, worker_strand));
        waiters.into_iter().for_each(places::give_waiter);
        while self.idle_fibers.pop_back().is_some() {}
        self.vacant.borrow_mut().clear();
    }

    pub(crate) fn has_no_fibers(&self) -> bool {
        self.fibers.is_empty()
    }

    fn work(self: &Rc<Self>, worker_strand: &Strand) {
        loop {
            if self.slot().fails_next.load(Relaxed) && self.slot().fails_next.swap(false, Relaxed) {
                panic!("worker {} was told to fail", self.index);
            }
            self.attend_cleanups(worker_strand);
            match self.found.take().map(Next::Start).or_else(|| self.next()).or_else(|| self.search()) {
                Some(next) => {
                    self.shared.watchdog.attend(self.watch, self.shared);
                    match next {
                        Next::Start(runnable) => self.start(runnable, worker_strand),
                        Next::Resume(waiter) => self.resume(waiter.tag(), worker_strand),
                    }
                }
                None => return,
            }
        }
    }

    /// Runs an unstarted task on an idle fiber, or on a new one.
    pub(super) fn start(self: &Rc<Self>, runnable: RunnableRef, worker_strand: &Strand) {
        let idle = if self.is_for_usual_stack(&runnable) { self.idle_fibers.pop_back() } else { None };
        match idle.map_or_else(|| self.new_fiber(runnable.stack_bytes()), Ok) {
            Ok(key) => {
                self.handoff.set(Some(runnable));
                self.resume(key, worker_strand);
            }
            Err(error) => {
                let reason = Reason::OutOfStacks { what: Arc::from(about_stacks(&error)) };
                // What it captured is dropped on this thread, and may block it: the worker_strand is no fiber.
                let thread = strand::for_thread_here();
                current::enter(&thread, || runnable.refuse(reason, &thread));
                stats::add(&self.slot().counters.ended, 1); // that strand has no worker to count
                strand::retire_thread(&thread);
            }
        }
    }

    /// A fiber with a stack of at least `bytes`, and at least the usual one.
    pub(super) fn new_fiber(self: &Rc<Self>, bytes: usize) -> Result<u32, Arc<mech_fiber::StackError>> {
        let stack = self.shared.stacks.take(bytes)?;
        let waiter = places::take_waiter(self.inbox);
        let worker = self.clone();
        let fiber = Fiber::new(stack, move |word| {
            let strand = Strand::new(waiter, Some(worker));
            run_tasks(&strand, word)
        });
        let key = self.fibers.add(self.vacant.borrow_mut().pop(), fiber, waiter);
        waiter.set_tag(key);
        Ok(key)
    }

    /// Enters a fiber, and then whomever it names, until one names nobody.
    pub(super) fn resume(self: &Rc<Self>, mut key: u32, worker_strand: &Strand) {
        if self.stepwise.is_some() {
            return self.resume_once(key, worker_strand);
        }
        let lost = current::enter(worker_strand, || {
            loop {
                stats::add(&self.slot().counters.switches, 1);
                let successor = match self.fibers.enter(key, GO_ON) {
                    Step::Suspended(successor) => successor,
                    Step::Returned(successor) => {
                        self.dismiss(key, worker_strand);
                        successor
                    }
                    Step::Overflowed => return Some(key),
                };
                match successor {
                    STOP => return None,
                    hop => key = (hop - HOP) as u32,
                }
            }
        });
        self.watch.clear();
        if let Some(key) = lost {
            self.bury(key, self.fibers.strand(key), worker_strand);
        }
    }

    /// A fiber returned, since enough others are idle: others may have its stack and its place.
    #[cold]
    pub(super) fn dismiss(&self, key: u32, worker_strand: &Strand) {
        let waiter = self.fibers.remove(key, worker_strand);
        self.vacant.borrow_mut().push(key);
        places::give_waiter(waiter);
    }
}

/// What a fiber does: task after task; with a larger stack than usual, one. Returns when the worker exits or has enough idle fibers, with the one who
/// is next.
fn run_tasks(strand: &Strand, mut word: usize) -> usize {
    let worker = strand.worker.as_ref().expect("a fiber has a worker");
    let has_usual_stack = strand.stack_bytes <= worker.shared.stacks.usual_bytes();
    worker.fibers.introduce(strand.waiter.tag(), strand);
    while word == GO_ON {
        while let Some(overflow_cleanup) = { worker.cleanups.borrow_mut().pop_front() } {
            strand.name.set(Name::NOBODY);
            overflow_cleanup(strand);
        }
        let mut next = worker.handoff.take().map(Next::Start);
        while let Some(Next::Start(runnable)) = next {
            stats::add(&worker.slot().counters.executed, 1);
            runnable.run(strand);
            next = worker.next();
            if let Some(Next::Start(other)) = &next
                && !(has_usual_stack && worker.is_for_usual_stack(other))
            {
                break; // it wants another stack
            }
        }
        // Nothing to start here: this fiber is idle, and the one that was chosen goes on.
        let successor = next.map_or(STOP, |next| worker.successor(next));
        if !has_usual_stack || worker.idle_fibers.len() >= worker.max_idle_fibers {
            return successor;
        }
        worker.idle_fibers.push(strand.waiter.tag());
        word = mech_fiber::suspend(successor);
    }
    STOP
}
