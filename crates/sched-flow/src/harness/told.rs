//! What a node tells outside its calls: that it was woken, and what it failed with. Both may come from other threads.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::Wake,
    time::Duration,
};

use crate::observe::Observer;

/// Who waits longer than this for a wake has found a bug.
pub(super) const WAKE_LIMIT: Duration = Duration::from_secs(20);

/// What the node's waker rings.
#[derive(Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    ringing: Condvar,
}

impl Bell {
    pub(super) fn rung(&self) -> MutexGuard<'_, bool> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn silence(&self) {
        *self.rung() = false;
    }

    /// Waits for it, and silences it. False if it took too long.
    pub(super) fn wait(&self) -> bool {
        let rung = self.ringing.wait_timeout_while(self.rung(), WAKE_LIMIT, |rung| !*rung);
        std::mem::take(&mut *rung.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.rung() = true;
        self.ringing.notify_all();
    }
}

/// What the node failed with; its tasks may tell from other threads.
#[derive(Default)]
pub(super) struct Errors(Mutex<Vec<String>>);

impl Errors {
    pub(super) fn push(&self, error: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    pub(super) fn copy_to(&self, told: &mut Vec<String>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend_from_slice(&all[told.len()..]);
    }
}

impl Observer for Errors {
    fn failed(&self, _node: &str, error: &str) {
        self.push(error.to_owned());
    }
}
