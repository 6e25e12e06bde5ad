//! What every task begins with, and pointers to it: one to be run, and those that name what runs.
//!
//! Room: mechanism. Knows who a task is and that it can be run; what runs and where the result goes is `raw/task.rs`.
//!
//! # Invariant
//! A [`RunnableRef`] is run once, and points to a task that is live until then. A [`TaskRef`] or [`FutureRef`] is used only while its task is live.
//!
//! # Why it holds
//! A deque hands each pointer out once. A strand has a `TaskRef` only between the beginning and the end of the task. A nursery uses a `FutureRef` under the lock under which the
//! future leaves it.

use std::{panic::Location, ptr::NonNull, sync::Arc, task::Waker};

use mech_sync::Completion;
use vocab::TaskId;

use crate::{
    error::{Reason, TaskError, TaskLabel},
    kernel::{name_slot::Name, scope::ScopeRef, strand::Strand},
    task_state::TaskState,
};

/// Anything a worker can run: the first word of every task and of every half of a `join`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Runnable {
    pub(crate) vtable: &'static VTable,
}

#[derive(Debug)]
pub(crate) struct VTable {
    /// Runs it. The pointer must not be used again by the caller.
    pub(crate) run: unsafe fn(NonNull<Runnable>, &Strand),
    /// Ends it with an error, after it began and its stack was lost.
    pub(crate) fail: unsafe fn(NonNull<Runnable>, TaskError, &Strand),
    /// Ends it with an error before it began.
    pub(crate) refuse: unsafe fn(NonNull<Runnable>, TaskError, &Strand),
    /// Gives the handle's share of the memory back.
    pub(crate) free: unsafe fn(NonNull<Runnable>),
    /// On behalf of which task it runs.
    pub(crate) id: unsafe fn(NonNull<Runnable>) -> TaskId,
    /// The nursery it belongs to, if it has not ended.
    pub(crate) scope: unsafe fn(NonNull<Runnable>) -> ScopeRef,
    /// Where it stands, if it has not ended.
    pub(crate) state: unsafe fn(NonNull<Runnable>) -> TaskState,
    /// How many bytes of stack it needs, if that may be more than usual.
    pub(crate) stack_bytes: Option<unsafe fn(NonNull<Runnable>) -> usize>,
    /// Makes a waker, if it is a future.
    pub(crate) waker: Option<unsafe fn(NonNull<Runnable>) -> Waker>,
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
    pub(crate) unsafe fn new(pointer: NonNull<Runnable>) -> Self {
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
    /// Whether it is a future.
    #[inline]
    pub(crate) fn is_future(&self) -> bool {
        // SAFETY: it was not run, so it is live.
        unsafe { self.0.as_ref() }.vtable.waker.is_some()
    }

    /// Whether it may ask for more stack than the usual.
    #[inline]
    pub(crate) fn asks_for_stack(&self) -> bool {
        // SAFETY: it was not run, so it is live.
        unsafe { self.0.as_ref() }.vtable.stack_bytes.is_some()
    }

    /// How many bytes of stack it asks for. 0: the usual.
    pub(crate) fn stack_bytes(&self) -> usize {
        // SAFETY: it was not run, so it is live.
        unsafe { stack_bytes(self.0) }
    }

    /// On behalf of which task it runs.
    pub(crate) fn id(&self) -> TaskId {
        // SAFETY: it was not run, so it is live.
        unsafe { (self.0.as_ref().vtable.id)(self.0) }
    }

    /// The nursery it belongs to, which waits for it.
    pub(crate) fn scope(&self) -> ScopeRef {
        // SAFETY: it was not run, so it is live and has not ended.
        unsafe { (self.0.as_ref().vtable.scope)(self.0) }
    }

    /// Whether it is this item of a deque.
    pub(crate) fn is_item(&self, item: *mut Runnable) -> bool {
        self.0.as_ptr() == item
    }

    /// Ends it unrun, because of `reason`.
    pub(crate) fn refuse(self, reason: Reason, strand: &Strand) {
        // SAFETY: as in `run`.
        unsafe { (self.0.as_ref().vtable.refuse)(self.0, TaskError::new(reason, None), strand) }
    }
}

/// A future among the members of its nursery: it leaves them before it ends.
#[derive(Debug)]
pub(crate) struct FutureRef(NonNull<Runnable>);

// SAFETY: all it does is to make wakers, which any thread may do.
unsafe impl Send for FutureRef {}
// SAFETY: as above.
unsafe impl Sync for FutureRef {}

impl FutureRef {
    /// # Safety
    /// The pointer is to a future's task, which is live while this is used.
    pub(crate) unsafe fn new(pointer: NonNull<Runnable>) -> Self {
        Self(pointer)
    }

    /// What wakes it.
    pub(crate) fn waker(&self) -> Waker {
        // SAFETY: live, by `new`, and the function belongs to its types.
        unsafe { (self.0.as_ref().vtable.waker.expect("a future"))(self.0) }
    }
}

/// What every task has, whatever it runs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) runnable: Runnable,
    pub(crate) completion: Completion,
    pub(crate) scope: ScopeRef,
    pub(crate) identity: Identity,
}

/// Who a task is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) id: TaskId,
    pub(crate) site: &'static Location<'static>,
    /// One word if nothing was said.
    pub(crate) details: Option<Arc<Details>>,
}

/// What a builder said about a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) name: Option<Box<str>>,
    /// How much stack it asks for. 0: the usual.
    pub(crate) stack_bytes: usize,
    /// It borrows nothing, so its stack may be left for ever when it overflows.
    pub(crate) survives_overflow: bool,
}

/// How much stack what `this` points to asks for. 0: the usual.
///
/// # Safety
/// `this` is live.
#[inline]
unsafe fn stack_bytes(this: NonNull<Runnable>) -> usize {
    // SAFETY: as the caller promised; the function belongs to its types.
    unsafe { this.as_ref().vtable.stack_bytes.map_or(0, |stack_bytes| stack_bytes(this)) }
}

impl Identity {
    /// Who it is, for a report.
    pub(crate) fn label(&self) -> TaskLabel {
        let name = self.details.as_ref().and_then(|details| details.name.as_deref());
        TaskLabel { id: self.id, name: name.map(Arc::from), spawned_at: self.site }
    }
}

pub(crate) fn label(header: &Header) -> TaskLabel {
    header.identity.label()
}

/// The task that runs on a strand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskRef(NonNull<Header>);

impl TaskRef {
    /// Its number.
    pub(crate) fn id(&self) -> TaskId {
        // SAFETY: as in `label`.
        unsafe { self.0.as_ref() }.identity.id
    }

    /// What a builder said about it.
    pub(crate) fn details(&self) -> Option<&Details> {
        // SAFETY: as in `label`.
        unsafe { self.0.as_ref() }.identity.details.as_deref()
    }

    /// How much stack it asks for. 0: the usual.
    pub(crate) fn stack_bytes(&self) -> usize {
        // SAFETY: as in `label`; every task begins with a `Runnable`.
        unsafe { stack_bytes(self.0.cast()) }
    }

    /// Who it is.
    pub(crate) fn label(&self) -> TaskLabel {
        // SAFETY: a strand has a `TaskRef` only between `begin` and `end`, while the task is live.
        label(unsafe { self.0.as_ref() })
    }

    /// The same in short, for the name slot of the worker.
    #[inline(always)]
    pub(crate) fn name(self) -> Name {
        // SAFETY: as in `label`.
        let Identity { id, site, .. } = unsafe { &self.0.as_ref().identity };
        Name::new(*id, site)
    }
}

/// What runs on a strand: on behalf of which task, and what to fail if its stack is lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    task: TaskRef,
    runnable: NonNull<Runnable>,
}

impl Running {
    /// # Safety
    /// Task and runnable are live as long as this is on a strand.
    #[inline(always)]
    pub(crate) unsafe fn new(task: TaskRef, runnable: NonNull<Runnable>) -> Self {
        Self { task, runnable }
    }

    /// # Safety
    /// As for [`Running::new`]; `header` is the runnable's.
    #[inline(always)]
    pub(crate) unsafe fn of(runnable: NonNull<Runnable>, header: &Header) -> Self {
        // SAFETY: as the caller promised.
        unsafe { Self::new(TaskRef(NonNull::from(header)), runnable) }
    }

    #[inline(always)]
    pub(crate) fn task(self) -> TaskRef {
        self.task
    }

    /// Whether it is the task itself, and not the second half of a `join` of its.
    pub(crate) fn is_whole(self) -> bool {
        self.runnable == self.task.0.cast()
    }

    /// Ends it with `error`. Only for what began and will never go on, because its stack was lost.
    pub(crate) fn fail(self, error: TaskError, strand: &Strand) {
        // SAFETY: it is live until it ends, and it ends here: its stack is quarantined.
        unsafe { (self.runnable.as_ref().vtable.fail)(self.runnable, error, strand) }
    }
}
