//! An allocator that charges the running task for the memory it takes, and credits it for what it frees.
//!
//! Room: mechanism. Knows the meter of the running task.
//!
//! # Invariant
//! It gives out exactly what the allocator behind it gives. Counting never allocates, never waits and never unwinds: an allocator must not.
//!
//! # Why it holds
//! Every function passes its arguments on unchanged, and then changes a few numbers of the strand that runs on this thread, which it finds through a thread-local without
//! a destructor. A task that takes more than it has left gets it, and is stopped at its next check, which the alarm of `fuel.rs` makes the very next round of a budgeted loop.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::{alarm, kernel::current};

/// A global allocator for programs whose tasks have budgets of memory. Tasks without a budget pay nothing but the question.
///
/// Memory is charged to the task that allocates, and credited to the task that frees: a value that is sent away is paid by its sender, and no task gets credit for more than
/// was granted. A task that allocates more than it has left is stopped at its next check: the next round of a loop in a [`budgeted`](../bursar/attr.budgeted.html)
/// function, [`checkpoint`](crate::checkpoint), [`charge`](crate::charge), or anything that waits.
///
/// ```
/// use bursar::budget::BudgetedAlloc;
///
/// #[global_allocator]
/// static MEMORY: BudgetedAlloc = BudgetedAlloc::system();
/// # fn main() {}
/// ```
#[derive(Debug, Default)]
pub struct BudgetedAlloc<A = System> {
    behind: A,
}

impl BudgetedAlloc {
    /// Before the system's allocator.
    pub const fn system() -> Self {
        Self { behind: System }
    }
}

impl<A> BudgetedAlloc<A> {
    /// Before another allocator.
    pub const fn before(behind: A) -> Self {
        Self { behind }
    }
}

#[inline]
fn allocated(bytes: usize) {
    if let Some(strand) = current::peek()
        && strand.meter.is_metered()
        && !strand.meter.allocated(bytes as u64)
    {
        alarm::sound();
    }
}

#[inline]
fn freed(bytes: usize) {
    if let Some(strand) = current::peek()
        && strand.meter.is_metered()
    {
        strand.meter.freed(bytes as u64);
    }
}

// SAFETY: every call is passed on as it came to an allocator that keeps the contract; counting touches none of the memory.
unsafe impl<A: GlobalAlloc> GlobalAlloc for BudgetedAlloc<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        let memory = unsafe { self.behind.alloc(layout) };
        if !memory.is_null() {
            allocated(layout.size());
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        let memory = unsafe { self.behind.alloc_zeroed(layout) };
        if !memory.is_null() {
            allocated(layout.size());
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: passed on.
        unsafe { self.behind.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        let moved = unsafe { self.behind.realloc(memory, layout, new_size) };
        if !moved.is_null() {
            match new_size.checked_sub(layout.size()) {
                Some(more) => allocated(more),
                None => freed(layout.size() - new_size),
            }
        }
        moved
    }
}
