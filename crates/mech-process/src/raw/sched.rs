//! The scheduler's attributes and the I/O priority of a thread: `sched_setattr`, `ioprio_set`, and what reads them back.
//!
//! Room: mechanism.
//!
//! # Invariant
//! What is set is set for the calling thread alone. What is read is what the kernel has, not what was asked for.
//!
//! # Why it holds
//! The thread id 0 means the caller. The reading calls return values that the kernel keeps for the thread.

use std::io;
use std::time::Duration;

/// The kernel's `struct sched_attr`, in its first version, which every kernel takes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    size: u32,
    pub(crate) policy: u32,
    flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) period_ns: u64,
}

pub(crate) const OTHER: u32 = 0;
pub(crate) const FIFO: u32 = 1;
pub(crate) const ROUND_ROBIN: u32 = 2;
pub(crate) const BATCH: u32 = 3;
pub(crate) const IDLE: u32 = 5;
pub(crate) const DEADLINE: u32 = 6;

/// Children start with `OTHER`: without this a thread with a reservation may not fork.
const RESET_ON_FORK: u64 = 1;
const BYTES: u32 = size_of::<Attributes>() as u32;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Attributes {
    /// Of a fair policy; without a slice, with that of the system.
    pub(crate) fn fair(policy: u32, nice: i32, slice: Option<Duration>) -> Attributes {
        Attributes { size: BYTES, policy, nice, runtime_ns: slice.map_or(0, nanos), ..Attributes::default() }
    }

    /// Of `SCHED_FIFO`.
    pub(crate) fn fifo(priority: u32) -> Attributes {
        Attributes { size: BYTES, policy: FIFO, priority, ..Attributes::default() }
    }

    /// Of `SCHED_DEADLINE`: budget, deadline, period.
    pub(crate) fn deadline([budget, deadline, period]: [Duration; 3]) -> Attributes {
        Attributes {
            size: BYTES,
            policy: DEADLINE,
            flags: RESET_ON_FORK,
            runtime_ns: nanos(budget),
            deadline_ns: nanos(deadline),
            period_ns: nanos(period),
            ..Attributes::default()
        }
    }
}

/// Sets the attributes of the calling thread. Allocates nothing and takes no lock, so it may be called between fork and exec.
pub(crate) fn set(attributes: &Attributes) -> io::Result<()> {
    // SAFETY: The pointer is to a live `sched_attr` of the size that it says, which the kernel only reads, and 0 names the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The attributes of a thread; 0 is the caller.
pub(crate) fn get(thread: i32) -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: The kernel writes at most `BYTES` bytes to the pointer, which is to a local of that size; any bytes are a valid value of it.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attributes, BYTES, 0) };
    if done == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Of `ioprio_set`: the number is that of a thread.
const OF_THREAD: libc::c_int = 1;

/// Sets the I/O priority of the calling thread: class and level in one number.
pub(crate) fn set_io(priority: u16) -> io::Result<()> {
    // SAFETY: The call takes numbers only.
    let done = unsafe { libc::syscall(libc::SYS_ioprio_set, OF_THREAD, 0, libc::c_int::from(priority)) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The I/O priority of a thread; 0 is the caller.
pub(crate) fn io(thread: i32) -> io::Result<u16> {
    // SAFETY: The call takes numbers only.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, OF_THREAD, thread) };
    u16::try_from(priority).map_err(|_| io::Error::last_os_error())
}
