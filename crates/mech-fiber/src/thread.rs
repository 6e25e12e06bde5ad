//! What a thread needs before its first fiber, so that it can survive the overflow of one.
//!
//! Room: mechanism. Knows all parts that handle an overflow; knows nothing of fibers.

use crate::StackError;
use crate::{chain, foreign, overflow, spare};

/// Makes this thread ready to survive the overflow of a fiber: an alternate signal stack, an
/// escape stack and, once per process, the handler of SIGSEGV.
///
/// Call it on a thread before its first fiber. Calling it again does nothing; the end of the
/// thread undoes it. On a thread that did not call it, an overflow ends the process.
///
/// # Errors
/// When the kernel refuses the memory or the handler.
pub fn prepare_thread() -> Result<(), StackError> {
    if spare::are_here() {
        return Ok(());
    }
    foreign::find();
    chain::install(overflow::on_fault)?;
    spare::make()
}
