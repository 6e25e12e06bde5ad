//! The same files, through a real slurmrestd.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::lab::{Lab, USER, text};

const REST: &str = "[slurm]\nrest = 'unix:FOLDER/rest.sock'\n";

fn lab(jobs: &str) -> Lab {
    Lab::of_user(&format!("{REST}{jobs}"))
}

/// States and reasons of jobs in the queue.
fn queue(lab: &Lab) -> String {
    lab.slurm("squeue", &["-h", "-r", "-t", "all", &format!("--user={USER}"), "-o", "%T %r"])
}

fn is_empty(lab: &Lab) -> bool {
    lab.slurm("squeue", &["-h", &format!("--user={USER}"), "-t", "running,pending"]).is_empty()
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_graph_runs_without_any_command_of_slurm_and_each_effect_is_there_once() {
    let lab = lab(r#"
options = ["--exclude=n3", "--time-min=1"]
[job.first]
run = 'echo {job} >> effects'
[job.many]
needs = ["first"]
foreach = { i = '1..40' }
ram = "100 MB"
vram = "1 GB"
priority = 3
timeout = "5m"
run = 'echo said {i}; echo {job} >> effects'
[job.parallel]
tasks = 4
nodes = 2
run = 'srun sh -c "echo {job}-\$SLURM_PROCID-\$SLURM_NTASKS >> effects"'
[job.fails]
run = 'exit 7'
[job.never]
needs = ["fails"]
run = 'echo {job} >> effects'
[job.too-big]
ram = "99 GB"
run = 'echo {job} >> effects'
[job.last]
needs = ["many"]
run = 'echo {job} >> effects; umask > umask; pwd > pwd; echo "$MARK ${SLURM_JWT-none}" > mark'
"#);
    let _slurmrestd = lab.slurmrestd();
    let bin = lab.path("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["sbatch", "squeue", "scontrol", "scancel", "sinfo"] {
        fs::write(bin.join(name), format!("#!/bin/sh\ntouch {}\nexit 1\n", lab.path("used").display())).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut run = lab.bursar(&["run", "jobs.toml", "--on", "slurm", "-q", "--keep-going"]);
    let output = run.env("PATH", path).env("MARK", "of bursar").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let mut names: Vec<String> = (1..=40).map(|i| format!("many[{i}]")).collect();
    names.extend(["first", "last", "parallel-0-4", "parallel-1-4", "parallel-2-4", "parallel-3-4"].map(str::to_owned));
    assert_eq!(lab.effects().len(), names.len(), "{:?}", lab.effects());
    lab.each_once(names);
    let shown = lab.show();
    for words in ["exited with 7", "Slurm refuses it: Requested node configuration is not available"] {
        assert!(shown.contains(words), "`{words}` is not in\n{shown}");
    }
    assert!(!shown.contains("n3"), "{shown}");
    assert!(text(&lab.run(&["logs", "many[17]"])).contains("said 17\n"));
    let read = |name: &str| fs::read_to_string(lab.path(name)).unwrap();
    assert_eq!((read("umask").trim(), read("mark").trim()), ("0022", "of bursar none"));
    assert!(!lab.path("used").exists(), "a command of Slurm was used");
    // Few submissions for 40 jobs.
    let ids = lab.slurm("squeue", &["-h", "-t", "all", &format!("--user={USER}"), "-o", "%F"]);
    let arrays: std::collections::HashSet<&str> = ids.lines().collect();
    assert!(arrays.len() < 20, "{arrays:?}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn an_interrupted_run_leaves_nothing_in_the_queue_and_can_be_resumed() {
    let lab = lab("[job.a]\nforeach = { i = '1..20' }\nrun = 'sleep 1; echo {job} >> effects'\n");
    let _slurmrestd = lab.slurmrestd();
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm"]);
    lab.until("some have ended", || !lab.effects().is_empty());
    run.signal("-INT");
    assert_eq!(lab.ended(&mut run).code(), Some(130));
    assert!(is_empty(&lab), "{}", queue(&lab));
    assert!(lab.effects().len() < 20);
    assert!(lab.run(&["run", "--resume"]).status.success());
    lab.each_once((1..=20).map(|i| format!("a[{i}]")));
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn what_a_killed_bursar_leaves_is_found_or_cancelled_through_slurmrestd() {
    let lab = lab("[job.a]\nforeach = { i = '1..20' }\ncpu = 2\nrun = 'sleep 1; echo {job} >> effects'\n");
    let _slurmrestd = lab.slurmrestd();
    for resumes in [true, false] {
        let _ = fs::remove_file(lab.path("effects")); // of the run before
        let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
        lab.until("some have ended", || !lab.effects().is_empty());
        run.kill();
        if resumes {
            assert!(lab.run(&["run", "--resume", "-q"]).status.success(), "{}", lab.show());
            lab.each_once((1..=20).map(|i| format!("a[{i}]")));
        } else {
            let output = lab.run(&["cancel", "latest"]);
            assert!(output.status.success(), "{}", text(&output));
            lab.until("the queue is empty", || is_empty(&lab));
            assert!(lab.effects().len() < 20 && lab.effects().values().all(|count| *count == 1));
        }
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn what_runs_is_stopped_and_what_waits_is_held_and_both_go_on() {
    let lab =
        lab("[job.long]\ncpu = 4\nrun = 'sleep 60'\n[job.other]\nforeach = { i = '1..5' }\ncpu = 4\nrun = 'sleep 2'\n");
    let _slurmrestd = lab.slurmrestd();
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    lab.until("it runs", || text(&lab.run(&["why", "long"])).contains("is running on n"));
    assert!(lab.run(&["pause", "latest"]).status.success());
    lab.until("all are frozen", || {
        let seen = queue(&lab);
        let states = |state: &str| seen.lines().filter(|line| line.starts_with(state)).count();
        states("STOPPED") > 0
            && states("RUNNING") == 0
            && states("PENDING") == seen.matches("PENDING JobHeldUser").count()
    });
    assert!(lab.run(&["resume", "latest"]).status.success());
    lab.until("it runs again", || queue(&lab).contains("RUNNING") && !queue(&lab).contains("STOPPED"));
    assert!(lab.run(&["cancel", "latest", "long"]).status.success());
    assert_eq!(lab.ended(&mut run).code(), Some(1));
    let shown = lab.show();
    assert!(shown.contains("1 cancelled") && shown.contains("5 succeeded"), "{shown}");
    assert!(is_empty(&lab));
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_slurmrestd_and_a_controller_that_are_killed_cost_no_effect() {
    let lab = lab("[job.a]\nforeach = { i = '1..25' }\ncpu = 2\nretries = 2\nrun = 'sleep 1; echo {job} >> effects'\n");
    let mut slurmrestd = lab.slurmrestd();
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    lab.until("some have ended", || !lab.effects().is_empty());
    slurmrestd.kill();
    lab.restart_controller();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let _slurmrestd = lab.slurmrestd();
    lab.ended(&mut run);
    lab.each_once_or_said((1..=25).map(|i| format!("a[{i}]")));
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_slurmrestd_that_cannot_be_asked_is_named_with_an_exit_code_of_its_own() {
    let lab = lab("[job.a]\nrun = 'true'");
    let refused = |file: &str, code: i32, words: &str| {
        let output = lab.run(&["run", file, "--on", "slurm"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words) && said.trim_end().lines().count() == 1, "{said}");
        assert!(text(&lab.run(&["runs"])).contains("no such runs"), "nothing is half done");
    };
    let socket = format!("slurmrestd at unix:{} cannot be reached", lab.path("rest.sock").display());
    refused("jobs.toml", 6, &socket);
    lab.write("tcp.toml", "[slurm]\nrest = 'http://127.0.0.1:1'\n[job.a]\nrun = 'true'");
    refused("tcp.toml", 5, "SLURM_JWT is not set");
    lab.write("option.toml", &format!("{REST}options = ['--distribution=block']\n[job.a]\nrun = 'true'"));
    refused("option.toml", 3, "cannot have `--distribution=block`: slurmrestd has no such property");
    let _slurmrestd = lab.slurmrestd();
    let file = fs::read_to_string(lab.path("jobs.toml")).unwrap();
    lab.write("partition.toml", &file.replace("rest =", "partition = 'gpu'\nrest ="));
    refused("partition.toml", 7, "there is no partition `gpu`; there are: main");
    lab.kill("slurmctld");
    refused("jobs.toml", 6, "Slurm does not answer");
    lab.start_missing();
}
