//! The workers of a flow: one to begin with, and more, each on a worker of the runtime of its own, when there is more to do than one can.
//!
//! Room: drive.
//!
//! # Invariant
//! No two workers of a flow share one of the runtime: they would only take turns, each with half of what is ready.
//!
//! # Why it holds
//! A started fiber stays where it is, and one that was not started is taken by whoever looks first, which may be the place of the one that called it. So whoever is called says
//! first where it is; if there is one of the crew already it leaves, and another is called at the next occasion. While one is called its caller does not give way, so that idle
//! threads have the time to come.

use std::sync::{
    Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use sched_tasks::Nursery;

use super::Shared;

/// Who works for a flow, and where.
pub(super) struct Crew {
    most: usize,
    size: AtomicUsize,
    /// One was called and has not said yet where it is.
    called: AtomicBool,
    places: Mutex<Vec<Option<usize>>>,
}

impl Crew {
    pub(super) fn new(most: usize) -> Self {
        Self { most, size: AtomicUsize::new(0), called: AtomicBool::new(false), places: Mutex::new(Vec::new()) }
    }

    /// Whether one was called and has not come.
    pub(super) fn is_called(&self) -> bool {
        self.called.load(Relaxed)
    }

    /// Calls one more, if there may be more and none is on its way.
    pub(super) fn call<'scope>(&'scope self, shared: &'scope Shared, nursery: &'scope Nursery<'scope, '_>) {
        if self.size.load(Acquire) < self.most && !self.called.swap(true, AcqRel) {
            nursery.task().name(format!("flow {}", shared.name)).spawn(move || {
                let joined = self.join();
                self.called.store(false, Release);
                if joined {
                    shared.work(Some((self, nursery)));
                }
            });
        }
    }

    /// False if there is one here already.
    fn join(&self) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let here = sched_tasks::current_worker();
        let is_new = !places.contains(&here);
        if is_new {
            places.push(here);
            self.size.store(places.len(), Release);
        }
        is_new
    }
}
