//! Executors: one that the test drives by hand, and one that is done before it has begun.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sched_jobs::{
    AttemptId, Cause, Executor, Job, Jobs, Order, Outcome, Reporter, Retry, Scheduler, State, Target, What,
};

use crate::{LONG, in_time, state, until};

/// A request to an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Start(String, u32),
    Find(String, u32, String),
    Pause(usize),
    Resume(usize),
    Cancel(usize),
}

/// Records its requests; the test answers.
struct Puppet {
    asked: mpsc::Sender<Asked>,
    reporters: Mutex<Vec<Reporter>>,
}

impl Executor for Puppet {
    fn start(&self, order: Order) {
        assert_eq!(order.work.downcast_ref::<&str>(), Some(&"the work"));
        let asked = Asked::Start(order.name, order.attempt_id.attempt);
        self.reporters.lock().unwrap().push(order.report);
        let _ = self.asked.send(asked);
    }

    fn find_again(&self, order: Order, token: &str) {
        let asked = Asked::Find(order.name, order.attempt_id.attempt, token.to_owned());
        self.reporters.lock().unwrap().push(order.report);
        let _ = self.asked.send(asked);
    }

    fn pause(&self, attempt_id: AttemptId) {
        let _ = self.asked.send(Asked::Pause(attempt_id.job.index()));
    }

    fn resume(&self, attempt_id: AttemptId) {
        let _ = self.asked.send(Asked::Resume(attempt_id.job.index()));
    }

    fn cancel(&self, attempt_id: AttemptId) {
        let _ = self.asked.send(Asked::Cancel(attempt_id.job.index()));
    }
}

struct Play {
    jobs: Jobs,
    puppet: Arc<Puppet>,
    asked: mpsc::Receiver<Asked>,
}

impl Play {
    fn job(&self, name: &str) -> Job {
        Job::new(name).execute(self.puppet.clone(), Arc::new("the work"))
    }

    fn asked(&self) -> Asked {
        self.asked.recv_timeout(LONG).expect("something is asked")
    }

    fn nothing_asked(&self) {
        assert_eq!(self.asked.try_recv().ok(), None);
    }

    /// What the nth attempt reports through.
    fn report(&self, n: usize) -> Reporter {
        self.puppet.reporters.lock().unwrap()[n].clone()
    }
}

fn start(name: &str, attempt: u32) -> Asked {
    Asked::Start(name.to_owned(), attempt)
}

/// On both drivers, with one CPU slot.
fn on_both(test: impl Fn(Play) + Send + Sync + 'static) {
    let test = Arc::new(test);
    for scheduler in [Scheduler::Threadpool, Scheduler::Simple] {
        let test = test.clone();
        in_time(format!("driver {scheduler}"), move || {
            let (sent, asked) = mpsc::channel();
            let puppet = Arc::new(Puppet { asked: sent, reporters: Mutex::default() });
            let jobs = Jobs::builder().cpu_slots(1).scheduler(scheduler).build();
            test(Play { jobs, puppet, asked });
        });
    }
}

#[test]
fn an_executor_gets_requests_and_its_reports_are_applied() {
    on_both(|play| {
        play.jobs.submit(play.job("a")).unwrap();
        play.jobs.submit(play.job("b").needs("a")).unwrap();
        play.jobs.submit(Job::new("closure").needs("b").run(|_| ())).unwrap();
        assert_eq!(play.asked(), start("a", 1));
        play.nothing_asked();
        play.report(0).progress(0.5);
        assert_eq!(play.jobs.status("a").unwrap().progress, Some(0.5));
        play.report(0).progress(f32::NAN);
        play.report(0).progress(9.0);
        assert!((0.0..=1.0).contains(&play.jobs.status("a").unwrap().progress.unwrap()));
        play.report(0).ended(Outcome::Succeeded);
        assert_eq!(play.asked(), start("b", 1));
        assert_eq!((state(&play.jobs, "a"), play.jobs.status("a").unwrap().progress), (State::Succeeded, None));
        play.report(1).ended(Outcome::Succeeded);
        assert_eq!(play.jobs.wait().unwrap().succeeded, 3);
    });
}

#[test]
fn a_repeated_or_late_report_has_no_effect() {
    on_both(|play| {
        let mut events = play.jobs.events();
        let retry = Retry { times: 1, backoff: Duration::ZERO, longest: Duration::ZERO };
        play.jobs.submit(play.job("a").retry(retry)).unwrap();
        assert_eq!(play.asked(), start("a", 1));
        play.report(0).paused(); // without a request
        play.report(0).ended(Outcome::Failed(Cause::Error("first".to_owned())));
        play.report(0).ended(Outcome::Succeeded);
        assert_eq!(play.asked(), start("a", 2));
        play.report(0).ended(Outcome::Succeeded); // the first attempt, again
        play.report(0).progress(0.9);
        play.report(0).paused();
        assert_eq!((state(&play.jobs, "a"), play.jobs.status("a").unwrap().progress), (State::Running, None));
        play.report(1).ended(Outcome::Succeeded);
        play.report(1).ended(Outcome::Failed(Cause::Error("too late".to_owned())));
        assert_eq!(play.jobs.wait().unwrap().succeeded, 1);
        let ends = std::iter::from_fn(|| events.try_recv()).filter(|event| event.what == What::Succeeded).count();
        assert_eq!(ends, 1);
        let report = play.report(1);
        drop(play.jobs);
        report.ended(Outcome::Succeeded); // the scheduler is gone
    });
}

#[test]
fn a_paused_job_releases_its_slot_to_another_and_gets_it_back() {
    on_both(|play| {
        play.jobs.submit(play.job("a")).unwrap();
        play.jobs.submit(play.job("b")).unwrap();
        assert_eq!(play.asked(), start("a", 1));
        let handle = play.jobs.clone();
        let pauses = std::thread::spawn(move || handle.pause("a"));
        assert_eq!(play.asked(), Asked::Pause(0));
        play.report(0).paused();
        pauses.join().unwrap().unwrap();
        assert_eq!(play.asked(), start("b", 1));
        play.jobs.resume("a").unwrap();
        play.nothing_asked();
        play.report(1).ended(Outcome::Succeeded);
        assert_eq!(play.asked(), Asked::Resume(0));
        assert_eq!(state(&play.jobs, "a"), State::Running);
        play.report(0).ended(Outcome::Succeeded);
        play.jobs.wait().unwrap();
    });
}

#[test]
fn a_paused_job_that_ends_before_its_resume_has_ended() {
    on_both(|play| {
        play.jobs.submit(play.job("a")).unwrap();
        play.jobs.submit(play.job("b")).unwrap();
        play.asked();
        let handle = play.jobs.clone();
        let pauses = std::thread::spawn(move || handle.pause("a"));
        play.asked();
        play.report(0).paused();
        pauses.join().unwrap().unwrap();
        assert_eq!(play.asked(), start("b", 1));
        play.jobs.resume("a").unwrap();
        play.report(0).ended(Outcome::Failed(Cause::Error("killed".to_owned())));
        assert_eq!(state(&play.jobs, "a"), State::Failed);
        play.report(1).ended(Outcome::Succeeded);
        play.jobs.wait().unwrap_err();
        assert_eq!(play.jobs.usage().ram_mb, 0);
        play.nothing_asked();
    });
}

#[test]
fn a_job_that_ends_while_it_is_asked_to_pause_has_ended() {
    on_both(|play| {
        play.jobs.submit(play.job("a")).unwrap();
        play.asked();
        let handle = play.jobs.clone();
        let pauses = std::thread::spawn(move || handle.pause("a"));
        assert_eq!(play.asked(), Asked::Pause(0));
        play.report(0).ended(Outcome::Succeeded);
        play.report(0).paused();
        let message = pauses.join().unwrap().unwrap_err().to_string();
        assert_eq!(message, "job `a` is succeeded; only jobs that are queued, ready or running can be paused");
        assert_eq!(play.jobs.wait().unwrap().succeeded, 1);
    });
}

#[test]
fn a_cancel_reaches_running_and_paused_jobs_and_they_end_with_the_report() {
    for frozen in [false, true] {
        on_both(move |play| {
            play.jobs.submit(play.job("a")).unwrap();
            play.asked();
            if frozen {
                let handle = play.jobs.clone();
                let pauses = std::thread::spawn(move || handle.pause("a"));
                play.asked();
                play.report(0).paused();
                pauses.join().unwrap().unwrap();
            }
            play.jobs.cancel("a").unwrap();
            play.jobs.cancel(Target::Run).unwrap();
            assert_eq!(play.asked(), Asked::Cancel(0));
            play.nothing_asked();
            let _ = play.jobs.resume("a");
            assert!(!state(&play.jobs, "a").is_terminal(), "it ends when it has ended");
            play.report(0).ended(Outcome::Stopped);
            until(&play.jobs, "a", State::Cancelled);
            assert_eq!(play.jobs.usage().ram_mb, 0);
        });
    }
}

#[test]
fn an_attempt_of_an_earlier_process_is_looked_for_once() {
    on_both(|play| {
        let retry = Retry { times: 1, backoff: Duration::ZERO, longest: Duration::ZERO };
        play.jobs.submit(play.job("a").found("pid 7").attempts_made(1).retry(retry)).unwrap();
        assert_eq!(play.asked(), Asked::Find("a".to_owned(), 2, "pid 7".to_owned()));
        play.report(0).ended(Outcome::Succeeded);
        play.jobs.submit(play.job("b").found("pid 8").retry(retry)).unwrap();
        assert_eq!(play.asked(), Asked::Find("b".to_owned(), 1, "pid 8".to_owned()));
        play.report(1).ended(Outcome::Failed(Cause::Error("gone".to_owned())));
        assert_eq!(play.asked(), start("b", 2));
        play.report(2).ended(Outcome::Succeeded);
        play.jobs.wait().unwrap();
    });
}

#[test]
fn dropping_waits_until_the_executor_has_ended_everything() {
    on_both(|play| {
        play.jobs.submit(play.job("a")).unwrap();
        play.asked();
        let Play { jobs, puppet, asked } = play;
        let drops = std::thread::spawn(move || drop(jobs));
        assert_eq!(asked.recv_timeout(LONG).unwrap(), Asked::Cancel(0));
        assert!(!drops.is_finished());
        let report = puppet.reporters.lock().unwrap()[0].clone();
        report.ended(Outcome::Stopped);
        drops.join().unwrap();
    });
}

/// Done before it has begun.
struct Instant;

impl Executor for Instant {
    fn start(&self, order: Order) {
        order.report.ended(Outcome::Succeeded);
    }
    fn pause(&self, _: AttemptId) {}
    fn resume(&self, _: AttemptId) {}
    fn cancel(&self, _: AttemptId) {}
}

#[test]
fn reports_from_within_a_start_cause_no_recursion() {
    for scheduler in [Scheduler::Threadpool, Scheduler::Simple] {
        in_time(format!("driver {scheduler}"), move || {
            let jobs = Jobs::builder().cpu_slots(2).scheduler(scheduler).build();
            let executor: Arc<dyn Executor> = Arc::new(Instant);
            let count = if scheduler == Scheduler::Simple { 2_000 } else { 50_000 };
            let chain = (0..count).map(|i: u32| {
                let job = Job::new(i.to_string()).execute(executor.clone(), Arc::new(()));
                if i > 0 { job.needs((i - 1).to_string()) } else { job }
            });
            jobs.submit_all(chain).unwrap();
            assert_eq!(jobs.wait().unwrap().succeeded, count as usize);
        });
    }
}

/// Ends when it is cancelled; says so if it is cancelled before it was started.
#[derive(Default)]
struct Strict {
    started: Mutex<HashMap<AttemptId, Reporter>>,
}

impl Executor for Strict {
    fn start(&self, order: Order) {
        std::thread::yield_now();
        self.started.lock().unwrap().insert(order.attempt_id, order.report);
    }
    fn pause(&self, attempt_id: AttemptId) {
        let report = self.started.lock().unwrap().get(&attempt_id).cloned();
        report.expect("asked to pause what was not started").paused();
    }
    fn resume(&self, attempt_id: AttemptId) {
        assert!(self.started.lock().unwrap().contains_key(&attempt_id), "asked to resume what was not started");
    }
    fn cancel(&self, attempt_id: AttemptId) {
        let report = self.started.lock().unwrap().remove(&attempt_id);
        report.expect("asked to cancel what was not started").ended(Outcome::Stopped);
    }
}

#[test]
fn the_first_request_for_a_job_is_its_start() {
    in_time("orders and requests from several threads".to_owned(), || {
        for round in 0..20 {
            let jobs = Jobs::builder().cpu_slots(8).ram_mb(0).build();
            let executor: Arc<dyn Executor> = Arc::new(Strict::default());
            let threads: Vec<_> = (0..2)
                .map(|half| {
                    let (jobs, executor) = (jobs.clone(), executor.clone());
                    std::thread::spawn(move || {
                        for i in 0..100 {
                            let name = format!("{round}-{half}-{i}");
                            jobs.submit(Job::new(&name).execute(executor.clone(), Arc::new(()))).unwrap();
                            if i % 3 == 0 {
                                let _ = jobs.pause(Target::Run);
                                let _ = jobs.resume(Target::Run);
                            }
                            jobs.cancel(name.as_str()).unwrap();
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            jobs.cancel(Target::Run).unwrap();
            assert_eq!(jobs.wait().unwrap_err().summary.cancelled, 200);
        }
    });
}

#[test]
fn an_outcome_that_is_permanent_is_not_retried() {
    on_both(|play| {
        play.jobs.submit(play.job("a").retries(9)).unwrap();
        assert_eq!(play.asked(), start("a", 1));
        play.report(0).ended(Outcome::permanent("no such image"));
        let failed = play.jobs.wait().unwrap_err();
        assert_eq!(failed.first, [("a".to_owned(), Cause::Permanent("no such image".to_owned()))]);
        play.nothing_asked();
        let retry = Retry { times: 1, backoff: Duration::ZERO, longest: Duration::ZERO };
        play.jobs.submit(play.job("b").retry(retry)).unwrap();
        assert_eq!(play.asked(), start("b", 1));
        play.report(1).ended(Outcome::failed("busy"));
        assert_eq!(play.asked(), start("b", 2));
        play.report(2).ended(Outcome::Succeeded);
        assert_eq!(play.jobs.wait().unwrap_err().summary.succeeded, 1);
    });
}
