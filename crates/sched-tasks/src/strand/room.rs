//! How much stack is left: asked before the runtime does anything on a caller's stack.
//!
//! Room: driver. Knows stacks; knows nothing of what an operation does.
//!
//! # Invariant
//! An operation that began has room to come to its end, and to unwind from there.
//!
//! # Why it holds
//! Every public operation asks on entry, while it holds nothing; `tests/depths/main.rs` tries each at every depth. In a destructor that runs while the task unwinds nothing is checked:
//! a second unwinding would end the process, and room for one operation was kept. Our own destructors cannot unwind at the door, since what they give back would be lost: half of
//! the stack's guard is lent to them.

use crate::kernel::strand::{self, ROOM_BYTES, Strand};

/// Runs something in a frame of its own. Inlined, what it keeps on the stack would be part of the caller's frame: foreign code would overflow the stack before its task
/// began, and what needs much of it before there was a look at what is left.
#[inline(never)]
pub(crate) fn in_own_frame<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Room for a destructor of ours, which must come to its end: where too little is left, half of the stack's guard is lent meanwhile.
#[inline(always)]
pub(crate) fn to_drop() -> Option<LentGuard> {
    strand::with(|strand| if mech_fiber::stack_pointer() < strand.stack_limit { borrow(strand) } else { None })
}

#[cold]
#[inline(never)]
fn borrow(strand: &Strand) -> Option<LentGuard> {
    (!strand.traces.guard_lent().get() && mech_fiber::lend_guard()).then_some(LentGuard)
}

/// Half of a stack's guard is lent.
#[derive(Debug)]
pub(crate) struct LentGuard;

impl Drop for LentGuard {
    fn drop(&mut self) {
        strand::with(|strand| {
            // A strand that unwinds needs it until its task ends, and gives it back there.
            let keeps = strand.traces.guard_lent().get() || std::thread::panicking();
            strand.traces.guard_lent().set(keeps || mech_fiber::take_guard_back().is_err());
        });
    }
}

impl Strand {
    /// Makes sure that what the runtime does next does not overflow the stack halfway: else the task unwinds, with `OutOfRoom`. A destructor that
    /// runs while the task unwinds goes on: room for that was kept.
    #[inline(always)]
    pub(crate) fn ensure_room(&self) {
        if mech_fiber::stack_pointer() < self.stack_limit {
            self.out_of_room();
        }
    }

    /// The same for what needs far more than most operations.
    pub(crate) fn ensure_much_room(&self) {
        if !mech_fiber::has_room(4 * ROOM_BYTES) {
            self.out_of_room();
        }
    }
}
