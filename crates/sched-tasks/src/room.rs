//! How much stack is left: asked before the runtime does anything on a caller's stack.
//!
//! # Invariant
//! An operation that began has room to come to its end, and to unwind from there.
//!
//! # Why it holds
//! Every public operation asks on entry, while it holds nothing; `tests/depths/main.rs` tries each at every depth. In a destructor that runs while the task unwinds nobody asks:
//! a second unwinding would end the process, and room for one operation was kept.

use crate::strand::Strand;

/// What the runtime may use of a caller's stack below its public functions, and to unwind from there. A task that has less left unwinds at the
/// door, where it holds nothing: inside it would end the process.
pub(crate) const ROOM_BYTES: usize = if cfg!(debug_assertions) { 24 << 10 } else { 12 << 10 };

/// Runs foreign code in a frame of its own. Inlined, what it keeps on the stack would be part of our frame: an overflow by it would happen before its task began,
/// and belong to nobody.
#[inline(never)]
pub(crate) fn in_own_frame<R>(foreign: impl FnOnce() -> R) -> R {
    foreign()
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
