//! Memory that other programs use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use sched_jobs::{Job, Jobs, State};
use surface_neighbours::{Listener, Settings, join};

use crate::{Folder, TIMEOUT, config, settings};

/// A run with these settings.
fn run(settings: Settings) -> (Jobs, Listener) {
    let (budget, notifier) = join(settings).expect("it joins");
    let jobs = Jobs::builder().config(config(2)).neighbours(budget).build();
    let poked = jobs.clone();
    (jobs, notifier.listen(move || poked.poke()).expect("a thread"))
}

/// Starts a job that holds so much memory until something is sent.
fn hold(jobs: &Jobs, ram_mb: u64) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    let job = Job::new("holds").ram_mb(ram_mb).run_once(move |_| {
        started.send(()).expect("the test waits");
        let _ = released.recv();
    });
    jobs.submit(job).expect("it is fine");
    starts.recv_timeout(TIMEOUT).expect("it starts");
    release
}

/// A figure that can be changed.
fn figure(mb: u64) -> (Arc<AtomicU64>, impl Fn() -> u64 + Send + 'static) {
    let figure = Arc::new(AtomicU64::new(mb));
    let asked = figure.clone();
    (figure, move || asked.load(Ordering::Relaxed))
}

#[test]
fn memory_that_comes_back_unannounced_is_noticed() {
    let folder = Folder::new();
    let (available, ask) = figure(500);
    let (jobs, _listener) = run(settings(folder.path(), 2).reserve_mb(100).available_mb(move || Some(ask())));
    let release = hold(&jobs, 0);
    let (started, starts) = mpsc::channel();
    jobs.submit(Job::new("large").ram_mb(450).run(move |_| started.send(()))).unwrap();
    assert_eq!(jobs.status("large").unwrap().state, State::Ready);
    let why = jobs.why("large").unwrap().to_string();
    assert!(why.contains("400 MB free on this machine"), "{why}");
    available.store(550, Ordering::Relaxed);
    starts.recv_timeout(TIMEOUT).expect("it starts when there is memory, although no notification comes");
    release.send(()).unwrap();
    jobs.wait().unwrap();
}

#[test]
fn a_run_that_waits_for_memory_asks_others_how_much_they_really_use() {
    let folder = Folder::new();
    let (resident, ask) = figure(0);
    let (other, _other) = run(settings(folder.path(), 2).resident_mb(ask));
    let release = hold(&other, 1000);
    let (one, _one) = run(settings(folder.path(), 2).reserve_mb(0).available_mb(|| Some(1500)));
    one.submit(Job::new("large").ram_mb(900).run(|_| ())).unwrap();
    assert_eq!(one.status("large").unwrap().state, State::Ready, "1000 of 1500 MB may still be used");
    // What is available does not change: the other has had its share all the time, and only never said so.
    resident.store(1000, Ordering::Relaxed);
    one.wait_timeout(TIMEOUT).expect("the other is asked").expect("it succeeds");
    release.send(()).unwrap();
}

#[test]
fn what_another_run_was_promised_and_does_not_use_is_not_free() {
    use sched_jobs::{Neighbours, Usage};
    let folder = Folder::new();
    let mut other = join(settings(folder.path(), 2).resident_mb(|| 300)).unwrap().0;
    other.share(&mut |_| Usage { running: 1, ram_mb: 1000, ..Usage::default() });
    let mut one = join(settings(folder.path(), 2).reserve_mb(50).available_mb(|| Some(5000))).unwrap().0;
    one.share(&mut |others| {
        assert_eq!(others.ram_free_mb, Some(5000 - 700 - 50));
        Usage::default()
    });
}
