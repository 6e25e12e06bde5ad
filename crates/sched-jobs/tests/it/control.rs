//! Pause, resume, cancel and retry, from every state, for a job, its subtree, and all jobs.

use std::time::Duration;

use sched_jobs::{Cause, ControlError, Job, JobError, Jobs, Needed, State, Target};

use crate::{Door, LONG, on_both, on_both_with, stands_at, state, until, works_until};

fn words<T: std::fmt::Debug>(result: Result<T, ControlError>) -> String {
    result.unwrap_err().to_string()
}

/// A scheduler with one job in each state, named after it, and the door that lets the running and the paused one end.
fn one_of_each(jobs: &Jobs) -> Door {
    let door = Door::default();
    jobs.submit(Job::new("succeeded")).unwrap();
    let failed = Job::new("failed").run(|_| Err::<(), _>(JobError::msg("no")));
    jobs.submit_all([failed, Job::new("cancelled").needs("failed")]).unwrap();
    jobs.wait().unwrap_err();
    let (paused, runs) = works_until(&door, "paused");
    jobs.submit(paused).unwrap();
    runs.recv().unwrap();
    jobs.pause("paused").unwrap();
    let (running, runs) = works_until(&door, "running");
    jobs.submit(running.cpu_slots(2)).unwrap();
    runs.recv().unwrap();
    jobs.submit(Job::new("ready")).unwrap();
    jobs.submit(Job::new("queued").needs("ready")).unwrap();
    for name in State::ALL.map(State::name) {
        assert_eq!(state(jobs, name).name(), name);
    }
    door
}

#[test]
fn a_pause_holds_queued_ready_and_running_jobs_and_nothing_that_has_ended() {
    on_both(|jobs| {
        let door = one_of_each(&jobs);
        for name in ["queued", "ready", "running", "paused"] {
            jobs.pause(name).unwrap();
            assert_eq!(state(&jobs, name), State::Paused, "{name}");
        }
        for name in ["succeeded", "failed", "cancelled"] {
            let message = format!("job `{name}` is {name}; only jobs that are queued, ready or running can be paused");
            assert_eq!(words(jobs.pause(name)), message);
        }
        assert_eq!(jobs.usage().cpu_slots, 0, "a paused job gives back its slots");
        assert_eq!(jobs.usage().ram_mb, 512, "and two that ran keep their memory");
        door.open();
        jobs.resume(Target::Run).unwrap();
        jobs.wait().unwrap_err();
        assert_eq!(jobs.counts()[State::Succeeded as usize].1, 5);
        assert_eq!(jobs.usage().ram_mb, 0);
    });
}

#[test]
fn a_resume_restores_the_state_a_job_was_paused_from() {
    on_both(|jobs| {
        let door = one_of_each(&jobs);
        jobs.pause(Target::Run).unwrap();
        jobs.resume("queued").unwrap();
        assert_eq!(state(&jobs, "queued"), State::Queued);
        jobs.resume("running").unwrap();
        assert_eq!(state(&jobs, "running"), State::Running);
        jobs.resume("ready").unwrap();
        assert_eq!(state(&jobs, "ready"), State::Ready, "`running` has all slots");
        jobs.resume("paused").unwrap();
        assert_eq!(state(&jobs, "paused"), State::Paused, "`running` has its slot");
        assert_eq!(jobs.why("paused").unwrap().to_string(), "paused was resumed and waits for its CPU slots");
        for name in ["succeeded", "failed", "cancelled", "ready", "queued", "running"] {
            assert!(words(jobs.resume(name)).ends_with("only paused jobs can be resumed"), "{name}");
        }
        door.open();
        jobs.wait().unwrap_err();
        assert_eq!(jobs.counts()[State::Succeeded as usize].1, 5);
    });
}

#[test]
fn a_reason_for_a_cancel_is_the_cause_of_the_cancelled_jobs() {
    on_both(|jobs| {
        let _door = one_of_each(&jobs);
        jobs.cancel("ready").unwrap();
        jobs.cancel_because(Target::Run, "the disk is full").unwrap();
        jobs.cancel_because(Target::Run, "too late to be a reason").unwrap();
        jobs.wait().unwrap_err();
        for name in ["running", "paused"] {
            let cause = jobs.status(name).unwrap().cause.unwrap();
            assert_eq!(cause, Cause::Stopped("the disk is full".to_owned()));
            assert_eq!(cause.to_string(), "cancelled: the disk is full");
        }
        assert_eq!(jobs.status("ready").unwrap().cause, Some(Cause::Asked));
        assert!(jobs.status("succeeded").unwrap().cause.is_none());
    });
}

#[test]
fn a_cancel_ends_every_open_job_and_may_be_repeated() {
    on_both(|jobs| {
        let _door = one_of_each(&jobs);
        for _ in 0..2 {
            for state in State::ALL {
                jobs.cancel(state.name()).unwrap();
            }
        }
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.failed, failed.summary.cancelled), (1, 1, 5));
        assert_eq!(jobs.usage().ram_mb, 0);
        assert_eq!(jobs.status("running").unwrap().cause, Some(Cause::Asked));
        assert_eq!(jobs.status("queued").unwrap().cause, Some(Cause::Asked), "it was asked before its ancestor was");
    });
}

#[test]
fn only_failed_or_cancelled_jobs_can_be_retried() {
    on_both(|jobs| {
        let door = one_of_each(&jobs);
        for name in ["queued", "ready", "running", "paused", "succeeded"] {
            let message = format!("job `{name}` is {name}; only failed or cancelled jobs can be retried");
            assert_eq!(words(jobs.retry(name)), message);
        }
        jobs.retry("cancelled").unwrap();
        assert_eq!((state(&jobs, "failed"), state(&jobs, "cancelled")), (State::Ready, State::Queued));
        door.open();
        jobs.resume("paused").unwrap();
        jobs.wait().unwrap_err();
        assert_eq!(jobs.status("failed").unwrap().attempts, 2);
    });
}

#[test]
fn an_unknown_job_is_named() {
    on_both(|jobs| {
        let message = "there is no job `ghost`";
        assert_eq!(words(jobs.pause("ghost")), message);
        assert_eq!(words(jobs.resume(Target::Subtree("ghost".into()))), message);
        assert_eq!(words(jobs.cancel("ghost")), message);
        assert_eq!(words(jobs.cancel_and_wait("ghost")), message);
        assert_eq!(words(jobs.retry("ghost")), message);
        assert_eq!(words(jobs.status("ghost")), message);
        assert_eq!(words(jobs.why("ghost")), message);
    });
}

#[test]
fn a_subtree_is_a_job_and_all_below_it() {
    on_both(|jobs| {
        let door = Door::default();
        let (first, runs) = works_until(&door, "first");
        jobs.submit(first).unwrap();
        runs.recv().unwrap();
        jobs.submit_all([
            Job::new("a").needs("first"),
            Job::new("b").needs("a"),
            Job::new("c").needs("first"),
            Job::new("d").needs("b").needs("c"),
        ])
        .unwrap();
        let below_a = Target::Subtree(Needed::from("a"));
        jobs.pause(below_a.clone()).unwrap();
        let states = || ["first", "a", "b", "c", "d"].map(|name| state(&jobs, name));
        use State::{Cancelled, Paused, Queued, Running, Succeeded};
        assert_eq!(states(), [Running, Paused, Paused, Queued, Paused]);
        door.open();
        until(&jobs, "c", Succeeded);
        assert_eq!(states(), [Succeeded, Paused, Paused, Succeeded, Paused]);
        jobs.resume("b").unwrap();
        assert_eq!(state(&jobs, "b"), Queued);
        jobs.cancel(below_a.clone()).unwrap();
        assert_eq!(states(), [Succeeded, Cancelled, Cancelled, Succeeded, Cancelled]);
        jobs.retry("a").unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 5);
        jobs.pause(below_a.clone()).unwrap(); // what has ended is left out
        jobs.resume(below_a).unwrap();
    });
}

#[test]
fn a_job_that_reaches_no_checkpoint_in_time_is_cancelled_with_3003() {
    on_both_with(
        |builder| builder.cpu_slots(1).pause_timeout(Duration::from_millis(30)),
        |jobs| {
            let door = Door::default();
            let (deaf, runs) = stands_at(&door, "deaf");
            jobs.submit(deaf).unwrap();
            jobs.submit(Job::new("below").needs("deaf")).unwrap();
            runs.recv().unwrap();
            let error = jobs.pause("deaf").unwrap_err();
            assert_eq!(error.code(), Some(3003));
            let message = "[3003] job `deaf` reached no checkpoint within 30 ms and was cancelled; \
                        call `ctx.progress` more often or raise the pause timeout";
            assert_eq!(error.to_string(), message);
            assert_eq!(state(&jobs, "below"), State::Cancelled);
            door.open();
            jobs.wait().unwrap_err();
            assert_eq!(state(&jobs, "deaf"), State::Cancelled);
            assert_eq!(jobs.status("deaf").unwrap().cause.unwrap().code(), Some(3003));
        },
    );
}

#[test]
fn a_paused_job_releases_its_slot_to_another_and_continues_when_that_has_ended() {
    on_both_with(
        |builder| builder.cpu_slots(1),
        |jobs| {
            let (one_door, other_door) = (Door::default(), Door::default());
            let (one, one_runs) = works_until(&one_door, "one");
            let (other, other_runs) = works_until(&other_door, "other");
            jobs.submit(one).unwrap();
            one_runs.recv().unwrap();
            jobs.submit(other).unwrap();
            jobs.pause("one").unwrap();
            other_runs.recv().unwrap();
            jobs.resume("one").unwrap();
            assert_eq!((state(&jobs, "one"), state(&jobs, "other")), (State::Paused, State::Running));
            // And the other way round: a pause of the other lets the first continue.
            jobs.pause("other").unwrap();
            until(&jobs, "one", State::Running);
            one_door.open();
            until(&jobs, "one", State::Succeeded);
            other_door.open();
            jobs.resume("other").unwrap();
            assert_eq!(jobs.wait().unwrap().succeeded, 2);
        },
    );
}

#[test]
fn a_job_paused_again_right_after_its_resume_stays_paused_without_another_checkpoint() {
    on_both_with(
        |builder| builder.cpu_slots(1).pause_timeout(LONG),
        |jobs| {
            let (sent, runs) = std::sync::mpsc::channel();
            let door = Door::default();
            let at = door.clone();
            jobs.submit(Job::new("rare").run(move |ctx| {
                let _ = sent.send(());
                at.pass();
                ctx.checkpoint() // its only one
            }))
            .unwrap();
            runs.recv().unwrap();
            let handle = jobs.clone();
            let pauses = std::thread::spawn(move || handle.pause("rare"));
            door.open();
            if pauses.join().unwrap().is_err() {
                return; // it had ended before the pause
            }
            for _ in 0..200 {
                jobs.resume("rare").unwrap();
                if jobs.pause("rare").is_err() {
                    return; // it was quick enough to end
                }
                assert_eq!(state(&jobs, "rare"), State::Paused);
            }
            jobs.resume("rare").unwrap();
            jobs.wait().unwrap();
        },
    );
}

#[test]
fn a_pause_of_a_job_that_is_cancelled_meanwhile_is_no_success() {
    on_both_with(
        |builder| builder.cpu_slots(1).pause_timeout(LONG),
        |jobs| {
            let door = Door::default();
            let (slow, runs) = stands_at(&door, "slow");
            jobs.submit(slow).unwrap();
            runs.recv().unwrap();
            let handle = jobs.clone();
            let pauses = std::thread::spawn(move || handle.pause("slow"));
            while !jobs.why("slow").unwrap().to_string().contains("asked to pause") {
                std::thread::yield_now();
            }
            jobs.cancel("slow").unwrap();
            let message = pauses.join().unwrap().expect_err("it does not pause").to_string();
            assert!(message.starts_with("job `slow` is "), "{message}");
            door.open();
            jobs.wait().unwrap_err();
        },
    );
}

#[test]
fn a_cancel_wins_over_a_result_that_comes_after_it() {
    on_both(|jobs| {
        let (door, (sent, runs)) = (Door::default(), std::sync::mpsc::channel());
        let at = door.clone();
        jobs.submit(Job::new("deaf").run(move |_| {
            let _ = sent.send(());
            at.pass();
            Ok::<_, JobError>(42) // as if nothing had been asked
        }))
        .unwrap();
        jobs.submit(Job::new("reader").needs("deaf")).unwrap();
        runs.recv().unwrap();
        jobs.cancel("deaf").unwrap();
        door.open();
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.cancelled), (0, 2));
        assert_eq!(jobs.status("deaf").unwrap().cause, Some(Cause::Asked));
    });
}

#[test]
fn cancel_and_wait_returns_when_nothing_of_it_runs_any_more() {
    on_both(|jobs| {
        let door = Door::default();
        let (work, runs) = works_until(&door, "work");
        jobs.submit(work).unwrap();
        jobs.submit(Job::new("below").needs("work")).unwrap();
        runs.recv().unwrap();
        jobs.cancel_and_wait(Target::Subtree("work".into())).unwrap();
        assert_eq!((state(&jobs, "work"), state(&jobs, "below")), (State::Cancelled, State::Cancelled));
        assert_eq!(jobs.usage().running, 0);
        jobs.cancel_and_wait(Target::Run).unwrap();
    });
}

#[test]
fn a_cancelled_paused_closure_with_a_long_cleanup_does_not_take_a_worker() {
    on_both_with(
        |builder| builder.cpu_slots(1),
        |jobs| {
            let (door, (sent, runs)) = (Door::default(), std::sync::mpsc::channel());
            let at = door.clone();
            jobs.submit(Job::new("lingers").run(move |ctx| {
                let _ = sent.send(());
                while ctx.checkpoint().is_ok() {
                    std::thread::yield_now();
                }
                let _ = sent.send(());
                at.pass(); // a long cleanup
            }))
            .unwrap();
            runs.recv().unwrap();
            jobs.pause("lingers").unwrap();
            jobs.cancel("lingers").unwrap();
            runs.recv().unwrap();
            // Its slots are free, so a worker must be free, too.
            for i in 0..3 {
                jobs.submit(Job::new(format!("next-{i}"))).unwrap();
                until(&jobs, &format!("next-{i}"), State::Succeeded);
            }
            door.open();
            jobs.wait().unwrap_err();
        },
    );
}
