//! Addresses for stacks: reserve once, guard on first use, give pages back, never unmap.
//!
//! Room: mechanism. Knows addresses and the kernel; knows nothing of which stack is free.
//!
//! # Invariant
//! A guarded slot faults on any access to its lowest [`guard_bytes`], for ever; the rest of the
//! range is readable and writable and reads zero after [`give_back`].
//!
//! # Why it holds
//! One mapping, never unmapped once a stack was handed out. `MADV_GUARD_INSTALL` marks page-table entries, and neither
//! `MADV_DONTNEED` nor a fork removes the mark. Where the kernel does not know it (before 6.13, or
//! under `mlockall`), or an emulator only says so, `mprotect` does the same at the price of two
//! mappings per stack. The first guard of every slab is tried: see [`probe`].
//!
//! # Rejected
//! One `mmap` per stack: ends at `vm.max_map_count`, near 32,700 stacks. Huge pages: the first
//! touch of a stack would commit 2 MiB.

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use crate::StackError;

/// `MADV_GUARD_INSTALL` of Linux 6.13; not yet named by the `libc` crate.
#[cfg(target_os = "linux")]
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// How stacks of a slab are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardKind {
    /// `MADV_GUARD_INSTALL`: no mapping per stack.
    Marker,
    /// `mprotect`: two mappings per stack, so `vm.max_map_count` limits the number of stacks.
    Mprotect,
}

/// The page size of this machine.
pub(crate) fn page_bytes() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    // SAFETY: no memory is passed; `_SC_PAGESIZE` is always known.
    *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize)
}

/// Unusable bytes below each stack: 16 KiB, or one page where pages are larger.
pub(crate) fn guard_bytes() -> usize {
    page_bytes().max(16 << 10)
}

/// Puts `errno` back when dropped: for signal handlers, which interrupt code that is about to read it.
#[cfg(target_os = "linux")]
pub(crate) struct ErrnoKept(i32);

#[cfg(target_os = "linux")]
impl ErrnoKept {
    pub(crate) fn new() -> Self {
        // SAFETY: the address of this thread's `errno`.
        Self(unsafe { *libc::__errno_location() })
    }
}

#[cfg(target_os = "linux")]
impl Drop for ErrnoKept {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

pub(crate) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Reserves `bytes` of readable, writable, uncommitted addresses. `Err` is the error number.
pub(crate) fn reserve(bytes: usize) -> Result<usize, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    #[cfg(target_os = "linux")]
    let flags = flags | libc::MAP_STACK;
    // SAFETY: a fresh private mapping at an address the kernel chooses touches nothing that exists.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(last_errno());
    }
    #[cfg(target_os = "linux")]
    // SAFETY: the range was mapped just above. The result is ignored: a kernel without huge pages
    // refuses the advice and needs none.
    unsafe {
        libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
    }
    Ok(start as usize)
}

/// Gives a reservation back.
///
/// # Safety
/// The range was reserved as a whole, and no stack of it was handed out.
pub(crate) unsafe fn release(start: usize, bytes: usize) {
    // SAFETY: the caller's contract. On failure the addresses stay reserved, which is all that can happen.
    unsafe {
        libc::munmap(start as *mut _, bytes);
    }
}

/// The kind of guard that is in effect at `low`, which lies in a fresh reservation: `wanted`, or the first that works.
///
/// Success is not believed: qemu-user ignores advice it does not know, and reports success.
pub(crate) fn probe(low: usize, wanted: Option<GuardKind>) -> Result<GuardKind, StackError> {
    [GuardKind::Marker, GuardKind::Mprotect]
        .into_iter()
        .filter(|kind| wanted.is_none_or(|wanted| wanted == *kind))
        .find(|kind| install(*kind, low).is_ok() && is_closed(low))
        .ok_or(StackError::NoGuards { guard_bytes: guard_bytes() })
}

/// Whether every page of the guard at `low`, in a fresh reservation, is out of reach. Asks the kernel to sleep for as long
/// as is written there: what it cannot read it reports, with neither a fault nor a descriptor; what it can read is
/// zero, and no time at all.
///
/// Not `rt_sigprocmask`, which also only reads: valgrind reads the set itself, and dies of it.
#[cfg(target_os = "linux")]
fn is_closed(low: usize) -> bool {
    (low..low + guard_bytes()).step_by(page_bytes()).all(|page| {
        // SAFETY: the kernel checks the address; nothing is written.
        let done = unsafe { libc::nanosleep(page as *const libc::timespec, ptr::null_mut()) };
        done == -1 && last_errno() == libc::EFAULT
    })
}

/// Elsewhere `mprotect` is the only guard, and no system was seen to ignore it.
#[cfg(not(target_os = "linux"))]
fn is_closed(_low: usize) -> bool {
    true
}

/// Makes the guard at `low` fault. Safe to repeat.
pub(crate) fn install(kind: GuardKind, low: usize) -> Result<(), i32> {
    let start = low as *mut libc::c_void;
    let done = match kind {
        // SAFETY: `low` starts the guard part of a slot of ours, where nothing is ever stored.
        #[cfg(target_os = "linux")]
        GuardKind::Marker => unsafe { libc::madvise(start, guard_bytes(), MADV_GUARD_INSTALL) },
        #[cfg(not(target_os = "linux"))]
        GuardKind::Marker => return Err(libc::EINVAL),
        // SAFETY: as above.
        GuardKind::Mprotect => unsafe { libc::mprotect(start, guard_bytes(), libc::PROT_NONE) },
    };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Opens the guard part `[low, low + bytes)`, whichever kind it is. Async-signal-safe.
pub(crate) fn open(low: usize, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    const MADV_GUARD_REMOVE: libc::c_int = 103;
    let start = low as *mut libc::c_void;
    // SAFETY: the guard of a slot of ours: nothing is stored there, so making it usable breaks
    // nothing. A kernel without markers refuses the first call, and has none to remove.
    unsafe {
        #[cfg(target_os = "linux")]
        libc::madvise(start, bytes, MADV_GUARD_REMOVE);
        libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0
    }
}

/// Gives the pages of `[low, low + bytes)` back to the kernel; they read zero afterwards.
///
/// # Safety
/// The range belongs to a stack of ours on which nothing lives any more.
pub(crate) unsafe fn give_back(low: usize, bytes: usize) {
    // SAFETY: the caller's contract; a private anonymous mapping has no other content. On failure
    // the pages merely stay.
    unsafe {
        libc::madvise(low as *mut _, bytes, libc::MADV_DONTNEED);
    }
}

/// The same for several ranges, by one system call where the kernel can (6.16 or later): then it tells the other CPUs once
/// that the pages are gone, and not once for each range. That takes longer than all the rest.
///
/// # Safety
/// As for [`give_back`], for each of `ranges`.
pub(crate) unsafe fn give_back_all(ranges: &[Range<usize>]) {
    for ranges in ranges.chunks(AT_ONCE_MAX) {
        // SAFETY: the caller's contract. What is given back twice is given back.
        unsafe {
            if !give_back_at_once(ranges) {
                ranges.iter().for_each(|range| give_back(range.start, range.len()));
            }
        }
    }
}

/// So many ranges are passed at once, on the caller's stack; the kernel takes 1024.
pub(crate) const AT_ONCE_MAX: usize = 128;

/// Whether the kernel took them all.
///
/// # Safety
/// As for [`give_back_all`]. At most [`AT_ONCE_MAX`] ranges.
#[cfg(target_os = "linux")]
unsafe fn give_back_at_once(ranges: &[Range<usize>]) -> bool {
    /// The calling thread, for system calls that want a process; not yet named by the `libc` crate. Of Linux 6.14.
    const PIDFD_SELF_THREAD: libc::c_int = -10_000;
    if ranges.len() < 2 {
        return false;
    }
    let mut vector = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; AT_ONCE_MAX];
    for (place, range) in vector.iter_mut().zip(ranges) {
        *place = libc::iovec { iov_base: range.start as *mut _, iov_len: range.len() };
    }
    // SAFETY: `vector` holds as many ranges as it is said to; of these the caller promised that nothing lives there. An
    // older kernel knows neither this process nor this advice, and refuses.
    let taken = unsafe {
        let (vector, count) = (vector.as_ptr(), ranges.len());
        libc::syscall(libc::SYS_process_madvise, PIDFD_SELF_THREAD, vector, count, libc::MADV_DONTNEED, 0)
    };
    usize::try_from(taken) == Ok(ranges.iter().map(Range::len).sum())
}

/// Only Linux has such a call.
///
/// # Safety
/// None.
#[cfg(not(target_os = "linux"))]
unsafe fn give_back_at_once(_ranges: &[Range<usize>]) -> bool {
    false
}

/// Checks the two sizes of a slab and returns the bytes of one slot and of `slots` of them.
pub(crate) fn check_shape(stack_bytes: usize, max_stacks: usize, slots: usize) -> Result<(usize, usize), StackError> {
    const MIN_BYTES: usize = 16 << 10;
    const MAX_BYTES: usize = 1 << 30;
    const MAX_STACKS: usize = 1 << 30;
    if stack_bytes < MIN_BYTES {
        return Err(StackError::TooSmall { stack_bytes, min_bytes: MIN_BYTES });
    }
    if stack_bytes > MAX_BYTES {
        return Err(StackError::TooLarge { stack_bytes, max_bytes: MAX_BYTES });
    }
    if !stack_bytes.is_multiple_of(page_bytes()) {
        return Err(StackError::NotWholePages { stack_bytes, page_bytes: page_bytes() });
    }
    if max_stacks == 0 || max_stacks > MAX_STACKS {
        return Err(StackError::StackCount { max_stacks, limit: MAX_STACKS });
    }
    let slot_bytes = stack_bytes + guard_bytes();
    let bytes = slot_bytes.saturating_mul(slots);
    Ok((slot_bytes, bytes))
}
