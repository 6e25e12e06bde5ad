//! A task's memory: what to run, where the result goes, and what frees it.
//!
//! Room: mechanism. Knows closures and results; knows nothing of which worker runs them.
//!
//! # Invariant
//! The closure is called or dropped once. The result is written once, then read or dropped once. The memory is freed by whichever of
//! runner and handle leaves last. All of the closure is gone before the nursery counts the task as ended.
//!
//! # Why it holds
//! A deque hands each pointer out once, so `run` is called once. Runner and handle meet in a [`Completion`], which says which one of them frees.
//! `finish` drops what is not read before it counts the task as ended; a handle cannot outlive the scope of the nursery.

use std::{
    any::Any,
    cell::UnsafeCell,
    marker::PhantomData,
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::Arc,
};

use mech_sync::{Completion, Finish};
use vocab::TaskId;

use super::{handle::Handle, pool};
use crate::{
    error::{Reason, TaskError},
    kernel::{
        nursery::NurseryCore,
        scope::ScopeRef,
        task::{Details, Header, Identity, Runnable, RunnableRef, Running, VTable, label},
    },
    strand::panics,
    strand::room::in_own_frame,
    strand::{self, Cancellation, Strand},
    task_state::TaskState,
};

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

/// Captures and results above this size get a larger stack than usual: they pass over it, and without optimisation several times.
pub(super) const LARGE_BYTES: usize = 8 << 10;

/// How much more stack than usual a closure and its result of so many bytes get.
pub(super) const fn extra_stack_bytes(bytes: usize) -> usize {
    const COPIES: usize = if cfg!(debug_assertions) { 32 } else { 4 };
    if bytes > LARGE_BYTES { bytes.saturating_mul(COPIES) } else { 0 }
}

const fn vtable<F, T>(asks_for_stack: bool) -> VTable
where
    F: FnOnce() -> Result<T, TaskError>,
{
    VTable {
        run: run::<F, T>,
        fail: fail::<F, T>,
        refuse: refuse::<F, T>,
        free: free::<F, T>,
        id,
        scope,
        state,
        stack_bytes: if asks_for_stack { Some(stack_bytes_of::<F, T>) } else { None },
        waker: None,
    }
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
    let vtable: &'static VTable = match identity.details.as_deref() {
        Some(Details { stack_bytes: 1.., .. }) => &const { vtable::<F, T>(true) },
        _ => &const { vtable::<F, T>(size_of::<F>() + size_of::<T>() > LARGE_BYTES) },
    };
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
        (&raw mut (*cell).front.header.identity.details).write(identity.details);
        (&raw mut (*cell).closure).write(UnsafeCell::new(MaybeUninit::new(closure)));
    }
    let pointer = cell.cast::<Runnable>();
    // SAFETY: just made, and given out once.
    (unsafe { RunnableRef::new(pointer) }, Handle::new(pointer))
}

/// Makes a task that has ended with `error`.
///
/// # Safety
/// As for [`create`], but it is neither counted nor run.
pub(super) unsafe fn create_ended<T: Send>(scope: &NurseryCore, identity: Identity, error: TaskError) -> Handle<T> {
    let nothing = || unreachable!("a task that was refused does not run");
    // SAFETY: never run, so its scope is never read.
    let (_never_run, handle) = unsafe { create::<_, T>(scope, nothing, identity) };
    let error = error.of_task(&handle.label());
    // SAFETY: there is no other pointer to it.
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
    // SAFETY: live until `finish`.
    let header = unsafe { &cell.as_ref().front.header };
    let unfinished = Unfinished::<F, T> { this, strand, types: PhantomData };
    let outcome = if header.scope.is_cancelled() {
        // SAFETY: the closure is ours alone, since a task is run once.
        Err(unsafe { drop_unrun::<F, T>(this, cancelled(header), strand) })
    } else {
        // SAFETY: `end`, below, takes it off the strand, while the task is live.
        let running = unsafe { Running::of(this, header) };
        strand.begin(running, header.scope);
        let is_moved = std::cell::Cell::new(false);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            strand.start_funded();
            if header.scope.needs_attention() {
                strand.stand_still();
            }
            // Caught in the closure's own frame: an unwinding passes one frame less.
            let outcome = in_own_frame(|| {
                catch_unwind(AssertUnwindSafe(|| {
                    is_moved.set(true);
                    // SAFETY: as above. Moved to this stack: if that is lost, the closure is kept with it.
                    let closure = unsafe { (*cell.as_ref().closure.get()).assume_init_read() };
                    closure()
                }))
            });
            if outcome.is_ok() {
                strand.look_at_meter();
            }
            outcome
        }));
        let outcome = outcome.flatten();
        let outcome = if strand.traces.has_locals().get() { strand.drop_locals(outcome) } else { outcome };
        strand.end();
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error.of_task(&label(header))),
            Err(payload) if is_moved.get() => Err(error_of(payload, header)),
            // It could not begin: it has no budget, or was cancelled while it stood still.
            // SAFETY: the closure was not moved, and is ours alone.
            Err(payload) => Err(unsafe { drop_unrun::<F, T>(this, error_of(payload, header), strand) }),
        }
    };
    std::mem::forget(unfinished);
    // SAFETY: the closure is gone and nothing of the task runs any more.
    unsafe { finish_here(this.cast::<Front<T>>(), outcome, strand, free::<F, T>) };
}

/// A task that was taken and is not finished. Should the runtime itself panic in between, the task fails, and its nursery does not wait for ever.
struct Unfinished<'a, F, T> {
    this: NonNull<Runnable>,
    strand: &'a Strand,
    types: PhantomData<fn() -> (F, T)>,
}

impl<F, T> Drop for Unfinished<'_, F, T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: live: it was not finished.
        let header = unsafe { self.this.cast::<Header>().as_ref() };
        let message = Arc::from("the runtime panicked while it ran this task");
        let error = TaskError::new(Reason::Panicked { message, location: panics::take_place() }, Some(label(header)));
        // SAFETY: nothing of the task runs any more; what is left of its closure is leaked.
        unsafe { finish(self.this.cast::<Front<T>>(), Err(error), self.strand, free::<F, T>) };
    }
}

/// # Safety
/// As for [`run`].
unsafe fn refuse<F, T>(this: NonNull<Runnable>, error: TaskError, strand: &Strand) {
    let unfinished = Unfinished::<F, T> { this, strand, types: PhantomData };
    // SAFETY: as in `run`.
    let error = unsafe {
        let error = error.of_task(&label(this.cast::<Header>().as_ref()));
        drop_unrun::<F, T>(this, error, strand)
    };
    std::mem::forget(unfinished);
    // SAFETY: as in `run`.
    unsafe { finish(this.cast::<Front<T>>(), Err(error), strand, free::<F, T>) };
}

/// Drops what never ran, where it is: `error` says why, unless a destructor fails as well.
///
/// # Safety
/// As for [`run`]; the closure is not used again.
#[cold]
unsafe fn drop_unrun<F, T>(this: NonNull<Runnable>, error: TaskError, strand: &Strand) -> TaskError {
    // SAFETY: live, and the closure is ours alone.
    let (header, closure) = unsafe {
        let cell = this.cast::<Cell<F, T>>().as_ref();
        (&cell.front.header, cell.closure.get())
    };
    // SAFETY: `aside_in_place` takes it off the strand, while the task is live.
    let running = unsafe { Running::of(this, header) };
    let dropped = strand.aside_in_place(running, header.scope, || {
        // SAFETY: written by `create`, and not moved out.
        in_own_frame(|| unsafe { (*closure).assume_init_drop() });
    });
    match dropped {
        Ok(()) => error,
        Err(payload) => error_of(payload, header),
    }
}

/// # Safety
/// `this` came from [`create`] with the same types, and has not ended.
unsafe fn stack_bytes_of<F, T>(this: NonNull<Runnable>) -> usize {
    // SAFETY: as the caller promised.
    let header = unsafe { this.cast::<Header>().as_ref() };
    asked_stack_bytes(header, extra_stack_bytes(size_of::<F>() + size_of::<T>()))
}

/// How much stack a task asks for: what its builder said, or the usual; and so much more.
pub(super) fn asked_stack_bytes(header: &Header, extra: usize) -> usize {
    let said = header.identity.details.as_ref().map_or(0, |details| details.stack_bytes);
    said.max(header.scope.shared().stacks.usual_bytes()).saturating_add(extra)
}

/// # Safety
/// As for [`run`], except that it began to run and never will go on: the closure was moved out.
unsafe fn fail<F, T>(this: NonNull<Runnable>, error: TaskError, strand: &Strand) {
    // SAFETY: as the caller promised.
    unsafe { finish(this.cast::<Front<T>>(), Err(error), strand, free::<F, T>) };
}

/// # Safety
/// `this` is a live task, which begins with a [`Header`], and has not ended.
pub(super) unsafe fn scope(this: NonNull<Runnable>) -> ScopeRef {
    // SAFETY: as the caller promised.
    unsafe { this.cast::<Header>().as_ref() }.scope
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

/// Writes the result, wakes the reader, and counts the task as ended.
///
/// # Safety
/// The task ran (or will never run) and nothing of it is left but its front. `free` frees it.
pub(super) unsafe fn finish<T>(
    front: NonNull<Front<T>>,
    outcome: Result<T, TaskError>,
    strand: &Strand,
    free: unsafe fn(NonNull<Runnable>),
) {
    // SAFETY: the caller's contract.
    unsafe { finish_here(front, outcome, strand, free) };
}

/// The same on the way of every task: in its frame, so that the result is not copied once more.
///
/// # Safety
/// As for [`finish`].
#[inline(always)]
unsafe fn finish_here<T>(
    front: NonNull<Front<T>>,
    outcome: Result<T, TaskError>,
    strand: &Strand,
    free: unsafe fn(NonNull<Runnable>),
) {
    // SAFETY: live: the runner has not left yet.
    let header = unsafe { &front.as_ref().header };
    let scope = header.scope;
    let counted = CountsAtEnd { strand, scope, owes_permit: std::cell::Cell::new(true) }; // dropped last: after this the nursery may be gone
    if let Err(error) = &outcome {
        match (error.is_cancelled(), &strand.worker) {
            (false, _) => scope.child_failed(error.clone()),
            (true, Some(worker)) => worker.count_cancelled(),
            (true, None) => {}
        }
    }
    // SAFETY: the reader looks only after `completion` is done.
    unsafe { (*front.as_ref().result.get()).write(outcome) };
    counted.owes_permit.set(!scope.give_permit_back());
    match header.completion.finish() {
        Finish::Kept => {}
        Finish::Wake(token) => {
            strand::wake(token, 0);
        }
        Finish::Abandoned => {
            // SAFETY: the handle left, so result and memory are ours. Dropped where it is: it may be large.
            let result = unsafe { &mut *front.as_ref().result.get() };
            // SAFETY: written above.
            let is_value = unsafe { result.assume_init_ref() }.is_ok();
            // A destructor of a value or an error that is not read may panic; that is the task's failure as well.
            if !is_value || std::mem::needs_drop::<T>() {
                // SAFETY: `aside_in_place` takes it off the strand, while the task is live.
                let running = unsafe { Running::of(front.cast(), header) };
                let dropped = strand.aside_in_place(running, scope, || {
                    // SAFETY: written above, and not used again.
                    in_own_frame(|| unsafe { result.assume_init_drop() });
                });
                if let Err(payload) = dropped {
                    scope.child_failed(error_of(payload, header));
                }
            }
            // SAFETY: as above.
            unsafe { free(front.cast()) };
        }
    }
}

/// Counts a task as ended when it goes out of scope, also by unwinding: whatever a destructor or a waker does, the nursery does not wait for ever.
struct CountsAtEnd<'a> {
    strand: &'a Strand,
    scope: ScopeRef,
    owes_permit: std::cell::Cell<bool>,
}

impl Drop for CountsAtEnd<'_> {
    #[inline]
    fn drop(&mut self) {
        self.strand.count_ended(self.scope, self.owes_permit.get());
    }
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
    panics::error(payload, || label(header))
}
