//! A fiber that runs out of stack fails alone.
//!
//! Room: mechanism. Knows the running fiber's guard and how to leave its stack; what becomes of
//! the task is decided above.
//!
//! # Invariant
//! After [`Step::Overflowed`](crate::Step::Overflowed) the overflowed stack holds every byte it
//! held at the fault, the thread runs on as if the fiber had suspended, and the next overflow is
//! handled the same way.
//!
//! # Why it holds
//! The handler runs on the alternate stack and writes to no other. It edits the interrupted
//! registers so that the thread continues in `leave_for_good`, on the thread's escape stack;
//! returning from the handler restores the signal mask, so the next fault is delivered. It leaves
//! through the fiber's yielder, which only reads the overflowed stack. To the resumer this is a
//! suspend: its registers are on its own stack. Leaving is sound as leaking is sound: no frame is
//! unwound, freed or reused (`Slab` quarantines the stack), so whatever borrows from those frames
//! stays valid.
//!
//! # What counts as an overflow
//! An access inside the guard of the fiber that runs on this thread, at or just below its stack
//! pointer. Rust probes every page of a large frame, so no frame jumps the guard. C code without
//! `-fstack-clash-protection` can jump 16 KiB with one frame; a wild pointer into the guard far
//! from the stack pointer is a bug, and crashes.
//!
//! # Limits
//! - Locks the overflowed code held stay locked, and its destructors never run. Code that holds
//!   one asks [`ensure_stack`](crate::ensure_stack) first. The C library's own locks are let go:
//!   see `foreign.rs`.
//! - While a fiber unwinds the process aborts, as Rust does for a panic while panicking; see [`set_unwinding_test`].
//! - A foreign signal handler without `SA_ONSTACK` runs on the fiber's stack; if its frame does
//!   not fit, the kernel ends the process.
//!
//! # Rejected
//! corosensei's `setup_trap_handler`: it overwrites the top of the stack, from which other tasks
//! may borrow. `siglongjmp` from the handler: the alternate stack would count as in use for ever.

use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::chain;
use crate::fiber::leave_for_good;
use crate::foreign;
use crate::header::{self, Header};
use crate::registers::Interrupted;
use crate::thread::escape_top;

/// How far below the stack pointer code may touch its stack: the red zone (128 bytes) and the
/// probe of `Fiber::resume`.
const BELOW_STACK_POINTER: usize = 4096;

/// What happens when a fiber runs out of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The fiber ends with [`Step::Overflowed`](crate::Step::Overflowed); the process goes on.
    /// The default.
    FailTask,
    /// The process aborts with a message that names the stack.
    Abort,
}

static ABORT: AtomicU8 = AtomicU8::new(0);

/// Chooses what an overflow does, for the whole process, from now on.
pub fn set_overflow_policy(policy: OverflowPolicy) {
    ABORT.store((policy == OverflowPolicy::Abort) as u8, Ordering::Relaxed);
}

/// What an overflow does now.
pub fn overflow_policy() -> OverflowPolicy {
    match ABORT.load(Ordering::Relaxed) {
        0 => OverflowPolicy::FailTask,
        _ => OverflowPolicy::Abort,
    }
}

/// Who knows whether the running fiber unwinds; null: the thread.
static UNWINDING_TEST: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Lets a scheduler say whether the running fiber is in the middle of an unwinding, for the whole process, from now on. By default
/// that is what `std::thread::panicking` says, which also speaks of other fibers of the thread that stopped in a destructor.
///
/// `test` is called in a signal handler: it may read thread-locals that need no initialisation, and little else.
pub fn set_unwinding_test(test: fn() -> bool) {
    UNWINDING_TEST.store(test as *mut (), Ordering::Relaxed);
}

fn is_unwinding() -> bool {
    let test = UNWINDING_TEST.load(Ordering::Relaxed);
    if test.is_null() {
        return std::thread::panicking();
    }
    // SAFETY: not null, so stored by `set_unwinding_test` from a function of this type.
    let test = unsafe { mem::transmute::<*mut (), fn() -> bool>(test) };
    std::thread::panicking() && test()
}

/// The handler of SIGSEGV. Async-signal-safe: reads two thread-locals `prepare_thread` has
/// touched, writes registers.
pub(crate) extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let header = header::current();
    // SAFETY: the kernel calls with valid pointers, which are ours until we return.
    let (by_fault, address, mut interrupted) =
        unsafe { ((*info).si_code > 0, (*info).si_addr() as usize, Interrupted::new(context)) };
    if by_fault && !header.is_null() && escape_top() != 0 {
        // SAFETY: not null, so initialised and mapped: the invariant of `header.rs`.
        let header = unsafe { &*header };
        if is_overflow(header, address, interrupted.stack_pointer()) {
            if let Some(reason) = must_abort() {
                abort(header, interrupted.instruction(), reason);
            }
            match foreign::finish_first(header, &mut interrupted) {
                Ok(true) => {} // the C library goes on; `foreign` makes the fiber leave afterwards
                Ok(false) => interrupted.go_on(leave_for_good, escape_top()),
                Err(reason) => abort(header, interrupted.instruction(), reason),
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

/// Checks the policy for a fiber that is about to leave without a fault.
pub(crate) fn allow_leaving(header: &Header) {
    if let Some(reason) = must_abort() {
        abort(header, 0, reason);
    }
}

fn must_abort() -> Option<&'static str> {
    if overflow_policy() == OverflowPolicy::Abort {
        Some("the overflow policy is Abort")
    } else if is_unwinding() {
        Some("it was unwinding a panic")
    } else {
        None
    }
}

/// Ends the process with one line that says which stack ran out. Allocates nothing: it runs in a
/// signal handler.
#[cold]
pub(crate) fn abort(header: &Header, instruction: usize, reason: &str) -> ! {
    struct Line([u8; 512], usize);
    impl Write for Line {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = &mut self.0[self.1..];
            let length = text.len().min(room.len());
            room[..length].copy_from_slice(&text.as_bytes()[..length]);
            self.1 += length;
            Ok(())
        }
    }
    let mut line = Line([0; 512], 0);
    let bytes = &raw const *header as usize - header.guard_high;
    let _ = writeln!(
        line,
        "\nthe fiber on stack {} overflowed its {bytes} bytes (instruction \
         {instruction:#x}); aborting because {reason}; raise `stack_bytes` or bound the recursion",
        header.index
    );
    // SAFETY: async-signal-safe calls; the buffer is alive.
    unsafe {
        libc::write(2, line.0.as_ptr().cast(), line.1);
        libc::abort()
    }
}
