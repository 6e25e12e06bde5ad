//! What reaches a harness from outside the calls of its node: wakes and errors. Both may come from other threads.
//!
//! Room: driver.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::Wake,
    time::Duration,
};

use crate::observe::Observer;

/// A test that waits longer than this for a wake has found a bug.
pub(super) const WAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// Set by the waker of the node. `on_wake` is called when the test asks for it.
#[derive(Default)]
pub(super) struct WakeFlag {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl WakeFlag {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_set(&self) -> bool {
        *self.lock()
    }

    pub(super) fn clear(&self) {
        *self.lock() = false;
    }

    /// Waits until it is set, and clears it. False after [`WAKE_TIMEOUT`].
    pub(super) fn wait(&self) -> bool {
        let woken = self.changed.wait_timeout_while(self.lock(), WAKE_TIMEOUT, |woken| !*woken);
        std::mem::take(&mut *woken.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.lock() = true;
        self.changed.notify_all();
    }
}

/// The errors of the node and its tasks.
#[derive(Default)]
pub(super) struct Errors(Mutex<Vec<String>>);

impl Errors {
    pub(super) fn push(&self, error: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    /// Appends to `seen` what it does not have yet.
    pub(super) fn copy_to(&self, seen: &mut Vec<String>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend_from_slice(&all[seen.len()..]);
    }
}

impl Observer for Errors {
    fn failed(&self, _node: &str, error: &str) {
        self.push(error.to_owned());
    }
}
