//! A worker: its queues, its fibers, and what tasks ask of it.
//!
//! Room: state. Knows queues; how the next task is chosen is `choosing/mod.rs`, how a worker runs is `drive/worker.rs`.
//!
//! # Invariant
//! A started task never leaves its worker.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use mech_sync::{Deque, Inbox, Waiter};
use vocab::Priority;

use super::{
    fibers::Fibers,
    local_queue::LocalQueue,
    local_shares::LocalShares,
    pending_ends::PendingEnds,
    scope::ScopeRef,
    shared::{Shared, TaskIds, WorkerSlot},
    stepwise::Stepwise,
    strand::Strand,
    task::{Runnable, RunnableRef},
    timers::NEVER,
    watchdog::Watched,
};
use crate::{
    decide,
    stats::{self, Counters},
};

/// What a fiber stops with: no fiber to enter, or (plus its key) the fiber to enter next.
pub(crate) const STOP: usize = 0;
pub(crate) const HOP: usize = 1;

/// Most idle fibers a worker keeps, for its warm stacks: some 2 MiB.
const MAX_IDLE_FIBERS: usize = 256;

pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: &'static Shared,
    pub(crate) inbox: &'static Inbox,
    pub(crate) watch: &'static Watched,
    pub(crate) counters: &'static Counters,
    pub(crate) ids: TaskIds,
    /// Unstarted tasks; others steal from it.
    pub(crate) deque: Deque<Runnable>,
    /// Its choices are made step by step, logged or counted: then they go the long way.
    pub(crate) watched: bool,
    /// They are counted, and tasks and scheduler told apart.
    pub(crate) is_diagnosed: bool,
    /// In a seeded runtime.
    pub(crate) stepwise: Option<Stepwise>,
    /// Started tasks that can go on, in the order they became ready.
    pub(crate) ready: LocalQueue<Ready>,
    /// The futures among them, in the same order. Not in `ready` itself: behind a task that never yields, others must be able to take them.
    pub(crate) yielded: Deque<Runnable>,
    /// How many of `ready` stand for a future: more than are in `yielded` if others took some.
    pub(crate) futures_lined: Cell<usize>,
    pub(crate) fibers: Fibers,
    /// Fibers without a task, the warmest last.
    pub(crate) idle_fibers: LocalQueue<u32>,
    /// So many it keeps: the others give their stacks back, lest a burst keep memory, or stacks from other workers, for ever.
    pub(crate) max_idle_fibers: usize,
    /// Places of `fibers` that have none.
    pub(crate) vacant: RefCell<Vec<u32>>,
    /// What an idle fiber is resumed for.
    pub(crate) handoff: Cell<Option<RunnableRef>>,
    /// A task that a stopping fiber found and had no fiber for.
    pub(crate) found: Cell<Option<RunnableRef>>,
    pub(crate) tick: Cell<u32>,
    /// The choice that last took from the queue that all share.
    pub(crate) took_shared_at: Cell<u32>,
    /// When an oldest unstarted task last went before newer ones, of its own and of others, by the clock's ticks.
    pub(crate) own_oldest_at: Cell<u64>,
    pub(crate) other_oldest_at: Cell<u64>,
    /// When it looks at its timers, by the clock's ticks; see `timers.rs`.
    pub(crate) next_timer: Cell<u64>,
    /// How often a task that went on by itself asked for that.
    pub(crate) timer_asked: Cell<u32>,
    /// What `Shared::goes_long_way` said at the last choice that was no yield from one ready fiber to the next. While a task of a group runs here it is true; that there are groups
    /// is noticed after a bounded number of yields.
    pub(crate) went_long_way: Cell<bool>,
    /// From this tick on a task that yields looks further than the fibers that are ready.
    pub(crate) look_at: Cell<u32>,
    /// At which choice and when it was last planned, on a worker that is alone.
    pub(crate) planned_at: Cell<(u32, u64)>,
    /// From this tick on it looks at the unstarted tasks of other workers; how many looks are left of the round, and how many yields go by between two rounds in vain.
    pub(crate) next_look: Cell<u32>,
    pub(crate) looks_left: Cell<u32>,
    pub(crate) look_every: Cell<u32>,
    pub(crate) random: Cell<u64>,
    /// What it owes to a nursery; see `pending_ends.rs`.
    pub(crate) pending_ends: PendingEnds,
    /// Fibers that stopped in a destructor, in the middle of an unwinding that the thread goes on to count.
    pub(crate) stopped_unwinding: Rc<Cell<u32>>,
    /// A fiber has stopped here in the middle of an unwinding, ever: from then on a strand that yields checks closely which unwinding is its own.
    pub(crate) looks_closely: Cell<bool>,
    /// Cleanups of overflowed stacks, see `overflow_cleanup.rs`.
    pub(crate) cleanups: RefCell<VecDeque<Cleanup>>,
    /// A stack of this thread was left for ever: so must the thread be.
    pub(crate) lost_stacks: Cell<bool>,
    /// Groups of tasks with shares of their own, from the first on.
    pub(crate) shares: RefCell<Option<Box<LocalShares>>>,
}

/// The cleanup after an overflow, on a strand of its own.
type Cleanup = Box<dyn FnOnce(&Strand)>;

#[derive(Clone, Copy)]
pub(crate) struct Ready {
    /// A mark of the deque, shifted by one, and whether it yielded: two words in all, since a yield writes and reads them.
    order: isize,
    pub(crate) what: ReadyWhat,
}

impl Ready {
    #[inline(always)]
    pub(crate) const fn new(mark: isize, yielded: bool, what: ReadyWhat) -> Self {
        Self { order: (mark << 1) | yielded as isize, what }
    }

    /// Unstarted tasks older than this go first: all there were, after a yield. A task that was woken waits for none of them: it goes on where it was,
    /// deep in its tree, before the worker opens up another branch.
    #[inline(always)]
    pub(crate) const fn mark(self) -> isize {
        self.order >> 1
    }

    /// Whether it goes behind unstarted tasks of other workers, too.
    #[inline(always)]
    pub(crate) const fn yielded(self) -> bool {
        self.order & 1 == 1
    }
}

/// What goes before something that gets in line, besides what is in line already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Nothing: it was woken.
    Ready,
    /// The oldest unstarted task.
    Oldest,
    /// All unstarted tasks: it yielded.
    All,
}

#[derive(Clone, Copy)]
pub(crate) enum ReadyWhat {
    Fiber(&'static Waiter),
    /// The oldest of `yielded`, if it is still there.
    Future,
}

/// What to do next.
pub(crate) enum Next {
    Start(RunnableRef),
    Resume(&'static Waiter),
}

impl Worker {
    pub(crate) fn new(index: usize, shared: &'static Shared, deque: Deque<Runnable>, yielded: Deque<Runnable>) -> Self {
        let WorkerSlot { inbox, watch, log, counters, .. } = &shared.workers[index];
        Self {
            index,
            shared,
            inbox,
            watch,
            counters,
            ids: TaskIds::new(shared.seeded.as_deref()),
            deque,
            watched: shared.seeded.is_some() || log.is_some() || counters.is_diagnosed,
            is_diagnosed: counters.is_diagnosed,
            stepwise: shared.seeded.as_deref().map(Stepwise::new),
            ready: LocalQueue::new(),
            yielded,
            futures_lined: Cell::new(0),
            fibers: Fibers::new(),
            idle_fibers: LocalQueue::new(),
            max_idle_fibers: MAX_IDLE_FIBERS.min(shared.stacks.stats().max_stacks / (4 * shared.workers.len())),
            vacant: RefCell::default(),
            handoff: Cell::new(None),
            found: Cell::new(None),
            tick: Cell::new(0),
            next_timer: Cell::new(NEVER),
            timer_asked: Cell::new(0),
            went_long_way: Cell::new(true),
            look_at: Cell::new(0),
            planned_at: Cell::new((0, 0)),
            took_shared_at: Cell::new(0),
            own_oldest_at: Cell::new(0),
            other_oldest_at: Cell::new(0),
            next_look: Cell::new(0),
            looks_left: Cell::new(0),
            look_every: Cell::new(1),
            random: Cell::new(decide::next_random(shared.seed ^ (index as u64) << 32).0),
            pending_ends: PendingEnds::none(),
            stopped_unwinding: Rc::default(),
            looks_closely: Cell::new(false),
            cleanups: RefCell::default(),
            lost_stacks: Cell::new(false),
            shares: RefCell::default(),
        }
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    #[inline]
    pub(crate) fn slot(&self) -> &WorkerSlot {
        &self.shared.workers[self.index]
    }

    // ---- what tasks ask of their worker ----

    /// Adds an unstarted task that others may steal.
    #[inline]
    pub(crate) fn push(&self, runnable: RunnableRef) {
        if self.shared.goes_long_way() {
            return self.push_long_way(Priority::Normal, runnable);
        }
        self.push_here(runnable);
    }

    /// The same for what this worker takes back and runs, if no other did.
    #[inline]
    pub(crate) fn offer(&self, runnable: RunnableRef) {
        if self.shared.goes_long_way() {
            return self.push_long_way(Priority::Normal, runnable);
        }
        self.deque.push(runnable.into_item());
        self.shared.idle.offered();
    }

    #[inline(always)]
    fn push_here(&self, runnable: RunnableRef) {
        self.deque.push(runnable.into_item());
        self.shared.idle.published();
    }

    /// The same while there may be groups.
    #[cold]
    #[inline(never)]
    pub(crate) fn push_long_way(&self, priority: Priority, runnable: RunnableRef) {
        match self.push_to_group(priority, runnable) {
            Ok(()) => {}
            Err(runnable) => self.push_here(runnable),
        }
    }

    /// Takes `item`, of a task in `scope`, back if nothing was pushed after it and no other worker took it.
    #[inline]
    pub(crate) fn pop_if_newest(&self, item: *mut Runnable, scope: ScopeRef) -> bool {
        if self.shared.goes_long_way()
            && let Some(is_taken) = self.pop_from_group(scope.group(), item)
        {
            return is_taken;
        }
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
    pub(crate) fn enqueue_ready(&self, what: ReadyWhat) {
        self.enqueue_behind(Behind::Ready, what);
    }

    #[inline(always)]
    pub(crate) fn enqueue_behind(&self, behind: Behind, what: ReadyWhat) {
        if self.shared.goes_long_way() && self.is_enqueued_in_group(what, behind) {
            return;
        }
        let mark = match behind {
            Behind::Ready => self.deque.passed_mark(),
            Behind::Oldest => self.deque.mark_behind_oldest(),
            Behind::All => self.deque.mark(),
        };
        self.ready.push(Ready::new(mark, behind == Behind::All, what));
        self.watch.count_ready(self.ready.len());
    }

    /// One of our fibers yielded.
    #[inline]
    pub(crate) fn enqueue_behind_all(&self, what: ReadyWhat) {
        self.enqueue_behind(Behind::All, what);
    }

    /// Puts a fiber into the line of its group; false if it is in none. Futures say by themselves which group they are in.
    #[cold]
    #[inline(never)]
    fn is_enqueued_in_group(&self, what: ReadyWhat, behind: Behind) -> bool {
        match what {
            ReadyWhat::Fiber(waiter) => self.shared.has_groups() && self.enqueue_in_group(waiter, behind),
            ReadyWhat::Future => false,
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
        self.has_own_work() || self.shared.has_groups() && self.has_group_work()
    }

    /// Whether anything that is in no group could run here now.
    #[inline]
    pub(crate) fn has_own_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.deque.is_empty()
            || self.inbox.has_arrivals()
            || self.shared.has_queued(self.index)
    }

    // ---- choosing ----

    /// Whether any idle fiber's stack will do.
    #[inline]
    pub(crate) fn is_for_usual_stack(&self, runnable: &RunnableRef) -> bool {
        !runnable.asks_for_stack() || runnable.stack_bytes() <= self.shared.stacks.usual_bytes()
    }

    /// Whether a successor is the very fiber that sits on `waiter`.
    #[inline]
    pub(crate) fn is_key_of(&self, successor: usize, waiter: &'static Waiter) -> bool {
        successor == HOP + waiter.tag() as usize
    }

    /// The fiber that was about to stop was chosen to go on.
    #[cold]
    #[inline(never)]
    pub(crate) fn stays(&self) {
        stats::add(&self.counters.stayed, 1);
        self.counters.timing.enter_task();
    }

    // ---- running ----

    pub(crate) fn has_no_fibers(&self) -> bool {
        self.fibers.is_empty()
    }
}
