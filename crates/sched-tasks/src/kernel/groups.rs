//! Nurseries that no block waits for: in which phase each is, and which of a runtime have not ended.
//!
//! Room: state. Knows which phase each is in; how one is ended is `nursery/groups.rs`.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
};

use mech_sync::WaitToken;

use super::nursery::NurseryCore;
use crate::error::TaskError;

/// What owner, spawners and runtime share of a nursery that no block waits for.
pub(crate) struct Group {
    pub(crate) core: Arc<NurseryCore>,
    pub(crate) kind: Kind,
    pub(crate) phase: Mutex<Phase>,
    /// Its owner is gone: the runtime ends it.
    pub(crate) was_left: AtomicBool,
    /// What it was worth, once its owner has asked.
    pub(crate) verdict: OnceLock<Result<(), TaskError>>,
    /// The one around it, where the runtime may end that first: its memory is needed until this one has ended.
    _around: Option<Arc<Group>>,
}

/// What owns such a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value: an `OwnedNursery`. Nothing is around it.
    Owned,
    /// A task, or the body of a nursery, which ends it at the latest when it ends itself: an `OpenNursery`.
    OfBlock,
    /// A plain thread, outside of all nurseries but such ones: the runtime knows of it, and may end it first.
    OfThread,
}

/// Whether such a nursery has ended.
pub(crate) enum Phase {
    Open,
    /// One strand waits for its tasks; these tokens wait for that strand.
    Ending(Vec<WaitToken>),
    Ended,
}

impl Group {
    pub(crate) fn new(core: Arc<NurseryCore>, kind: Kind, around: Option<Arc<Group>>) -> Arc<Self> {
        Arc::new(Self {
            core,
            kind,
            phase: Mutex::new(Phase::Open),
            was_left: AtomicBool::new(false),
            verdict: OnceLock::new(),
            _around: around,
        })
    }

    /// Cancels its tasks, and leaves their end to the runtime.
    pub(crate) fn leave(&self) {
        self.core.cancel();
        self.was_left.store(true, Release);
    }

    /// Whether it is in the list of its runtime.
    pub(crate) fn is_listed(&self) -> bool {
        self.kind != Kind::OfBlock
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of a runtime that have not ended, oldest first.
#[derive(Default)]
pub(crate) struct Groups(Mutex<Vec<Arc<Group>>>);

impl Groups {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Arc<Group>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. Returns those that were left by their owners and have no tasks: they are to be ended.
    #[must_use]
    pub(crate) fn add(&self, group: &Arc<Group>) -> Vec<Arc<Group>> {
        let mut groups = self.lock();
        groups.push(group.clone());
        groups.iter().filter(|group| group.was_left.load(Acquire) && group.core.has_no_tasks()).cloned().collect()
    }

    pub(crate) fn remove(&self, group: &Arc<Group>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, group));
    }

    /// All of them.
    pub(crate) fn cores(&self) -> Vec<Arc<NurseryCore>> {
        self.lock().iter().map(|group| group.core.clone()).collect()
    }
}
