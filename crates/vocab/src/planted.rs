//! Bugs planted on purpose, for models to find.
//!
//! Room: values.

/// `$right`; or `$wrong`, where a test such as `crates/mech-sync/tests/planted.rs` plants the bug `$name` to see a model fail. Only models contain `$wrong` at all.
#[cfg(loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! or_planted {
    ($right:expr, $name:literal => $wrong:expr) => {
        if $crate::is_planted($name) { $wrong } else { $right }
    };
}
#[cfg(not(loom))]
#[doc(hidden)]
#[macro_export]
macro_rules! or_planted {
    ($right:expr, $name:literal => $wrong:expr) => {
        $right
    };
}

/// Whether the environment asks for this bug.
#[cfg(loom)]
#[doc(hidden)]
pub fn is_planted(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("PLANTED").ok()).as_deref() == Some(name)
}
