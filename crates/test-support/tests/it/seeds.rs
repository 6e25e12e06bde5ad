use std::{cell::RefCell, os::unix::process::ExitStatusExt, thread};

use test_support::{all_text, alone_with, for_seeds, output_alone_with};

/// The seeds that a test is run with.
fn run_with(seeds: std::ops::Range<u64>) -> Vec<u64> {
    let run = RefCell::new(Vec::new());
    for_seeds("none", seeds, |seed| run.borrow_mut().push(seed));
    run.into_inner()
}

#[test]
fn a_test_is_run_with_all_its_seeds() {
    if alone_with("seeds::a_test_is_run_with_all_its_seeds", &[]) {
        assert_eq!(run_with(100..104), [100, 101, 102, 103]);
    }
}

#[test]
fn the_environment_asks_for_one_seed_alone() {
    if alone_with("seeds::the_environment_asks_for_one_seed_alone", &[("SEED", "7"), ("SEEDS", "3")]) {
        assert_eq!(run_with(100..104), [7]);
    }
}

#[test]
fn the_environment_asks_for_more_seeds() {
    if alone_with("seeds::the_environment_asks_for_more_seeds", &[("SEEDS", "6")]) {
        assert_eq!(run_with(100..104), [100, 101, 102, 103, 104, 105]);
    }
}

#[test]
fn a_seed_that_fails_is_printed_last() {
    let Some(output) = output_alone_with("seeds::a_seed_that_fails_is_printed_last", &[]) else {
        return for_seeds("a_test", 0..5, |seed| assert_ne!(seed, 3));
    };
    let printed = all_text(&output);
    assert!(!output.status.success() && printed.contains("SEED=3 cargo test -p test-support a_test"), "{printed}");
    assert!(!printed.contains("SEED=4"), "{printed}");
}

#[test]
fn a_seed_that_hangs_ends_the_process_and_is_printed() {
    let no_time = [("BURSAR_TEST_SLOWDOWN", "0")];
    let Some(output) = output_alone_with("seeds::a_seed_that_hangs_ends_the_process_and_is_printed", &no_time) else {
        return for_seeds("a_test", 5..6, |_| thread::park());
    };
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{printed}");
    assert!(printed.contains("a_test hangs; replay: `SEED=5 cargo test -p test-support a_test`"), "{printed}");
}
