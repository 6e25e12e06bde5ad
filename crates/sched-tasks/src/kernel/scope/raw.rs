//! The nursery around what runs, and the frames that wait for others.
//!
//! Room: mechanism. Knows nurseries and frames; knows nothing of tasks.
//!
//! # Invariant
//! A `ScopeRef` is used only while the memory of the nursery it names is there. An `OpenRef` names a frame of a live or quarantined stack.
//!
//! # Why it holds
//! A `ScopeRef` is made in three places. By [`enter`], which takes it back before the borrow it was made from ends. By [`enter_open`], for a nursery that the strand's list of
//! [`OpenScope`]s keeps; [`leave_open`] takes it back, and only if nothing is inside that nursery on this strand. For a task, which is counted in the nursery and drops it before it is counted as
//! ended.

use std::{
    ops::Deref,
    ptr::NonNull,
    sync::{Arc, Weak},
};

use mech_sync::Completion;

use crate::kernel::{groups::Group, nursery::NurseryCore, strand::Strand};

/// A nursery that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScopeRef(NonNull<NurseryCore>);

// SAFETY: `NurseryCore` is `Sync`, and a reference to it may be used on any thread.
unsafe impl Send for ScopeRef {}
// SAFETY: as above.
unsafe impl Sync for ScopeRef {}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<NurseryCore>();
};

impl ScopeRef {
    /// # Safety
    /// The reference is not used after the nursery has ended: the caller is counted in it, or takes the reference back in time.
    pub(crate) unsafe fn new(core: &NurseryCore) -> Self {
        Self(NonNull::from(core))
    }
}

/// The nursery, for who keeps it. It holds no reference to itself, which most never need.
pub(crate) fn shared(core: &NurseryCore) -> Arc<NurseryCore> {
    // SAFETY: a `NurseryCore` is made in one place, which puts it into an `Arc` at once (`NurseryCore::make`). It is not being dropped, since it is borrowed; so its count is not zero.
    unsafe {
        Arc::increment_strong_count(core);
        Arc::from_raw(core)
    }
}

/// The same for what may outlive it.
pub(crate) fn weak(core: &NurseryCore) -> Weak<NurseryCore> {
    Arc::downgrade(&shared(core))
}

impl Deref for ScopeRef {
    type Target = NurseryCore;
    #[inline(always)]
    fn deref(&self) -> &NurseryCore {
        // SAFETY: by the invariant its memory is there.
        unsafe { self.0.as_ref() }
    }
}

/// A frame that must not be left before others are done: an open nursery or a `join`.
#[derive(Debug)]
pub(crate) struct Open {
    outer: Option<OpenRef>,
    what: What,
}

#[derive(Debug)]
enum What {
    Nursery(NonNull<NurseryCore>),
    Join(NonNull<Completion>),
}

/// Names such a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRef(NonNull<Open>);

/// What a cleanup waits for in place of a frame whose stack overflowed.
pub(crate) enum Unfinished<'a> {
    Nursery(&'a NurseryCore),
    Join(&'a Completion),
}

/// Runs `body` inside the nursery `core`, which the caller will wait for before it lets go of it.
pub(crate) fn enter<R>(strand: &Strand, core: &NurseryCore, body: impl FnOnce() -> R) -> R {
    // SAFETY: `Leave` takes the reference back before the borrow of `core` ends.
    let scope = unsafe { ScopeRef::new(core) };
    struct Leave<'a>(&'a Strand, Option<ScopeRef>, u32);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.scope.set(self.1);
            self.0.traces.shields().set(self.2);
        }
    }
    // A shield around it keeps out what comes from around; the nursery's own deadline and cancellation count.
    let _leave = Leave(strand, strand.scope.replace(Some(scope)), strand.traces.shields().replace(0));
    body()
}

/// A nursery that a call opened and another call will close, on the strand that opened it.
pub(crate) struct OpenScope {
    group: Arc<Group>,
    /// Where the strand was before.
    around: Option<ScopeRef>,
}

impl OpenScope {
    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }
}

/// Goes on inside the nursery of `group`, until [`leave_open`].
pub(crate) fn enter_open(strand: &Strand, group: Arc<Group>) {
    // SAFETY: the list keeps the nursery until `leave_open` has taken the reference back.
    let scope = unsafe { ScopeRef::new(&group.core) };
    let around = strand.scope.replace(Some(scope));
    strand.open_scopes.borrow_mut().push(OpenScope { group, around });
    strand.traces.has_locals().set(true);
}

/// Leaves the nursery that was entered last, if the strand is in no other inside it.
pub(crate) fn leave_open(strand: &Strand) -> Option<Arc<Group>> {
    let mut scopes = strand.open_scopes.borrow_mut();
    let innermost = scopes.last()?;
    if !is_in(strand, &innermost.group.core) {
        return None;
    }
    let OpenScope { group, around } = scopes.pop()?;
    strand.scope.set(around);
    Some(group)
}

/// Whether `core` is the innermost nursery of the strand.
#[inline]
pub(crate) fn is_in(strand: &Strand, core: &NurseryCore) -> bool {
    strand.scope.get().is_some_and(|scope| scope.0 == NonNull::from(core))
}

/// Notes while `body` runs that this frame waits for `core`.
pub(crate) fn while_open<R>(strand: &Strand, core: &NurseryCore, body: impl FnOnce() -> R) -> R {
    noted(strand, What::Nursery(NonNull::from(core)), body)
}

/// Notes while `body` runs that this frame waits for `completion`.
#[inline]
pub(crate) fn while_joining<R>(strand: &Strand, completion: &Completion, body: impl FnOnce() -> R) -> R {
    noted(strand, What::Join(NonNull::from(completion)), body)
}

#[inline(always)]
fn noted<R>(strand: &Strand, what: What, body: impl FnOnce() -> R) -> R {
    let open = Open { outer: strand.open.get(), what };
    struct Leave<'a>(&'a Strand, Option<OpenRef>);
    impl Drop for Leave<'_> {
        #[inline(always)]
        fn drop(&mut self) {
            self.0.open.set(self.1);
        }
    }
    let _leave = Leave(strand, open.outer);
    strand.open.set(Some(OpenRef(NonNull::from(&open))));
    body()
}

/// The frames of an overflowed stack that wait for others, innermost first.
pub(crate) fn unfinished(strand: &Strand) -> impl Iterator<Item = Unfinished<'_>> {
    let mut next = strand.open.get();
    std::iter::from_fn(move || {
        // SAFETY: the chain links frames of this strand's stack, each of which takes itself out when it is left. The stack is quarantined: its content
        // stays as it was when it overflowed.
        let open = unsafe { next?.0.as_ref() };
        next = open.outer;
        Some(match open.what {
            // SAFETY: as above; the frame that holds the nursery was not left.
            What::Nursery(core) => Unfinished::Nursery(unsafe { core.as_ref() }),
            // SAFETY: as above.
            What::Join(completion) => Unfinished::Join(unsafe { completion.as_ref() }),
        })
    })
}
