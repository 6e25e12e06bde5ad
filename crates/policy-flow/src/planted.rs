//! Bugs on purpose, for models to find.

/// `$right`; or `$wrong`, where `tests/planted.rs` plants the bug `$name` to see a model fail. Only models contain `$wrong` at all.
#[cfg(loom)]
macro_rules! or_planted {
    ($right:expr, $name:literal => $wrong:expr) => {
        if crate::planted::is_planted($name) { $wrong } else { $right }
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
