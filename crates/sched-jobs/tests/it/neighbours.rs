//! What other runs hold, and what this run publishes to them.

use std::sync::{Arc, Mutex, mpsc};

use sched_jobs::{Job, Jobs, Neighbours, Others, State, Usage};

/// Other runs that hold what the test sets, and remember the last published usage.
#[derive(Clone, Default)]
struct OtherRuns(Arc<Mutex<(Others, Usage)>>);

impl Neighbours for OtherRuns {
    fn share(&mut self, choose: &mut dyn FnMut(&Others) -> Usage) {
        let mut both = self.0.lock().unwrap();
        both.1 = choose(&both.0);
    }
}

impl OtherRuns {
    fn hold(&self, change: impl FnOnce(&mut Others)) {
        change(&mut self.0.lock().unwrap().0);
    }

    fn usage(&self) -> Usage {
        self.0.lock().unwrap().1.clone()
    }
}

fn run() -> (Jobs, OtherRuns) {
    let other_runs = OtherRuns::default();
    let builder = Jobs::builder().cpu_slots(4).ram_mb(1000).resource("licence", 2);
    (builder.neighbours(other_runs.clone()).build(), other_runs)
}

/// Starts a job that runs until something is sent.
fn hold(jobs: &Jobs, job: Job) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    jobs.submit(job.run_once(move |_| {
        started.send(()).unwrap();
        let _ = released.recv();
    }))
    .unwrap();
    starts.recv().unwrap();
    release
}

#[test]
fn the_oldest_job_that_waits_for_other_runs_is_published() {
    let (jobs, other_runs) = run();
    other_runs.hold(|others| (others.running, others.cpu_slots) = (1, 2));
    let first = jobs.submit(Job::new("first").cpu_slots(3).takes("licence", 1).run(|_| ())).unwrap();
    jobs.submit(Job::new("second").priority(9).cpu_slots(4).run(|_| ())).unwrap();
    let wanted = other_runs.usage().wanted.expect("two wait");
    assert_eq!((wanted.job, wanted.cpu_slots, wanted.alone), (first, 3, false));
    assert_eq!(wanted.named, [("licence".to_owned(), 1)]);
    other_runs.hold(|others| *others = Others::default());
    jobs.poke();
    jobs.wait().unwrap();
    jobs.poke();
    assert_eq!(other_runs.usage().wanted, None);
}

#[test]
fn a_job_that_waits_for_its_own_run_publishes_no_demand() {
    let (jobs, other_runs) = run();
    let release = hold(&jobs, Job::new("ours").cpu_slots(3));
    other_runs.hold(|others| (others.running, others.cpu_slots) = (1, 1));
    jobs.submit(Job::new("waits").cpu_slots(2).run(|_| ())).unwrap();
    assert_eq!(jobs.status("waits").unwrap().state, State::Ready);
    assert_eq!(other_runs.usage().wanted, None, "without others it would not fit either");
    release.send(()).unwrap();
    jobs.wait().unwrap();
}

#[test]
fn a_job_larger_than_a_soft_limit_says_that_it_must_be_alone() {
    let (jobs, other_runs) = run();
    other_runs.hold(|others| (others.running, others.cpu_slots) = (1, 1));
    jobs.submit(Job::new("huge").ram_mb(5000).run(|_| ())).unwrap();
    assert!(other_runs.usage().wanted.expect("it waits").alone);
    other_runs.hold(|others| *others = Others::default());
    jobs.poke();
    jobs.wait().unwrap();
}

#[test]
fn a_job_that_lacks_only_memory_of_the_machine_waits_for_no_run() {
    let (jobs, other_runs) = run();
    other_runs.hold(|others| (others.running, others.ram_free_mb) = (1, Some(100)));
    jobs.submit(Job::new("large").ram_mb(500).run(|_| ())).unwrap();
    let usage = other_runs.usage();
    assert!(usage.lacks_memory && usage.wanted.is_none(), "{usage:?}");
    other_runs.hold(|others| others.ram_free_mb = Some(500));
    jobs.poke();
    jobs.wait().unwrap();
}

#[test]
fn a_resumed_job_that_lacks_the_slots_others_hold_wants_slots_alone() {
    let (jobs, other_runs) = run();
    let (started, starts) = mpsc::channel();
    let work = move |ctx: &sched_jobs::Ctx<'_>| {
        let _ = started.send(());
        while !ctx.is_cancelled() {
            ctx.checkpoint()?;
            std::thread::yield_now();
        }
        ctx.checkpoint()
    };
    let id = jobs.submit(Job::new("paused").cpu_slots(3).ram_mb(500).run(work)).unwrap();
    starts.recv().unwrap();
    jobs.pause("paused").unwrap();
    other_runs.hold(|others| (others.running, others.cpu_slots) = (1, 2));
    jobs.resume("paused").unwrap();
    let wanted = other_runs.usage().wanted.expect("it waits");
    assert_eq!((wanted.job, wanted.cpu_slots, wanted.ram_mb), (id, 3, 0));
    jobs.cancel_and_wait("paused").unwrap();
}
