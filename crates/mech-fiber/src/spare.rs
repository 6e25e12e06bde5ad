//! The two spare stacks of a thread: one for the signal handler, one to leave an overflowed fiber
//! from.
//!
//! Room: mechanism. Knows the thread it runs on; knows nothing of the fiber that overflowed.
//!
//! # Invariant
//! While [`escape_top`] is not zero, this thread has an alternate signal stack of
//! [`SIGNAL_BYTES`] and an escape stack of [`ESCAPE_BYTES`].
//!
//! # Why it holds
//! [`make`] sets it last, and the thread's exit clears it first. At exit the old
//! alternate stack is *not* put back: it was the standard library's, which has unmapped it by
//! then.

use std::cell::{Cell, OnceCell};
use std::mem;
use std::ptr;

use crate::StackError;
use crate::memory::{guard_bytes, last_errno, page_bytes, probe, reserve};

/// A signal frame takes 3.6 KB with AVX-512 and more with AMX; Rust's own handler then formats a
/// message.
const SIGNAL_BYTES: usize = 64 << 10;
/// `leave_for_good` needs a few hundred bytes.
const ESCAPE_BYTES: usize = 16 << 10;

thread_local! {
    /// Where the escape stack begins; zero if this thread is not prepared. Read by the signal
    /// handler.
    static ESCAPE_TOP: Cell<usize> = const { Cell::new(0) };
    static SPARE: OnceCell<Spare> = const { OnceCell::new() };
}

/// The top of this thread's escape stack, or zero.
pub(crate) fn escape_top() -> usize {
    ESCAPE_TOP.get()
}

/// Whether this thread has them.
pub(crate) fn are_here() -> bool {
    SPARE.with(|spare| spare.get().is_some())
}

/// Gives this thread its spare stacks, if it has none.
pub(crate) fn make() -> Result<(), StackError> {
    SPARE.with(|spare| {
        if spare.get().is_none() {
            let _ = spare.set(Spare::new()?); // empty: looked just now, on this thread
        }
        Ok(())
    })
}

/// `[guard][escape stack][signal stack]`: one mapping, two where a guard needs one. The escape stack, whose user code may be deeper than planned, is next to the guard; above it, the
/// signal stack is far larger than what the handler uses.
struct Spare {
    start: usize,
    bytes: usize,
}

impl Spare {
    fn new() -> Result<Self, StackError> {
        let failed = |call| StackError::Thread { call, errno: last_errno() };
        let page = page_bytes();
        let (signal, escape) = (SIGNAL_BYTES.next_multiple_of(page), ESCAPE_BYTES.next_multiple_of(page));
        let low = guard_bytes() + escape;
        let bytes = low + signal;
        let start = reserve(bytes).map_err(|errno| StackError::Thread { call: "mmap", errno })?;
        let spare = Spare { start, bytes }; // from here on unmapped on failure
        probe(start, None)?;
        // SAFETY: zero is a valid `stack_t`; the stack it is made to name is mapped until `drop`,
        // which takes it out of use first.
        unsafe {
            let mut stack: libc::stack_t = mem::zeroed();
            stack.ss_sp = (start + low) as *mut _;
            stack.ss_size = signal;
            if libc::sigaltstack(&stack, ptr::null_mut()) != 0 {
                return Err(failed("sigaltstack"));
            }
        }
        ESCAPE_TOP.set(start + low);
        Ok(spare)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        ESCAPE_TOP.set(0);
        // SAFETY:
        // - The alternate stack is disabled only if it is ours; then no signal lands in the
        //   mapping any more.
        // - The thread runs its exit, not a fiber, so the escape stack is empty.
        unsafe {
            let mut now: libc::stack_t = mem::zeroed();
            libc::sigaltstack(ptr::null(), &mut now);
            if (self.start..self.start + self.bytes).contains(&(now.ss_sp as usize)) {
                now.ss_flags = libc::SS_DISABLE;
                libc::sigaltstack(&now, ptr::null_mut());
            }
            libc::munmap(self.start as *mut _, self.bytes);
        }
    }
}
