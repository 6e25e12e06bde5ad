//! The models of `tests/loom/` can fail: each planted bug fails the model that its file's header names.
//!
//! ```text
//! cargo test -p policy-admission --test planted -- --ignored
//! ```
#![cfg(not(loom))]

#[path = "../../mech-sync/tests/planting/mod.rs"]
mod planting;

/// Each planted bug, and the model that it must fail.
const PLANTED: &[(&str, &str)] = &[
    ("take-in-two-steps", "no_limit_is_exceeded_by_takers_at_once"),
    ("surplus-stays", "each_counter_has_exactly_what_was_answered"),
    ("part-is-kept", "each_counter_has_exactly_what_was_answered"),
    ("take-relaxed", "what_is_taken_again_is_used_no_more"),
    ("put-back-relaxed", "what_is_taken_again_is_used_no_more"),
    ("look-relaxed", "nothing_is_granted_after_a_revocation_is_seen"),
    ("vacate-relaxed", "nothing_is_granted_after_a_revocation_is_seen"),
    ("enter-without-look", "what_is_derived_during_a_revocation_does_not_escape"),
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
