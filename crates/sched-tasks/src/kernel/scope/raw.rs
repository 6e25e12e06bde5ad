//! The nursery around what runs, and the frames that wait for others.
//!
//! Room: mechanism. Knows nurseries and frames; knows nothing of tasks.
//!
//! # Invariant
//! A `ScopeRef` is used only while the nursery it names has not ended. An `OpenRef` names a frame of a live or quarantined stack.
//!
//! # Why it holds
//! A `ScopeRef` is made in two places: by [`enter`], which takes it back before the borrow it was made from ends, and for a task, which is
//! counted in the nursery and drops it before it is counted as ended.

use std::{ops::Deref, ptr::NonNull};

use mech_sync::Completion;

use crate::kernel::{nursery::NurseryCore, strand::Strand};

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

impl Deref for ScopeRef {
    type Target = NurseryCore;
    #[inline(always)]
    fn deref(&self) -> &NurseryCore {
        // SAFETY: by the invariant the nursery has not ended, so its memory is there.
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
            self.0.shields.set(self.2);
        }
    }
    // A shield around it keeps out what comes from around; the nursery's own deadline and cancellation count.
    let _leave = Leave(strand, strand.scope.replace(Some(scope)), strand.shields.replace(0));
    body()
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
