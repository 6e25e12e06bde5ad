//! What this process holds, as the kernel counts it. Linux only.
//!
//! Room: tests.

use std::fs;

/// Resident memory of this process.
///
/// # Panics
/// If the kernel does not report it.
pub fn resident_bytes() -> usize {
    // Not `statm`: that counts pages, and their size would have to be guessed.
    let status = fs::read_to_string("/proc/self/status").expect("the kernel reports processes");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<usize>().ok()).expect("VmRSS is a number of kB") * 1024
}

/// How many entries a folder of `/proc/self` has, or lines a file: `fd`, `task`, `maps`.
///
/// # Panics
/// If there is neither.
pub fn proc_count(what: &str) -> usize {
    let path = format!("/proc/self/{what}");
    match fs::read_dir(&path) {
        Ok(entries) => entries.count(),
        Err(_) => fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).lines().count(),
    }
}
