//! Who is running: a fiber of a worker, or a plain thread. Everything that blocks goes through here.
//!
//! # Invariant
//! A strand stops only between `Park::Parked` and its delivery, and every way of stopping ends when its token is woken or its
//! waiter is interrupted. No other thread ever runs it.

pub(crate) mod future_wait;
pub(crate) mod local;
pub(crate) mod panics;
pub(crate) mod room;
pub(crate) mod shield;
mod thread;
pub(crate) mod turn;
pub(crate) mod unwinding;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use mech_sync::{Delivery, Park, WaitToken, Waiter, Wake};
use vocab::TaskId;

use crate::{
    authority::Credentials,
    budget::{Account, Meter, Reading},
    decide,
    drive::{
        chance::Decision,
        seeded::Driver,
        shared::{Shared, TaskIds},
        worker::Worker,
    },
    error::{TaskError, TaskLabel},
    nursery::Member,
    raw::{
        current,
        name_slot::Name,
        scope::{OpenRef, ScopeRef},
        task::{RunnableRef, Running},
    },
};

use self::{
    local::Locals,
    turn::{Fixed, Turn},
};

/// One thread of control.
pub(crate) struct Strand {
    pub(crate) waiter: &'static Waiter,
    /// The worker whose fiber this is; none for a plain thread.
    pub(crate) worker: Option<Rc<Worker>>,
    /// The workers that are played by this plain thread while it waits: of a seeded runtime.
    pub(crate) driver: Option<Rc<Driver>>,
    /// The innermost nursery around what runs here: the one whose cancellation it heeds.
    pub(crate) scope: Cell<Option<ScopeRef>>,
    /// The nursery the task belongs to, and whether this waiter is among its members, to be interrupted when it is cancelled.
    pub(crate) base: Cell<Option<ScopeRef>>,
    enlisted: Cell<Option<u32>>,
    /// What runs here.
    pub(crate) running: Cell<Option<Running>>,
    /// What the worker's name_slot says while it runs.
    pub(crate) name: Cell<Name>,
    /// How many shields are up.
    pub(crate) shields: Cell<u32>,
    /// A panic or a cancellation is on its way up.
    pub(crate) unwinding: Cell<bool>,
    /// Where the last panic happened.
    pub(crate) panicked_at: RefCell<Option<Arc<str>>>,
    /// What failed in the nurseries that it came through.
    pub(crate) failed_before: RefCell<Vec<TaskError>>,
    pub(crate) locals: RefCell<Locals>,
    pub(crate) has_locals: Cell<bool>,
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
    /// What somebody runs with who belongs to no nursery, and was started by one that does.
    pub(crate) inherited: RefCell<Option<Arc<Credentials>>>,
    /// It runs on behalf of a destructor of a strand that unwinds: neither a budget nor a cancellation may stop it, which would come out of that destructor.
    pub(crate) for_unwinding: Cell<bool>,
    /// Another strand runs on its behalf, with its meter.
    pub(crate) lent: Cell<bool>,
    /// A destructor runs on a value in the memory of its task.
    pub(crate) drops_in_place: Cell<bool>,
    /// How large its stack is; 0 for a plain thread.
    pub(crate) stack_bytes: usize,
    /// Below this address there is too little stack left for an operation of the runtime; 0 for a plain thread.
    pub(crate) stack_limit: usize,
    /// The task unwinds, or unwound, on half of its stack's guard.
    pub(crate) guard_lent: Cell<bool>,
}

/// What it takes to unwind. With less, the guard lends half of itself.
pub(crate) const UNWIND_ROOM_BYTES: usize = 8 << 10;

/// How many rounds of a loop go by without a check, where no profile says otherwise.
pub(crate) const DEFAULT_YIELD_INTERVAL: u32 = 1024;

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The token was woken, with this code.
    By(u16),
    /// The waiter was interrupted; the token is still good.
    Interrupted,
}

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
            running: Cell::new(None),
            name: Cell::new(Name::NOBODY),
            shields: Cell::new(0),
            unwinding: Cell::new(false),
            panicked_at: RefCell::default(),
            failed_before: RefCell::default(),
            locals: RefCell::new(Locals::default()),
            has_locals: Cell::new(false),
            turn: Turn::new(),
            linger_credit: Cell::new(1),
            open: Cell::new(None),
            meter: Meter::unmetered(),
            answering: Cell::new(false),
            acts_for: Cell::new(None),
            inherited: RefCell::new(None),
            for_unwinding: Cell::new(false),
            lent: Cell::new(false),
            drops_in_place: Cell::new(false),
            stack_bytes: mech_fiber::stack_bytes().unwrap_or(0),
            stack_limit: mech_fiber::stack_limit(room::ROOM_BYTES),
            guard_lent: Cell::new(false),
        }
    }

    /// A token for the next wait.
    #[inline(always)]
    pub(crate) fn token(&self) -> WaitToken {
        self.ensure_room();
        self.waiter.token()
    }

    /// Stops until `token` is woken or the waiter is interrupted.
    ///
    /// Inlined, with all it calls on the way out: after a switch the processor's guess at every `return` is wrong, since the calls it remembers are
    /// another fiber's. Each level between here and the caller would cost some 6 ns.
    #[inline(always)]
    pub(crate) fn wait(&self, token: WaitToken) -> Woken {
        self.wait_until(token, None).expect("without a deadline a wait ends only by a wake")
    }

    /// The same for a plain thread with a deadline; a fiber's deadline is a timer that wakes the token. None: time was up first, and the
    /// token is withdrawn.
    #[inline(always)]
    pub(crate) fn wait_until(&self, token: WaitToken, deadline: Option<Instant>) -> Option<Woken> {
        loop {
            match token.park() {
                Park::Woken(code) => return Some(Woken::By(code)),
                Park::Interrupted => return Some(Woken::Interrupted),
                Park::Parked => {
                    if !self.stop(deadline) {
                        let ended = token.wake(0);
                        if matches!(ended, Wake::Parked(_)) {
                            return None;
                        }
                        // Somebody was quicker, and brings the waiter home: wait for that, so that it is never on its way twice.
                        self.stop(None);
                        if matches!(ended, Wake::Awake) {
                            return None; // it was only an interrupt
                        }
                    }
                }
            }
        }
    }

    /// Gives the thread away until the waiter is delivered. False if the deadline came first.
    #[inline(always)]
    fn stop(&self, deadline: Option<Instant>) -> bool {
        let Some(worker) = &self.worker else {
            return self.stop_thread(deadline);
        };
        if self.enlisted.get().is_none() {
            self.enlist();
        }
        let successor = worker.choose_successor();
        if !worker.is_key_of(successor, self.waiter) {
            self.suspend(worker, successor);
        } // else it was delivered already
        true
    }

    /// Leaves the fiber for `successor`. Whoever runs meanwhile on this thread must not take this fiber's unwinding for its own.
    #[inline(always)]
    pub(crate) fn suspend(&self, worker: &Worker, successor: usize) {
        if std::thread::panicking() || self.unwinding.get() {
            return self.suspend_unwinding(worker, successor);
        }
        mech_fiber::suspend(successor);
        worker.watch.show(self.name.get());
        self.turn.begin();
    }

    /// The same for a yield, which looks only at what this strand itself knows of: a panic that foreign code resumed, and in which a destructor
    /// yields, goes unnoticed, and meanwhile others here seem to panic and put their cancellation off. The full look would cost every yield a fifth of its time;
    /// it is taken once an unwinding has stopped on this thread: see `Worker::looks_closely`.
    #[inline(always)]
    pub(crate) fn suspend_to_yield(&self, worker: &Worker, successor: usize) {
        if self.unwinding.get() {
            return self.suspend_closely(worker, successor);
        }
        mech_fiber::suspend(successor);
        worker.watch.show(self.name.get());
    }

    /// [`Strand::suspend`], out of the way of those who seldom need it.
    #[inline(never)]
    pub(crate) fn suspend_closely(&self, worker: &Worker, successor: usize) {
        self.suspend(worker, successor);
    }

    #[cold]
    fn stop_thread(&self, deadline: Option<Instant>) -> bool {
        if let Some(driver) = &self.driver {
            driver.until_woken(self); // a deadline is an alarm of its clock
            return true;
        }
        let inbox = self.waiter.inbox();
        loop {
            inbox.fall_asleep();
            if inbox.has_arrivals() {
                inbox.stay_awake();
                let _ = inbox.arrivals(); // a thread has one waiter, so this was it
                return true;
            }
            if !inbox.sleep(deadline) {
                return false;
            }
        }
    }

    /// Before a fiber stops for the first time in its task, its nursery notes whom to interrupt.
    #[cold]
    fn enlist(&self) {
        if let Some(scope) = self.base.get() {
            let task = self.running.get().map(|running| running.task().id());
            self.enlisted.set(Some(scope.enlist(Member::Waiter(self.waiter, task))));
            if scope.is_cancelled() {
                // Cancelled before it could know of us: nobody else will interrupt.
                if let Some(delivery) = self.waiter.interrupt() {
                    deliver(delivery);
                }
            }
        }
    }

    /// Begins a task on this strand, in the nursery `scope`.
    #[inline(always)] // on the way of every task: 2 ns of 70
    pub(crate) fn begin(&self, running: Running, scope: ScopeRef) {
        self.occupy(running, scope);
        let Some(worker) = &self.worker else { return self.begin_on_thread(scope) };
        if let Some(account) = scope.account() {
            worker.open_meter(scope, account, &self.meter);
        }
    }

    /// A thread has nothing drawn ahead. It is enlisted from the beginning: it stops in many ways, and is looked for there by `NurseryCore::state_of`.
    #[cold]
    #[inline(never)]
    fn begin_on_thread(&self, scope: ScopeRef) {
        if let Some(account) = scope.account() {
            self.meter.begin(&account.draw(account.child()));
        }
        self.enlist();
    }

    /// Goes on with a future that was polled before, with what it had left then.
    pub(crate) fn begin_again(&self, running: Running, scope: ScopeRef, meter: &Reading) {
        self.occupy(running, scope);
        self.meter.put(meter);
    }

    #[inline]
    pub(crate) fn occupy(&self, running: Running, scope: ScopeRef) {
        if let Some(worker) = &self.worker {
            worker.report_others_than(scope);
            let name = running.task().name();
            self.name.set(name);
            worker.watch.show(name);
        }
        self.scope.set(Some(scope));
        self.base.set(Some(scope));
        self.running.set(Some(running));
        self.turn.begin();
    }

    /// Puts the meter aside: the task goes on later, perhaps elsewhere. Nothing that was drawn for its nursery stays with this worker.
    pub(crate) fn put_meter_aside(&self) -> Reading {
        if let Some(worker) = &self.worker {
            worker.report();
        }
        self.meter.take()
    }

    /// Ends the task: nothing of it stays behind.
    #[inline]
    pub(crate) fn end(&self) {
        let unwound = self.unwinding.get() || self.guard_lent.get() || self.for_unwinding.get();
        if self.enlisted.get().is_some() || self.shields.get() != 0 || unwound || self.has_locals.get() {
            self.clean_up();
        }
        if self.meter.is_metered() {
            self.close_meter();
        }
        // An cleaner may wait here next, between tasks: it belongs to no nursery.
        self.scope.set(None);
        self.base.set(None);
        self.running.set(None);
    }

    #[inline]
    fn close_meter(&self) {
        let Some(scope) = self.base.get() else { return };
        let Some(account) = scope.account() else { return };
        match &self.worker {
            Some(worker) => worker.close_meter(scope, account, &self.meter),
            None => self.close_meter_of_thread(account),
        }
    }

    #[cold]
    #[inline(never)]
    fn close_meter_of_thread(&self, account: &Account) {
        account.settle(&self.meter.end());
    }

    #[cold]
    fn clean_up(&self) {
        if self.guard_lent.replace(false)
            && let Err(error) = mech_fiber::take_guard_back()
        {
            eprintln!("bursar: a stack goes on with half of its guard: {error}");
        }
        if self.has_locals.get() {
            self.drop_locals(Ok(())).unwrap_or_else(panics::discard); // of a half of a `join` that has none to hand on to
        }
        if let (Some(place), Some(scope)) = (self.enlisted.take(), self.base.get()) {
            scope.delist(place);
        }
        self.shields.set(0);
        self.unwinding.set(false);
        self.for_unwinding.set(false);
    }

    /// Whether the running task has been told to stop, or was refused a budget, and may not put it off.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        (self.scope.get().is_some_and(|scope| scope.is_cancelled()) || self.meter.is_refused())
            && (self.shields.get() == 0 || self.breaks_shields())
            && !self.is_unwinding()
    }

    /// Leaves the task by unwinding if it was cancelled. Tells the watchdog that it came by. Others go first if its turn is over; in a seeded run, by chance.
    #[inline]
    pub(crate) fn checkpoint(&self) {
        self.come_by();
        self.take_turn();
        if self.needs_attention() {
            self.attend();
        }
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

    /// The same for who holds a lock: it does not stand still here, nor are others let in.
    #[inline]
    pub(crate) fn checkpoint_with_lock(&self) {
        self.come_by();
        self.ensure_room();
        if self.needs_attention() {
            self.interleave_now();
            if self.is_cancelled() {
                self.unwind();
            }
        }
    }

    #[cold]
    pub(crate) fn attend(&self) {
        self.interleave_now();
        self.stand_still();
        if self.is_cancelled() {
            self.unwind();
        }
    }

    /// In a seeded run, others may go first. Else nothing happens.
    #[inline]
    pub(crate) fn interleave(&self) {
        if self.needs_attention() {
            self.interleave_now();
        }
    }

    /// At the entry of an operation that never waits: it is counted.
    #[inline]
    pub(crate) fn pass_by(&self) {
        self.ensure_room();
        self.pass_by_in_drop();
    }

    /// The same in a destructor.
    #[inline]
    pub(crate) fn pass_by_in_drop(&self) {
        self.turn.count();
        self.interleave();
    }

    /// At the entry of an operation of a channel that does not wait for others.
    #[inline]
    pub(crate) fn begin_try(&self) {
        self.take_turn();
        self.charge_channel_op();
        self.interleave();
    }

    #[cold]
    fn interleave_now(&self) {
        if !self.scope.get().is_some_and(|scope| self.is_of(scope.shared())) {
            return; // on behalf of a task of another runtime, which has turns of its own
        }
        self.ensure_room();
        match (&self.worker, &self.driver) {
            (Some(worker), _) => worker.interleave(self),
            (None, Some(driver)) => driver.interleave(self),
            (None, None) => {}
        }
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
            (None, driver) => driver.as_ref().map(|driver| driver.shared),
        }
    }

    /// Where tasks run that are started here: its own runtime, or that of the task it runs or acts for.
    pub(crate) fn runtime(&self) -> Option<&'static Shared> {
        self.shared().or_else(|| self.scope.get().map(|scope| scope.shared()))
    }

    /// A number below `among`. The only source of chance for what runs here, so that a seed decides all of it.
    pub(crate) fn choose(&self, among: usize, why: Decision) -> usize {
        if let Some(seeded) = self.shared().and_then(|shared| shared.seeded.as_ref()) {
            self.ensure_room();
            return seeded.choose(among, why);
        }
        (self.random() % among as u64) as usize
    }

    fn random(&self) -> u64 {
        thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
        match &self.worker {
            Some(worker) => worker.random(),
            None => {
                let (state, random) = decide::next_random(STATE.get());
                STATE.set(state);
                random
            }
        }
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

    /// Puts a future that was woken while it ran at the back of the line.
    pub(crate) fn requeue(&self, runnable: RunnableRef) {
        let worker = self.worker.as_ref().expect("futures are polled by workers");
        if self.turn.take_refused() { worker.requeue_turn(runnable) } else { worker.requeue(runnable) }
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

pub(crate) use self::thread::{driving, for_thread, for_thread_here, retire_thread};
pub(crate) use self::unwinding::{Cancellation, OutOfRoom};

/// Runs `f` with the strand of the caller; a thread that has none gets one.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(&Strand) -> R) -> R {
    f(&current::get())
}

pub(crate) use current::get as current;

/// Brings a woken waiter home: into the queue of this very worker, or into another's inbox.
#[inline]
pub(crate) fn deliver(delivery: Delivery) {
    with(|strand| match &strand.worker {
        Some(worker) if delivery.is_for(worker.inbox) => worker.enqueue(delivery.waiter()),
        _ => strand.turn.while_fixed(Fixed::InWaker, || delivery.send()), // that may run a foreign waker, in the middle of our operation
    });
}

/// Ends the wait that `token` names. False if it was over already.
#[inline]
pub(crate) fn wake(token: WaitToken, code: u16) -> bool {
    match token.wake(code) {
        Wake::Parked(delivery) => {
            deliver(delivery);
            true
        }
        Wake::Awake => true,
        Wake::Stale => false,
    }
}
