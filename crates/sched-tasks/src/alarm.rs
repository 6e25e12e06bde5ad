//! The alarm of a thread: the running task must stop at its very next check.
//!
//! Room: mechanism.
//!
//! It is set where nothing can stop, as in an allocation, and read by the next iteration of a budgeted loop
//! (`fuel.rs`).

use std::cell::Cell;

thread_local! {
    /// A loop checks as soon as it has no more than this left: 0 normally, `u32::MAX` if the running task must stop at
    /// its very next check.
    static ALARM: Cell<u32> = const { Cell::new(CALM) };
}

const CALM: u32 = 0;

/// Sets the alarm: the running task must stop at its very next check.
pub(crate) fn sound() {
    ALARM.set(u32::MAX);
}

/// Clears the alarm.
pub(crate) fn calm() {
    ALARM.set(CALM);
}

/// The fuel at which a loop must check.
#[inline(always)]
pub(crate) fn level() -> u32 {
    ALARM.get()
}
