//! The models of `tests/loom/main.rs` can fail: each planted bug fails the model that is named beside it.
//!
//! ```text
//! cargo test -p policy-flow --test planted -- --ignored
//! ```
#![cfg(not(loom))]

#[path = "../../mech-sync/tests/planting/mod.rs"]
mod planting;

/// Each planted bug, and the model that it must fail.
const PLANTED: &[(&str, &str)] = &[
    ("settle-stays-signalled", "nothing_is_lost_between_two_workers_at_an_edge_of_one"),
    ("wanted-cleared-quietly", "nothing_is_lost_between_two_workers_at_an_edge_of_one"),
    ("want-not-set", "nothing_is_lost_between_two_workers_at_an_edge_of_one"),
    ("merge-want-not-set", "a_merge_that_fails_waits_for_room_and_is_signalled"),
    ("room-came-ignored", "no_signal_is_lost_that_comes_during_a_turn"),
    ("report-takes-back-ready", "no_signal_is_lost_that_comes_during_a_turn"),
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
