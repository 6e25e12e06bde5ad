//! What cannot be: one line each, an exit code of its own, and nothing is submitted.

use std::process::Output;

use crate::lab::{Lab, reader, text};

fn refused(lab: &Lab, output: &Output, code: i32, words: &str) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words) && said.trim_end().lines().count() == 1, "{said}");
    assert!(text(&lab.run(&["runs"])).contains("no such runs"), "nothing is half done");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn an_unknown_partition_is_named() {
    let lab = Lab::new("[slurm]\npartition = 'gpu'\n[job.a]\nrun = 'true'");
    refused(&lab, &lab.run(&["run", "jobs.toml", "--on", "slurm"]), 7, "there is no partition `gpu`; there are: main");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_demand_that_no_node_has_is_named() {
    let lab = Lab::new("[job.a]\nrun = 'true'\n[job.big]\nram = '99 GB'\nrun = 'true'");
    refused(&lab, &lab.run(&["run", "jobs.toml", "--on", "slurm"]), 7, "Slurm refuses job `big`");
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_machine_without_slurm_is_told_apart_from_a_controller_that_is_down() {
    let lab = Lab::new("[job.a]\nrun = 'true'");
    let output = lab.bursar(&["run", "jobs.toml", "--on", "slurm"]).env("PATH", "/nowhere").output().unwrap();
    refused(&lab, &output, 5, "`sbatch` is not installed on this machine");
    lab.kill("slurmctld");
    refused(&lab, &lab.run(&["run", "jobs.toml", "--on", "slurm"]), 6, "Slurm does not answer");
    lab.start_missing();
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn an_option_with_which_nothing_is_submitted_is_named() {
    let lab = Lab::new("[slurm]\noptions = ['--test-only']\n[job.a]\nrun = 'true'");
    refused(
        &lab,
        &lab.run(&["run", "jobs.toml", "--on", "slurm"]),
        3,
        "cannot have `--test-only`: with it nothing is submitted",
    );
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_prologue_that_changes_the_shell_changes_no_end() {
    for prologue in ["PATH=/nonexist", "end() { :; }", "echo() { :; }", "date() { echo no; }", "readonly p=5"] {
        let lab = Lab::new(&format!(
            "[slurm]\nprologue = '{prologue}'\n[job.a]\nretries = 1\ncommand = ['/bin/sh', '-c', 'echo a >> effects']"
        ));
        let output = lab.run(&["run", "jobs.toml", "--on", "slurm"]);
        assert!(output.status.success(), "{prologue}: {}", text(&output));
        lab.each_once(["a".to_owned()]);
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn while_slurm_is_away_a_pause_is_not_called_one_and_ctrl_c_says_how_to_leave() {
    let lab = Lab::new("[job.a]\nrun = 'touch begun; while [ ! -e go ]; do sleep 0.1; done; echo a >> effects'");
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm"]);
    lab.until("it begins", || lab.path("begun").exists() && text(&lab.run(&["ps"])).contains("is running on"));
    lab.kill("slurmctld");
    let paused = lab.run(&["pause"]);
    assert_eq!(paused.status.code(), Some(6), "{}", text(&paused));
    assert!(text(&paused).contains("Slurm has not paused 1 job yet"), "{}", text(&paused));
    let shown = text(&lab.run(&["ps"])) + &text(&lab.run(&["why", "a"]));
    assert!(shown.contains("  pausing for ") && shown.contains("Slurm has not done that yet"), "{shown}");
    assert!(lab.run(&["resume"]).status.success());
    run.signal("-INT");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(run.0.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("To leave at once: `kill -9 ")));
    std::fs::write(lab.path("go"), "").unwrap();
    // It ends by itself, and that is said.
    let out = crate::lab::reader(run.0.stdout.take());
    assert_eq!(lab.ended(&mut run).code(), Some(130));
    let said = String::from_utf8(out.join().unwrap()).unwrap();
    assert!(said.contains("1 of 1 job done, 1 after being asked to end"), "{said}");
    lab.each_once(["a".to_owned()]);
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn a_prologue_that_dies_is_named() {
    for (prologue, code) in [("exit 3", 3), ("exec sh -c 'exit 3'", 3), ("kill -KILL $$", 137)] {
        let lab = Lab::new(&format!("[slurm]\nprologue = \"{prologue}\"\n[job.a]\nrun = 'touch effects'"));
        assert_eq!(lab.run(&["run", "jobs.toml", "--on", "slurm"]).status.code(), Some(1));
        let said = format!("the prologue of [slurm] ended with code {code} before its command began");
        assert!(lab.show().contains(&said), "{prologue}: {}", lab.show());
        assert!(lab.effects().is_empty());
    }
}

#[test]
#[ignore = "needs a Slurm cluster: cargo xtask test cluster"]
fn who_kills_what_runs_while_slurm_is_away_is_told_the_way_out() {
    let lab = Lab::new("[job.a]\nrun = 'echo {job} > begun; sleep 100'");
    let mut run = lab.start(&["run", "jobs.toml", "--on", "slurm"]);
    let said = reader(run.0.stderr.take());
    lab.until("it runs", || text(&lab.run(&["why", "a"])).contains("is running on n"));
    lab.kill("slurmctld");
    run.signal("-INT");
    lab.until("Slurm is missed", || text(&lab.run(&["why", "a"])).contains("Slurm does not answer"));
    run.signal("-INT");
    lab.start_missing();
    assert_eq!(lab.ended(&mut run).code(), Some(130));
    let said = String::from_utf8(said.join().unwrap()).unwrap();
    let line = said.lines().find(|line| line.contains("killed when Slurm answers")).expect(&said);
    assert!(line.contains("1 job runs on a node") && line.contains("bursar cancel "), "{line}");
}
