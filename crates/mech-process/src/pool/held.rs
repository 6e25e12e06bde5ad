//! Ends that the client has not settled yet, and the keeper that has each on record.
//!
//! Room: mechanism. Knows tokens and slots; knows nothing of sockets.
//!
//! # Invariant
//! A keeper clears its record only when its count of held ends is 0. Each held end is in the map once and in one count.
//!
//! # Why it holds
//! An end is added before its keeper is idle, so before the next start of that keeper reads the count. [`HeldEnds::settle`] takes an end out of
//! the map, so a second call for the same token changes no count.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::slot::{Slot, lock};

/// The ends that are held, if the client wants that.
#[derive(Default)]
pub(super) struct HeldEnds {
    is_enabled: AtomicBool,
    keepers: Mutex<HashMap<String, Arc<Slot>>>,
}

impl HeldEnds {
    /// From now on ends are held until they are settled.
    pub(super) fn enable(&self) {
        self.is_enabled.store(true, Ordering::Relaxed);
    }

    /// A command has ended on this keeper, which has the end on record.
    pub(super) fn add(&self, token: &str, slot: &Arc<Slot>) {
        if self.is_enabled.load(Ordering::Relaxed) {
            lock(&self.keepers).insert(token.to_owned(), Arc::clone(slot));
        } else {
            lock(&slot.state).held = 0;
        }
    }

    /// Ends that the keeper of an earlier client has on record. They are settled like our own.
    pub(super) fn adopt(&self, slot: &Arc<Slot>, tokens: Vec<String>) {
        if self.is_enabled.load(Ordering::Relaxed) {
            lock(&self.keepers).extend(tokens.into_iter().map(|token| (token, Arc::clone(slot))));
        }
    }

    /// The client has made this end durable.
    pub(super) fn settle(&self, token: &str) {
        let slot = lock(&self.keepers).remove(token);
        if let Some(slot) = slot {
            let mut state = lock(&slot.state);
            state.held = state.held.saturating_sub(1);
        }
    }

    /// Forgets which keeper has which end. The ends stay on record.
    pub(super) fn clear(&self) {
        lock(&self.keepers).clear();
    }
}
