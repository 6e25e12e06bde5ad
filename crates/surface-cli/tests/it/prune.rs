//! `bursar prune`.

use super::run_site::{Site, assert_code};
use super::text;

fn runs(site: &Site) -> usize {
    text(&site.bursar("runs").stdout).lines().filter(|line| line.starts_with("r-")).count()
}

#[test]
fn old_runs_go_by_number_age_and_size_and_what_is_up_to_date_stays_known() {
    let site = Site::new("[job.a]\noutputs = ['out']\nrun = 'echo made; echo x >> ran; touch out'\n");
    for _ in 0..4 {
        assert_code(&site.bursar("run jobs.toml"), 0);
    }
    assert_code(&site.bursar("prune"), 2);
    let told = site.bursar("prune --keep 3 --dry-run");
    assert!(text(&told.stdout).starts_with("would remove 1 run, "), "{}", text(&told.stdout));
    assert_eq!(runs(&site), 4);
    let logs = |run: &surface_journal::RunRow| site.journal().folder(&run.id).join("logs").exists();
    assert_code(&site.bursar("prune --keep 3 --logs"), 0);
    let all = site.journal().runs(surface_journal::Filter::default()).unwrap();
    assert_eq!(all.iter().map(logs).collect::<Vec<_>>(), [true, true, true, false]);
    assert_code(&site.bursar("prune --keep 3"), 0);
    assert_eq!(runs(&site), 3);
    assert_code(&site.bursar("prune --older 1h"), 0);
    assert_eq!(runs(&site), 3);
    assert_code(&site.bursar("prune --size 0"), 0);
    assert_eq!(runs(&site), 0);
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.lines("ran").len(), 1, "it is still up to date");
}

#[test]
fn a_run_whose_jobs_still_run_is_not_pruned() {
    let site = Site::new("[job.a]\nrun = 'echo begun > begun; read line < gate; touch done'\n");
    let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    assert_code(&site.bursar("prune --keep 0 --interrupted"), 0);
    assert_eq!(runs(&site), 1, "it is active");
    run.kill();
    assert_code(&site.bursar("prune --keep 0"), 0);
    assert_eq!(runs(&site), 1, "it could be resumed");
    let told = site.bursar("prune --keep 0 --interrupted");
    assert!(text(&told.stdout).contains("their jobs still run"), "{}", text(&told.stdout));
    assert_eq!(runs(&site), 1);
    gate.answer();
    assert_code(&site.bursar("run --resume"), 0);
    assert_code(&site.bursar("prune --keep 0"), 0);
    assert_eq!(runs(&site), 0);
}

/// Where the system lets us mount one.
#[test]
fn old_runs_can_be_pruned_when_the_disk_is_full() {
    struct Mounted(std::path::PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let site = Site::new("[job.a]\nforeach = { n = '1..200' }\nrun = 'echo {n}'\n");
    std::fs::create_dir(site.state_dir()).unwrap();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(site.state_dir());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no right to mount a tmpfs here");
        return;
    }
    let _mounted = Mounted(site.state_dir());
    assert_code(&site.bursar("run jobs.toml"), 0);
    let id = site.newest().id;
    // A log that fills the disk, to its last byte.
    let log = site.state_dir().join("runs").join(id.as_str()).join("logs").join("big");
    let mut file = std::fs::File::create(&log).unwrap();
    while std::io::Write::write(&mut file, &[b'x'; 4096]).is_ok() {}
    drop(file);
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    assert!(text(&output.stderr).contains("bursar prune"), "{}", text(&output.stderr));
    assert_code(&site.bursar("prune --keep 0 --interrupted"), 0);
    assert!(!log.exists());
    assert_eq!(runs(&site), 0);
    assert_code(&site.bursar("run jobs.toml"), 0);
}

#[test]
fn what_a_large_run_took_in_the_database_is_given_back_when_it_is_pruned() {
    let site = Site::new("[job.a]\nforeach = { n = '1..20000' }\nrun = 'exit 1'\n");
    assert_code(&site.bursar("run jobs.toml --fail-fast --quiet"), 1);
    let database = std::fs::read_dir(site.state_dir()).unwrap().map(|entry| entry.unwrap().path());
    let database = database.into_iter().find(|path| path.extension().is_some_and(|end| end == "db")).unwrap();
    let size = || std::fs::metadata(&database).unwrap().len();
    let before = size();
    assert_code(&site.bursar("prune --keep 0"), 0);
    assert!(size() < before / 4, "{before} bytes before, {} after", size());
}

#[test]
fn a_state_folder_that_has_grown_is_mentioned_with_a_way_to_prune_it() {
    let site = Site::new("");
    let journal = site.journal();
    (0..1_000).for_each(|_| drop(journal.begin(surface_journal::NewRun::new("old")).unwrap()));
    drop(journal);
    let output = site.bursar("run -- true");
    assert_code(&output, 0);
    let said = text(&output.stderr);
    let hint = format!("{} has 1000 runs; `bursar prune --older 30d` removes old ones", site.state_dir().display());
    assert!(said.contains(&hint), "{said}");
    assert_code(&site.bursar("prune --older 30d"), 0);
    let output = site.bursar("run -- true");
    assert!(!text(&output.stderr).contains("prune"), "not with every run: {}", text(&output.stderr));
}
