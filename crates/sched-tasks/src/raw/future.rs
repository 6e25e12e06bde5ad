//! A future as a task: polled by any worker, one at a time, when its waker says so.
//!
//! Room: mechanism. Knows wakers and polls; knows nothing of which worker polls.
//!
//! ```text
//!            wake 1               run 2              Ready 4
//!    IDLE ─────────► SCHEDULED ─────────► RUNNING ─────────► DONE
//!      ▲                 ▲                   │
//!      └─────────────────┼──── Pending 3 ────┤
//!                        └── woken meanwhile ┘
//! ```
//!
//! # Invariant
//! A future is in at most one queue, and polled by at most one worker. A wake during a poll leads to another poll. The future is dropped before its nursery
//! is told that it ended; only the emptied memory may outlive that, held by wakers.
//!
//! # Why it holds
//! `wake` sets SCHEDULED by RMW, and only the caller that finds IDLE before queues it. After a poll the worker goes back to IDLE by CAS, which a wake in between makes
//! fail. `refs` counts the task itself, its handle and every waker.

use std::{
    cell::UnsafeCell,
    future::Future,
    mem::{ManuallyDrop, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    task::{Context, Poll, RawWaker, RawWakerVTable, Waker},
};

use mech_sync::Completion;

use super::{
    handle::Handle,
    pool,
    task::{self, Front},
};
use crate::{
    budget::Reading,
    error::TaskError,
    kernel::{
        locals::Locals,
        nursery::{Member, NurseryCore},
        scope::ScopeRef,
        task::{Details, FutureRef, Header, Identity, Runnable, RunnableRef, Running, VTable, label},
        turn::Fixed,
    },
    strand::{Strand, room::in_own_frame},
    task_state::TaskState,
};

const IDLE: u32 = 0;
const SCHEDULED: u32 = 1;
const RUNNING: u32 = 2;
const DONE: u32 = 4;

/// Not among its nursery's members.
const NO_PLACE: u32 = u32::MAX;

#[repr(C)]
struct Cell<F, T> {
    front: Front<T>,
    state: AtomicU32,
    /// The task itself, its handle, and every waker.
    refs: AtomicU32,
    /// Touched only by the worker that polls.
    rest: UnsafeCell<Rest<F>>,
}

struct Rest<F> {
    future: ManuallyDrop<F>,
    locals: Locals,
    /// What it has left to spend, between polls; if nothing was put aside, its share, which it gets when it is polled.
    aside: Option<Box<Reading>>,
    place: u32,
    /// It works for the runtime, and is not charged.
    is_free: bool,
}

type Pointer = NonNull<Runnable>;

const fn task_vtable<F, T>(asks_for_stack: bool) -> VTable
where
    F: Future<Output = Result<T, TaskError>>,
{
    VTable {
        run: run::<F, T>,
        fail: fail::<F, T>,
        refuse: refuse::<F, T>,
        free: release::<F, T>,
        id: task::id,
        scope: task::scope,
        state: state::<F, T>,
        stack_bytes: if asks_for_stack { Some(stack_bytes_of::<T>) } else { None },
        waker: Some(new_waker::<F, T>),
    }
}

/// # Safety
/// `this` is a live future's.
unsafe fn stack_bytes_of<T>(this: Pointer) -> usize {
    // SAFETY: as the caller promised: every task begins with a `Header`.
    task::asked_stack_bytes(unsafe { this.cast::<Header>().as_ref() }, task::extra_stack_bytes(size_of::<T>()))
}

/// Makes a task of `scope` that polls `future`. The caller has counted it, and will publish the [`RunnableRef`].
///
/// # Safety
/// As for `task::create`.
pub(super) unsafe fn create<F, T>(
    scope: &NurseryCore,
    future: F,
    identity: Identity,
    charged: bool,
) -> (RunnableRef, Handle<T>)
where
    F: Future<Output = Result<T, TaskError>> + Send,
    T: Send,
{
    let cell = pool::boxed(Cell {
        front: Front::<T> {
            header: Header {
                runnable: Runnable {
                    vtable: match identity.details.as_deref() {
                        Some(Details { stack_bytes: 1.., .. }) => &const { task_vtable::<F, T>(true) },
                        _ => &const { task_vtable::<F, T>(size_of::<T>() > task::LARGE_BYTES) },
                    },
                },
                completion: Completion::new(),
                // SAFETY: the task is counted in `scope`; after it is counted as ended nothing reads the reference.
                scope: unsafe { ScopeRef::new(scope) },
                identity,
            },
            result: UnsafeCell::new(MaybeUninit::uninit()),
        },
        state: AtomicU32::new(SCHEDULED),
        refs: AtomicU32::new(2),
        rest: UnsafeCell::new(Rest {
            future: ManuallyDrop::new(future),
            locals: Locals::default(),
            aside: None,
            place: NO_PLACE,
            is_free: !charged,
        }),
    });
    let pointer = cell.cast::<Runnable>();
    // SAFETY: just made and SCHEDULED, so it is not handed out again before it ran.
    (unsafe { RunnableRef::new(pointer) }, Handle::new(pointer))
}

/// # Safety
/// `this` is a live [`Cell`] with these types, and SCHEDULED; the caller took it out of the one queue it was in.
unsafe fn run<F, T>(this: Pointer, strand: &Strand)
where
    F: Future<Output = Result<T, TaskError>>,
{
    // SAFETY: the task's own reference is given up only by `end`, below.
    let cell = unsafe { this.cast::<Cell<F, T>>().as_ref() };
    let header = &cell.front.header;
    // SAFETY: RUNNING makes it ours.
    let rest = unsafe { &mut *cell.rest.get() };
    let was = cell.state.swap(RUNNING, AcqRel);
    debug_assert_eq!(was, SCHEDULED);
    if header.scope.is_cancelled() {
        // SAFETY: ours, and not ended.
        return unsafe { end::<F, T>(this, Err(task::cancelled(header)), strand) };
    }
    // SAFETY: the vtable belongs to these types; the waker borrows the task's own reference and is not dropped.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(this.as_ptr().cast(), vtable::<F, T>())) });
    if header.scope.needs_attention() && header.scope.holds_back(&waker) {
        // SAFETY: ours while RUNNING; it was not polled.
        return unsafe { wait_on::<F, T>(this, strand, &waker) };
    }
    // SAFETY: `end`, below, takes it off the strand, while the task is live.
    let running = unsafe { Running::of(this, header) };
    match rest.aside.take() {
        Some(boxed) => {
            let meter = *boxed;
            drop(boxed); // before it begins: in its own name that would be credit for what it never paid
            strand.begin_again(running, header.scope, &meter);
        }
        None if rest.is_free => strand.begin_again(running, header.scope, &Reading::UNMETERED),
        None => strand.begin(running, header.scope),
    }
    strand.locals.swap(&std::cell::RefCell::new(std::mem::take(&mut rest.locals)));
    // SAFETY: the future stays in this cell until it is dropped.
    let future = unsafe { Pin::new_unchecked(&mut *rest.future) };
    strand.turn.take_refused();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        // Not `start_funded`: one that only waits for others costs nothing, and must not fail for want of what it does not need.
        let polled =
            strand.turn.while_fixed(Fixed::InPoll, || in_own_frame(|| future.poll(&mut Context::from_waker(&waker))));
        if polled.is_ready() {
            strand.look_at_meter();
        }
        polled
    }));
    rest.locals = strand.locals.take();
    strand.traces.has_locals().set(false);
    if strand.meter.is_metered() && matches!(polled, Ok(Poll::Pending)) {
        rest.aside = Some(Box::new(strand.put_meter_aside()));
    }
    strand.end();
    match polled {
        // SAFETY: ours while RUNNING.
        Ok(Poll::Pending) => unsafe { wait_on::<F, T>(this, strand, &waker) },
        Ok(Poll::Ready(outcome)) => {
            let outcome = outcome.map_err(|error| error.of_task(&label(header)));
            // SAFETY: ours, and not ended.
            unsafe { end::<F, T>(this, outcome, strand) };
        }
        // SAFETY: as above.
        Err(payload) => unsafe { end::<F, T>(this, Err(task::error_of(payload, header)), strand) },
    }
}

/// Leaves it until it is woken, by what it waits for or by a cancellation.
///
/// # Safety
/// The caller is RUNNING it, and does not touch it again.
#[inline(always)]
unsafe fn wait_on<F, T>(this: Pointer, strand: &Strand, waker: &Waker) {
    // SAFETY: as in `run`.
    let cell = unsafe { this.cast::<Cell<F, T>>().as_ref() };
    // SAFETY: ours while RUNNING.
    let place = unsafe { &mut (*cell.rest.get()).place };
    let scope = cell.front.header.scope;
    if *place == NO_PLACE {
        // SAFETY: it is taken off the list before it ends, by `end` or `fail`.
        *place = scope.enlist(Member::Future(unsafe { FutureRef::new(this) }));
        if scope.is_cancelled() {
            waker.wake_by_ref(); // cancelled before it could know of us
        }
    }
    if cell.state.compare_exchange(RUNNING, IDLE, AcqRel, Acquire).is_err() {
        cell.state.store(SCHEDULED, Release);
        // SAFETY: SCHEDULED by us, in no queue.
        requeue(strand, unsafe { RunnableRef::new(this) });
    }
}

/// Puts a future that was woken while it was polled at the back of the queue.
fn requeue(strand: &Strand, runnable: RunnableRef) {
    let worker = strand.worker.as_ref().expect("futures are polled by workers");
    if strand.turn.take_refused() { worker.requeue_turn(runnable) } else { worker.requeue(runnable) }
}

/// # Safety
/// The caller is RUNNING it, and does not touch it again.
unsafe fn end<F, T>(this: Pointer, outcome: Result<T, TaskError>, strand: &Strand) {
    // SAFETY: as in `run`.
    let cell = unsafe { this.cast::<Cell<F, T>>().as_ref() };
    let header = &cell.front.header;
    // SAFETY: ours while RUNNING.
    let rest = unsafe { &mut *cell.rest.get() };
    if let (Some(meter), Some(account)) = (rest.aside.take(), header.scope.account()) {
        account.settle(&meter.settlement()).wake(); // it had waited, and does not go on
    }
    let locals = std::mem::take(&mut rest.locals);
    // SAFETY: `aside` takes it off the strand, while the task is live.
    let running = unsafe { Running::of(this, header) };
    let dropped = strand.aside(running, header.scope, || {
        strand.put_locals(locals);
        // SAFETY: dropped here only, since it ends once.
        in_own_frame(|| unsafe { ManuallyDrop::drop(&mut rest.future) });
    });
    if rest.place != NO_PLACE {
        header.scope.delist(rest.place);
    }
    cell.state.store(DONE, Release);
    let outcome = match dropped {
        Ok(()) => outcome,
        Err(payload) => Err(task::error_of(payload, header)),
    };
    // SAFETY: future and locals are gone; then the task gives up its own reference.
    unsafe {
        task::finish(this.cast::<Front<T>>(), outcome, strand, release::<F, T>);
        release::<F, T>(this);
    }
}

/// # Safety
/// `this` is a live [`Cell`] with these types.
unsafe fn state<F, T>(this: Pointer) -> TaskState {
    // SAFETY: as the caller promised.
    match unsafe { this.cast::<Cell<F, T>>().as_ref() }.state.load(Relaxed) {
        IDLE => TaskState::Blocked,
        SCHEDULED => TaskState::Ready,
        _ => TaskState::Running,
    }
}

/// # Safety
/// As for [`run`].
unsafe fn refuse<F, T>(this: Pointer, error: TaskError, strand: &Strand) {
    // SAFETY: as in `run`.
    let cell = unsafe { this.cast::<Cell<F, T>>().as_ref() };
    cell.state.swap(RUNNING, AcqRel);
    let error = error.of_task(&label(&cell.front.header));
    // SAFETY: RUNNING makes it ours.
    unsafe { end::<F, T>(this, Err(error), strand) };
}

/// # Safety
/// As for [`run`], except that a poll began and its stack was lost: the future is in pieces. It is leaked, and its memory too: others may know its
/// address, since it was pinned.
unsafe fn fail<F, T>(this: Pointer, error: TaskError, strand: &Strand) {
    // SAFETY: as in `run`.
    let cell = unsafe { this.cast::<Cell<F, T>>().as_ref() };
    // SAFETY: RUNNING, by the poll that was lost.
    let place = unsafe { (*cell.rest.get()).place };
    if place != NO_PLACE {
        cell.front.header.scope.delist(place);
    }
    cell.state.store(DONE, Release);
    // SAFETY: nothing will poll it again. The task keeps its own reference for ever.
    unsafe { task::finish(this.cast::<Front<T>>(), Err(error), strand, release::<F, T>) };
}

/// Gives up one reference.
///
/// # Safety
/// The caller has one.
unsafe fn release<F, T>(this: Pointer) {
    // SAFETY: by the caller's reference.
    let cell = unsafe { this.cast::<Cell<F, T>>().as_ref() };
    if cell.refs.fetch_sub(1, Release) == 1 {
        let _ = cell.refs.load(Acquire); // sees what the others did before they let go; sanitizers know no fences
        // SAFETY: the last reference; future and result are gone or leaked (`ManuallyDrop`, `MaybeUninit`).
        unsafe { pool::unbox(this.cast::<Cell<F, T>>()) };
    }
}

fn vtable<F, T>() -> &'static RawWakerVTable
where
    F: Future<Output = Result<T, TaskError>>,
{
    &const { RawWakerVTable::new(clone_waker::<F, T>, wake::<F, T>, wake_by_ref::<F, T>, drop_waker::<F, T>) }
}

fn pointer(data: *const ()) -> Pointer {
    NonNull::new(data.cast_mut()).expect("a waker points to its task").cast()
}

/// # Safety
/// `this` is a live [`Cell`] with these types.
unsafe fn new_waker<F, T>(this: Pointer) -> Waker
where
    F: Future<Output = Result<T, TaskError>>,
{
    // SAFETY: live, and the vtable belongs to these types.
    unsafe { Waker::from_raw(clone_waker::<F, T>(this.as_ptr().cast())) }
}

/// # Safety
/// `data` is a waker's, made by [`run`] or [`clone_waker`].
unsafe fn clone_waker<F, T>(data: *const ()) -> RawWaker
where
    F: Future<Output = Result<T, TaskError>>,
{
    // SAFETY: a waker holds (or borrows) a reference.
    let cell = unsafe { pointer(data).cast::<Cell<F, T>>().as_ref() };
    let before = cell.refs.fetch_add(1, Relaxed);
    assert!(
        before < u32::MAX / 2,
        "a task has more than two thousand million wakers: something clones them and keeps them all"
    );
    RawWaker::new(data, vtable::<F, T>())
}

/// # Safety
/// As for [`clone_waker`]; the waker is used up.
unsafe fn wake<F, T>(data: *const ())
where
    F: Future<Output = Result<T, TaskError>>,
{
    // SAFETY: passed on.
    unsafe {
        wake_by_ref::<F, T>(data);
        drop_waker::<F, T>(data);
    }
}

/// # Safety
/// As for [`clone_waker`].
unsafe fn wake_by_ref<F, T>(data: *const ())
where
    F: Future<Output = Result<T, TaskError>>,
{
    let this = pointer(data);
    // SAFETY: as in `clone_waker`.
    let cell = unsafe { this.cast::<Cell<F, T>>().as_ref() };
    if cell.state.fetch_or(SCHEDULED, AcqRel) == IDLE {
        let shared = cell.front.header.scope.shared(); // not DONE, and it cannot be before it is polled: its nursery waits for it
        // SAFETY: we made it SCHEDULED, so it is in no queue; and not DONE, so its own reference is there.
        shared.publish_woken(unsafe { RunnableRef::new(this) });
    }
}

/// # Safety
/// As for [`clone_waker`]; the waker is used up.
unsafe fn drop_waker<F, T>(data: *const ()) {
    // SAFETY: the waker's own reference.
    unsafe { release::<F, T>(pointer(data)) };
}
