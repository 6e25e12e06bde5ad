//! Closures: failures, panics, retries, outputs, progress.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sched_jobs::{Cause, InputError, Job, JobError, Retry, State};

use sched_tasks::{Budget, CapSpawn, Ledger, charge, nursery};

use crate::{Door, LONG, on_both, state};

fn soon(times: u32) -> Retry {
    Retry { times, backoff: Duration::from_millis(1), longest: Duration::from_millis(4) }
}

#[test]
fn a_panic_is_a_failure_of_that_job_and_of_no_other() {
    on_both(|jobs| {
        jobs.submit(Job::new("text").run(|_| -> () { panic!("at the disco") })).unwrap();
        jobs.submit(Job::new("formatted").run(|_| -> () { panic!("number {}", 7) })).unwrap();
        jobs.submit(Job::new("odd").run(|_| -> () { std::panic::panic_any(7_u8) })).unwrap();
        jobs.submit(Job::new("good")).unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.failed), (1, 3));
        let cause = |name: &str| jobs.status(name).unwrap().cause.unwrap().to_string();
        let place = concat!("panicked at ", file!(), ":"); // as a task says it
        assert!(cause("text").starts_with(place) && cause("text").ends_with(": at the disco"), "{}", cause("text"));
        assert!(cause("formatted").starts_with(place) && cause("formatted").ends_with(": number 7"));
        assert!(cause("odd").ends_with(": with a payload that is not a text"));
        jobs.submit(Job::new("after")).unwrap(); // all workers still work
        jobs.wait().unwrap_err();
        assert_eq!(state(&jobs, "after"), State::Succeeded);
    });
}

#[test]
fn captures_that_panic_when_they_are_dropped_do_not_take_a_worker_with_them() {
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    on_both(|jobs| {
        for i in 0..4 {
            let grenade = Grenade;
            jobs.submit(Job::new(format!("{i}")).run(move |_| {
                let _ = &grenade;
            }))
            .unwrap();
        }
        assert_eq!(jobs.wait().unwrap().succeeded, 4);
        jobs.submit(Job::new("after")).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 5);
    });
}

#[test]
fn attempts_are_counted_and_the_last_error_is_reported() {
    on_both(|jobs| {
        let tries = Arc::new(AtomicU32::new(0));
        let counts = tries.clone();
        jobs.submit(Job::new("never").retry(soon(3)).run(move |ctx| {
            assert_eq!(ctx.attempt(), counts.fetch_add(1, Ordering::Relaxed) + 1);
            Err::<(), _>(JobError::msg(format!("attempt {}", ctx.attempt())))
        }))
        .unwrap();
        jobs.wait().unwrap_err();
        let status = jobs.status("never").unwrap();
        assert_eq!((status.state, status.attempts, tries.load(Ordering::Relaxed)), (State::Failed, 4, 4));
        assert_eq!(status.cause, Some(Cause::Error("attempt 4".to_owned())));
    });
}

#[test]
fn a_run_that_succeeded_in_the_end_names_no_failures() {
    on_both(|jobs| {
        let mut left = 2;
        jobs.submit(Job::new("flaky").retry(soon(5)).run(move |_| {
            left -= 1;
            if left > 0 {
                panic!("not yet")
            }
        }))
        .unwrap();
        jobs.submit(Job::new("bad").run(|_| Err::<(), _>(JobError::msg("no")))).unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!(failed.first, [("bad".to_owned(), Cause::Error("no".to_owned()))]);
        assert_eq!(jobs.status("flaky").unwrap().attempts, 2);
    });
}

#[test]
fn outputs_of_what_a_job_needs_are_its_inputs() {
    on_both(|jobs| {
        jobs.submit(Job::new("number").run(|_| Ok::<_, JobError>(7_u32))).unwrap();
        jobs.submit(Job::new("nothing")).unwrap();
        jobs.submit(Job::new("other").run(|_| Ok::<_, JobError>("text"))).unwrap();
        let sum = Job::new("sum").needs_all(["number", "nothing"]).run(|ctx| {
            assert_eq!(ctx.needs(), ["number", "nothing"]);
            let number = ctx.input::<u32>("number")?;
            let message = |error: InputError| error.to_string();
            let nothing = "`nothing` returned nothing; return a value from its closure";
            assert_eq!(ctx.input::<u32>("nothing").map_err(message), Err(nothing.to_owned()));
            let other = "this job does not need `other`, only number, nothing; add `.needs(\"other\")`";
            assert_eq!(ctx.input::<u32>("other").map_err(message), Err(other.to_owned()));
            let string = "`number` returned a value that is not a `alloc::string::String`";
            assert_eq!(ctx.input::<String>("number").map_err(message), Err(string.to_owned()));
            Ok::<_, JobError>(*number + 1)
        });
        jobs.submit(sum).unwrap();
        let alone = Job::new("alone").run(|ctx| {
            let words = "this job needs nothing, so it has no output of `sum`; add `.needs(\"sum\")`";
            assert_eq!(ctx.input::<u32>("sum").unwrap_err().to_string(), words);
        });
        jobs.submit(alone).unwrap();
        let done = jobs.wait();
        assert!(done.is_ok(), "{done:?}");
        // Also those that come later can read it.
        jobs.submit(Job::new("late").needs("sum").run(|ctx| {
            assert_eq!(*ctx.input::<u32>("sum")?, 8);
            Ok::<_, JobError>(())
        }))
        .unwrap();
        let done = jobs.wait();
        assert!(done.is_ok(), "{done:?}");
    });
}

#[test]
fn the_output_of_a_cancelled_attempt_is_not_an_input() {
    on_both(|jobs| {
        let (door, (sent, runs)) = (Door::default(), std::sync::mpsc::channel());
        let at = door.clone();
        jobs.submit(Job::new("maker").run(move |ctx| {
            let _ = sent.send(());
            at.pass();
            if ctx.attempt() == 1 { Ok(7_u32) } else { Err(JobError::msg("unused")) }
        }))
        .unwrap();
        runs.recv().unwrap();
        jobs.cancel("maker").unwrap();
        door.open();
        jobs.wait().unwrap_err();
        // It is retried, fails, and its dependents never run.
        jobs.retry("maker").unwrap();
        jobs.submit(Job::new("reader").needs("maker").run(|ctx| ctx.input::<u32>("maker").map(|_| ()))).ok();
        jobs.wait().unwrap_err();
        assert_eq!(state(&jobs, "maker"), State::Failed);
    });
}

#[test]
fn errors_are_reported_with_their_sources() {
    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no number")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    on_both(|jobs| {
        jobs.submit(Job::new("parse").run(|_| "x".parse::<u8>().map(|_| ()).map_err(Outer))).unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!(failed.first[0].1.to_string(), "no number: invalid digit found in string");
    });
}

#[test]
fn a_closure_that_stops_without_a_request_has_failed() {
    on_both(|jobs| {
        jobs.submit(Job::new("quits").run(|_| Err::<(), _>(sched_jobs::Stopped))).unwrap();
        jobs.wait().unwrap_err();
        let message = "it stopped as if cancelled, but it was not asked to stop";
        assert_eq!(jobs.status("quits").unwrap().cause.unwrap().to_string(), message);
    });
}

#[test]
fn a_closure_that_runs_once_runs_once() {
    on_both(|jobs| {
        let owned = String::from("given away");
        jobs.submit(Job::new("once").run_once(move |_| {
            drop(owned);
            Err::<(), _>(JobError::msg("no"))
        }))
        .unwrap();
        jobs.wait().unwrap_err();
        jobs.retry("once").unwrap();
        jobs.wait().unwrap_err();
        let message = "its closure can run only once, and has already run; use `run` to retry";
        assert_eq!(jobs.status("once").unwrap().cause.unwrap().to_string(), message);
    });
}

#[test]
fn progress_is_visible_while_a_job_runs_and_always_valid() {
    on_both(|jobs| {
        let (door, (sent, said)) = (Door::default(), std::sync::mpsc::channel());
        let at = door.clone();
        jobs.submit(Job::new("work").run(move |ctx| {
            for done in [f32::NAN, f32::INFINITY, -3.0, 7.0, 0.25] {
                ctx.progress(done)?;
            }
            let _ = sent.send(());
            at.pass();
            Ok::<_, JobError>(())
        }))
        .unwrap();
        let mut events = jobs.events();
        said.recv().unwrap();
        assert_eq!(jobs.status("work").unwrap().progress, Some(0.25));
        let why = jobs.why("work").unwrap().to_string();
        assert!(why.contains("25 % done"), "{why}");
        door.open();
        jobs.wait().unwrap();
        assert_eq!(jobs.status("work").unwrap().progress, None);
        while let Some(event) = events.try_recv() {
            if let sched_jobs::What::Progress(done) = event.what {
                assert!((0.0..=1.0).contains(&done), "{done}");
            }
        }
    });
}

#[test]
fn a_job_done_in_an_earlier_process_does_not_run_again() {
    on_both(|jobs| {
        jobs.submit(Job::new("done").already_done().run(|_| -> () { panic!("again") })).unwrap();
        let attempts = Job::new("next").needs("done").attempts_made(2).run(|ctx| assert_eq!(ctx.attempt(), 3));
        jobs.submit(attempts).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 2);
    });
}

#[test]
fn an_error_that_is_permanent_is_not_retried_and_why_says_so() {
    on_both(|jobs| {
        let permanent = |_: &sched_jobs::Ctx<'_>| Err::<(), _>(JobError::permanent("no such bucket"));
        let parse = |_: &sched_jobs::Ctx<'_>| {
            let _: u8 = "x".parse().map_err(|error| JobError::from(error).no_retry())?;
            Ok::<_, JobError>(())
        };
        jobs.submit_all([
            Job::new("said").retries(9).run(permanent),
            Job::new("made").retries(9).run(parse),
            Job::new("below").needs("said"),
        ])
        .unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.failed, failed.summary.cancelled), (2, 1));
        for (name, message) in [("said", "no such bucket"), ("made", "invalid digit found in string")] {
            let status = jobs.status(name).unwrap();
            assert_eq!((status.attempts, status.cause), (1, Some(Cause::Permanent(message.to_owned()))));
            let why = jobs.why(name).unwrap().to_string();
            assert!(why.contains(message) && why.contains("permanent error, so it is not retried"), "{why}");
        }
    });
}

#[test]
fn errors_before_a_permanent_one_are_retried() {
    on_both(|jobs| {
        let retry = Retry { times: 9, backoff: Duration::ZERO, longest: Duration::ZERO };
        let work = |ctx: &sched_jobs::Ctx<'_>| match ctx.attempt() {
            1 | 2 => Err::<(), _>(JobError::msg("busy")),
            _ => Err(JobError::permanent("gone")),
        };
        jobs.submit(Job::new("a").retry(retry).run(work)).unwrap();
        jobs.wait().unwrap_err();
        let status = jobs.status("a").unwrap();
        assert_eq!((status.attempts, status.cause), (3, Some(Cause::Permanent("gone".to_owned()))));
    });
}

#[test]
fn a_job_that_was_asked_to_end_is_cancelled_and_no_permanent_failure() {
    on_both(|jobs| {
        let (sent, runs) = mpsc::channel();
        jobs.submit(Job::new("a").retries(3).run(move |ctx| {
            let _ = sent.send(());
            while !ctx.is_cancelled() {
                std::thread::yield_now();
            }
            ctx.checkpoint().map_err(|stopped| JobError::from(stopped).no_retry())
        }))
        .unwrap();
        runs.recv_timeout(LONG).unwrap();
        jobs.cancel_and_wait("a").unwrap();
        let status = jobs.status("a").unwrap();
        assert_eq!((status.state, status.cause), (State::Cancelled, Some(Cause::Asked)));
    });
}

#[test]
fn what_a_job_and_its_tasks_may_spend_is_limited_and_each_attempt_has_the_whole() {
    on_both(|jobs| {
        let spends = |name: &str, ops: u64| {
            Job::new(name).budget(Budget::ops(1_000).spawns(4)).run(move |_| {
                nursery(|n| {
                    for _ in 0..4 {
                        n.spawn(move || (0..ops).for_each(|_| charge(1)));
                    }
                    Ok(())
                })
            })
        };
        jobs.submit(spends("modest", 100)).unwrap();
        jobs.submit(spends("greedy", 10_000)).unwrap();
        jobs.submit(spends("light and greedy", 10_000).light()).unwrap();
        let tries = AtomicU32::new(0);
        jobs.submit(Job::new("second try").budget(Budget::ops(1_000)).retry(soon(1)).run(move |_| {
            let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
            (0..if first { 2_000 } else { 900 }).for_each(|_| charge(1));
        }))
        .unwrap();
        let failed = jobs.wait().unwrap_err();
        let exhausted: Vec<_> = failed.first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(exhausted, ["greedy", "light and greedy"], "{failed}");
        assert!(failed.first.iter().all(|(_, cause)| cause.to_string().contains("BudgetExhausted")), "{failed}");
        assert_eq!(jobs.status("second try").unwrap().attempts, 2);
    });
}

#[test]
fn a_job_may_do_what_its_capability_allows() {
    on_both(|jobs| {
        let root = Ledger::new().grant(CapSpawn::new());
        let tenant = root.attenuate(CapSpawn::new().max_tasks(2)).unwrap(); // the closure is one
        let spawns = |name: &str| Job::new(name).capability(&tenant).run(|_| nursery(|n| n.spawn(|| ()).join()));
        jobs.submit(spawns("allowed")).unwrap();
        jobs.wait().unwrap();
        tenant.revoke();
        jobs.submit(spawns("revoked")).unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!(failed.first[0].0, "revoked");
        assert!(failed.first[0].1.to_string().contains("evoked"), "{failed}");
    });
}
