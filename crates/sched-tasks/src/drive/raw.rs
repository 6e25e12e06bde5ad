//! The one choice of a builder that safe code cannot make.
//!
//! Room: interface. Knows the choice of an embedder; knows nothing of tasks that survive otherwise (`raw/overflow.rs`).
//!
//! # Invariant
//! Frames of borrowing tasks are skipped only in a runtime whose builder vouched for all its tasks.

use super::runtime::Builder;

impl Builder {
    /// A task of this runtime that overflows its stack fails alone, whatever it borrows: its frames are skipped, and its stack is kept for ever.
    ///
    /// Safe code can do nearly the same: [`TaskBuilder::survives_overflow`](crate::TaskBuilder::survives_overflow) for a task that borrows nothing, and
    /// `#[budgeted]` for code that checks its stack.
    ///
    /// # Safety
    /// No task of the runtime overflows its stack while a frame on it borrows from a frame of another stack, from a value of its thread that is
    /// dropped, or has pinned something that others know of. For example, `slice::sort_by` with a comparison that recurses, on a vector that belongs to
    /// the parent, leads to a double free.
    pub unsafe fn skip_frames_on_overflow(mut self) -> Self {
        self.skips_frames = true;
        self
    }
}
