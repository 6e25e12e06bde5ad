//! Unixes without overflow recovery: the guard still stops the overflow, and the process with it.
//!
//! Room: mechanism. The same names as `overflow.rs` and `thread.rs`, so that callers need no `cfg`.

use crate::StackError;

/// What happens when a fiber runs out of stack. Here always [`OverflowPolicy::Abort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// Not available on this system.
    FailTask,
    /// The process ends with the signal of the fault.
    Abort,
}

/// Ignored: this system has no overflow recovery.
pub fn set_overflow_policy(_policy: OverflowPolicy) {}

/// Always [`OverflowPolicy::Abort`].
pub fn overflow_policy() -> OverflowPolicy {
    OverflowPolicy::Abort
}

/// Ignored: nothing goes on after an overflow.
pub fn set_unwinding_test(_test: fn() -> bool) {}

/// `ensure_stack` works everywhere: it needs no signal.
pub(crate) fn allow_leaving(_header: &crate::header::Header) {}

/// Nothing to prepare.
pub fn prepare_thread() -> Result<(), StackError> {
    Ok(())
}
