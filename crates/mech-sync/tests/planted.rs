//! The models of `tests/loom/` can fail: each planted bug fails the model that its file's header names.
//!
//! ```text
//! cargo test -p mech-sync --test planted -- --ignored
//! ```
//!
//! A planted bug is an `or_planted!` in the source: a fence left out, an ordering weakened, a second look dropped. A deadlock
//! that loom finds aborts the process, so every model runs in one of its own.
#![cfg(not(loom))]

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

/// Each planted bug, and the model that it must fail.
const PLANTED: &[(&str, &str)] = &[
    ("pop-without-fence", "deque::the_last_item_is_taken_once"),
    ("steal-without-fence", "deque::the_last_item_is_taken_once"),
    ("push-relaxed", "deque::a_thief_sees_what_it_steals"),
    ("pop-lowers-relaxed", "deque::a_thief_sees_what_it_steals"),
    ("grow-relaxed", "deque::a_steal_survives_growth"),
    ("park-ignores-kick", "seat::a_wake_or_a_kick_is_never_lost"),
    ("park-without-acquire", "seat::a_wake_or_a_kick_is_never_lost"),
    ("park-relaxed", "seat::of_two_wakers_one_delivers"),
    ("wake-by-store", "seat::of_two_wakers_one_delivers"),
    ("withdraw-without-acquire", "seat::a_late_withdrawal_sees_the_waker"),
    ("unpark-like-withdraw", "seat::a_sleeper_whose_time_is_up_knows_what_will_arrive"),
    ("ring-without-fence", "home::a_delivery_is_seen_or_rings"),
    ("sleep-without-fence", "home::a_delivery_is_seen_or_rings"),
    ("sleep-without-look", "home::a_delivery_is_seen_or_rings"),
    ("deliver-relaxed", "home::a_delivery_is_seen_or_rings"),
    ("is-woken-relaxed", "home::a_delivery_wakes_the_newest_waker"),
    ("publish-without-fence", "idle::no_wakeup_is_lost"),
    ("give-up-without-fence", "idle::no_wakeup_is_lost"),
    ("search-ends-quietly", "idle::the_search_is_handed_on"),
    ("second-look-ends-search", "idle::the_search_is_handed_on"),
    ("len-outside-lock", "injector::an_injected_item_is_not_overlooked"),
    ("close-relaxed", "countdown::the_last_member_wakes_the_owner"),
    ("done-relaxed", "countdown::the_last_member_wakes_the_owner"),
    ("is-done-relaxed", "completion::a_result_is_read_once_and_freed_once"),
    ("finish-without-acquire", "completion::a_result_is_read_once_and_freed_once"),
    ("abandon-without-acquire", "completion::a_result_is_read_once_and_freed_once"),
    ("retract-without-look", "completion::a_reader_may_change_its_mind"),
    ("unlock-relaxed", "spin::the_lock_excludes"),
    ("push-hands-over-relaxed", "ring::values_pass_through_the_ring_once"),
    ("pop-hands-over-relaxed", "ring::values_pass_through_the_ring_once"),
    ("ring-without-total-order", "ring::a_waiter_sees_the_ring_change_or_is_seen"),
];

/// Runs the models whose names are given (all, if none is), with the bug of that name planted.
fn run_models(planted: &str, models: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .args(["test", "--release", "--package", "mech-sync", "--test", "loom", "--", "--exact"])
        .args(models)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .env("RUST_BACKTRACE", "0")
        .env("PLANTED", planted)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs")
}

#[test]
#[ignore = "builds loom and runs every model once more: `cargo xtask test planted`"]
fn every_planted_bug_fails_its_model() {
    let sound = run_models("nothing", &[]);
    let told = String::from_utf8_lossy(&sound.stdout);
    assert!(sound.status.success(), "the models fail with no bug planted:\n{told}");
    let mut unnoticed = Vec::new();
    for (bug, model) in PLANTED {
        assert!(told.contains(&format!("test {model} ... ok")), "no such model: {model}");
        let caught = !run_models(bug, &[model]).status.success();
        println!("{bug:<26} {} {model}", if caught { "fails" } else { "does not fail" });
        if !caught {
            unnoticed.push(bug);
        }
    }
    assert!(
        unnoticed.is_empty(),
        "planted and not noticed: {unnoticed:?}; replay: `PLANTED=NAME` with the loom command"
    );
}

#[test]
fn every_bug_that_can_be_planted_is() {
    let mut in_source = BTreeSet::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("the crate has sources") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("a source is text");
        for planted in text.split("or_planted!(").skip(1) {
            let name = planted.split('"').nth(1).expect("a planted bug has a name");
            if !name.contains('$') {
                in_source.insert(name.to_owned());
            }
        }
    }
    let listed: BTreeSet<_> = PLANTED.iter().map(|(bug, _)| (*bug).to_owned()).collect();
    assert_eq!(in_source, listed);
}
