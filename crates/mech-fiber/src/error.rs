//! Errors of this crate. Each message says what was asked, what the limit is, and what to do.
//!
//! Room: values.

use std::fmt;
use std::io;

/// Why a slab, a stack or a thread could not be made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// `stack_bytes` is below the smallest stack on which a panic still fits.
    TooSmall {
        /// What was asked for.
        stack_bytes: usize,
        /// The smallest allowed.
        min_bytes: usize,
    },
    /// `stack_bytes` is above the largest supported stack.
    TooLarge {
        /// What was asked for.
        stack_bytes: usize,
        /// The largest allowed.
        max_bytes: usize,
    },
    /// `stack_bytes` does not end at a page.
    NotWholePages {
        /// What was asked for.
        stack_bytes: usize,
        /// The page size of this machine.
        page_bytes: usize,
    },
    /// `max_stacks` is zero or does not fit an index.
    StackCount {
        /// What was asked for.
        max_stacks: usize,
        /// The largest allowed.
        limit: usize,
    },
    /// The kernel refused the range of addresses.
    Reserve {
        /// How many bytes of addresses were asked for.
        bytes: usize,
        /// For how many stacks.
        max_stacks: usize,
        /// Of how many usable bytes each.
        stack_bytes: usize,
        /// The error number of `mmap`.
        errno: i32,
    },
    /// Every stack of the slab is taken.
    AllInUse {
        /// The limit the slab was reserved with.
        max_stacks: usize,
        /// The size of each.
        stack_bytes: usize,
        /// How many of its stacks were lost to overflows.
        quarantined: usize,
    },
    /// One more guard did not fit into the kernel's table of mappings.
    Guard {
        /// How many stacks of this slab have a guard.
        guarded: usize,
        /// The error number of `madvise` or `mprotect`.
        errno: i32,
    },
    /// A guard was installed, and an access to it does not fault: an emulator or a sandbox ignores the calls.
    NoGuards {
        /// The bytes that should be out of reach below each stack.
        guard_bytes: usize,
    },
    /// The thread's alternate signal stack or the signal handler could not be installed.
    Thread {
        /// The call that failed.
        call: &'static str,
        /// Its error number.
        errno: i32,
    },
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let os = io::Error::from_raw_os_error;
        match *self {
            Self::TooSmall { stack_bytes, min_bytes } => write!(
                f,
                "a stack of {stack_bytes} bytes is below the minimum of {min_bytes}; \
                 raise `stack_bytes` (a stack commits only what it touches)"
            ),
            Self::TooLarge { stack_bytes, max_bytes } => write!(
                f,
                "a stack of {stack_bytes} bytes is above the maximum of {max_bytes}; \
                 lower `stack_bytes` or move large data to the heap"
            ),
            Self::NotWholePages { stack_bytes, page_bytes } => write!(
                f,
                "a stack of {stack_bytes} bytes is not a multiple of the page size {page_bytes}; \
                 use `stack_bytes` = {}",
                stack_bytes.next_multiple_of(page_bytes)
            ),
            Self::StackCount { max_stacks, limit } => write!(
                f,
                "`max_stacks` is {max_stacks} but must lie between 1 and {limit}; \
                 use a second slab for more"
            ),
            Self::Reserve { bytes, max_stacks, stack_bytes, errno } => write!(
                f,
                "no room to reserve {bytes} bytes of addresses ({max_stacks} stacks of \
                 {stack_bytes} bytes): {}; lower `max_stacks` or `stack_bytes`, raise `ulimit -v`, \
                 or set vm.overcommit_memory to 0 or 1",
                os(errno)
            ),
            Self::AllInUse { max_stacks, stack_bytes, quarantined } => write!(
                f,
                "all {max_stacks} stacks of {stack_bytes} bytes are in use, {quarantined} of them lost to overflows; \
                 let tasks end first, ask for smaller stacks, or raise `max_stacks`"
            ),
            Self::Guard { guarded, errno } => write!(
                f,
                "after {guarded} guarded stacks the kernel refused the next guard: {}; \
                 raise vm.max_map_count (two mappings per stack), lower the number of fibers alive \
                 at once, or use Linux 6.13 or newer, where guards need no mapping",
                os(errno)
            ),
            Self::NoGuards { guard_bytes } => write!(
                f,
                "`madvise` and `mprotect` have no effect here: the {guard_bytes} bytes below a stack stay \
                 accessible, and a fiber could run into its neighbour unseen; run where `mprotect` is \
                 honoured, which this emulator or sandbox does not do"
            ),
            Self::Thread { call, errno } => write!(
                f,
                "`{call}` failed while preparing this thread for fibers: {}; \
                 raise `ulimit -v` or vm.max_map_count, or run fewer threads",
                os(errno)
            ),
        }
    }
}

impl std::error::Error for StackError {}
