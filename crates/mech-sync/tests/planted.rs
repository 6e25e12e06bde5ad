//! The models of `tests/loom/` can fail: each planted bug fails the model that its file's header names.
//!
//! ```text
//! cargo test -p mech-sync --test planted -- --ignored
//! ```
#![cfg(not(loom))]

mod planting;

/// Each planted bug, and the model that it must fail.
const PLANTED: &[(&str, &str)] = &[
    ("pop-without-fence", "deque::the_last_item_is_taken_once"),
    ("steal-without-fence", "deque::the_last_item_is_taken_once"),
    ("push-relaxed", "deque::a_thief_sees_what_it_steals"),
    ("pop-lowers-relaxed", "deque::a_thief_sees_what_it_steals"),
    ("grow-relaxed", "deque::a_steal_survives_growth"),
    ("park-ignores-interrupt", "waiter::a_wake_or_an_interrupt_is_never_lost"),
    ("park-without-acquire", "waiter::a_wake_or_an_interrupt_is_never_lost"),
    ("park-relaxed", "waiter::of_two_wakers_one_delivers"),
    ("wake-by-store", "waiter::of_two_wakers_one_delivers"),
    ("withdraw-without-acquire", "waiter::a_late_withdrawal_sees_the_waker"),
    ("unpark-like-withdraw", "waiter::a_sleeper_whose_time_is_up_knows_what_will_arrive"),
    ("notify-without-fence", "inbox::a_delivery_is_seen_or_notifies"),
    ("sleep-without-fence", "inbox::a_delivery_is_seen_or_notifies"),
    ("sleep-without-look", "inbox::a_delivery_is_seen_or_notifies"),
    ("deliver-relaxed", "inbox::a_delivery_is_seen_or_notifies"),
    ("is-woken-relaxed", "waker_slot::a_wake_reaches_the_newest_waker"),
    ("waker-kept-relaxed", "waker_slot::a_wake_reaches_the_newest_waker"),
    ("waker-left-relaxed", "waker_slot::a_wake_reaches_the_newest_waker"),
    ("waker-left-to-none", "waker_slot::a_wake_reaches_the_newest_waker"),
    ("waker-taken-before-read", "waker_slot::a_wake_reaches_the_newest_waker"),
    ("publish-without-fence", "idle::no_wakeup_is_lost"),
    ("give-up-without-fence", "idle::no_wakeup_is_lost"),
    ("offer-wakes-none", "idle::an_offer_wakes_a_worker_that_is_known_to_sleep"),
    ("search-ends-quietly", "idle::the_search_is_handed_on"),
    ("search-ends-without-fence", "idle::the_search_is_handed_on"),
    ("second-look-ends-search", "idle::the_search_is_handed_on"),
    ("pass-on-to-none", "idle::a_worker_that_cannot_take_it_passes_the_search_on"),
    ("len-outside-lock", "injector::an_injected_item_is_not_overlooked"),
    ("line-len-outside-lock", "line::an_item_of_a_line_is_taken_once"),
    ("gate-let-go-early", "counts::what_is_behind_no_closed_gate_is_counted_exactly"),
    ("counted-late", "counts::an_item_that_is_counted_is_taken_once"),
    ("wait-without-look", "throttle::what_waits_for_a_refill_is_told"),
    ("gates-open-late", "throttle::gates_are_open_when_the_throttle_is_off"),
    ("holds-back-without-lock", "throttle::a_change_is_seen_by_what_begins_to_wait"),
    ("take-off-without-fence", "roster::a_source_with_something_in_it_is_on_the_roster"),
    ("take-off-without-look", "roster::a_source_with_something_in_it_is_on_the_roster"),
    ("join-in-two-steps", "members::nothing_that_has_ended_is_joined"),
    ("leave-relaxed", "members::the_last_to_leave_sees_what_the_others_did"),
    ("last-outside-lock", "directories::a_flag_says_whether_there_is_anything"),
    ("generation-after-entry", "directories::who_has_an_entry_knows_its_generation"),
    ("key-goes-anyway", "directories::an_entry_is_found_by_its_key_while_it_has_members"),
    ("all-with-ended", "directories::an_entry_is_found_by_its_key_while_it_has_members"),
    ("close-relaxed", "countdown::the_last_member_wakes_the_owner"),
    ("done-relaxed", "countdown::the_last_member_wakes_the_owner"),
    ("is-done-relaxed", "completion::a_result_is_read_once_and_freed_once"),
    ("gone-relaxed", "completion::a_result_is_read_once_and_freed_once"),
    ("finish-without-acquire", "completion::a_result_is_read_once_and_freed_once"),
    ("abandon-without-acquire", "completion::a_result_is_read_once_and_freed_once"),
    ("retract-without-look", "completion::a_reader_may_change_its_mind"),
    ("unlock-relaxed", "spin::the_lock_excludes"),
    ("push-hands-over-relaxed", "ring::values_pass_through_the_ring_once"),
    ("pop-hands-over-relaxed", "ring::values_pass_through_the_ring_once"),
    ("ring-without-total-order", "ring::a_waiter_sees_the_ring_change_or_is_seen"),
    ("close-in-two-steps", "ring::a_value_not_found_after_close_never_comes"),
    ("reuse-in-two-steps", "permit_cache::a_permit_in_use_is_not_given_back_and_none_is_lost"),
    ("take-off-in-two-steps", "permit_cache::a_permit_in_use_is_not_given_back_and_none_is_lost"),
    ("ended-relaxed", "permit_cache::a_reused_permit_has_seen_its_last_use_end"),
    ("reuse-without-acquire", "permit_cache::a_reused_permit_has_seen_its_last_use_end"),
    ("wake-without-fence", "arming::a_check_is_due_while_a_worker_is_awake"),
    ("rearm-without-fence", "arming::a_check_is_due_while_a_worker_is_awake"),
    ("due-cleared-late", "arming::a_check_is_due_while_a_worker_is_awake"),
    ("due-in-two-steps", "arming::two_workers_that_wake_arm_one_timer"),
    ("claim-next-relaxed", "batch_claim::everything_is_begun_or_taken_back_once"),
    ("stop-relaxed", "batch_claim::everything_is_begun_or_taken_back_once"),
    ("stop-in-two-steps", "batch_claim::everything_is_begun_or_taken_back_once"),
    ("cycle-ends-unlocked", "cycle_watch::what_is_done_to_a_cycle_is_undone_after_it"),
    ("wait-without-compare", "readiness::an_edge_is_seen_or_ends_the_wait"),
    ("edge-not-counted", "readiness::an_edge_is_seen_or_ends_the_wait"),
    ("emptied-noted-late", "readiness::what_comes_after_a_short_read_is_read"),
    ("stays-until-next-edge", "readiness::the_end_of_a_stream_is_read"),
    ("give-up-role-without-fence", "poller_role::a_free_role_is_watched"),
    ("look-without-fence", "poller_role::a_free_role_is_watched"),
    ("clear-after-look", "poller_role::a_free_role_is_watched"),
    ("sleep-elsewhere-without-look", "inbox::a_delivery_ends_a_sleep_elsewhere"),
    ("cycle-without-number", "cycle_watch::a_later_cycle_is_not_caught"),
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
