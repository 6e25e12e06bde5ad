//! What several threads touch at once: the standard atomics and lock, or loom's when a model runs.
//!
//! The log has a standard lock in models too: it is held for no other step that loom could interrupt, so nothing is missed. Reference counts
//! are the standard library's affair.

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

/// `$right`; or `$wrong`, where `tests/planted.rs` plants the bug `$name` to see a model fail. Only models contain `$wrong` at all.
#[cfg(loom)]
macro_rules! or_planted {
    ($right:expr, $name:literal => $wrong:expr) => {
        if crate::sync::is_planted($name) { $wrong } else { $right }
    };
}
#[cfg(not(loom))]
macro_rules! or_planted {
    ($right:expr, $name:literal => $wrong:expr) => {
        $right
    };
}
pub(crate) use or_planted;

#[cfg(loom)]
pub(crate) fn is_planted(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("PLANTED").ok()).as_deref() == Some(name)
}
