//! The models of `tests/loom/main.rs` can fail: each planted bug fails the model that is named beside it.
//!
//! ```text
//! cargo test -p sched-flow --test planted -- --ignored
//! ```
#![cfg(not(loom))]

#[path = "../../mech-sync/tests/planting/mod.rs"]
mod planting;

/// Each planted bug, and the model that it must fail.
const PLANTED: &[(&str, &str)] = &[
    ("sleeps-uncounted", "a_sleeping_worker_is_woken_when_there_is_work"),
    ("wakeup-time-stays", "a_time_is_waited_for_again_after_its_waiter_was_woken"),
];

#[test]
#[ignore = "builds loom and runs every model once more: `cargo xtask test planted`"]
fn every_planted_bug_fails_its_model() {
    planting::check_that_each_fails(PLANTED);
}

#[test]
fn every_bug_that_can_be_planted_is() {
    planting::check_that_all_are_listed(PLANTED);
}
