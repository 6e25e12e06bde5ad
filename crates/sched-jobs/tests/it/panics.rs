//! Code of a user that panics outside a job: observers, executors, neighbours, destructors. Every job ends as it would without it.

use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sched_jobs::{
    AttemptId, Cause, Executor, Job, JobError, Neighbours, Order, Others, Outcome, Reporter, Retry, State, Target,
    Usage, What,
};

use crate::{Door, LONG, on_both, on_both_with, works_until};

/// Panics when it is dropped. Also used as a payload of `panic_any`, which the code that catches it drops.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor fails");
    }
}

#[test]
fn an_observer_that_panics_is_dropped_and_every_job_ends() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    on_both_with(
        move |builder| {
            let calls = counted.clone();
            builder.cpu_slots(2).observe(move |event, _| {
                calls.fetch_add(1, Ordering::SeqCst);
                assert!(!matches!(event.what, What::Started { .. }), "the observer fails");
            })
        },
        move |jobs| {
            calls.store(0, Ordering::SeqCst);
            let mut events = jobs.events();
            jobs.submit_all((0..50).map(|i| {
                let job = Job::new(format!("{i}")).run(|_| ());
                if i > 1 { job.needs(format!("{}", i - 2)) } else { job }
            }))
            .unwrap();
            assert_eq!(jobs.wait().unwrap().succeeded, 50);
            assert_eq!(jobs.panics().observer, 1);
            assert!(calls.load(Ordering::SeqCst) <= 50 + 50 + 1, "it is not called after it failed");
            let received = std::iter::from_fn(|| events.try_recv()).count();
            assert_eq!(received, 4 * 50, "listeners get all events");
            jobs.submit(Job::new("later").run(|_| ())).unwrap();
            assert_eq!(jobs.wait().unwrap().succeeded, 51);
        },
    );
}

#[test]
fn an_observer_that_panics_on_the_thread_that_submits_does_not_fail_the_submit() {
    on_both_with(
        |builder| builder.cpu_slots(2).observe(|_, _| panic!("the observer fails at once")),
        |jobs| {
            jobs.submit(Job::new("a").run(|_| ())).unwrap();
            assert_eq!(jobs.wait().unwrap().succeeded, 1);
            assert_eq!(jobs.panics().observer, 1);
        },
    );
}

#[test]
fn what_an_observer_captured_is_dropped_when_it_fails() {
    let kept = Arc::new(Mutex::new(None));
    let given = kept.clone();
    on_both_with(
        move |builder| {
            let (sent, gone) = mpsc::channel::<()>();
            *given.lock().unwrap() = Some(gone);
            let bomb = Bomb;
            builder.cpu_slots(2).observe(move |_, _| {
                let _ = (&sent, &bomb);
                panic!("the observer fails");
            })
        },
        move |jobs| {
            let gone = kept.lock().unwrap().take().unwrap();
            jobs.submit(Job::new("a").run(|_| ())).unwrap();
            assert_eq!(gone.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
            assert_eq!(jobs.wait().unwrap().succeeded, 1);
            assert_eq!((jobs.panics().observer, jobs.panics().destructors), (1, 1));
        },
    );
}

#[test]
fn a_payload_that_panics_when_it_is_dropped_fails_its_job_only() {
    on_both(|jobs| {
        jobs.submit(Job::new("bad").run_once(|_| -> () { panic_any(Bomb) })).unwrap();
        jobs.submit_all((0..8).map(|i| Job::new(format!("{i}")).run(|_| ()))).unwrap();
        let failed = jobs.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.failed), (8, 1));
        assert!(matches!(&failed.first[0].1, Cause::Panic { .. }), "{failed}");
        assert_eq!(jobs.panics().destructors, 1);
    });
}

#[test]
fn destructors_that_panic_when_the_scheduler_goes_do_not_end_the_process() {
    on_both(|jobs| {
        let bombs = [Bomb, Bomb, Bomb];
        for (i, bomb) in bombs.into_iter().enumerate() {
            let never = Job::new(format!("{i}")).needs("first").run(move |_| {
                let _ = &bomb;
            });
            if i == 0 {
                jobs.submit(Job::new("first").run(|_| Err::<(), _>(JobError::msg("no"))).retries(9)).unwrap();
            }
            jobs.submit(never).unwrap();
        }
        drop(jobs);
    });
}

#[test]
fn a_refused_batch_whose_captures_panic_when_dropped_is_refused_and_no_more() {
    on_both(|jobs| {
        let holds = |name: &str| {
            let bomb = Bomb;
            Job::new(name).run(move |_| {
                let _ = &bomb;
            })
        };
        let error = jobs.submit_all([holds("a"), holds("b"), holds("c").needs("nothing")]).unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
        let error = jobs.submit_all([holds("a"), holds("b"), holds("a"), holds("c"), holds("d")]).unwrap_err();
        assert!(error.to_string().contains("already"), "{error}");
        assert_eq!(jobs.panics().destructors, 8);
        jobs.submit(Job::new("a").run(|_| ())).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 1);
    });
}

/// Panics in chosen methods; otherwise reports on request only.
struct Fails {
    start: AtomicUsize,
    pause: bool,
    resume: bool,
    cancel: bool,
    reporters: Mutex<Vec<Reporter>>,
    started: mpsc::Sender<AttemptId>,
}

impl Fails {
    /// An executor whose first `start` calls panic, this many times.
    fn new(start: usize) -> (Self, mpsc::Receiver<AttemptId>) {
        let (started, starts) = mpsc::channel();
        let (start, reporters) = (AtomicUsize::new(start), Mutex::default());
        (Self { start, pause: false, resume: false, cancel: false, reporters, started }, starts)
    }

    fn report(&self, attempt_id: AttemptId, send: impl Fn(&Reporter)) {
        let reporters = self.reporters.lock().unwrap().clone();
        let of_it = |report: &&Reporter| format!("{report:?}").contains(&format!("{attempt_id:?}"));
        reporters.iter().filter(of_it).for_each(send);
    }
}

impl Executor for Fails {
    fn start(&self, order: Order) {
        self.reporters.lock().unwrap().push(order.report);
        let less = |left: usize| left.checked_sub(1);
        let fails = self.start.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        assert!(!fails, "the executor cannot start it");
        self.started.send(order.attempt_id).unwrap();
    }

    fn pause(&self, attempt_id: AttemptId) {
        assert!(!self.pause, "the executor cannot pause it");
        self.report(attempt_id, Reporter::paused);
    }

    fn resume(&self, _: AttemptId) {
        assert!(!self.resume, "the executor cannot resume it");
    }

    fn cancel(&self, attempt_id: AttemptId) {
        assert!(!self.cancel, "the executor cannot cancel it");
        self.report(attempt_id, |report| report.ended(Outcome::Stopped));
    }
}

fn remote(name: &str, executor: &Arc<Fails>) -> Job {
    Job::new(name).execute(executor.clone(), Arc::new(()))
}

#[test]
fn an_executor_that_panics_at_a_start_fails_that_attempt_and_the_next_is_made() {
    on_both(|jobs| {
        let (executor, starts) = Fails::new(2);
        let executor = Arc::new(executor);
        let retry = Retry { times: 1, backoff: Duration::ZERO, longest: Duration::ZERO };
        jobs.submit(remote("once", &executor)).unwrap();
        let failed = jobs.wait().unwrap_err();
        let Cause::Panic { message, .. } = &failed.first[0].1 else { panic!("{failed}") };
        assert_eq!(message, "the executor cannot start it");
        jobs.submit(remote("twice", &executor).retry(retry)).unwrap();
        jobs.submit(Job::new("closure").run(|_| ())).unwrap();
        let attempt_id = starts.recv_timeout(LONG).unwrap();
        assert_eq!(attempt_id.attempt, 2);
        executor.report(attempt_id, |report| report.ended(Outcome::Succeeded));
        assert_eq!(jobs.wait().unwrap_err().summary.succeeded, 2);
        assert_eq!(jobs.panics().executors, 2);
    });
}

#[test]
fn an_executor_that_panics_at_a_cancel_does_not_keep_the_run_from_ending() {
    on_both(|jobs| {
        let (mut executor, starts) = Fails::new(0);
        executor.cancel = true;
        let executor = Arc::new(executor);
        jobs.submit(remote("a", &executor)).unwrap();
        starts.recv_timeout(LONG).unwrap();
        jobs.cancel_and_wait("a").unwrap();
        assert_eq!(jobs.status("a").unwrap().state, State::Cancelled);
        assert_eq!(jobs.panics().executors, 1);
    });
}

#[test]
fn an_executor_that_panics_at_a_pause_leaves_the_job_to_the_pause_timeout() {
    on_both_with(
        |builder| builder.cpu_slots(2).pause_timeout(Duration::from_millis(10)),
        |jobs| {
            let (mut executor, starts) = Fails::new(0);
            executor.pause = true;
            let executor = Arc::new(executor);
            jobs.submit(remote("a", &executor)).unwrap();
            starts.recv_timeout(LONG).unwrap();
            assert_eq!(jobs.pause("a").unwrap_err().code(), Some(3003));
            let failed = jobs.wait().unwrap_err();
            assert!(matches!(failed.first[0].1, Cause::PauseTimeout { .. }), "{failed}");
            assert_eq!(jobs.panics().executors, 1);
        },
    );
}

#[test]
fn an_executor_that_panics_at_a_resume_fails_the_paused_attempt() {
    on_both(|jobs| {
        let (mut executor, starts) = Fails::new(0);
        executor.resume = true;
        let executor = Arc::new(executor);
        jobs.submit(remote("a", &executor)).unwrap();
        starts.recv_timeout(LONG).unwrap();
        jobs.pause("a").unwrap();
        jobs.resume("a").unwrap();
        let failed = jobs.wait().unwrap_err();
        assert!(matches!(&failed.first[0].1, Cause::Panic { message, .. } if message.contains("resume")), "{failed}");
        assert_eq!(jobs.panics().executors, 1);
    });
}

/// Neighbours that panic: before they call `choose`, after it, or by calling it twice.
struct Broken {
    when: &'static str,
    calls: Arc<AtomicUsize>,
}

impl Neighbours for Broken {
    fn share(&mut self, choose: &mut dyn FnMut(&Others) -> Usage) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        // They hold everything, so nothing starts beside them.
        let all = Others { running: 9, cpu_slots: 1000, ..Others::default() };
        match self.when {
            "before" => panic!("the neighbours fail"),
            "after" => {
                choose(&all);
                panic!("the neighbours fail");
            }
            _ => {
                choose(&all);
                choose(&Others::default());
            }
        }
    }
}

#[test]
fn neighbours_that_panic_are_dropped_and_every_job_ends() {
    for when in ["before", "after", "twice"] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        on_both_with(
            move |builder| builder.cpu_slots(2).neighbours(Broken { when, calls: counted.clone() }),
            move |jobs| {
                calls.store(0, Ordering::SeqCst);
                jobs.submit_all((0..20).map(|i| Job::new(format!("{i}")).run(|_| ()))).unwrap();
                assert_eq!(jobs.wait().unwrap().succeeded, 20, "{when}");
                assert_eq!((jobs.panics().neighbours, calls.load(Ordering::SeqCst)), (1, 1), "{when}");
            },
        );
    }
}

#[test]
fn jobs_can_be_controlled_after_an_observer_failed() {
    on_both_with(
        |builder| builder.cpu_slots(2).observe(|_, _| panic!("the observer fails")),
        |jobs| {
            let door = Door::default();
            let (work, runs) = works_until(&door, "work");
            jobs.submit(work).unwrap();
            runs.recv().unwrap();
            jobs.pause("work").unwrap();
            jobs.resume(Target::Run).unwrap();
            door.open();
            assert_eq!(jobs.wait().unwrap().succeeded, 1);
        },
    );
}
