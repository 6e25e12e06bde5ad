//! `cargo xtask test cluster`: the tests of what leaves the machine, on a cluster of their own.

use crate::steps::Cargo;

/// Runs the tests; the cluster is ended whether they pass or not.
pub(crate) fn test() -> Result<(), String> {
    println!("{}", super::up().map_err(|error| format!("NOT RUN: there is no cluster to test on. {error}"))?);
    let folder = super::folder();
    let tests = Cargo::new(&["test"])
        .packages(&["surface-cli"])
        .env("BURSAR_CLUSTER_DIR", &folder.to_string_lossy())
        .args(&["--test", "cluster", "--", "--ignored", "--test-threads=1"])
        .run_tests();
    let ended = super::down();
    // Each of these has a broker of its own, which it kills.
    let flows = Cargo::new(&["test"]).packages(&["surface-cli"]).args(&[
        "--test",
        "nats",
        "--",
        "--include-ignored",
        "--test-threads=1",
    ]);
    tests.and(ended).and_then(|()| flows.run_tests())
}
