//! What `mech-fiber` promises, one sentence per test.
//!
//! Tests that crash, or that measure the whole process, run in a child of their own: `child.rs`.

mod contract;
mod crash;
mod errors;
mod guards;
mod memory;
mod overflow;
mod planted;
mod slab;
mod unwind;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use mech_fiber::{OnOverflow, Slab, SlabOptions, Stack};

/// Counts the allocations of each thread, for `contract::a_switch_allocates_nothing`.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to `System` unchanged; the counter is a thread-local without
// destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// A slab of its own for a test.
fn slab(stack_bytes: usize, max_stacks: usize) -> &'static Slab {
    Slab::reserve(SlabOptions { stack_bytes, max_stacks, ..Default::default() }).expect("reserve")
}

/// A stack large enough for a backtrace without optimisation.
fn stack() -> Stack {
    slab(256 << 10, 2).take().expect("take")
}

/// Prepares the thread, and has fibers that overflow leave their stacks: those of these tests lend
/// nothing.
fn leave_on_overflow() {
    mech_fiber::prepare_thread().expect("prepare");
    // SAFETY: the hook reads one thread-local of `std`; the fibers of the tests own all they use.
    unsafe {
        mech_fiber::set_overflow_hook(|_| match std::thread::panicking() {
            true => OnOverflow::EndProcess("it was unwinding a panic"),
            false => OnOverflow::Leave,
        });
    }
}
