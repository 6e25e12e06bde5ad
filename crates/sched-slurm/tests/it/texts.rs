//! Texts that Slurm and scripts write, and options of `sbatch`.

use std::path::Path;
use std::time::Duration;

use sched_slurm::key::Key;
use sched_slurm::marks::{End, EndKind, Start};
use sched_slurm::request::{Request, Site, VramAs, of_site, options};
use sched_slurm::rows::{Fate, Row};

const KEY: Key = Key { job: 12, attempt: 2, edition: 1 };

#[test]
fn a_key_comes_back_from_its_token_and_from_its_comment() {
    assert_eq!(Key::of_token(&KEY.token()), Some(KEY));
    let folder = Path::new("/home/a b/runs/r-1/slurm");
    assert_eq!(Key::of_comment(&KEY.comment(folder), folder), Some(KEY));
    assert_eq!(Key::of_comment(&KEY.comment(folder), Path::new("/home/a b/runs/r-12/slurm")), None);
    for bad in ["12/2/life", "slurm/12.2", "slurm/12.2.1.0", "slurm/a.2.1", ""] {
        assert_eq!(Key::of_token(bad), None, "{bad}");
    }
    assert_eq!(KEY.job_name("r-1"), "r-1:12.2.1");
}

#[test]
fn a_row_is_read_with_bars_in_its_comment() {
    let row = Row::read("7|RUNNING|None|n2|2026-11-18T20:00:00|r-1:0.1.0|bursar /a|b#0.1.0").unwrap();
    assert_eq!((row.id, row.node.as_deref(), row.comment.as_str()), (7, Some("n2"), "bursar /a|b#0.1.0"));
    assert_eq!(row.to_string(), "Slurm job 7 is running on n2");
    let row = Row::read("8|PENDING|Resources||N/A|x|(null)").unwrap();
    assert_eq!(row.to_string(), "Slurm job 8 is pending (Resources)");
    assert_eq!(Row::read("slurm_load_jobs error: something"), None);
}

#[test]
fn a_fate_is_read_with_a_comment_of_several_words() {
    let line = "JobId=5 JobName=r-1:0.1.0 UserId=root(0) JobState=TIMEOUT Reason=TimeLimit Dependency=(null) Comment=bursar /a b/slurm#0.1.0 Power=\n";
    let fate = Fate::read(line).unwrap();
    assert_eq!((fate.state.as_str(), fate.comment.as_str()), ("TIMEOUT", "bursar /a b/slurm#0.1.0"));
    assert_eq!(fate.words(), "ran longer than Slurm's time limit");
    assert!(fate.is_over());
}

#[test]
fn a_mark_that_is_not_whole_is_none() {
    let whole = "exit 3 10.5 12.75\n0m0.010s 0m0.000s\n1m2.500s 0m1.500s\n\n";
    let end = End::read(whole).unwrap();
    assert_eq!((end.kind, end.code, end.wall), (EndKind::Exit, 3, Duration::from_millis(2250)));
    assert_eq!((end.cpu, end.missing), (Duration::from_secs(64), None));
    assert_eq!(End::read("exit 0 1 2\n0m0s 0m0s\n0m0s 0m0s\n/a b\n").unwrap().missing.as_deref(), Some("/a b"));
    for cut in ["", "exit", "exit 3 10.5", "exit 3 10.5 12.75\n0m0.010s 0m0.000s\n"] {
        assert_eq!(End::read(cut), None, "{cut}");
    }
    let back = End::read("exit 0 20 10\n0m0s 0m0s\n0m0s 0m0s\n\n").unwrap();
    assert_eq!(back.wall, Duration::ZERO, "a clock was set back");
    assert_eq!(Start::read("7 n2 10.5 0.1.0.taken-7-0-99-n2").unwrap().node, "n2");
    assert_eq!(Start::read("7 n2"), None);
}

#[test]
fn a_demand_becomes_options() {
    let site = Site {
        partition: Some("gpu".to_owned()),
        options: vec!["--exclusive".to_owned()],
        vram: VramAs::Gres("vram".to_owned()),
        resources: vec![("oven".into(), "license:oven".into()), ("disk".into(), "gres:ssd".into())],
        ..Site::default()
    };
    let request = Request {
        cpus: 4,
        ram_mb: Some(2_000),
        gpus: 0,
        vram_mb: 6_000,
        named: vec![("oven".into(), 2), ("disk".into(), 1), ("counted here".into(), 1), ("none".into(), 0)],
        timeout: Some(Duration::from_secs(600)),
        nice: 7,
        tasks: Some(64),
        nodes: Some(4),
    };
    let options =
        options(&site, &request, KEY, "r-1", Path::new("/m"), Path::new("/l/100%.log"), Duration::from_secs(5));
    assert_eq!(
        options,
        [
            "--parsable",
            "--no-requeue",
            "--job-name=r-1:12.2.1",
            "--comment=bursar /m#12.2.1",
            "--output=/l/100%%.log",
            "--open-mode=append",
            "--cpus-per-task=4",
            "--partition=gpu",
            "--ntasks=64",
            "--nodes=4",
            "--mem=1908M",
            "--nice=7",
            "--time=13",
            "--gres=vram:5723,ssd:1",
            "--licenses=oven:2",
            "--exclusive",
        ]
    );
}

#[test]
fn video_memory_is_asked_for_as_the_site_has_it() {
    let with = |vram: VramAs, gpus: u32, vram_mb: u64| {
        let site = Site { vram, ..Site::default() };
        let request = Request { gpus, vram_mb, ..Request::default() };
        of_site(&site, &request, Duration::ZERO).into_iter().find(|option| option.starts_with("--gres="))
    };
    let gres = || VramAs::Gres("vram".to_owned());
    assert_eq!(with(gres(), 0, 1_000).as_deref(), Some("--gres=vram:954"));
    assert_eq!(with(gres(), 2, 1_000).as_deref(), Some("--gres=gpu:2,vram:1908"));
    assert_eq!(with(gres(), 2, 0).as_deref(), Some("--gres=gpu:2"));
    assert_eq!(with(VramAs::Cards, 0, 1_000).as_deref(), Some("--gres=gpu:1"));
    assert_eq!(with(VramAs::Cards, 0, 0), None);
}
