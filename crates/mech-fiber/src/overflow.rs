//! A fiber that runs out of stack ends the process, or leaves its stack for ever.
//!
//! Room: mechanism. Knows the running fiber's guard and how to leave its stack; knows nothing of which task it was.
//!
//! A hook from above says which task it was and whether it may leave.
//!
//! # Invariant
//! No frame is skipped unless the hook vouched for all frames of that stack. Without a hook, or
//! while the fiber unwinds, an overflow ends the process with one line that names it.
//!
//! # Why the process ends
//! Skipped frames may have borrowed from frames that live on: `slice::sort_by` on a vector of an
//! outer frame holds an element twice in the middle of its work; `std::thread::scope` waits in its
//! frame for a thread that borrows; a pinned future must be dropped before its memory is used
//! again. Leaking is sound for what is owned, not for what is lent.
//!
//! # How a fiber leaves
//! After [`Step::Overflowed`](crate::Step::Overflowed) the overflowed stack holds every byte it
//! held at the fault, the thread runs on as if the fiber had suspended, and the next overflow is
//! handled the same way. The handler runs on the alternate stack and writes to no other. It edits
//! the interrupted registers so that the thread continues in `leave_for_good`, on the thread's
//! escape stack; returning from the handler restores the signal mask, so the next fault is
//! delivered. It leaves through the fiber's yielder, which only reads the overflowed stack. To the
//! resumer this is a suspend: its registers are on its own stack. `Slab` quarantines the stack, so
//! everything that borrows from those frames stays valid.
//!
//! # What counts as an overflow
//! An access inside the guard of the fiber that runs on this thread, at or just below its stack
//! pointer. Rust probes every page of a large frame, so no frame jumps the guard. C code without
//! `-fstack-clash-protection` can jump 16 KiB with one frame; a wild pointer into the guard far
//! from the stack pointer is a bug, and crashes.
//!
//! # Limits
//! - Locks that a fiber held when it left stay locked, and its destructors never run. Code that
//!   holds one asks [`has_room`](crate::has_room) first. The C library's own locks are released: see
//!   `foreign.rs`.
//! - A foreign signal handler without `SA_ONSTACK` runs on the fiber's stack; if its frame does
//!   not fit, the kernel ends the process.
//!
//! # Rejected
//! corosensei's `setup_trap_handler`: it overwrites the top of the stack, from which other tasks
//! may borrow. `siglongjmp` from the handler: the alternate stack would count as in use for ever.
//! Unwinding from the fault: an access may fault between any two instructions, where no landing
//! pad is.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abort::{Line, abort};
use crate::chain;
use crate::fiber::leave_for_good;
use crate::foreign;
use crate::header::{self, Header};
use crate::memory::ErrnoKept;
use crate::registers::Interrupted;
use crate::spare::escape_top;

/// How far below the stack pointer code may touch its stack: the red zone (128 bytes) and the
/// probe of `Fiber::resume`.
const BELOW_STACK_POINTER: usize = 4096;

/// What becomes of a fiber that ran out of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOverflow {
    /// The process ends with a line that names the fiber, and this reason.
    EndProcess(&'static str),
    /// The fiber ends with [`Step::Overflowed`](crate::Step::Overflowed); its stack is kept as it
    /// is, for ever.
    Leave,
}

/// Writes which task runs on the current fiber, and says what happens to it.
pub type OverflowHook = fn(&mut dyn Write) -> OnOverflow;

/// The hook; null: none, and every overflow ends the process.
static HOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sets the hook that answers for overflows, for the whole process, from now on.
///
/// # Safety
/// - `hook` is called in a signal handler, on the thread of the fiber: it may read thread-locals
///   that need no initialisation, and memory that this thread does not change, and write to the
///   given text. It does not allocate, lock or panic.
/// - It returns [`OnOverflow::Leave`] only for a fiber whose frames may all be skipped: none of
///   them borrows from anything that ends, is moved or is dropped while the process lives, unless
///   the caller of `resume` ensures that; and no destructor of theirs is relied on.
pub unsafe fn set_overflow_hook(hook: OverflowHook) {
    HOOK.store(hook as *mut (), Ordering::Relaxed);
}

/// Asks the hook; what it writes goes to `line`.
fn ask_hook(line: &mut Line) -> OnOverflow {
    let hook = HOOK.load(Ordering::Relaxed);
    if hook.is_null() {
        return OnOverflow::EndProcess("no hook vouched for its frames");
    }
    // SAFETY: not null, so stored by `set_overflow_hook` from a function of this type.
    let hook = unsafe { mem::transmute::<*mut (), OverflowHook>(hook) };
    hook(line)
}

/// The handler of SIGSEGV. Async-signal-safe: reads two thread-locals `prepare_thread` has
/// touched, writes registers.
pub(crate) extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = ErrnoKept::new();
    let header = header::current();
    // SAFETY: the kernel calls with valid pointers, which are ours until we return.
    let (by_fault, address, mut interrupted) =
        unsafe { ((*info).si_code > 0, (*info).si_addr() as usize, Interrupted::new(context)) };
    if by_fault && !header.is_null() && escape_top() != 0 {
        // SAFETY: not null, so initialised and mapped: the invariant of `header.rs`.
        let header = unsafe { &*header };
        if is_overflow(header, address, interrupted.stack_pointer()) {
            let mut who = Line::new();
            if let OnOverflow::EndProcess(reason) = ask_hook(&mut who) {
                abort(header, interrupted.instruction(), who, reason);
            }
            match foreign::finish_first(header, &mut interrupted) {
                Ok(true) => {} // the C library continues; `foreign` makes the fiber leave afterwards
                Ok(false) => interrupted.continue_at(leave_for_good, escape_top()),
                Err(reason) => abort(header, interrupted.instruction(), who, reason),
            }
            return;
        }
    }
    // SAFETY: we are the installed handler and these are our arguments.
    unsafe { chain::pass_on(signal, info, context) }
}

fn is_overflow(header: &Header, address: usize, stack_pointer: usize) -> bool {
    let top = &raw const *header as usize;
    (header.guard_low..header.guard_high).contains(&address)
        && (header.guard_low..top).contains(&stack_pointer)
        && address + BELOW_STACK_POINTER >= stack_pointer
}
