//! Kills: of this program, of the controller, of a node's daemon; and jobs that others cancel.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::lab::{Lab, text};

/// A hundred jobs in four layers.
const HUNDRED: &str = "[job.a]\nforeach = { i = '1..40' }\nrun = 'sleep 0.2; echo {job} >> effects'\n\
    [job.b]\nforeach = { i = '1..40' }\nneeds = ['a[{i}]']\nrun = 'echo {job} >> effects'\n\
    [job.c]\nforeach = { i = '1..19' }\nneeds = ['b']\nrun = 'echo {job} >> effects'\n\
    [job.d]\nneeds = ['c']\nrun = 'echo {job} >> effects'\n";

fn hundred() -> impl Iterator<Item = String> {
    let group = |name: &'static str, count: u32| (1..=count).map(move |i| format!("{name}[{i}]"));
    group("a", 40).chain(group("b", 40)).chain(group("c", 19)).chain(["d".to_owned()])
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_run_that_is_killed_at_twenty_moments_and_resumed_does_everything_once() {
    let lab = Lab::new(HUNDRED);
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    lab.until("it is registered", || lab.path("state/runs").read_dir().is_ok_and(|runs| runs.count() > 0));
    for moment in 0..20 {
        // From the first call of sbatch to the middle of the run, at odd moments.
        sleep(Duration::from_millis(60 + 47 * (moment % 11)));
        run.kill();
        run = lab.start(&["run", "--resume", "-q"]);
    }
    let status = lab.ended(&mut run);
    // 4: there is nothing to resume, since the one before was done.
    assert!(matches!(status.code(), Some(0 | 4)), "{status}\n{}", lab.show());
    lab.each_once(hundred());
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_controller_that_is_killed_at_ten_moments_costs_no_second_effect() {
    let lab = Lab::new(HUNDRED);
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    for moment in 0..10 {
        sleep(Duration::from_millis(300 + 190 * (moment % 4)));
        lab.kill("slurmctld");
        sleep(Duration::from_millis(100 * (moment % 3)));
        lab.start_missing();
    }
    lab.ended(&mut run);
    lab.each_once_or_said(hundred());
    let shown = lab.show();
    assert!(!shown.contains("before its command began"), "no person cancelled anything\n{shown}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn both_are_killed_and_nothing_is_done_twice() {
    let lab = Lab::new(HUNDRED);
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    sleep(Duration::from_millis(900));
    lab.kill("slurmctld");
    run.kill();
    lab.start_missing();
    let output = lab.run(&["run", "--resume", "-q"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output));
    lab.each_once_or_said(hundred());
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_nodes_daemon_that_is_killed_under_its_jobs_costs_none_of_them() {
    let lab = Lab::new("[job.a]\nforeach = { i = '1..24' }\nrun = 'sleep 1; echo {job} >> effects'\n");
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    sleep(Duration::from_millis(1_500));
    lab.kill("slurmd.n1");
    sleep(Duration::from_secs(3));
    lab.start_missing();
    lab.ended(&mut run);
    lab.each_once_or_said((1..=24).map(|i| format!("a[{i}]")));
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn jobs_that_others_cancel_have_failed_and_say_so() {
    let lab = Lab::new("[job.a]\nforeach = { i = '1..9' }\ncpu = 4\nrun = 'sleep 2; echo {job} >> effects'\n");
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    sleep(Duration::from_millis(1_500));
    let running = lab.slurm("squeue", &["-h", "-r", "-t", "running", "-o", "%i"]);
    let pending = lab.slurm("squeue", &["-h", "-r", "-t", "pending", "-o", "%i"]);
    let victims = [running.lines().next(), pending.lines().next()].map(|id| id.expect("some run and some wait"));
    lab.slurm("scancel", &victims);
    assert_eq!(lab.ended(&mut run).code(), Some(1));
    lab.each_once_or_said((1..=9).map(|i| format!("a[{i}]")));
    let shown = lab.show();
    assert!(shown.contains("2 failed") && shown.contains("in Slurm"), "{shown}");
    assert_eq!(lab.effects().len(), 7);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_full_queue_delays_jobs_and_loses_none() {
    let lab = Lab::new("[job.a]\nforeach = { i = '1..30' }\nrun = 'echo {job} >> effects'\n");
    // What has ended counts until it is purged.
    let small = lab.with_conf("MinJobAge=3600\nMaxJobCount=50000", "MinJobAge=2\nMaxJobCount=20");
    lab.wait_until_idle();
    let output = lab.run(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    assert!(output.status.success(), "{}", text(&output));
    lab.each_once((1..=30).map(|i| format!("a[{i}]")));
    drop(small);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_script_that_slurm_starts_again_does_nothing() {
    let lab = Lab::new("[job.a]\nrun = 'echo {job} >> effects; sleep 2'\n");
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    sleep(Duration::from_millis(800));
    let marks: Vec<_> = std::fs::read_dir(lab.path("state/runs")).unwrap().map(|run| run.unwrap().path()).collect();
    let script = marks[0].join("slurm/0.1.0.sh");
    let copy = lab.path("again.sh");
    std::fs::copy(&script, &copy).unwrap();
    assert!(Command::new("sh").arg(&copy).status().unwrap().success());
    assert!(lab.ended(&mut run).success());
    assert!(
        Command::new("sh").arg(&copy).stderr(std::process::Stdio::null()).status().unwrap().success(),
        "long after it ended, too"
    );
    lab.each_once(["a".to_owned()]);
}
