//! Which strand runs on this thread.
//!
//! Room: mechanism. Knows threads and strands; knows nothing of workers.
//!
//! # Invariant
//! `CURRENT` is null or points to a strand that outlives its being current.
//!
//! # Why it holds
//! A worker sets it around a resume to a strand that it keeps in an `Rc` meanwhile. A plain thread's strand lives in `OWN` and takes its pointer out when the
//! thread has ended what it had open; what still runs on the thread after that gets one that is leaked.

use std::{cell::Cell, ptr};

use crate::kernel::{strand::Strand, thread};

thread_local! {
    static CURRENT: Cell<*const Strand> = const { Cell::new(ptr::null()) };
    static OWN: Own = Own(Box::new(thread::for_thread()));
}

struct Own(Box<Strand>);

impl Drop for Own {
    fn drop(&mut self) {
        CURRENT.set(&raw const *self.0); // it may wait once more
        thread::end_thread(&self.0);
        CURRENT.set(ptr::null());
        thread::retire_thread(&self.0);
    }
}

/// The strand of this thread, for code that stays on it. Not `Send`, so it is dropped before its strand is.
#[derive(Clone, Copy)]
pub(crate) struct StrandRef(*const Strand);

impl StrandRef {
    /// # Safety
    /// The strand outlives all uses of the reference, and belongs to this thread.
    pub(in crate::kernel) unsafe fn new(strand: *const Strand) -> Self {
        Self(strand)
    }
}

impl std::ops::Deref for StrandRef {
    type Target = Strand;
    #[inline(always)]
    fn deref(&self) -> &Strand {
        // SAFETY: by the invariant it lives while it is current; and for the code that got this it stays current: a fiber that stops meanwhile finds
        // itself current again when it goes on.
        unsafe { &*self.0 }
    }
}

/// The strand of this thread; a thread that has none gets one.
#[inline(always)]
pub(crate) fn get() -> StrandRef {
    let mut current = CURRENT.get();
    if current.is_null() {
        current = adopt_thread();
    }
    StrandRef(current)
}

/// The strand of this thread, if it has one. Allocates nothing, so that an allocator may ask.
#[inline(always)]
pub(crate) fn peek() -> Option<StrandRef> {
    let current = CURRENT.get();
    (!current.is_null()).then_some(StrandRef(current))
}

/// The thread's own strand from now on. A thread that ends and has given it up gets another, which is never taken back: destructors of
/// thread-local values may wake others, and even wait.
#[cold]
fn adopt_thread() -> *const Strand {
    let own = OWN.try_with(|own| ptr::from_ref(&*own.0));
    let own = own.unwrap_or_else(|_| Box::leak(Box::new(thread::for_thread())));
    CURRENT.set(own);
    own
}

/// Whether the thread has given up its strand: what is left open here has no end to be closed at.
pub(crate) fn is_ending() -> bool {
    OWN.try_with(|_| ()).is_err()
}

/// Makes `strand` current while `f` runs, then the one before.
#[inline]
pub(crate) fn enter<R>(strand: &Strand, f: impl FnOnce() -> R) -> R {
    struct Back(*const Strand);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _back = Back(CURRENT.replace(strand));
    f()
}

/// Makes `strand` current (or none, until the fiber that is entered introduces its own), inside an [`enter`] that will put the one before back. The caller
/// keeps it while it is current.
#[inline(always)]
pub(in crate::kernel) fn set(strand: *const Strand) {
    CURRENT.set(strand);
}

/// Runs `f` without a current strand: no task pays for what it allocates and frees. For code that asks nothing of the runtime.
#[cold]
pub(crate) fn without<R>(f: impl FnOnce() -> R) -> R {
    struct Back(*const Strand);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _back = Back(CURRENT.replace(ptr::null()));
    f()
}
