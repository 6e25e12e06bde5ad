//! Texts that Slurm and scripts write, and options of `sbatch`.

use std::path::Path;
use std::time::Duration;

use sched_slurm::batch::{Batch, key_of, serial_of};
use sched_slurm::key::Key;
use sched_slurm::marks::{End, EndKind, Start};
use sched_slurm::request::{Request, Site, VramAs, describe, terms};
use sched_slurm::rows::{Fate, Row};
use sched_slurm::sbatch;

const KEY: Key = Key { job: 12, attempt: 2, edition: 1 };

#[test]
fn a_key_comes_back_from_its_token_and_from_its_comment() {
    assert_eq!(Key::of_token(&KEY.token()), Some(KEY));
    let folder = Path::new("/home/a b/runs/r-1/slurm");
    let alone = Batch::one(KEY);
    assert_eq!(key_of(&alone.comment(folder), 7.into(), folder), Some(KEY));
    assert_eq!(key_of(&alone.comment(folder), 7.into(), Path::new("/home/a b/runs/r-12/slurm")), None);
    for bad in ["12/2/life", "slurm/12.2", "slurm/12.2.1.0", "slurm/a.2.1", ""] {
        assert_eq!(Key::of_token(bad), None, "{bad}");
    }
    assert_eq!(Batch::one(KEY).job_name("r-1"), "r-1:12.2.1");
}

#[test]
fn a_row_is_read_with_bars_in_its_comment() {
    let row = Row::read("7|N/A|RUNNING|None|n2|2026-11-18T20:00:00|r-1:0.1.0|bursar /a|b#0.1.0").unwrap();
    assert_eq!((row.id, row.node.as_deref(), row.comment.as_str()), (7.into(), Some("n2"), "bursar /a|b#0.1.0"));
    assert_eq!(row.to_string(), "Slurm job 7 is running on n2");
    let row = Row::read("8|3|PENDING|Resources||N/A|x|(null)").unwrap();
    assert_eq!(row.to_string(), "Slurm job 8_3 is pending (Resources)");
    assert_eq!(Row::read("slurm_load_jobs error: something"), None);
}

#[test]
fn a_fate_is_read_with_a_comment_of_several_words() {
    let line = "JobId=5 JobName=r-1:0.1.0 UserId=root(0) JobState=TIMEOUT Reason=TimeLimit Dependency=(null) ExitCode=0:15 Comment=bursar /a b/slurm#0.1.0 Power=\n";
    let fate = Fate::read(line).unwrap();
    assert_eq!((fate.state.as_str(), fate.comment.as_str()), ("TIMEOUT", "bursar /a b/slurm#0.1.0"));
    assert_eq!(fate.words(), "ran longer than Slurm's time limit");
    assert!(fate.is_over());
    assert_eq!(fate.code, Some(143));
    assert_eq!(Fate::read(&line.replace("0:15", "3:0")).unwrap().code, Some(3));
    assert_eq!(Fate::read(&line.replace(" ExitCode=0:15", "")).unwrap().code, None);
}

#[test]
fn the_last_words_of_a_command_name_what_is_wrong_and_not_its_help() {
    let said = "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n";
    assert_eq!(sbatch::last_words(said, "sbatch"), "unrecognized option '--bogus'");
    assert_eq!(sbatch::last_words("sbatch: error: Invalid account\n\n", "sbatch"), "Invalid account");
    assert_eq!(sbatch::last_words("", "sbatch"), "it says nothing");
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
    let description = describe(
        &site,
        &request,
        &Batch::one(KEY),
        "r-1",
        Path::new("/m"),
        Path::new("/l/100%.log"),
        Duration::from_secs(5),
    );
    assert_eq!(
        sbatch::options(&description),
        [
            "--parsable",
            "--no-requeue",
            "--job-name=r-1:12.2.1",
            "--comment=bursar /m#12.2.1",
            "--open-mode=append",
            "--output=/l/100%%.log",
            "--cpus-per-task=4",
            "--partition=gpu",
            "--ntasks=64",
            "--nodes=4",
            "--mem=1908M",
            "--nice=7",
            "--time=13",
            "--gres=vram:5723,ssd:1",
            "--licenses=oven:2",
        ]
    );
}

#[test]
fn video_memory_is_asked_for_as_the_site_has_it() {
    let with = |vram: VramAs, gpus: u32, vram_mb: u64| {
        let site = Site { vram, ..Site::default() };
        let request = Request { gpus, vram_mb, ..Request::default() };
        sbatch::of_terms(&terms(&site, &request, Duration::ZERO))
            .into_iter()
            .find(|option| option.starts_with("--gres="))
    };
    let gres = || VramAs::Gres("vram".to_owned());
    assert_eq!(with(gres(), 0, 1_000).as_deref(), Some("--gres=vram:954"));
    assert_eq!(with(gres(), 2, 1_000).as_deref(), Some("--gres=gpu:2,vram:1908"));
    assert_eq!(with(gres(), 2, 0).as_deref(), Some("--gres=gpu:2"));
    assert_eq!(with(VramAs::Cards, 0, 1_000).as_deref(), Some("--gres=gpu:1"));
    assert_eq!(with(VramAs::Cards, 0, 0), None);
}

#[test]
fn options_that_bursar_sets_itself_are_told_from_others() {
    let reserved = |option: &str| sched_slurm::sbatch::reserved(&[option.to_owned()]).is_some();
    for option in
        ["--test-only", "--test", "--array=1-3", "-a1-3", "-Jx", "--comment=x", "--dependency=afterok:1", "-W"]
    {
        assert!(reserved(option), "{option}");
    }
    for option in ["--exclusive", "--mail-type=END", "-C", "--tmp=1G", "--hold", "--wait-all-nodes=1", "--nodelist=n1"]
    {
        assert!(!reserved(option), "{option}");
    }
}

#[test]
fn the_tasks_of_an_array_are_those_of_its_attempts_that_fit() {
    let folder = Path::new("/m");
    let key = |job| Key { job, ..KEY };
    let batch = Batch::of([70, 12, 13, 14, 1_012, 1_013].map(key).to_vec(), 1_001, usize::MAX, 0xab).unwrap();
    assert_eq!(batch.tasks().as_deref(), Some("0-2,58,1000"));
    assert_eq!(batch.keys().collect::<Vec<_>>(), [12, 13, 14, 70, 1_012].map(key));
    for key in batch.keys() {
        assert_eq!(key_of(&batch.comment(folder), batch.id(key, 9), folder), Some(key));
    }
    assert_eq!((serial_of(&batch.comment(folder)), serial_of("bursar /m#12.1.0")), (Some(0xab), None));
    assert_eq!(batch.id(key(70), 9).to_string(), "9_58");
    assert_eq!("9_58".parse(), Ok(batch.id(key(70), 9)));
    assert_eq!(key_of(&batch.comment(folder), 9.into(), folder), None, "the array itself is no attempt");
    let other = Key { edition: 9, ..key(13) };
    assert_eq!(Batch::of(vec![key(12), other], 1_001, usize::MAX, 0).unwrap(), Batch::one(key(12)));
}

#[test]
fn the_list_of_the_tasks_of_an_array_is_as_short_as_the_cluster_wants_it() {
    let key = |job| Key { job, ..KEY };
    let every_other = || (0..500).map(|n| key(2 * n)).collect::<Vec<_>>();
    let batch = Batch::of(every_other(), 1_001, 60, 0).unwrap();
    let list = batch.tasks().unwrap();
    assert!((56..=60).contains(&list.len()) && list.starts_with("0,2,4,"), "{list}");
    assert_eq!(Batch::of(every_other(), 1_001, usize::MAX, 0).unwrap().count(), 500);
    assert_eq!(Batch::of((0..500).map(key).collect(), 1_001, 60, 0).unwrap().count(), 500, "a range is short");
}
