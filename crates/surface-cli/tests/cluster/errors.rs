//! What cannot be: one line each, an exit code of its own, and nothing is submitted.

use std::process::Output;

use crate::lab::{Lab, text};

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
