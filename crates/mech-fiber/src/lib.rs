//! Fibers (stackful coroutines): stacks that are left and entered in a few nanoseconds.
//!
//! Room: mechanism. Knows stacks, registers and guard pages; knows nothing of tasks, queues, budgets or cancellation.
//!
//! | file | holds |
//! |---|---|
//! | `memory.rs` | addresses: reserve, guard, give back |
//! | `slab.rs` | which stack is free, warm, in use or quarantined |
//! | `fiber.rs` | entering and leaving a stack: the hot path |
//! | `header.rs` | what a running stack knows about itself |
//! | `control.rs` | rounding modes do not travel between stacks |
//! | `overflow.rs` | a stack that ran out ends the process, or is left for ever |
//! | `foreign.rs` | the C library finishes what it began, first |
//! | `chain.rs` | faults that are not ours reach their handler |
//! | `aside.rs` | a panic is counted where its stack runs |
//! | `abort.rs` | ends the process with a line that names the fiber |
//! | `spare.rs` | the two spare stacks a thread needs for that |
//! | `thread.rs` | a thread is made ready for all this |
//! | `tsan.rs` | reports every switch to ThreadSanitizer, on request |
//!
//! # Systems
//! Linux on x86_64 and aarch64 is complete. Other unixes run fibers with `mprotect` guards but
//! without a line that names the task: there an overflow ends the process with its usual signal.
//!
//! # What a switch keeps, and what it does not
//! Kept per side: the stack, the callee-saved registers, the control words of SSE and x87 (or
//! FPCR). *Not* kept: `errno`, the signal mask, thread-locals, `std::thread::panicking`. They
//! belong to the thread; read `errno` before anything that may suspend, and take panics aside
//! ([`PanicsAside`]) before a fiber is left that unwinds.

mod aside;
mod control;
mod error;
mod fiber;
mod header;
mod memory;
mod slab;
mod tsan;

#[cfg(target_os = "linux")]
mod abort;
#[cfg(target_os = "linux")]
mod chain;
#[cfg(target_os = "linux")]
mod foreign;
#[cfg(target_os = "linux")]
mod overflow;
#[cfg(target_os = "linux")]
mod registers;
#[cfg(target_os = "linux")]
mod spare;
#[cfg(target_os = "linux")]
mod thread;

#[cfg(not(target_os = "linux"))]
#[path = "other_unix.rs"]
mod overflow;
#[cfg(not(target_os = "linux"))]
use overflow as thread;

pub use aside::PanicsAside;
pub use control::keep_control_words_exactly;
pub use error::StackError;
pub use fiber::{
    Fiber, Step, has_room, in_fiber, lend_guard, remaining_bytes, stack_bytes, stack_limit, stack_pointer, suspend,
    take_guard_back,
};
pub use memory::GuardKind;
pub use overflow::{OnOverflow, OverflowHook, set_overflow_hook};
pub use slab::{Slab, SlabOptions, SlabStats, Stack};
pub use thread::prepare_thread;
