//! Unixes without a handler for overflows: the guard still stops the overflow, and the process with it. The same names
//! as `overflow.rs` and `thread.rs`, so that callers need no `cfg`.
//!
//! Room: mechanism.

use crate::StackError;

/// What becomes of a fiber that ran out of stack. Here always the end of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOverflow {
    /// The process ends with the signal of the fault.
    EndProcess(&'static str),
    /// Not available on this system.
    Leave,
}

/// Writes which task runs on the current fiber. Never called on this system.
pub type OverflowHook = fn(&mut dyn std::fmt::Write) -> OnOverflow;

/// Ignored: nothing continues after an overflow.
///
/// # Safety
/// None needed.
pub unsafe fn set_overflow_hook(_hook: OverflowHook) {}

/// Nothing to prepare.
pub fn prepare_thread() -> Result<(), StackError> {
    Ok(())
}
