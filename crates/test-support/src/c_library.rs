//! A library in C, for a test to load instead of the real one.
//!
//! Room: tests.

use std::{env, path::Path, process::Command};

/// Builds a shared library from one source, with the compiler that `BURSAR_TEST_CC` names, or `cc`.
///
/// # Panics
/// If there is no compiler, or it refuses the source.
#[track_caller]
pub fn c_library(source: &Path, library: &Path) {
    let compiler = env::var_os("BURSAR_TEST_CC").unwrap_or_else(|| "cc".into());
    let made = Command::new(compiler).args(["-O1", "-shared", "-fPIC", "-o"]).arg(library).arg(source).status();
    assert!(made.expect("start the C compiler").success(), "the C compiler refused {}", source.display());
}
