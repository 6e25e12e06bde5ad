//! What follows from what Slurm says, and which moves there are.

use std::time::Duration;

use sched_slurm::decide::{
    Gone, LAUNCHES_MAX, MISSES_AGAIN, MISSES_LOST, MISSES_MIN, Seen, Step, Verdict, after_answer, after_fate, is_ghost,
};
use sched_slurm::rows::{Fate, Row};
use sched_slurm::state::{Event, State};

const STATES: [State; 5] = [State::Wanted, State::Submitted, State::Began, State::Ended, State::Revoked];
const EVENTS: [Event; 5] = [Event::Accepted, Event::Forgotten, Event::Started, Event::Revoked, Event::Finished];

fn row(id: u64) -> Row {
    Row::read(&format!("{id}|N/A|PENDING|Priority|||r-1:0.1.0|bursar /m#0.1.0")).unwrap()
}

fn fate(state: &str) -> Fate {
    Fate { state: state.to_owned(), reason: "None".to_owned(), node: None, comment: String::new(), code: None }
}

fn on_node(state: &str) -> Fate {
    Fate { node: Some("n1".to_owned()), ..fate(state) }
}

/// The first time that an attempt is gone.
fn after(state: State, fate: Option<&Fate>, is_ours: bool, misses: u32) -> Verdict {
    after_fate(state, Gone { fate, is_ours, misses, in_prologue: false, launches: 0 })
}

#[test]
fn what_was_revoked_never_begins_and_what_began_is_never_wanted_again() {
    for from in STATES {
        for event in EVENTS {
            let Ok(to) = from.after(event) else { continue };
            if from == State::Revoked {
                assert_eq!(to, State::Revoked, "{event:?}");
            }
            if matches!(from, State::Began | State::Ended) {
                assert!(matches!(to, State::Began | State::Ended), "{from:?} {event:?}");
            }
        }
    }
    assert!(State::Revoked.after(Event::Started).is_err());
    assert!(State::Began.after(Event::Revoked).is_err());
    assert!(State::Began.after(Event::Forgotten).is_err());
}

#[test]
fn marks_that_are_seen_late_or_at_once_are_no_error() {
    for from in [State::Wanted, State::Submitted, State::Began] {
        assert_eq!(from.after(Event::Finished), Ok(State::Ended));
        assert_eq!(from.after(Event::Started), Ok(State::Began));
    }
    assert_eq!(State::Ended.after(Event::Started), Ok(State::Ended));
}

#[test]
fn a_row_with_our_key_is_adopted_whatever_its_id_is() {
    assert_eq!(after_answer(State::Wanted, None, Seen::Row(&row(7)), 0), Step::Adopt(7.into()));
    assert_eq!(after_answer(State::Submitted, Some(6.into()), Seen::Row(&row(7)), 0), Step::Adopt(7.into()));
    assert_eq!(after_answer(State::Submitted, Some(7.into()), Seen::Row(&row(7)), 0), Step::Wait);
}

#[test]
fn one_miss_means_nothing() {
    for state in [State::Wanted, State::Submitted, State::Began] {
        for misses in 1..MISSES_MIN {
            assert_eq!(after_answer(state, Some(7.into()), Seen::Absent, misses), Step::Wait);
        }
        assert_eq!(after_answer(state, Some(7.into()), Seen::Absent, MISSES_MIN), Step::AskFate);
    }
}

#[test]
fn a_command_that_slurm_does_not_know_any_more_may_still_run_for_a_while() {
    assert_eq!(after(State::Began, None, false, MISSES_MIN), Verdict::Wait);
    let asks = |misses: &u32| after_answer(State::Began, Some(7.into()), Seen::Absent, *misses) == Step::AskFate;
    assert_eq!((1..=MISSES_LOST).filter(asks).collect::<Vec<_>>(), [MISSES_MIN, MISSES_AGAIN, MISSES_LOST]);
    assert!(matches!(after(State::Began, None, false, MISSES_LOST), Verdict::Lost(_)));
}

#[test]
fn what_slurm_forgot_is_submitted_again_unless_it_began() {
    assert_eq!(after(State::Submitted, None, false, MISSES_LOST), Verdict::Submit);
    assert!(matches!(after(State::Began, None, false, MISSES_LOST), Verdict::Lost(_)));
}

#[test]
fn an_id_that_was_given_to_another_job_says_nothing_about_ours() {
    for state in ["FAILED", "CANCELLED", "COMPLETED", "RUNNING"] {
        assert_eq!(after(State::Submitted, Some(&fate(state)), false, MISSES_LOST), Verdict::Submit, "{state}");
        assert!(matches!(after(State::Began, Some(&fate(state)), false, MISSES_LOST), Verdict::Lost(_)), "{state}");
    }
}

#[test]
fn what_was_cancelled_behind_our_back_fails_and_says_so() {
    let words = "was cancelled in Slurm before its command began".to_owned();
    assert_eq!(after(State::Submitted, Some(&fate("CANCELLED")), true, MISSES_LOST), Verdict::Fail(words));
    let words = "was cancelled in Slurm while its command ran".to_owned();
    assert_eq!(after(State::Began, Some(&fate("CANCELLED")), true, MISSES_LOST), Verdict::Lost(words));
}

#[test]
fn a_node_that_fails_before_the_command_is_not_the_jobs_fault() {
    assert_eq!(after(State::Submitted, Some(&fate("NODE_FAIL")), true, MISSES_LOST), Verdict::Submit);
    assert!(matches!(after(State::Began, Some(&fate("NODE_FAIL")), true, MISSES_LOST), Verdict::Lost(_)));
}

#[test]
fn what_slurm_ends_on_a_node_before_it_began_is_submitted_again_a_few_times() {
    for state in ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"] {
        let fate = on_node(state);
        let after = |launches| {
            after_fate(
                State::Submitted,
                Gone { fate: Some(&fate), is_ours: true, misses: MISSES_MIN, in_prologue: false, launches },
            )
        };
        for launches in 0..LAUNCHES_MAX - 1 {
            assert_eq!(after(launches), Verdict::SubmitOnceMore, "{state}");
        }
        let verdict = after(LAUNCHES_MAX - 1);
        assert!(matches!(&verdict, Verdict::Fail(why) if why.contains("BURSAR_STATE_DIR")), "{state}: {verdict:?}");
    }
}

#[test]
fn what_slurm_still_has_is_waited_for() {
    for state in ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING"] {
        assert_eq!(after(State::Began, Some(&fate(state)), true, MISSES_LOST), Verdict::Wait, "{state}");
    }
    assert_eq!(after_answer(State::Ended, Some(1.into()), Seen::Absent, 9), Step::Wait);
}

#[test]
fn what_runs_without_having_begun_is_submitted_again_ever_later_and_not_for_ever() {
    let seconds: Vec<_> = (0..=LAUNCHES_MAX)
        .map(|launches| (0..1_000).find(|&seconds| is_ghost(Duration::from_secs(seconds), launches)))
        .collect();
    assert_eq!(seconds, [Some(15), Some(30), Some(60), Some(120), Some(240), None]);
}
