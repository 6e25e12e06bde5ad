//! What every job can rely on.

use sched_jobs::{Job, Jobs, Scheduler, State};

/// Runs a test on both drivers.
fn on_both(test: impl Fn(Jobs)) {
    for scheduler in [Scheduler::Threadpool, Scheduler::Simple] {
        test(Jobs::builder().scheduler(scheduler).build());
    }
}

#[test]
fn a_job_runs_after_what_it_needs() {
    on_both(|jobs| {
        let (sent, order) = std::sync::mpsc::channel();
        let log = |name: &'static str| {
            let sent = sent.clone();
            Job::new(name).run(move |_| sent.send(name).map_err(|_| std::fmt::Error))
        };
        jobs.submit_all([log("c").needs("b"), log("b").needs("a"), log("a")]).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 3);
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(jobs.status("c").unwrap().state, State::Succeeded);
    });
}
