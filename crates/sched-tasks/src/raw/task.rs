//! A task's memory: what to run, where the result goes, and who frees it.
//!
//! # Invariant
//! The closure is called or dropped once. The result is written once, then read or dropped once. The memory is freed by whichever of
//! runner and handle leaves last. All of the closure is gone before the nursery is told that the task ended.
//!
//! # Why it holds
//! A deque hands each pointer out once, so `run` is called once. Runner and handle meet in a [`Completion`], which tells exactly one of them to free.
//! `finish` drops what nobody will read before it counts the task as ended; a handle cannot outlive the scope of the nursery.

use std::{
    any::Any,
    cell::UnsafeCell,
    marker::PhantomData,
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    ptr::NonNull,
    sync::Arc,
    task::{Context, Poll},
};

use mech_sync::{Completion, Finish};
use vocab::TaskId;

use super::{nameplate::Name, pool, scope::ScopeRef};
use crate::{
    error::{Reason, TaskError, TaskLabel},
    nursery::NurseryCore,
    panics,
    places::FutureWait,
    strand::{self, Cancellation, Strand, Woken},
    task_state::TaskState,
};

/// Anything a worker can run: the first word of every task and of every half of a `join`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Runnable {
    pub(super) vtable: &'static VTable,
}

#[derive(Debug)]
pub(super) struct VTable {
    /// Runs it. The pointer must not be used again by the caller.
    pub(super) run: unsafe fn(NonNull<Runnable>, &Strand),
    /// Ends it with an error, after it began and its stack was lost.
    pub(super) fail: unsafe fn(NonNull<Runnable>, TaskError, &Strand),
    /// Ends it with an error before it began.
    pub(super) refuse: unsafe fn(NonNull<Runnable>, TaskError, &Strand),
    /// Gives the handle's share of the memory back.
    pub(super) free: unsafe fn(NonNull<Runnable>),
    /// On behalf of which task it runs.
    pub(super) id: unsafe fn(NonNull<Runnable>) -> TaskId,
    /// Where it stands, if it has not ended.
    pub(super) state: unsafe fn(NonNull<Runnable>) -> TaskState,
}

/// A pointer to a [`Runnable`] that is to be run once.
#[derive(Debug)]
#[must_use = "a task that is not run never ends"]
pub(crate) struct RunnableRef(NonNull<Runnable>);

// SAFETY: whatever can be run is `Send`: `spawn` and `join` demand it of closures and futures.
unsafe impl Send for RunnableRef {}

impl RunnableRef {
    /// # Safety
    /// The pointer is to a live task (or half of a join) that has not been handed out to be run before.
    pub(super) unsafe fn new(pointer: NonNull<Runnable>) -> Self {
        Self(pointer)
    }

    /// As an item of a deque, from which [`RunnableRef::from_item`] gets it back.
    #[inline]
    pub(crate) fn into_item(self) -> *mut Runnable {
        self.0.as_ptr()
    }

    /// What a deque gave out. Deques of workers hold only what `into_item` made, and give each out once.
    #[inline]
    pub(crate) fn from_item(item: *mut Runnable) -> Self {
        Self(NonNull::new(item).expect("a deque holds what was pushed"))
    }

    /// Runs it to its end, or until it waits.
    #[inline]
    pub(crate) fn run(self, strand: &Strand) {
        // SAFETY: by `new` and the deque this is the only use of the pointer, and the task is live until it has run.
        unsafe { (self.0.as_ref().vtable.run)(self.0, strand) }
    }
}

impl RunnableRef {
    /// On behalf of which task it runs.
    pub(crate) fn id(&self) -> TaskId {
        // SAFETY: it was not run, so it is live.
        unsafe { (self.0.as_ref().vtable.id)(self.0) }
    }

    /// Ends it unrun, because of `reason`.
    pub(crate) fn refuse(self, reason: Reason, strand: &Strand) {
        // SAFETY: as in `run`.
        unsafe { (self.0.as_ref().vtable.refuse)(self.0, TaskError::new(reason, None), strand) }
    }
}

/// What every task has, whatever it runs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(super) runnable: Runnable,
    pub(super) completion: Completion,
    pub(super) scope: ScopeRef,
    pub(super) identity: Identity,
}

/// Who a task is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) id: TaskId,
    pub(crate) site: &'static Location<'static>,
    /// One word if there is none.
    pub(crate) name: Option<Arc<Box<str>>>,
}

/// The start of a task's memory as its handle knows it: without the type of what runs.
#[repr(C)]
pub(super) struct Front<T> {
    pub(super) header: Header,
    /// Written before `completion` is done, then the reader's.
    pub(super) result: UnsafeCell<MaybeUninit<Result<T, TaskError>>>,
}

#[repr(C)]
struct Cell<F, T> {
    front: Front<T>,
    closure: UnsafeCell<MaybeUninit<F>>,
}

/// Makes a task of `scope` that will run `closure`. The caller has counted it, and will publish the [`RunnableRef`].
///
/// # Safety
/// `scope` does not end before the task has been counted as ended, and neither `F` nor `T` borrows anything that ends before
/// `scope` does.
#[inline(always)] // so that the closure's captures, too, are written in place
pub(super) unsafe fn create<F, T>(scope: &NurseryCore, closure: F, identity: Identity) -> (RunnableRef, Handle<T>)
where
    F: FnOnce() -> Result<T, TaskError> + Send,
    T: Send,
{
    let vtable: &'static VTable =
        &VTable { run: run::<F, T>, fail: fail::<F, T>, refuse: refuse::<F, T>, free: free::<F, T>, id, state };
    let cell = pool::take::<Cell<F, T>>();
    // SAFETY: field by field: made on the stack first, a task would be copied in wider pieces than it was written in, and every such read waits for the
    // writes (a third of the cost of a spawn). The result stays uninitialised, as its type allows. `scope`: the task is counted in it, and `finish` takes the
    // reference out before it is counted as ended.
    unsafe {
        let cell = cell.as_ptr();
        (&raw mut (*cell).front.header.runnable).write(Runnable { vtable });
        (&raw mut (*cell).front.header.completion).write(Completion::new());
        (&raw mut (*cell).front.header.scope).write(ScopeRef::new(scope));
        (&raw mut (*cell).front.header.identity.id).write(identity.id);
        (&raw mut (*cell).front.header.identity.site).write(identity.site);
        (&raw mut (*cell).front.header.identity.name).write(identity.name);
        (&raw mut (*cell).closure).write(UnsafeCell::new(MaybeUninit::new(closure)));
    }
    let pointer = cell.cast::<Runnable>();
    // SAFETY: just made, and given out once.
    (unsafe { RunnableRef::new(pointer) }, Handle::new(pointer))
}

/// Makes a task that has ended with `error`.
///
/// # Safety
/// As for [`create`], but nobody counts it or runs it.
pub(super) unsafe fn create_ended<T: Send>(scope: &NurseryCore, identity: Identity, error: TaskError) -> Handle<T> {
    let nothing = || unreachable!("a task that was refused does not run");
    // SAFETY: never run, so its scope is never read.
    let (_never_run, handle) = unsafe { create::<_, T>(scope, nothing, identity) };
    let error = error.of_task(&handle.label());
    // SAFETY: nobody else has it.
    unsafe { (*handle.front().result.get()).write(Err(error)) };
    let finish = handle.completion().finish();
    debug_assert!(matches!(finish, Finish::Kept));
    handle
}

/// # Safety
/// `this` came from [`create`] with the same types, and has not been run.
unsafe fn run<F, T>(this: NonNull<Runnable>, strand: &Strand)
where
    F: FnOnce() -> Result<T, TaskError>,
{
    let cell = this.cast::<Cell<F, T>>();
    // SAFETY: live until `finish`; the closure is ours alone, since a task is run once.
    let (header, closure) = unsafe { (&cell.as_ref().front.header, (*cell.as_ref().closure.get()).assume_init_read()) };
    let outcome = if header.scope.is_cancelled() {
        Err(drop_unrun(closure, this, header, cancelled(header), strand))
    } else {
        strand.begin(Running::of(this, header), header.scope);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            strand.start_funded();
            let outcome = closure();
            strand.look_at_meter();
            outcome
        }));
        strand.end();
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error.of_task(&label(header))),
            Err(payload) => Err(error_of(payload, header)),
        }
    };
    // SAFETY: the closure is gone and nothing of the task runs any more.
    unsafe { finish(this.cast::<Front<T>>(), outcome, strand, free::<F, T>) };
}

/// # Safety
/// As for [`run`].
unsafe fn refuse<F, T>(this: NonNull<Runnable>, error: TaskError, strand: &Strand) {
    let cell = this.cast::<Cell<F, T>>();
    // SAFETY: as in `run`.
    let (header, closure) = unsafe { (&cell.as_ref().front.header, (*cell.as_ref().closure.get()).assume_init_read()) };
    let error = drop_unrun(closure, this, header, error.of_task(&label(header)), strand);
    // SAFETY: as in `run`.
    unsafe { finish(this.cast::<Front<T>>(), Err(error), strand, free::<F, T>) };
}

/// Drops what never ran: `error` says why, unless a destructor has something worse to tell.
#[cold]
fn drop_unrun<F>(body: F, this: NonNull<Runnable>, header: &Header, error: TaskError, strand: &Strand) -> TaskError {
    match strand.aside(Running::of(this, header), header.scope, || drop(body)) {
        Ok(()) => error,
        Err(payload) => error_of(payload, header),
    }
}

/// # Safety
/// As for [`run`], except that it began to run and never will go on: the closure was moved out.
unsafe fn fail<F, T>(this: NonNull<Runnable>, error: TaskError, strand: &Strand) {
    // SAFETY: as the caller promised.
    unsafe { finish(this.cast::<Front<T>>(), Err(error), strand, free::<F, T>) };
}

/// # Safety
/// `this` is a live task, which begins with a [`Header`].
pub(super) unsafe fn id(this: NonNull<Runnable>) -> TaskId {
    // SAFETY: as the caller promised.
    unsafe { this.cast::<Header>().as_ref() }.identity.id
}

/// # Safety
/// As for [`id`]; it is a fiber's, and its nursery has not ended.
unsafe fn state(this: NonNull<Runnable>) -> TaskState {
    // SAFETY: as the caller promised.
    let header = unsafe { this.cast::<Header>().as_ref() };
    header.scope.state_of(header.identity.id)
}

/// # Safety
/// Runner and handle have both left, and the result has been moved out or dropped.
unsafe fn free<F, T>(this: NonNull<Runnable>) {
    // SAFETY: made in `create`, with these types; closure and result are `MaybeUninit`, so only the header is dropped.
    unsafe { pool::unbox(this.cast::<Cell<F, T>>()) };
}

/// Writes the result, tells the reader, and counts the task as ended.
///
/// # Safety
/// The task ran (or will never run) and nothing of it is left but its front. `free` frees it.
pub(super) unsafe fn finish<T>(
    front: NonNull<Front<T>>,
    outcome: Result<T, TaskError>,
    strand: &Strand,
    free: unsafe fn(NonNull<Runnable>),
) {
    // SAFETY: live: the runner has not left yet.
    let header = unsafe { &front.as_ref().header };
    let scope = header.scope;
    if let Err(error) = &outcome {
        match (error.is_cancelled(), &strand.worker) {
            (false, _) => scope.child_failed(error.clone()),
            (true, Some(worker)) => worker.count_cancelled(),
            (true, None) => {}
        }
    }
    // SAFETY: the reader looks only after `completion` is done.
    unsafe { (*front.as_ref().result.get()).write(outcome) };
    scope.give_permit_back();
    match header.completion.finish() {
        Finish::Kept => {}
        Finish::Wake(ticket) => {
            strand::wake(ticket, 0);
        }
        Finish::Abandoned => {
            // SAFETY: the handle left, so result and memory are ours.
            let result = unsafe { (*front.as_ref().result.get()).assume_init_read() };
            // A destructor of a value nobody wanted may panic; that is the task's failure as well.
            let dropped = if std::mem::needs_drop::<T>() && result.is_ok() {
                strand.aside(Running::of(front.cast(), header), scope, || drop(result))
            } else {
                drop(result); // nobody's code but ours
                Ok(())
            };
            if let Err(payload) = dropped {
                scope.child_failed(error_of(payload, header));
            }
            // SAFETY: as above.
            unsafe { free(front.cast()) };
        }
    }
    strand.count_ended(scope);
}

pub(super) fn label(header: &Header) -> TaskLabel {
    let Identity { id, site, name } = &header.identity;
    TaskLabel { id: *id, name: name.as_deref().map(|name| Arc::from(&**name)), spawned_at: site }
}

pub(super) fn cancelled(header: &Header) -> TaskError {
    TaskError::new(Reason::Cancelled, Some(label(header)))
}

/// What a payload caught from a task means.
#[cold]
pub(super) fn error_of(payload: Box<dyn Any + Send>, header: &Header) -> TaskError {
    if payload.is::<Cancellation>() {
        return cancelled(header);
    }
    match payload.downcast::<TaskError>() {
        Ok(error) => *error, // a half of a `join` lost its stack
        Err(payload) => TaskError::new(panics::reason(&*payload), Some(label(header))),
    }
}

/// The task that runs on a strand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskRef(pub(super) NonNull<Header>);

impl TaskRef {
    /// Its number.
    pub(crate) fn id(&self) -> TaskId {
        // SAFETY: as in `label`.
        unsafe { self.0.as_ref() }.identity.id
    }

    /// Who it is.
    pub(crate) fn label(&self) -> TaskLabel {
        // SAFETY: a strand has a `TaskRef` only between `begin` and `end`, while the task is live.
        label(unsafe { self.0.as_ref() })
    }

    /// The same in short, for the worker's nameplate.
    #[inline(always)]
    pub(crate) fn name(self) -> Name {
        // SAFETY: as in `label`.
        let Identity { id, site, .. } = unsafe { &self.0.as_ref().identity };
        Name::new(*id, site)
    }
}

/// What runs on a strand: on behalf of which task, and what to tell if its stack is lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    task: TaskRef,
    runnable: NonNull<Runnable>,
}

impl Running {
    #[inline(always)]
    pub(super) fn new(task: TaskRef, runnable: NonNull<Runnable>) -> Self {
        Self { task, runnable }
    }

    #[inline(always)]
    pub(super) fn of(runnable: NonNull<Runnable>, header: &Header) -> Self {
        Self::new(TaskRef(NonNull::from(header)), runnable)
    }

    #[inline(always)]
    pub(crate) fn task(self) -> TaskRef {
        self.task
    }

    /// Ends it with `error`. Only for what began and will never go on, because its stack was lost.
    pub(crate) fn fail(self, error: TaskError, strand: &Strand) {
        // SAFETY: it is live until it ends, and it ends here: its stack is quarantined.
        unsafe { (self.runnable.as_ref().vtable.fail)(self.runnable, error, strand) }
    }
}

/// The reader's end of a task: one word, so that handles move cheaply.
pub(crate) struct Handle<T> {
    /// Tagged with [`WAITING`].
    pointer: NonNull<Runnable>,
    result: PhantomData<T>,
}

/// In a handle's pointer: a poll left its ticket with the task.
const WAITING: usize = 1;

/// What a handle points to that has given its result away.
const SPENT: NonNull<Runnable> = NonNull::dangling();

// SAFETY: a handle gives out the result, which is sent from the thread that ran the task.
unsafe impl<T: Send> Send for Handle<T> {}
// SAFETY: by reference one can only ask whether the task is done and who it is.
unsafe impl<T: Send> Sync for Handle<T> {}

impl<T> Handle<T> {
    #[inline]
    pub(super) fn new(pointer: NonNull<Runnable>) -> Self {
        Self { pointer, result: PhantomData }
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.pointer.addr().get() & WAITING != 0
    }

    #[inline]
    fn runnable(&self) -> NonNull<Runnable> {
        let pointer = self.pointer.as_ptr().map_addr(|address| address & !WAITING);
        // SAFETY: a task is aligned to more than the tag, so without the tag it is still not null.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    fn set_waiting(&mut self, waiting: bool) {
        let pointer = self.runnable().as_ptr().map_addr(|address| address | if waiting { WAITING } else { 0 });
        self.pointer = NonNull::new(pointer).expect("a tag does not make it null");
    }

    #[inline]
    fn front(&self) -> &Front<T> {
        // SAFETY: the handle has not left, so the memory is there; every task begins with a `Front<T>`.
        unsafe { self.runnable().cast().as_ref() }
    }

    #[inline]
    fn completion(&self) -> &Completion {
        &self.front().header.completion
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.completion().is_done()
    }

    pub(crate) fn label(&self) -> TaskLabel {
        label(&self.front().header)
    }

    /// Where it stands.
    pub(crate) fn state(&self) -> TaskState {
        if self.pointer == SPENT {
            return TaskState::Completed; // whoever took the result knows more
        }
        if !self.is_done() && self.is_exhausted() {
            return TaskState::BudgetExhausted;
        }
        if !self.is_done() {
            // SAFETY: the handle has not left, so the memory is there; and it cannot outlive the nursery.
            let state = unsafe { (self.runnable().as_ref().vtable.state)(self.runnable()) };
            if !self.is_done() {
                return state;
            } // else it ended meanwhile
        }
        // SAFETY: done, so the result was written, and nobody but this handle takes it out.
        match unsafe { (*self.front().result.get()).assume_init_ref() } {
            Err(error) if error.is_cancelled() => TaskState::Cancelled,
            Err(error) if matches!(error.reason(), Reason::BudgetExhausted { .. }) => TaskState::BudgetExhausted,
            _ => TaskState::Completed,
        }
    }

    /// Whether it has spent its budget, and waits for more.
    pub(crate) fn is_exhausted(&self) -> bool {
        let header = &self.front().header;
        let mut level = Some(header.scope);
        while let Some(scope) = level.filter(|_| !self.is_done()) {
            if scope.account().is_some_and(|account| account.is_exhausted(header.identity.id)) {
                return true;
            }
            level = scope.outer();
        }
        false
    }

    /// Waits for the result. A cancelled caller unwinds, unless the result came first.
    #[inline]
    pub(crate) fn join(mut self) -> Result<T, TaskError> {
        self.stop_waiting();
        if !self.is_done() {
            strand::with(|strand| self.wait(strand));
        }
        // SAFETY: done, with no ticket out; and `self` is forgotten.
        let result = unsafe { self.take() };
        std::mem::forget(self);
        result
    }

    #[inline(never)]
    fn wait(&self, strand: &Strand) {
        let ticket = strand.ticket();
        if !self.completion().wait(ticket) {
            return;
        }
        loop {
            // Before every stop, not only after a kick: an earlier wait may have used the kick up.
            if strand.is_cancelled() && self.completion().retract() {
                ticket.withdraw();
                strand.unwind();
            }
            if let Woken::By(_) = strand.wait(ticket) {
                return;
            }
        }
    }

    /// The result, if it is there; else `cx` is woken when it is. Not to be called again after it was.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, TaskError>> {
        assert!(self.pointer != SPENT, "a task was polled after it had given its result");
        if !self.is_waiting() && !self.is_done() {
            let wait = FutureWait::begin(cx.waker());
            if self.completion().wait(wait.ticket()) {
                wait.leave();
                self.set_waiting(true);
            }
        }
        if self.is_waiting() {
            let wait = self.come_back();
            // Done is not enough while a ticket is out: whoever finished may be looking at it. Its wake is the last it does.
            if !wait.poll(cx.waker()) {
                wait.leave();
                return Poll::Pending;
            }
            self.set_waiting(false);
        }
        // SAFETY: done, and no ticket is out; the handle is spent from here on.
        let result = unsafe { self.take() };
        self.pointer = SPENT;
        Poll::Ready(result)
    }

    fn come_back(&self) -> FutureWait {
        FutureWait::come_back(self.completion().ticket().expect("a poll left its ticket"))
    }

    /// # Safety
    /// The task is done, no ticket is out, and the handle is not used again.
    #[inline]
    unsafe fn take(&self) -> Result<T, TaskError> {
        debug_assert!(self.is_done());
        // SAFETY: done, so the result was written, and we are its only reader; the runner left when it finished, and we leave now.
        unsafe {
            let result = (*self.front().result.get()).assume_init_read();
            (self.runnable().as_ref().vtable.free)(self.runnable());
            result
        }
    }

    /// Takes back the ticket an earlier poll left. A task that just ended may be looking at it: its wake is the last it does.
    #[inline]
    fn stop_waiting(&mut self) {
        if self.is_waiting() {
            self.take_ticket_back();
        }
    }

    #[cold]
    fn take_ticket_back(&mut self) {
        let wait = self.come_back();
        self.set_waiting(false);
        if !self.completion().retract() {
            wait.until_woken();
        }
    }
}

impl<T> Drop for Handle<T> {
    #[inline]
    fn drop(&mut self) {
        if self.pointer == SPENT {
            return;
        }
        self.stop_waiting();
        if self.completion().abandon() {
            // SAFETY: done, and no ticket is out.
            drop(unsafe { self.take() });
        }
    }
}
