//! A strand: the execution context of a task, a fiber of a worker or a plain thread. Its data, and who it is.
//!
//! Room: state. Knows what a strand holds; how one waits is `strand/mod.rs`.
//!
//! # Invariant
//! No other thread ever runs or reads a strand.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use mech_sync::{Inbox, Waiter};
use vocab::TaskId;

use super::{
    current,
    locals::Locals,
    name_slot::Name,
    scope::{OpenRef, OpenScope, ScopeRef},
    seeded::Driver,
    shared::{Shared, TaskIds},
    task::Running,
    traces::Traces,
    turn::Turn,
    worker::Worker,
};
use crate::{
    authority::Credentials,
    budget::Meter,
    error::{TaskError, TaskLabel},
};

/// One thread of control.
pub(crate) struct Strand {
    pub(crate) waiter: &'static Waiter,
    /// The worker whose fiber this is; none for a plain thread.
    pub(crate) worker: Option<Rc<Worker>>,
    /// The workers that are played by this plain thread while it waits: of a seeded runtime.
    pub(crate) driver: Option<Rc<dyn Driver>>,
    /// The innermost nursery around what runs here: the one whose cancellation ends it.
    pub(crate) scope: Cell<Option<ScopeRef>>,
    /// The nursery the task belongs to, and whether this waiter is among its members, to be interrupted when it is cancelled.
    pub(crate) base: Cell<Option<ScopeRef>>,
    pub(crate) enlisted: Cell<Option<u32>>,
    /// What the task may leave behind.
    pub(crate) traces: Traces,
    /// What runs here.
    pub(crate) running: Cell<Option<Running>>,
    /// What the name slot of its worker says while it runs.
    pub(crate) name: Cell<Name>,
    /// Where the last panic happened.
    pub(crate) panicked_at: RefCell<Option<Arc<str>>>,
    /// What failed in the nurseries that it came through.
    pub(crate) failed_before: RefCell<Vec<TaskError>>,
    pub(crate) locals: RefCell<Locals>,
    /// The nurseries that calls opened here and none has closed, outermost first.
    pub(crate) open_scopes: RefCell<Vec<OpenScope>>,
    /// How many operations it may do before others run.
    pub(crate) turn: Turn,
    /// Whether it pays to let others run before it waits; see `wait::linger`.
    pub(crate) linger_credit: Cell<i8>,
    /// Open nurseries and joins of this stack, innermost first; see `raw::scope`.
    pub(crate) open: Cell<Option<OpenRef>>,
    /// What the task may still spend.
    pub(crate) meter: Meter,
    /// A handler answers for the task, on its stack.
    pub(crate) answering: Cell<bool>,
    /// On whose behalf it runs, if not on its own; see `raw::loan`.
    pub(crate) acts_for: Cell<Option<&'static Waiter>>,
    /// The credentials of code that belongs to no nursery and was started by a task that does.
    pub(crate) inherited: RefCell<Option<Arc<Credentials>>>,
    /// Another strand runs on its behalf, with its meter.
    pub(crate) lent: Cell<bool>,
    /// A destructor runs on a value in the memory of its task.
    pub(crate) drops_in_place: Cell<bool>,
    /// How large its stack is; 0 for a plain thread.
    pub(crate) stack_bytes: usize,
    /// Below this address there is too little stack left for an operation of the runtime; 0 for a plain thread.
    pub(crate) stack_limit: usize,
}

/// What the runtime may use of a caller's stack below its public functions, and to unwind from there. A task that has less left unwinds at the
/// door, where it holds nothing: inside it would end the process.
pub(crate) const ROOM_BYTES: usize = if cfg!(debug_assertions) { 24 << 10 } else { 12 << 10 };

/// What it takes to unwind. With less, the guard lends half of itself.
pub(crate) const UNWIND_ROOM_BYTES: usize = 8 << 10;

/// How many rounds of a loop go by without a check, where no profile says otherwise.
pub(crate) const DEFAULT_YIELD_INTERVAL: u32 = 1024;

impl Strand {
    /// A strand for the stack that the caller runs on.
    pub(crate) fn new(waiter: &'static Waiter, worker: Option<Rc<Worker>>) -> Self {
        Self {
            waiter,
            worker,
            driver: None,
            scope: Cell::new(None),
            base: Cell::new(None),
            enlisted: Cell::new(None),
            traces: Traces::default(),
            running: Cell::new(None),
            name: Cell::new(Name::NO_TASK),
            panicked_at: RefCell::default(),
            failed_before: RefCell::default(),
            locals: RefCell::new(Locals::default()),
            open_scopes: RefCell::default(),
            turn: Turn::new(),
            linger_credit: Cell::new(1),
            open: Cell::new(None),
            meter: Meter::unmetered(),
            answering: Cell::new(false),
            acts_for: Cell::new(None),
            inherited: RefCell::new(None),
            lent: Cell::new(false),
            drops_in_place: Cell::new(false),
            stack_bytes: mech_fiber::stack_bytes().unwrap_or(0),
            stack_limit: mech_fiber::stack_limit(ROOM_BYTES),
        }
    }

    /// Where its wakes arrive.
    pub(crate) fn inbox(&self) -> &'static Inbox {
        self.waiter.inbox().expect("a strand is no future")
    }

    /// Tells the watchdog that the task came to a checkpoint.
    #[inline(always)]
    pub(crate) fn come_by(&self) {
        if let Some(worker) = &self.worker {
            worker.watch.answer();
        }
    }

    /// Whether a checkpoint may have something to do here: one look, for two reasons.
    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        self.scope.get().is_some_and(|scope| scope.needs_attention())
    }

    /// Whether it is a fiber of this runtime.
    pub(crate) fn is_of(&self, shared: &'static Shared) -> bool {
        self.shared().is_some_and(|own| std::ptr::eq(own, shared))
    }

    /// The runtime it belongs to; none for a plain thread, unless it plays a runtime's workers.
    #[inline]
    pub(crate) fn shared(&self) -> Option<&'static Shared> {
        match (&self.worker, &self.driver) {
            (Some(worker), _) => Some(worker.shared),
            (None, driver) => driver.as_ref().map(|driver| driver.shared()),
        }
    }

    /// Where tasks run that are started here: its own runtime, or that of the task it runs or acts for.
    pub(crate) fn runtime(&self) -> Option<&'static Shared> {
        self.shared().or_else(|| self.scope.get().map(|scope| scope.shared()))
    }

    /// How many rounds of a loop go by without a check.
    #[inline(always)]
    pub(crate) fn yield_interval(&self) -> u32 {
        self.worker.as_ref().map_or(DEFAULT_YIELD_INTERVAL, |worker| worker.shared.yield_interval)
    }

    /// A number for a task that is spawned here.
    #[inline]
    pub(crate) fn next_task_id(&self) -> TaskId {
        match &self.worker {
            Some(worker) => worker.ids.next(),
            None => TaskIds::new(self.shared().and_then(|shared| shared.seeded.as_deref())).next(), // wastes a block; plain threads spawn little
        }
    }

    /// Whether panics here are not to be printed.
    pub(crate) fn is_quiet(&self) -> bool {
        let seeded = self.shared().and_then(|shared| shared.seeded.as_ref());
        seeded.is_some_and(|seeded| seeded.quiet.load(Relaxed))
    }

    /// Which task runs here.
    pub(crate) fn label(&self) -> Option<TaskLabel> {
        self.running.get().map(|running| running.task().label())
    }
}

/// Runs `f` with the strand of the caller; a thread that has none gets one.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(&Strand) -> R) -> R {
    f(&current::get())
}
