//! How often a capability was used: counted where it is used, read by the audit.
//!
//! Room: values.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often a capability was used. The standard library's counter, also in models: no decision depends on it.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU64);

impl Uses {
    #[inline]
    pub(crate) fn add(&self, uses: u64) {
        self.0.fetch_add(uses, Relaxed);
    }

    /// Some uses did not happen.
    pub(crate) fn take_back(&self, uses: u64) {
        self.0.fetch_sub(uses, Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
