//! A test that is run with many seeds, and prints which one to run again.
//!
//! Room: tests.

use std::{env, ops::Range};

use crate::watchdog::Watchdog;

/// Runs the test of this name with each seed. A failure, or a seed that takes longer than [`test_timeout`](crate::test_timeout), prints how to run that seed again.
///
/// The environment can choose others: `SEED=7` runs that seed alone, `SEEDS=1000` that many from the first on.
pub fn for_seeds(test: &str, seeds: Range<u64>, body: impl Fn(u64)) {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "PACKAGE".to_owned());
    for seed in chosen(seeds, number("SEED"), number("SEEDS")) {
        let replay = format!("SEED={seed} cargo test -p {package} {test}");
        println!("replay: `{replay}`"); // shown if it fails
        let _watchdog = Watchdog::new(format!("{test} hangs; replay: `{replay}`"));
        body(seed);
    }
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

fn chosen(seeds: Range<u64>, only: Option<u64>, count: Option<u64>) -> Range<u64> {
    match (only, count) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => seeds.start..seeds.start + count,
        (None, None) => seeds,
    }
}
