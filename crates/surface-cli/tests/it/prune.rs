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
    let (begun, gate) = (site.bell("begun"), site.bell("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    assert_code(&site.bursar("prune --keep 0 --interrupted"), 0);
    assert_eq!(runs(&site), 1, "it goes on");
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
