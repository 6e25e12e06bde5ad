//! Runs that nothing disturbs.

use std::fs;
use std::path::Path;

use crate::lab::{Lab, text};

fn example(name: &str) {
    let lab = Lab::new("");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::create_dir(lab.path("examples")).unwrap();
    let file = format!("examples/{name}");
    fs::copy(root.join(&file), lab.path(&file)).unwrap();
    let output = lab.run(&["run", &file, "--on", "slurm"]);
    assert!(output.status.success(), "{}", text(&output));
    let output = lab.run(&["report", "latest", "-o", "report.html"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(fs::read_to_string(lab.path("report.html")).unwrap().contains("on node n"), "the report names nodes");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn the_quickstart_runs_unchanged() {
    example("quickstart.toml");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn the_film_runs_unchanged() {
    example("media.toml");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn exit_codes_retries_timeouts_and_outputs_are_as_on_one_machine() {
    let lab = Lab::new(
        "[job.code]\nrun = 'exit 7'\nretries = 1\nbackoff = '10ms'\n[job.signal]\nrun = 'kill -SEGV $$'\n[job.late]\nrun = 'sleep 60'\ntimeout = '1s'\n\
         [job.unmade]\nrun = 'true'\noutputs = ['never']\n[job.after]\nneeds = ['code']\nrun = 'true'\n[job.here]\non = 'local'\nrun = 'echo $SLURM_JOB_ID-here > here'\n\
         [job.folder]\ncwd = 'none'\nrun = 'true'\n",
    );
    let output = lab.run(&["run", "jobs.toml", "--on", "slurm"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let shown = lab.show();
    for words in [
        "failed     2 ",
        "exited with 7",
        "exited with 139",
        "ran longer than its timeout of 1 s",
        "did not make its output",
        "cancelled",
        "/none is not there on its node",
    ] {
        assert!(shown.contains(words), "`{words}` is not in\n{shown}");
    }
    assert_eq!(fs::read_to_string(lab.path("here")).unwrap(), "-here\n");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn why_ps_logs_pause_and_cancel_work_while_it_runs() {
    let lab = Lab::new(
        "[job.long]\ncpu = 4\nrun = 'echo begun; sleep 60'\n[job.other]\nforeach = { i = '1..3' }\ncpu = 4\nrun = 'sleep 3'\n[job.free]\nrun = 'true'\n",
    );
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm"]);
    let until = |args: &[&str], words: &str| {
        for _ in 0..200 {
            if text(&lab.run(args)).contains(words) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{args:?} does not say `{words}`:\n{}", text(&lab.run(args)));
    };
    until(&["why", "long"], "is running on n");
    until(&["why", "other[3]"], "is pending (");
    until(&["ps"], "is running on n");
    until(&["logs", "long"], "begun");
    assert!(lab.run(&["pause", "latest"]).status.success());
    assert!(lab.run(&["resume", "latest"]).status.success());
    assert!(lab.run(&["cancel", "latest", "long"]).status.success());
    assert_eq!(lab.ended(&mut run).code(), Some(1));
    let shown = lab.show();
    assert!(shown.contains("1 cancelled") && shown.contains("4 succeeded"), "{shown}");
    assert_eq!(lab.slurm("squeue", &["-h", "-t", "running,pending"]), "");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn an_interrupted_run_leaves_nothing_in_the_queue_and_can_be_resumed() {
    let lab = Lab::new("[job.a]\nforeach = { i = '1..20' }\nrun = 'sleep 1; echo {job} >> effects'\n");
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    run.signal("-TERM");
    assert_eq!(lab.ended(&mut run).code(), Some(143));
    assert_eq!(lab.slurm("squeue", &["-h", "-t", "running,pending"]), "");
    assert!(lab.run(&["run", "--resume"]).status.success());
    lab.each_once((1..=20).map(|i| format!("a[{i}]")));
}
