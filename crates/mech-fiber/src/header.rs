//! What a running stack knows about itself, and which stack is running: one cache line at the top of every stack, and
//! one word per thread.
//!
//! Room: mechanism.
//!
//! # Invariant
//! [`current`] is the header of the innermost fiber that runs on this thread, or null; and while
//! it is not null, that header is initialised and its stack is mapped.
//!
//! # Why it holds
//! Only `Fiber::switch` sets it, to the header its own `Fiber::new` wrote, and puts the former
//! value back when control returns. Stacks are never unmapped, so a late reader, the signal
//! handler, finds memory.
//!
//! # Rejected
//! A boxed record per fiber: an allocation and a cache line more. A record inside `Fiber`: it
//! would move with it.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::ptr;

use corosensei::Yielder;

use crate::memory::{self, GuardKind};
use crate::tsan::TsanFiber;

thread_local! {
    static CURRENT: Cell<*const Header> = const { Cell::new(ptr::null()) };
}

/// The header of the innermost running fiber, or null outside fibers.
#[inline(always)]
pub(crate) fn current() -> *const Header {
    CURRENT.get()
}

/// Makes `header` the running one.
#[inline(always)]
pub(crate) fn enter(header: *const Header) {
    CURRENT.set(header);
}

/// The bookkeeping of one fiber, at the top of its stack.
#[repr(C, align(64))]
pub(crate) struct Header {
    /// The way out; null until the fiber first runs.
    pub(crate) yielder: Cell<*const Yielder<usize, usize>>,
    /// The fiber is being dropped: every `suspend` unwinds.
    pub(crate) unwinding: Cell<bool>,
    /// The fiber ran out of stack and left by `leave_for_good`.
    pub(crate) overflowed: Cell<bool>,
    /// How the guard was made.
    pub(crate) guard_kind: GuardKind,
    /// The number of the stack in its slab.
    pub(crate) index: u32,
    /// The lowest addresses of the slot, which fault.
    pub(crate) guard_low: usize,
    /// Where the guard ends and the usable stack begins.
    pub(crate) guard_high: usize,
    /// The panic that left `main`, on its way to the resumer.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// What ThreadSanitizer knows of the stack; nothing, usually.
    pub(crate) tsan: TsanFiber,
}

const _: () = assert!(size_of::<Header>() == 64 || cfg!(feature = "tsan"), "one cache line");

impl Header {
    /// The usable bytes of its stack.
    pub(crate) fn stack_bytes(&self) -> usize {
        (&raw const *self as usize - self.guard_high).next_multiple_of(memory::page_bytes())
    }

    pub(crate) fn new(index: u32, guard: Range<usize>, guard_kind: GuardKind) -> Self {
        Self {
            yielder: Cell::new(ptr::null()),
            unwinding: Cell::new(false),
            overflowed: Cell::new(false),
            guard_kind,
            index,
            guard_low: guard.start,
            guard_high: guard.end,
            panic: Cell::new(None),
            tsan: TsanFiber::new(),
        }
    }
}
