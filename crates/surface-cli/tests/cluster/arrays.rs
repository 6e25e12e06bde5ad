//! Groups of jobs that want the same go as job arrays.

use crate::lab::{Lab, text};

/// What `why` says of a job, if it is a task of an array.
fn task(lab: &Lab, job: &str) -> Option<String> {
    let said = text(&lab.run(&["why", job]));
    let id = said.split_once("Slurm job ")?.1.split_whitespace().next()?;
    id.contains('_').then(|| id.to_owned())
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn tasks_are_cancelled_and_explained_one_by_one_and_a_resumed_run_finds_them() {
    let lab = Lab::new("[job.a]\nforeach = { i = '1..30' }\ncpu = 4\nrun = 'sleep 1; echo {job} >> effects'\n");
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm", "-q"]);
    lab.until("all are submitted", || task(&lab, "a[30]").is_some() && task(&lab, "a[29]").is_some());
    let (cancelled, behind) = (task(&lab, "a[30]").unwrap(), task(&lab, "a[29]").unwrap());
    assert_eq!(cancelled.split('_').next(), behind.split('_').next(), "they are tasks of one array");
    assert!(lab.run(&["cancel", "latest", "a[30]"]).status.success());
    lab.slurm("scancel", &[&behind]);
    lab.until("both are in the journal", || {
        [" 1 failed", " 1 cancelled"].iter().all(|words| lab.show().contains(words))
    });
    run.kill();
    let mut resumed = lab.start(&["run", "--resume", "-q"]);
    assert_eq!(lab.ended(&mut resumed).code(), Some(1), "{}", lab.show());
    lab.each_once((1..=28).map(|i| format!("a[{i}]")));
    assert_eq!(lab.effects().len(), 28, "{}", lab.show());
    let shown = lab.show();
    assert!(shown.contains("1 failed") && shown.contains("was cancelled in Slurm before its command began"), "{shown}");
    // Few calls of `sbatch` for 30 jobs.
    let log = lab.slurm("squeue", &["-h", "-t", "all", "-o", "%F %k"]);
    let of_run = format!("{}/state", lab.folder.path().display());
    let calls: std::collections::HashSet<&str> =
        log.lines().filter(|line| line.contains(&of_run)).filter_map(|line| line.split(' ').next()).collect();
    assert!(!calls.is_empty() && calls.len() < 10, "{calls:?}");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn each_task_has_its_own_log_and_its_own_end() {
    let lab = Lab::new("[job.a]\nforeach = { i = '1..20' }\nrun = 'echo said {i}; exit {i}'\n");
    assert_eq!(lab.run(&["run", "jobs.toml", "--on", "slurm", "-q", "--keep-going"]).status.code(), Some(1));
    let shown = lab.show();
    for i in 1..=20 {
        let name = format!("a[{i}]");
        assert!(text(&lab.run(&["logs", &name])).contains(&format!("said {i}\n")), "the log of {name}");
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(&name)).expect("it is listed");
        assert!(line.contains(&format!("exited with {i}")), "{line}");
    }
}
