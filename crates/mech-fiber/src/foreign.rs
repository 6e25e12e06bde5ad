//! The C library finishes what it began before an overflowed fiber leaves.
//!
//! Room: mechanism. Knows where the C library's code lies and how to run it to its end; knows nothing of tasks.
//!
//! # Invariant
//! No fiber is left behind in the middle of the C library: its allocator's lock is not held, its
//! lists are whole.
//!
//! # Why it holds
//! A recursion that allocates overflows in `malloc` more often than not. If the faulting
//! instruction lies in the C library, the upper half of the guard is opened and the thread runs
//! on, one instruction at a time (the trap flag; SIGTRAP after each). At the first instruction
//! outside, `malloc` has returned, and the fiber leaves. A hundred instructions take some 100 µs,
//! on a path that otherwise would deadlock. The stack is quarantined, so its smaller guard does
//! not matter.
//!
//! # Limits
//! - A program's own handler of SIGTRAP is replaced at the first overflow inside the C library.
//! - Allocators inside the program itself (static jemalloc, static musl) are not recognised.
//! - Where it cannot be done (8 KiB are not enough, a million instructions are not, or not on
//!   x86_64), the process aborts with a message: continuing would be worse.
//!
//! # Rejected
//! Aborting whenever `malloc` overflows: most overflows would. A check in every allocation:
//! every program pays.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem;
use std::ops::Range;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abort::{Line, abort};
use crate::chain;
use crate::fiber::leave_for_good;
use crate::header::{self, Header};
use crate::memory::{self, ErrnoKept};
use crate::registers::Interrupted;
use crate::spare::escape_top;

/// Where the C library's code begins and ends; empty if it is part of the program.
static TEXT: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// How many instructions the C library may need.
const STEPS_MAX: u32 = 1_000_000;

thread_local! {
    /// How many instructions this thread may still step; zero when it does not step.
    static STEPS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Finds the C library, once, and makes the thread-local known to this thread before a handler
/// needs it.
pub(crate) fn find() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ours = text_around(find as *const () as usize);
        let text = text_around(libc::malloc as *const () as usize);
        if text != ours {
            TEXT[0].store(text.start, Ordering::Relaxed);
            TEXT[1].store(text.end, Ordering::Relaxed);
        }
    });
    STEPS_LEFT.set(0);
}

/// The executable segment that holds `address`.
fn text_around(address: usize) -> Range<usize> {
    struct Search(usize, Range<usize>);
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and our own `Search`.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        for index in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: `dlpi_phdr` points to `dlpi_phnum` headers.
            let segment = unsafe { &*info.dlpi_phdr.add(index) };
            let start = (info.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize);
            let range = start..start.wrapping_add(segment.p_memsz as usize);
            if segment.p_type == libc::PT_LOAD && range.contains(&search.0) {
                search.1 = range;
                return 1;
            }
        }
        0
    }
    let mut search = Search(address, 0..0);
    // SAFETY: `look` gets the pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.1
}

fn is_foreign(instruction: usize) -> bool {
    (TEXT[0].load(Ordering::Relaxed)..TEXT[1].load(Ordering::Relaxed)).contains(&instruction)
}

/// Lets the C library continue if the overflow happened inside it. `Ok(false)`: it did not. `Err`:
/// it cannot.
///
/// Called in the handler of SIGSEGV.
pub(crate) fn finish_first(header: &Header, interrupted: &mut Interrupted<'_>) -> Result<bool, &'static str> {
    if STEPS_LEFT.get() != 0 {
        return Err("the C library needs more stack than the guard could lend it");
    }
    if !is_foreign(interrupted.instruction()) {
        return Ok(false);
    }
    let half = (header.guard_high - header.guard_low) / 2;
    if !Interrupted::STEPS || !catch_steps() || !memory::open(header.guard_high - half, half) {
        return Err("it was inside the C library, whose locks it would keep");
    }
    STEPS_LEFT.set(STEPS_MAX);
    interrupted.step(true);
    Ok(true)
}

/// Installs the handler of SIGTRAP, on the first need: most programs never see one.
fn catch_steps() -> bool {
    // SAFETY: `sigaction` is plain data; the call is async-signal-safe, and repeating it changes
    // nothing.
    unsafe {
        let mut ours: libc::sigaction = mem::zeroed();
        ours.sa_sigaction = on_step as chain::Handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGTRAP, &ours, ptr::null_mut()) == 0
    }
}

extern "C" fn on_step(signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = ErrnoKept::new();
    // SAFETY: the kernel passes the interrupted context.
    let mut interrupted = unsafe { Interrupted::new(context) };
    let left = STEPS_LEFT.get();
    let header = header::current();
    if left == 0 || header.is_null() {
        // Not ours: a breakpoint without a debugger. As by default, it ends the process.
        // SAFETY: async-signal-safe calls; zero is the `sigaction` that means SIG_DFL.
        unsafe {
            let default: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, &default, ptr::null_mut());
            libc::raise(signal);
        }
        return;
    }
    // SAFETY: not null, so initialised and mapped: the invariant of `header.rs`.
    let header = unsafe { &*header };
    if !is_foreign(interrupted.instruction()) {
        STEPS_LEFT.set(0);
        interrupted.step(false);
        interrupted.continue_at(leave_for_good, escape_top());
    } else if left == 1 {
        let who = Line::new();
        abort(header, interrupted.instruction(), who, "the C library did not come to an end");
    } else {
        STEPS_LEFT.set(left - 1);
    }
}
