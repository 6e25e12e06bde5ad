//! Reaping a child together with its resource usage.
//!
//! Room: mechanism.
//!
//! # Invariant
//! Every process that leaves the tree is counted once: its times and its peak come with the call that reaps it.
//!
//! # Why it holds
//! `wait4` hands out each child once, and fills in the usage of the child *and* of the children it reaped itself. Orphans come to
//! the keeper, which is their subreaper, so the sum over all that it reaps is the tree's.
//!
//! # Rejected
//! `getrusage(RUSAGE_CHILDREN)` before and after: exact for times, but its peak is the largest child *ever*, and a keeper runs command
//! after command. `/proc/<pid>/stat` of the zombie: times in steps of 10 ms, and no peak.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::procfs::kb_of_kib;

/// What the kernel reports of an ended child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    /// Exit code, if it exited; else the signal is in `signal`.
    pub(crate) code: Option<i32>,
    pub(crate) signal: i32,
    pub(crate) cpu: Duration,
    /// Largest resident size of it, or of any child that it reaped, in kB.
    pub(crate) peak_kb: u64,
}

/// Reaps one ended child. `Ok(None)`: all remaining children still run. Fails with `ECHILD` when there are no children.
pub(crate) fn reap() -> io::Result<Option<Reaped>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: Both pointers are to locals that live through the call; the kernel writes at most one `int` and one `rusage`.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: Initialised: zeroed above, all zeroes is a valid `rusage` (integers only), and the kernel may have written over it.
    let usage = unsafe { usage.assume_init() };
    Ok(Some(Reaped {
        pid,
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 },
        cpu: span(usage.ru_utime) + span(usage.ru_stime),
        peak_kb: kb_of_kib(u64::try_from(usage.ru_maxrss).unwrap_or(0)),
    }))
}

fn span(time: libc::timeval) -> Duration {
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(secs) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}
