//! The validation gates of the CPU scheduler, on a simulated machine on which every law is checked at every event.
//!
//! | gate | tests |
//! |---|---|
//! | runtime grows while a thread runs, and stands still while it is blocked | `runtime_grows_while_a_thread_runs_and_stands_still_while_it_is_blocked` |
//! | every interval is charged once | at the end of every run, by `Report::check_sums` |
//! | CPU hogs | `a_hog_cannot_starve_a_sleeper`, `a_thread_that_wakes_beside_a_long_run_gets_no_credit_for_it` |
//! | short sleepers | `a_thread_that_sleeps_briefly_again_and_again_gets_no_more_than_its_share`, `a_latency_sensitive_thread_is_served_sooner` |
//! | direct handoff | `a_direct_handoff_costs_no_choice_and_no_wait`, `a_caller_and_its_server_together_get_the_share_of_one_when_there_is_no_other_cpu` |
//! | multi-process load | `many_processes_on_many_cpus_keep_every_cpu_busy` |
//! | same-process siblings | `siblings_of_one_process_share_a_cpu_like_strangers` |
//! | migration keeps accounts | `a_thread_that_moves_takes_its_debt_along` |
//! | admission rejection | `an_island_that_does_not_fit_is_refused_as_a_whole`, `contexts_that_cannot_be_are_refused_and_stale_ones_too` |
//! | budget depletion | `what_happens_at_a_depletion_is_what_the_context_says` |
//! | replenishment | `a_context_gets_its_budget_in_each_period_and_no_more` |
//! | donation and return | `a_call_takes_the_context_along_and_the_reply_brings_it_back`, `a_callee_that_dies_gives_the_context_back_and_a_donor_that_is_revoked_takes_it_away`, `a_circle_of_calls_is_refused_and_changes_nothing` |
//! | timeout notice | `a_depletion_is_told_once_for_each_time`, `a_notice_that_is_not_taken_is_not_repeated_and_not_lost`, `a_caller_that_gives_up_waiting_takes_its_context_back` |
//! | stale revocation | `contexts_that_cannot_be_are_refused_and_stale_ones_too`, `a_context_that_is_revoked_while_it_runs_leaves_its_thread_to_its_weight` |
//! | lease conditions | `each_condition_of_activation_is_refused_on_its_own` |
//! | lease revocation | `a_revoked_lease_gives_its_cpus_back_within_its_latency` |
//! | process exit | `the_end_of_its_owner_ends_a_lease` |
//! | session close | `a_session_that_closes_ends_its_processes_leases_and_contexts` |
//! | housekeeping fallback | `work_of_others_falls_back_to_housekeeping_cpus_while_a_lease_lasts`, `a_revoked_lease_leaves_a_ring_that_works_without_polling` |
//! | polled rings | `each_condition_of_polling_is_refused_on_its_own`, `a_polled_ring_is_served_at_once_and_every_look_is_charged_to_its_context` |
//! | a request's deadline grants no time | `a_deadline_of_a_request_is_counted_and_grants_no_time`, `a_poller_without_time_waits_for_its_refill_whatever_its_requests_ask_for` |
//! | island preallocation, no allocation on the admitted path | `an_island_allocates_nothing_once_it_is_admitted`, `a_scheduler_allocates_when_it_is_made_and_never_again` of `crates/policy-cpu/tests/it/allocations.rs` |
//! | deadline-miss telemetry | `a_deadline_that_is_missed_is_counted`, `an_admitted_island_misses_no_deadline_beside_hogs` |
//! | fail-closed overrun | `a_task_of_an_island_that_overruns_is_stopped_and_told_and_the_others_go_on` |

mod chaos;
mod contexts;
mod fair;
mod islands;
mod leases;
mod rings;

/// Milliseconds.
fn ms(count: u64) -> u64 {
    count * 1_000_000
}

/// Microseconds.
fn us(count: u64) -> u64 {
    count * 1_000
}
