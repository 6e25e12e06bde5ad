//! The virtual workers of a seeded runtime, between two runs.
//!
//! Room: mechanism.
//!
//! # Invariant
//! A worker at rest is used by no thread, and by one thread at a time when it is not at rest.
//!
//! # Why it holds
//! A run takes the set out of its runtime and puts it back when all its fibers have ended and its strands are gone; see `drive::seeded`. Runs take turns. What was started on
//! one thread has ended there: no stack, with the addresses of thread-locals in it, comes along. A stack that overflowed holds an `Rc` of its worker for ever, but
//! nothing runs on it again, so that `Rc` is neither cloned nor dropped.

use std::rc::Rc;

use crate::kernel::worker::Worker;

/// Workers without fibers.
pub(crate) struct WorkerSet(Vec<Rc<Worker>>);

// SAFETY: by the invariant no other thread uses the workers, so their cells and counts are the owner's alone; they hold no fiber, and what else is in them (deques,
// queues of plain values, references to shared data) may be used on any thread.
unsafe impl Send for WorkerSet {}

impl WorkerSet {
    /// Puts workers to rest. The caller has no other reference to them.
    pub(crate) fn rest(workers: Vec<Rc<Worker>>) -> Self {
        assert!(workers.iter().all(|worker| worker.has_no_fibers()), "a worker rests when its fibers have ended");
        Self(workers)
    }

    /// To work, on this thread.
    pub(crate) fn wake(self) -> Vec<Rc<Worker>> {
        self.0
    }
}
