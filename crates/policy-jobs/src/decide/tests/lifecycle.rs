//! Single scenarios of the life cycle of jobs, each up to the moment at which it could go wrong.
//!
//! Room: tests.

use core::time::Duration;

use super::{Effect, Ended, MS, Scope, Stage, job, rules};
use crate::error::{Cause, SubmitError};
use crate::event::What;
use crate::state::State;

#[test]
fn a_job_submitted_below_one_that_is_being_cancelled_does_not_wait_for_ever() {
    let mut stage = Stage::new(rules(1));
    let above = stage.submit(job("above"));
    assert_eq!(stage.pick(), [above]);
    stage.cancel(above); // it runs until its next checkpoint
    let below = stage.submit(job("below").needs("above"));
    stage.end(above, Ended::Stopped);
    assert_eq!((stage.state(above), stage.state(below)), (State::Cancelled, State::Cancelled));
    assert_eq!(stage.core.cause(below).and_then(Cause::code), Some(3004));
}

#[test]
fn a_job_retried_below_one_that_is_being_cancelled_does_not_wait_for_ever() {
    let mut stage = Stage::new(rules(1));
    let above = stage.submit(job("above"));
    let below = stage.submit(job("below").needs("above"));
    stage.pick();
    stage.cancel(above);
    assert_eq!(stage.state(below), State::Cancelled);
    let _ = stage.core.retry(stage.now, below);
    stage.end(above, Ended::Stopped);
    assert!(stage.state(below).is_terminal(), "it waits for a job that will never succeed");
}

#[test]
fn an_ancestor_that_is_being_cancelled_is_named_as_cancelled() {
    let mut stage = Stage::new(rules(1));
    let above = stage.submit(job("above"));
    let below = stage.submit(job("below").needs("above"));
    stage.pick();
    stage.cancel(above);
    let Some(Cause::Ancestor { name, state, .. }) = stage.core.cause(below) else { panic!("an ancestor is to blame") };
    assert_eq!((name.as_str(), *state), ("above", State::Cancelled));
}

#[test]
fn a_named_resource_asked_for_twice_is_asked_for_in_sum() {
    let mut stage = Stage::new(rules(4));
    let both = stage.submit(job("both").takes("licence", 1).takes("licence", 1));
    let one = stage.submit(job("one").takes("licence", 1));
    assert_eq!(stage.pick(), [both]);
    stage.succeed(both);
    assert_eq!(stage.pick(), [one]);
    let error = stage.try_submit(&[job("three").takes("licence", 2).takes("licence", 1)]).unwrap_err();
    assert!(matches!(error, SubmitError::NeverFits { wanted: 3, hard_limit: 2, .. }), "{error}");
}

#[test]
fn unlimited_memory_can_be_asked_for_without_limit() {
    let mut rules = rules(4);
    rules.limits.ram_mb = 0;
    let mut stage = Stage::new(rules);
    let (a, b) = (stage.submit(job("a").ram(u64::MAX)), stage.submit(job("b").ram(u64::MAX)));
    assert_eq!(stage.pick(), [a, b]);
    stage.succeed(a);
    stage.succeed(b);
    assert_eq!(stage.core.usage().ram_mb, 0);
}

#[test]
fn a_job_that_ends_while_its_resume_waits_for_slots_is_not_resumed() {
    let mut stage = Stage::new(rules(1));
    let first = stage.submit(job("first").remote());
    let second = stage.submit(job("second").remote());
    stage.pick();
    stage.pause_running(first);
    assert_eq!(stage.pick(), [second]);
    stage.resume(first); // waits for the slot
    stage.succeed(first); // a report that was on its way when the job was frozen
    stage.succeed(second);
    let third = stage.submit(job("third"));
    assert_eq!(stage.pick(), [third], "an ended job is not waited for");
}

#[test]
fn slots_released_by_a_pause_let_a_resumed_job_run() {
    let mut stage = Stage::new(rules(1));
    let (first, second) = (stage.submit(job("first")), stage.submit(job("second")));
    stage.pick();
    stage.pause_running(first);
    assert_eq!(stage.pick(), [second]);
    stage.resume(first);
    assert_eq!(stage.state(first), State::Paused);
    stage.pause_running(second);
    stage.core.resume_waiting(stage.now);
    assert_eq!(stage.state(first), State::Running);
}

#[test]
fn a_job_that_was_asked_to_pause_and_failed_waits_paused_for_its_next_attempt() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("flaky").retries(1, 100));
    stage.pick();
    stage.pause(id);
    stage.fail(id);
    assert_eq!(stage.state(id), State::Paused, "a pause that was granted holds");
    stage.now += 1_000 * MS;
    assert!(stage.pick().is_empty());
    stage.resume(id);
    assert_eq!(stage.pick(), [id]);
}

#[test]
fn a_paused_job_that_fails_waits_paused_for_its_next_attempt() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("flaky").remote().retries(1, 100));
    stage.pick();
    stage.pause_running(id);
    stage.fail(id); // the frozen process was killed
    assert_eq!(stage.state(id), State::Paused);
    assert_eq!(stage.core.usage().ram_mb, 0, "it does not run any more, so it keeps nothing");
    stage.resume(id);
    assert_eq!((stage.state(id), stage.pick()), (State::Queued, vec![]), "the back-off is not over");
    stage.now += 200 * MS;
    assert_eq!(stage.pick(), [id]);
}

#[test]
fn a_job_that_succeeded_in_the_end_has_no_cause_of_failure() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("flaky").retries(1, 100));
    stage.pick();
    stage.fail(id);
    assert!(stage.core.cause(id).is_some(), "until then, the last attempt's error is reported");
    stage.now += 200 * MS;
    stage.pick();
    stage.succeed(id);
    assert_eq!((stage.state(id), stage.core.cause(id)), (State::Succeeded, None));
}

#[test]
fn a_retry_also_retries_everything_that_the_job_needs() {
    let mut stage = Stage::new(rules(4));
    let (a, b) = (stage.submit(job("a")), stage.submit(job("b")));
    let below = stage.submit(job("below").needs("a").needs("b"));
    stage.pick();
    stage.fail(a);
    stage.fail(b);
    stage.core.retry(stage.now, below).unwrap();
    assert_eq!(stage.pick(), [a, b]);
    stage.succeed(a);
    stage.succeed(b);
    assert_eq!(stage.pick(), [below]);
}

#[test]
fn a_job_cancelled_by_request_is_retried_although_what_it_needs_failed_too() {
    let mut stage = Stage::new(rules(4));
    let above = stage.submit(job("above"));
    let below = stage.submit(job("below").needs("above"));
    stage.cancel(below);
    stage.pick();
    stage.fail(above);
    stage.core.retry(stage.now, below).unwrap();
    assert_eq!(stage.pick(), [above]);
    stage.succeed(above);
    assert_eq!(stage.pick(), [below]);
}

#[test]
fn a_retry_leaves_alone_what_a_user_cancelled_and_what_still_cannot_run() {
    let mut stage = Stage::new(rules(4));
    let (a, b) = (stage.submit(job("a")), stage.submit(job("b")));
    let asked = stage.submit(job("asked").needs("a"));
    let both = stage.submit(job("both").needs("a").needs("b"));
    let last = stage.submit(job("last").needs("both"));
    let only = stage.submit(job("only").needs("a"));
    stage.cancel(asked);
    stage.pick();
    stage.fail(a);
    stage.fail(b);
    stage.core.retry(stage.now, a).unwrap();
    let states = [a, b, asked, both, last, only].map(|id| stage.state(id));
    use State::{Cancelled, Failed, Queued, Ready};
    assert_eq!(states, [Ready, Failed, Cancelled, Cancelled, Cancelled, Queued]);
}

#[test]
fn a_pause_that_takes_too_long_cancels_and_only_once() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("deaf"));
    stage.pick();
    stage.pause(id);
    stage.now = 1_499 * MS;
    stage.core.tick(stage.now);
    assert!(!stage.core.is_cancelling(id));
    stage.now = 1_500 * MS;
    stage.core.tick(stage.now);
    assert!(stage.core.is_cancelling(id));
    stage.succeed(id); // cancel wins over a result
    assert_eq!(stage.ends_of(id), [What::Cancelled]);
    assert_eq!(stage.core.cause(id).and_then(Cause::code), Some(3003));
    assert_eq!(stage.effects, [Effect::Pause(id), Effect::Cancel(id)]);
}

#[test]
fn an_old_pause_does_not_time_out_a_new_one() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("slow"));
    stage.pick();
    stage.pause(id);
    stage.now = 1_000 * MS;
    stage.resume(id); // before it paused
    stage.now = 1_200 * MS;
    stage.pause(id);
    stage.now = 1_600 * MS;
    stage.core.tick(stage.now);
    assert!(!stage.core.is_cancelling(id), "the second pause has until 2,700 ms");
    stage.pause_running(id);
    stage.now = 10_000 * MS;
    stage.core.tick(stage.now);
    assert_eq!(stage.state(id), State::Paused);
}

#[test]
fn back_off_doubles_up_to_the_longest_and_jitters_by_a_quarter_at_most() {
    for seed in 0..200 {
        let mut rules = rules(1);
        rules.seed = seed;
        let mut stage = Stage::new(rules);
        let id = stage.submit(job("flaky").retries(5, 100));
        for wait_ms in [100, 200, 400, 800, 800] {
            assert_eq!(stage.pick(), [id]);
            stage.fail(id);
            let early = (wait_ms * MS).saturating_sub(1);
            let late = (wait_ms + wait_ms / 4).min(800) * MS;
            let at = stage.core.next_alarm().unwrap() - stage.now;
            assert!(early < at && at <= late, "seed {seed}: {at} ns after {wait_ms} ms");
            stage.now += at - 1;
            assert!(stage.pick().is_empty(), "seed {seed}");
            stage.now += 1;
        }
        assert_eq!(stage.pick(), [id]);
        stage.fail(id);
        assert_eq!((stage.state(id), stage.core.attempt(id)), (State::Failed, 6), "seed {seed}");
        assert_eq!(stage.ends_of(id), [What::Failed]);
    }
}

#[test]
fn a_back_off_may_be_as_long_as_the_clock_can_count() {
    let mut stage = Stage::new(rules(1));
    let mut spec = job("retried").retries(1, 1);
    (spec.retry.backoff, spec.retry.longest) = (Duration::MAX, Duration::MAX);
    let id = stage.submit(spec);
    stage.pick();
    stage.fail(id);
    assert_eq!(stage.state(id), State::Queued);
}

#[test]
fn a_retry_on_request_has_all_its_attempts_again() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("flaky").retries(1, 100));
    for _ in 0..2 {
        for _ in 0..2 {
            stage.now += 1_000 * MS;
            assert_eq!(stage.pick(), [id]);
            stage.fail(id);
        }
        assert_eq!(stage.state(id), State::Failed);
        stage.core.retry(stage.now, id).unwrap();
    }
    assert_eq!(stage.core.attempt(id), 4);
}

#[test]
fn a_paused_job_whose_dependency_succeeds_runs_after_resume_and_not_before() {
    let mut stage = Stage::new(rules(4));
    let above = stage.submit(job("above"));
    let below = stage.submit(job("below").needs("above"));
    stage.pause(below);
    stage.pick();
    stage.succeed(above);
    assert_eq!((stage.pick(), stage.state(below)), (vec![], State::Paused));
    stage.resume(below);
    assert_eq!(stage.pick(), [below]);
}

#[test]
fn a_chain_of_100_000_is_cancelled_for_its_head_without_recursion() {
    let mut stage = Stage::new(rules(1));
    let chain: Vec<_> = (0..100_000)
        .map(|i: u32| if i == 0 { job("0") } else { job(i.to_string()).needs(&(i - 1).to_string()) })
        .collect();
    stage.try_submit(&chain).unwrap();
    assert_eq!(stage.pick(), [0]);
    stage.fail(0);
    let Some(cause @ Cause::Ancestor { .. }) = stage.core.cause(99_999) else { panic!("an ancestor is to blame") };
    assert_eq!(cause.to_string(), "[3004] `0`, which it needs, failed");
    assert_eq!(stage.core.open(), 0);
    // And revived again, and cancelled again.
    stage.core.retry(stage.now, 99_999).unwrap();
    assert_eq!(stage.core.counts()[State::Queued as usize], 99_999);
    stage.core.cancel(stage.now, Scope::Run);
    assert_eq!(stage.core.open(), 0);
}

#[test]
fn a_job_in_back_off_can_be_paused_resumed_and_cancelled() {
    for cancel in [false, true] {
        let mut stage = Stage::new(rules(1));
        let id = stage.submit(job("flaky").retries(1, 100));
        stage.pick();
        stage.fail(id);
        stage.pause(id);
        stage.now += 500 * MS;
        assert!(stage.pick().is_empty(), "the back-off is over, the pause is not");
        if cancel {
            stage.cancel(id);
            assert_eq!((stage.state(id), stage.pick()), (State::Cancelled, vec![]));
        } else {
            stage.resume(id);
            assert_eq!(stage.pick(), [id]);
        }
    }
}

#[test]
fn a_job_that_is_already_done_lets_its_dependents_start() {
    let mut stage = Stage::new(rules(4));
    let mut done = job("done").needs("late");
    done.done = true;
    stage.try_submit(&[job("after").needs("done"), done, job("late")]).unwrap();
    assert_eq!(stage.pick(), [0, 2]);
    stage.succeed(0);
    stage.fail(2);
    assert_eq!(stage.state(1), State::Succeeded, "nothing leaves success");
    assert_eq!(stage.core.counts(), [0, 0, 0, 0, 2, 1, 0]);
}

#[test]
fn the_slot_of_an_earlier_attempt_is_not_the_slot_of_the_next() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("flaky").retries(1, 100));
    stage.pick();
    stage.core.set_slot(id, 3);
    stage.fail(id);
    stage.now += 500 * MS;
    assert_eq!(stage.pick(), [id]);
    assert_ne!(stage.core.slot(id), 3, "another job may stand there by now");
}

#[test]
fn a_permanent_failure_is_the_last_attempt_whatever_retries_are_left() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("a").retries(5, 1));
    let below = stage.submit(job("below").needs("a"));
    stage.pick();
    stage.fail(id);
    assert_eq!(stage.state(id), State::Queued, "an ordinary failure is retried");
    stage.now += 1000 * MS;
    stage.pick();
    stage.end(id, Ended::Failed(Cause::Permanent("never".to_owned())));
    assert_eq!((stage.state(id), stage.state(below)), (State::Failed, State::Cancelled));
    let why = stage.core.why(stage.now, id, None).to_string();
    assert_eq!(why, "a does not wait: it failed: never (a permanent error, so it is not retried)");
    stage.core.retry(stage.now, id).unwrap(); // on request it is retried
    assert_eq!(stage.state(id), State::Ready);
}

#[test]
fn a_job_that_fails_permanently_while_it_is_being_paused_has_failed() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("a").retries(5, 1));
    stage.pick();
    stage.pause_running(id);
    stage.end(id, Ended::Failed(Cause::Permanent("never".to_owned())));
    assert_eq!(stage.ends_of(id), [What::Failed]);
}

#[test]
fn times_are_those_of_the_last_attempt_and_an_end_is_cleared_by_a_new_life_cycle() {
    let mut stage = Stage::new(rules(1));
    let id = stage.submit(job("a").retries(1, 1));
    assert_eq!(stage.core.times(id), [Some(0), None, None]);
    stage.now = 10;
    stage.pick();
    stage.now = 20;
    stage.fail(id);
    assert_eq!(stage.core.times(id), [Some(0), Some(10), None], "it has not ended");
    stage.now = 1000 * MS;
    stage.pick();
    stage.now += 5;
    stage.fail(id);
    let at = 1000 * MS;
    assert_eq!(stage.core.times(id), [Some(at), Some(at), Some(at + 5)]);
    stage.now += 5;
    stage.core.retry(stage.now, id).unwrap();
    assert_eq!(stage.core.times(id), [Some(at + 10), Some(at), None]);
    stage.cancel(id);
    assert_eq!(stage.core.times(id)[2], Some(at + 10));
}

#[test]
fn times_beyond_32_bits_are_kept() {
    let mut stage = Stage::new(rules(2));
    let (first, second) = (stage.submit(job("first")), stage.submit(job("second")));
    stage.now = (7 << 32) + 9;
    let mut chain = vec![stage.core.pick(stage.now).unwrap()];
    stage.core.claim(stage.now, first, 8, &mut chain);
    assert_eq!(chain, [first, second]);
    stage.now += 3;
    stage.core.hand_over(stage.now, first, second);
    stage.core.trim_held(second);
    stage.now += 3;
    stage.succeed(second);
    let at = (7 << 32) + 9;
    assert_eq!(stage.core.times(first), [Some(0), Some(at), Some(at + 3)]);
    assert_eq!(stage.core.times(second), [Some(0), Some(at + 3), Some(at + 6)]);
}

#[test]
fn a_part_is_over_when_its_jobs_are_and_open_again_when_one_is_revived() {
    let mut stage = Stage::new(rules(1));
    let other = stage.submit(job("other"));
    stage.try_submit_to(Some(1), &[job("a"), job("b").needs("a")]).unwrap();
    stage.pick();
    stage.succeed(other);
    assert!(!stage.core.take_part_ended(), "the other is of no part");
    stage.pick();
    stage.fail(1);
    assert!(stage.core.take_part_ended() && !stage.core.take_part_ended(), "once");
    assert_eq!(stage.core.part_open(1), 0);
    stage.core.retry(stage.now, 2).unwrap();
    assert_eq!(stage.core.part_open(1), 2);
    stage.core.cancel(stage.now, Scope::Part(0));
    assert_eq!(stage.core.part_open(1), 2, "another part was meant");
    stage.core.cancel(stage.now, Scope::Part(1));
    assert!(stage.core.take_part_ended());
}

#[test]
fn a_refused_batch_leaves_no_key_and_no_part() {
    let mut stage = Stage::new(rules(1));
    stage.submit(job("first").key("k0"));
    let refused = [job("a").key("k1"), job("b").key("k0"), job("c").key("k1"), job("d").needs("nothing")];
    stage.try_submit_to(Some(0), &refused).unwrap_err();
    assert_eq!((stage.core.find_key("k1"), stage.core.find_key("k0")), (None, Some(0)));
    assert_eq!(stage.core.part_jobs(0).count(), 0);
    stage.try_submit_to(Some(0), &refused[..3]).unwrap();
    assert_eq!((stage.core.find_key("k1"), stage.core.len()), (Some(1), 2));
    assert_eq!(stage.core.part_jobs(0).collect::<Vec<_>>(), [1], "the first job of a key stays where it is");
}
