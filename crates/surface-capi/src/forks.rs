//! Forks of the process: a child has a copy of the memory, and none of the threads.
//!
//! Room: surface. Knows how often the process was forked; knows nothing of what was inherited.
//!
//! # Invariant
//! Nothing that was made before a fork is used after it, in the child: no call waits there for a thread that is not there, and no task of the parent runs twice.
//!
//! # Why it holds
//! The system calls [`count`] in every child before `fork` returns there. Runtimes and nurseries note the number when they are made, and are refused under another. A thread that sees a new number for the first time
//! leaves the nurseries it was in; if it runs a task of the parent, each call is refused, and the task does not return.
//!
//! # What it cannot do
//! A lock that another thread held at the moment of the fork stays taken in the child: that is so for every library. `_Fork`, `vfork` and `clone` do not call `count`.
//!
//! # Rejected
//! To compare process numbers at every call: a system call, which takes longer than most of ours.

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use sched_tasks::internals::leave_parents_nurseries;

use crate::codes::{JANUS_NOT_ACTIVE, JANUS_OUT_OF_RESOURCES, Refusal};

/// How many forks lie between the process that loaded the library and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of forks at the last call of this thread.
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

/// When something was made, counted in forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    pub(crate) fn now() -> Self {
        Self(FORKS.load(Relaxed))
    }

    /// Whether a fork came after it: what was made then belongs to the parent process.
    pub(crate) fn is_past(self) -> bool {
        self != Self::now()
    }
}

extern "C" fn count() {
    FORKS.fetch_add(1, Relaxed);
}

/// From now on forks are counted.
pub(crate) fn watch() -> Result<(), Refusal> {
    static WATCHED: OnceLock<i32> = OnceLock::new();
    // SAFETY: the handler only adds to a number, which is allowed in a child of a process with threads.
    match WATCHED.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(count)) }) {
        0 => Ok(()),
        code => Err(Refusal::new(
            JANUS_OUT_OF_RESOURCES,
            format!(
                "the system keeps no more handlers for `fork` (error {code}); free some memory, and start the runtime again"
            ),
        )),
    }
}

/// Refuses a caller that is a task of the parent process. A thread leaves the nurseries it was in before the fork.
#[inline]
pub(crate) fn check_caller() -> Result<(), Refusal> {
    if SEEN.get() == FORKS.load(Relaxed) { Ok(()) } else { look_at_caller() }
}

#[cold]
fn look_at_caller() -> Result<(), Refusal> {
    if leave_parents_nurseries() {
        return Err(Refusal::new(
            JANUS_NOT_ACTIVE,
            "the process was forked inside a task, and the child has none of the threads that run tasks; call `exec` or `_exit` here, or fork outside of tasks",
        ));
    }
    SEEN.set(FORKS.load(Relaxed));
    Ok(())
}

/// A task of the parent process has returned in the child. If it went on from here, it would run the other tasks of the parent a second time.
#[cold]
pub(crate) fn end_child() -> ! {
    eprintln!(
        "janus: the process was forked inside a task, and the task returned in the child {}; end the child with `exec` or `_exit` before that",
        std::process::id()
    );
    std::process::abort();
}
