//! Which jobs wake which, and which are cancelled with which.

use std::sync::mpsc;

use sched_jobs::{Cause, Job, JobError, State};

use crate::{Door, logs, on_both, stands_at, state};

fn fails(name: &str) -> Job {
    Job::new(name).run(|_| Err::<(), _>(JobError::msg("no such luck")))
}

#[test]
fn success_wakes_direct_dependents_only_and_only_when_all_they_need_is_there() {
    on_both(|jobs| {
        let door = Door::default();
        let (slow, runs) = stands_at(&door, "slow");
        jobs.submit(slow.priority(1)).unwrap();
        runs.recv().unwrap();
        jobs.submit_all([
            Job::new("quick"),
            Job::new("both").needs("quick").needs("slow"),
            Job::new("below").needs("both"),
        ])
        .unwrap();
        if jobs.usage().cpu_slots < 2 {
            // One job at a time: `quick` runs after `slow`.
            assert_eq!(state(&jobs, "both"), State::Queued);
        }
        assert_eq!(state(&jobs, "below"), State::Queued);
        door.open();
        assert_eq!(jobs.wait().unwrap().succeeded, 4);
    });
}

#[test]
fn a_diamond_joins_once() {
    on_both(|jobs| {
        let (log, order) = mpsc::channel();
        jobs.submit_all([
            logs(&log, "top"),
            logs(&log, "left").needs("top"),
            logs(&log, "right").needs("top"),
            logs(&log, "bottom").needs("left").needs("right").needs("left"),
        ])
        .unwrap();
        jobs.wait().unwrap();
        let order: Vec<String> = order.try_iter().collect();
        assert_eq!((order.len(), order[0].as_str(), order[3].as_str()), (4, "top", "bottom"));
    });
}

#[test]
fn a_failure_cancels_all_dependents_naming_the_ancestor_and_nothing_else() {
    on_both(|jobs| {
        jobs.submit_all([
            fails("bad"),
            Job::new("child").needs("bad"),
            Job::new("grandchild").needs("child").needs("good"),
            Job::new("good"),
            Job::new("beside").needs("good"),
        ])
        .unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.failed, failed.summary.cancelled), (2, 1, 2));
        assert_eq!(failed.to_string(), "1 failed, 2 cancelled, 2 succeeded; bad: no such luck");
        let cause = jobs.status("grandchild").unwrap().cause.unwrap();
        assert_eq!((cause.code(), cause.to_string()), (Some(3004), "[3004] `bad`, which it needs, failed".to_owned()));
        assert!(matches!(cause, Cause::Ancestor { state: State::Failed, .. }));
        assert_eq!(jobs.status("bad").unwrap().cause, Some(Cause::Error("no such luck".to_owned())));
    });
}

#[test]
fn a_chain_of_100_000_is_cancelled_with_its_head() {
    on_both(|jobs| {
        jobs.submit(fails("0")).unwrap();
        jobs.wait().unwrap_err();
        jobs.retry("0").unwrap();
        let door = Door::default();
        let (head, runs) = stands_at(&door, "head");
        jobs.submit(head).unwrap();
        runs.recv().unwrap();
        let link =
            |i: u32| Job::new(format!("{i}")).needs(if i == 1 { "head".to_owned() } else { format!("{}", i - 1) });
        jobs.submit_all((1..=100_000).map(link)).unwrap();
        jobs.cancel("head").unwrap();
        assert_eq!(state(&jobs, "100000"), State::Cancelled);
        door.open();
        let failed = jobs.wait().unwrap_err();
        assert_eq!(failed.summary.cancelled, 100_001);
    });
}

#[test]
fn a_retry_revives_the_jobs_that_were_cancelled_with_it() {
    on_both(|jobs| {
        let mut first = true;
        let flaky = Job::new("flaky")
            .run(move |_| if core::mem::take(&mut first) { Err(JobError::msg("not yet")) } else { Ok(()) });
        jobs.submit_all([flaky, Job::new("below").needs("flaky"), Job::new("last").needs("below")]).unwrap();
        jobs.wait().unwrap_err();
        assert_eq!(state(&jobs, "last"), State::Cancelled);
        jobs.retry("last").unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 3);
        assert_eq!(jobs.status("flaky").unwrap().cause, None);
        let error = jobs.retry("last").unwrap_err();
        assert_eq!(error.to_string(), "job `last` is succeeded; only failed or cancelled jobs can be retried");
    });
}
