//! What is refused, with which message, and that it leaves nothing behind.

use sched_jobs::{Job, JobError, Jobs, Retry, State, SubmitError};

use crate::{Door, on_both, on_both_with, stands_at, until};

/// The state that a refused job must not change.
fn trace(jobs: &Jobs) -> (Vec<(State, usize)>, Vec<String>) {
    (jobs.counts(), jobs.statuses().into_iter().map(|status| status.name).collect())
}

/// Is refused with this message, and leaves nothing behind.
fn refused(jobs: &Jobs, job: Job, words: &str) -> SubmitError {
    let (before, mut events) = (trace(jobs), jobs.events());
    let error = jobs.submit(job).unwrap_err();
    assert_eq!(error.to_string(), words);
    assert_eq!(trace(jobs), before);
    assert_eq!(events.try_recv(), None);
    error
}

#[test]
fn every_refusal_has_its_message_and_leaves_nothing_behind() {
    on_both_with(
        |builder| builder.cpu_slots(4).resource("licence", 2),
        |jobs| {
            jobs.submit(Job::new("a").run(|_| ())).unwrap();
            jobs.wait().unwrap();
            refused(&jobs, Job::new(""), "a job needs a name; give it one that is not empty");
            let words =
                format!("the name `{}…` has 4097 bytes, the limit is 4096; choose a shorter one", "x".repeat(40));
            refused(&jobs, Job::new("x".repeat(4097)), &words);
            refused(&jobs, Job::new("a"), "there is already a job `a`; choose another name");
            let words = "job `b` needs `ghost`, which was not submitted; submit that one first";
            refused(&jobs, Job::new("b").needs("a").needs("ghost"), words);
            refused(&jobs, Job::new("b").needs("b"), "job `b` needs itself; remove it from its own needs");
            let words =
                "[3001] job `b` wants 5 CPU slots but the hard limit is 4; lower what it wants or raise the limit";
            let error = refused(&jobs, Job::new("b").cpu_slots(5), words);
            assert_eq!(error.code(), Some(3001));
            let words =
                "[3001] job `b` wants 3 licence but the hard limit is 2; lower what it wants or raise the limit";
            assert_eq!(refused(&jobs, Job::new("b").takes("licence", 3), words).code(), Some(3001));
            let words = "job `b` wants `gpu`, which was not declared; there are: licence";
            refused(&jobs, Job::new("b").needs("a").takes("gpu", 1), words);
            let once = Job::new("b").retries(2).run_once(|_| ());
            let words = "job `b` asks for 2 retries but its closure runs only once; use `run` instead of `run_once`";
            refused(&jobs, once, words);
            // The name is still free, and the dependency is not changed.
            jobs.submit(Job::new("b").needs("a").run(|_| ())).unwrap();
            assert_eq!(jobs.wait().unwrap().succeeded, 2);
        },
    );
}

#[test]
fn names_of_4096_bytes_and_in_any_script_are_accepted() {
    on_both(|jobs| {
        jobs.submit(Job::new("y".repeat(4096))).unwrap();
        jobs.submit(Job::new("作业 №1 \"…\"\n")).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 2);
        let error = jobs.submit(Job::new("ü".repeat(3000))).unwrap_err();
        assert!(matches!(error, SubmitError::BadName { bytes: 6000, .. }), "{error}");
    });
}

#[test]
fn a_job_below_one_that_failed_or_was_cancelled_is_refused_with_3002() {
    on_both(|jobs| {
        let bad = Job::new("bad").run(|_| Err::<(), _>(JobError::msg("no")));
        jobs.submit_all([bad, Job::new("gone").needs("bad")]).unwrap();
        jobs.wait().unwrap_err();
        let words = "[3002] job `b` needs `bad`, which has already failed; retry that one first";
        assert_eq!(refused(&jobs, Job::new("b").needs("bad"), words).code(), Some(3002));
        let words = "[3002] job `b` needs `gone`, which was already cancelled; retry that one first";
        refused(&jobs, Job::new("b").needs("gone"), words);
    });
}

#[test]
fn an_undeclared_resource_is_named_also_when_none_was_declared() {
    on_both(|jobs| {
        let words = "job `b` wants `gpu`, but no named resource was declared; declare how much of it there is";
        refused(&jobs, Job::new("b").takes("gpu", 1), words);
    });
}

#[test]
fn a_workflow_is_submitted_as_a_whole_or_not_at_all() {
    on_both(|jobs| {
        let door = Door::default();
        let (first, runs) = stands_at(&door, "first");
        jobs.submit(first).unwrap();
        runs.recv().unwrap();
        let before = trace(&jobs);
        let chain = |last: Job| {
            let one = Job::new("one").needs("first").needs("two");
            [one, Job::new("two").needs("first"), Job::new("three").needs_all(["one", "first"]), last]
        };
        for (last, words) in [
            (Job::new("four").cpu_slots(99), "[3001] job `four` wants 99 CPU slots"),
            (Job::new("four").needs("five"), "job `four` needs `five`"),
            (Job::new("one"), "there is already a job `one`"),
            (Job::new("first"), "there is already a job `first`"),
            (Job::new("four").needs("four"), "job `four` needs itself"),
        ] {
            let error = jobs.submit_all(chain(last)).unwrap_err();
            assert!(error.to_string().starts_with(words), "{error}");
            assert_eq!(trace(&jobs), before);
        }
        // None of these is a dependent of `first`: it wakes only jobs that were submitted.
        jobs.submit_all(chain(Job::new("four").needs("three"))).unwrap();
        door.open();
        assert_eq!(jobs.wait().unwrap().succeeded, 5);
    });
}

#[test]
fn a_cycle_is_named_from_job_to_job() {
    on_both(|jobs| {
        let before = trace(&jobs);
        let cycle = [
            Job::new("outside").needs("a"),
            Job::new("a").needs("b"),
            Job::new("b").needs("c"),
            Job::new("c").needs("a"),
        ];
        let error = jobs.submit_all(cycle).unwrap_err();
        assert_eq!(error.to_string(), "jobs need each other in a cycle: a -> b -> c -> a; remove one of these needs");
        assert_eq!(trace(&jobs), before);
        jobs.submit_all([Job::new("a").needs("b"), Job::new("b")]).unwrap();
        jobs.wait().unwrap();
    });
}

#[test]
fn a_cycle_at_the_end_of_a_chain_of_200_000_is_found_without_recursion() {
    on_both(|jobs| {
        let last = 200_000;
        let needs = |i: u32| if i == last { last - 1 } else { i + 1 };
        let chain = (0..=last).map(|i| Job::new(i.to_string()).needs(needs(i).to_string()));
        let error = jobs.submit_all(chain).unwrap_err();
        assert!(matches!(&error, SubmitError::Cycle { jobs } if jobs.len() == 2), "{error}");
        assert!(jobs.statuses().is_empty());
    });
}

#[test]
fn an_empty_workflow_is_nothing() {
    on_both(|jobs| {
        assert_eq!(jobs.submit_all([]).unwrap(), []);
        assert_eq!(jobs.wait().unwrap().succeeded, 0);
    });
}

#[test]
fn a_job_below_one_that_is_being_cancelled_is_cancelled_with_it() {
    on_both(|jobs| {
        let door = Door::default();
        let (first, runs) = stands_at(&door, "first");
        jobs.submit(first).unwrap();
        runs.recv().unwrap();
        jobs.cancel("first").unwrap();
        jobs.submit(Job::new("late").needs("first")).unwrap();
        door.open();
        until(&jobs, "late", State::Cancelled);
        let cause = jobs.status("late").unwrap().cause.unwrap();
        assert_eq!(cause.to_string(), "[3004] `first`, which it needs, was cancelled");
    });
}

#[test]
fn retries_can_be_asked_for_with_any_numbers() {
    on_both(|jobs| {
        let retry = Retry { times: u32::MAX, backoff: std::time::Duration::ZERO, longest: std::time::Duration::ZERO };
        let mut left = 50;
        jobs.submit(Job::new("stubborn").retry(retry).run(move |_| {
            left -= 1;
            if left == 0 { Ok(()) } else { Err(JobError::msg("not yet")) }
        }))
        .unwrap();
        jobs.wait().unwrap();
        assert_eq!(jobs.status("stubborn").unwrap().attempts, 50);
    });
}

#[test]
fn a_job_without_a_name_is_shown_by_its_number() {
    on_both(|jobs| {
        let first = jobs.submit(Job::new("first").run(|_| ())).unwrap();
        let second = jobs.submit(Job::unnamed().needs(first).run(|_| ())).unwrap();
        let third = jobs.submit(Job::unnamed().needs("#1").run(|ctx| Err::<(), _>(JobError::msg(ctx.name())))).unwrap();
        let error = jobs.wait().unwrap_err();
        assert_eq!(jobs.status(second).unwrap().name, "#1");
        assert_eq!(jobs.status("#1").unwrap().id, second);
        assert_eq!(jobs.status("#2").unwrap().id, third);
        assert!(error.to_string().ends_with("#2: #2"), "{error}");
        assert!(jobs.status("#0").is_err(), "one that has a name is called by that");
        assert!(jobs.submit(Job::new("")).is_err());
    });
}
