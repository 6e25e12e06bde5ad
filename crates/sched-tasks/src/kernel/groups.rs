//! The owned nurseries of a runtime: which have not ended, and in which phase each is.
//!
//! Room: state. Knows which phase each is in; how one is ended is `nursery/groups.rs`.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Acquire},
};

use mech_sync::WaitToken;

use super::nursery::NurseryCore;

/// What owner, spawners and runtime share.
pub(crate) struct Group {
    pub(crate) core: Arc<NurseryCore>,
    pub(crate) phase: Mutex<Phase>,
    /// Its owner is gone: the runtime ends it.
    pub(crate) was_left: AtomicBool,
}

/// Whether an owned nursery has ended.
pub(crate) enum Phase {
    Open,
    /// One strand waits for its tasks; these tokens wait for that strand.
    Ending(Vec<WaitToken>),
    Ended,
}

impl Group {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owned nurseries of a runtime that have not ended, oldest first.
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
