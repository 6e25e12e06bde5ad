//! What several threads use at once: the standard atomics and lock, or loom's when a model runs.
//!
//! Room: mechanism.
//!
//! The log has a standard lock in models too: it is held for no other step that loom could interrupt, so no
//! interleaving is missed. Reference counts are those of the standard library.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64},
};

pub(crate) use vocab::or_planted;
