//! Memory that other programs use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use sched_jobs::{Job, Jobs, State};
use surface_neighbours::join;

use crate::{Folder, PATIENCE, config, settings};

#[test]
fn memory_that_comes_back_unannounced_is_noticed() {
    let folder = Folder::new();
    let available = Arc::new(AtomicU64::new(500));
    let asked = available.clone();
    let settings = settings(folder.path(), 2).reserve_mb(100).available_mb(move || Some(asked.load(Ordering::Relaxed)));
    let (ledger, bell) = join(settings).unwrap();
    let jobs = Jobs::builder().config(config(2)).neighbours(ledger).build();
    let poked = jobs.clone();
    let _listening = bell.listen(move || poked.poke()).unwrap();

    let (release, released) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    jobs.submit(Job::new("runs").ram_mb(0).run_once(move |_| {
        started.send(()).expect("somebody waits");
        let _ = released.recv();
    }))
    .unwrap();
    starts.recv_timeout(PATIENCE).expect("it starts");
    let (large_started, large_starts) = mpsc::channel();
    jobs.submit(Job::new("large").ram_mb(450).run(move |_| large_started.send(()))).unwrap();
    assert_eq!(jobs.status("large").unwrap().state, State::Ready);
    let why = jobs.why("large").unwrap().to_string();
    assert!(why.contains("400 MB free on this machine"), "{why}");
    available.store(550, Ordering::Relaxed);
    large_starts.recv_timeout(PATIENCE).expect("it starts when there is memory, although nobody rings");
    release.send(()).unwrap();
    jobs.wait().unwrap();
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
