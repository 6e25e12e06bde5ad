//! Runs in one process.

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use sched_jobs::{Ctx, Gpu, Job, Jobs, PendingDemand, State, Usage};
use surface_neighbours::{JoinError, NAMED_MAX, Settings, join, runs_in};

use crate::{Folder, TIMEOUT, bare, config, run, use_slots};

/// Starts a job that holds so many slots until something is sent.
fn hold(jobs: &Jobs, name: &str, slots: u32) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    let job = Job::new(name).cpu_slots(slots).run_once(move |_| {
        started.send(()).expect("the test waits");
        let _ = released.recv();
    });
    jobs.submit(job).expect("it is fine");
    starts.recv_timeout(TIMEOUT).expect("it starts");
    release
}

#[test]
fn what_one_gives_back_another_starts_with() {
    let folder = Folder::new();
    let (one, _one) = run(folder.path(), 2);
    let (other, _other) = run(folder.path(), 2);
    let release = hold(&one, "holder", 2);
    other.submit(Job::new("waits").run(|_| ())).unwrap();
    assert_eq!(other.status("waits").unwrap().state, State::Ready);
    let why = other.why("waits").unwrap().to_string();
    assert!(why.contains("other runs (2)"), "{why}");
    release.send(()).unwrap();
    other.wait_timeout(TIMEOUT).expect("it is notified").expect("it succeeds");
}

#[test]
fn a_run_that_waits_finds_out_although_everything_was_removed() {
    let folder = Folder::new();
    let (one, _one) = run(folder.path(), 2);
    let (other, _other) = run(folder.path(), 2);
    let release = hold(&one, "holder", 2);
    other.submit(Job::new("waits").run(|_| ())).unwrap();
    assert_eq!(other.status("waits").unwrap().state, State::Ready);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    release.send(()).unwrap();
    other.wait_timeout(TIMEOUT).expect("it looks").expect("it succeeds");
}

#[test]
fn a_run_that_leaves_gives_back_everything() {
    let folder = Folder::new();
    let (other, _other) = run(folder.path(), 2);
    let mut leaver = bare(folder.path());
    use_slots(&mut leaver, 2);
    other.submit(Job::new("waits").run(|_| ())).unwrap();
    assert_eq!(other.status("waits").unwrap().state, State::Ready);
    drop(leaver);
    other.wait_timeout(TIMEOUT).expect("it is notified").expect("it succeeds");
}

#[test]
fn the_last_leaves_an_empty_file_and_no_socket() {
    let folder = Folder::new();
    let (mut one, mut other) = (bare(folder.path()), bare(folder.path()));
    use_slots(&mut one, 1);
    use_slots(&mut other, 1);
    drop(one);
    drop(other);
    assert_eq!(std::fs::metadata(folder.file()).unwrap().len(), 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the file");
}

#[test]
fn named_resources_are_shared_by_name() {
    let folder = Folder::new();
    let (mut one, mut other) = (bare(folder.path()), bare(folder.path()));
    one.share_licence(1);
    assert_eq!(use_slots(&mut other, 0).named, [("licence".to_owned(), 1)]);
}

trait ShareLicence {
    fn share_licence(&mut self, held: u64);
}

impl ShareLicence for surface_neighbours::SharedBudget {
    fn share_licence(&mut self, held: u64) {
        use sched_jobs::Neighbours;
        self.share(&mut |_| Usage { named: vec![("licence".to_owned(), held)], ..Usage::default() });
    }
}

#[test]
fn what_has_been_wanted_too_long_counts_as_held() {
    use sched_jobs::Neighbours;
    let folder = Folder::new();
    let (mut overdue, mut other) = (bare(folder.path()), bare(folder.path()));
    let jobs = Jobs::builder().build();
    let job = jobs.submit(Job::new("large")).unwrap();
    let wanted = PendingDemand { job, cpu_slots: 5, ram_mb: 0, vram_mb: 0, gpus: 0, named: Vec::new(), alone: false };
    let mut wants = || overdue.share(&mut |_| Usage { wanted: Some(wanted.clone()), ..Usage::default() });
    wants();
    assert_eq!(use_slots(&mut other, 1).cpu_slots, 0, "not yet");
    // Three intervals of 50 ms: time itself is what is tested.
    std::thread::sleep(3 * config(8).aging.interval);
    wants();
    let others = use_slots(&mut other, 1);
    assert_eq!((others.cpu_slots, others.running), (5, 1));
    use_slots(&mut overdue, 5);
    assert_eq!(use_slots(&mut other, 1).cpu_slots, 5, "held now, and wanted no longer");
}

#[test]
fn runs_share_cards_one_by_one() {
    let folder = Folder::new();
    let start = |ids: &[&str]| {
        let mut config = config(4);
        config.limits.ram_mb = 0;
        config.limits.gpus = ids.iter().map(|id| Gpu::new(*id, 8_000)).collect();
        let (budget, notifier) = join(Settings::new(&config).folder(folder.path()).available_mb(|| None)).unwrap();
        let jobs = Jobs::builder().config(config).neighbours(budget).build();
        let poked = jobs.clone();
        let listener = notifier.listen(move || poked.poke()).unwrap();
        (jobs, listener)
    };
    let (one, _one) = start(&["a", "b"]);
    // The other knows them in another order, and one more.
    let (other, _other) = start(&["c", "b", "a"]);
    let (release, released) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let holder = Job::new("holder").gpus(2).vram_mb(5_000).run_once(move |ctx| {
        tell.send(ctx.gpus()).unwrap();
        let _ = released.recv();
    });
    one.submit(holder).unwrap();
    assert_eq!(told.recv_timeout(TIMEOUT).unwrap().len(), 2);
    let (tell, told) = mpsc::channel();
    let ids = |ctx: &Ctx<'_>| ctx.gpus().into_iter().map(|gpu| gpu.id).collect::<Vec<_>>();
    let small = tell.clone();
    other.submit(Job::new("small").gpus(3).vram_mb(3_000).run(move |ctx| small.send(ids(ctx)).unwrap())).unwrap();
    assert_eq!(told.recv_timeout(TIMEOUT).unwrap(), ["c", "b", "a"], "3 GB are left of each");
    other.wait_timeout(TIMEOUT).expect("it ends").expect("it succeeds");
    other.submit(Job::new("pair").gpus(2).vram_mb(4_000).run(move |ctx| tell.send(ids(ctx)).unwrap())).unwrap();
    assert_eq!(other.status("pair").unwrap().state, State::Ready);
    let why = other.why("pair").unwrap().to_string();
    assert!(
        why.contains("needs 4.0 GB on each of 2 cards, 1 of 3 have that free. Held by other runs (10.0 GB)"),
        "{why}"
    );
    release.send(()).unwrap();
    assert_eq!(told.recv_timeout(TIMEOUT).unwrap(), ["c", "b"]);
}

#[test]
fn what_all_use_can_be_seen() {
    let folder = Folder::new();
    let mut one = bare(folder.path());
    use_slots(&mut one, 3);
    let runs = runs_in(folder.path()).unwrap();
    assert_eq!(
        runs.iter().map(|run| (run.pid, run.running, run.cpu_slots)).collect::<Vec<_>>(),
        [(std::process::id(), 1, 3)]
    );
}

#[test]
fn a_folder_that_others_can_enter_is_closed_to_them() {
    let folder = Folder::new();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let _ledger = bare(folder.path());
    assert_eq!(std::fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_folder_that_is_a_link_is_refused() {
    let folder = Folder::new();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    let error = join(Settings::new(&config(1)).folder(&link)).unwrap_err();
    assert!(matches!(&error, JoinError::Folder { path, .. } if *path == link), "{error}");
    assert!(error.to_string().contains("XDG_RUNTIME_DIR"), "{error}");
}

#[test]
fn too_many_names_are_refused_with_both_numbers() {
    let mut config = config(1);
    config.limits.named = (0..=NAMED_MAX).map(|i| (format!("n{i}"), 1)).collect();
    let error = join(Settings::new(&config).folder(Folder::new().path())).unwrap_err().to_string();
    assert_eq!(error, "25 named resources and graphics cards, but runs share at most 24; declare fewer");
}

/// Run by hand, in release: `cargo test --release -p surface-neighbours -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn alone_sharing_costs_less_than_ten_microseconds() {
    let folder = Folder::new();
    let mut budget = bare(folder.path());
    // The time of this thread: on a busy machine the time of day measures the neighbours.
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let mut cost = |changing: u32| {
        let rounds: u32 = 2_000;
        let batches = (0..10).map(|_| {
            let began = clock();
            for round in 0..rounds {
                use_slots(&mut budget, u64::from(round % changing));
            }
            (clock() - began) / rounds
        });
        batches.min().expect("there are ten")
    };
    let (same, changed) = (cost(1), cost(2));
    println!("alone: {changed:?} when something changes, {same:?} when nothing does");
    assert!(changed.as_micros() < 10, "{changed:?}");
}
