//! The alarm of a thread: the running task must stop at its very next check.
//!
//! Sounded where nothing can stop, as in an allocation; heard by the next round of a budgeted loop (`fuel.rs`).

use std::cell::Cell;

thread_local! {
    /// A loop checks as soon as it has no more than this left: 0 when all is calm, `u32::MAX` if the running task must stop at its very next check.
    static ALARM: Cell<u32> = const { Cell::new(CALM) };
}

const CALM: u32 = 0;

/// The running task must stop at its very next check.
pub(crate) fn sound() {
    ALARM.set(u32::MAX);
}

/// It was heard.
pub(crate) fn calm() {
    ALARM.set(CALM);
}

/// What is left when a loop must check.
#[inline(always)]
pub(crate) fn level() -> u32 {
    ALARM.get()
}
