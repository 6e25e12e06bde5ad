//! `cargo xtask compare`: what some workloads need besides the harness: the `bursar` command, a cluster.
//!
//! # Invariant
//! The cluster ends when the comparison has ended, however that ended.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use crate::dist;
use crate::target_dir;
use crate::tools;

/// The workload that starts the command, also when none is named.
const COMMANDS: &str = "commands";
/// The workloads that run on the cluster: those that `compare` names apart.
const BOTH: &str = "cluster";
const JOBS: &str = "cluster-jobs";
const EDGE: &str = "cluster-edge";

/// The peer, in the versions that were tried.
const SNAKEMAKE: [&str; 2] = ["snakemake==9.27.1", "snakemake-executor-plugin-slurm==2.8.0"];
/// Seconds that its installation may take.
const INSTALL: &str = "300";

/// What one comparison needs. Dropping it ends the cluster.
pub(crate) struct ForCompare {
    env: Vec<(&'static str, OsString)>,
    _cluster: Option<Up>,
}

impl ForCompare {
    /// Makes what the workloads that these arguments of `compare` name need.
    pub(crate) fn start(args: &[OsString]) -> Result<Self, String> {
        let mut needed = Self { env: Vec::new(), _cluster: None };
        let has = |words: &[&str]| args.iter().any(|arg| words.iter().any(|word| arg == OsStr::new(word)));
        if has(&["--list", "--help", "-h"]) {
            return Ok(needed);
        }
        if has(&[COMMANDS, BOTH, JOBS]) || names_none(args) {
            needed.env.push(("COMPARE_BURSAR", dist::build_program()?.into_os_string()));
        }
        if has(&[BOTH, JOBS]) {
            needed.env.push(match snakemake() {
                Ok(program) => ("COMPARE_SNAKEMAKE", program.into_os_string()),
                Err(why) => ("COMPARE_NO_SNAKEMAKE", why.into()),
            });
        }
        if has(&[BOTH, JOBS, EDGE]) {
            let running = super::up()?;
            needed._cluster = Some(Up);
            println!("{running}");
            needed.env.push(("SLURM_CONF", running.conf.into_os_string()));
            needed.env.push(("NATS_URL", running.nats.into()));
        }
        Ok(needed)
    }

    /// For `compare`.
    pub(crate) fn env(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.env.iter().map(|(name, value)| (*name, value.as_os_str()))
    }
}

/// Whether these arguments name no workload: then `compare` runs all but those on a cluster.
fn names_none(args: &[OsString]) -> bool {
    let is_option = |arg: &OsString| arg.as_encoded_bytes().starts_with(b"-");
    let is_file = |at: usize| at > 0 && args[at - 1] == "--json";
    args.iter().enumerate().all(|(at, arg)| is_option(arg) || is_file(at))
}

/// A cluster that runs.
struct Up;

impl Drop for Up {
    fn drop(&mut self) {
        if let Err(error) = super::down() {
            eprintln!("xtask: the cluster did not end: {error}; `cargo xtask cluster down` tries again");
        }
    }
}

/// Snakemake with its plug-in for Slurm, in a virtual environment below the target folder.
fn snakemake() -> Result<PathBuf, String> {
    let folder = target_dir().join("tools/snakemake");
    let bin = folder.join("bin");
    let program = bin.join("snakemake");
    // Its version alone would say nothing of the plug-in.
    let is_there = || tools::output(Command::new(&program).args(["--executor", "slurm", "--version"])).is_ok();
    if !is_there() {
        println!("Snakemake is missing; fetching {} into {}", SNAKEMAKE.join(" and "), folder.display());
        tools::output(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let pip = bin.join("pip");
        tools::output(Command::new("timeout").arg(INSTALL).arg(pip).args(["install", "-q"]).args(SNAKEMAKE))?;
    }
    match is_there() {
        true => Ok(program),
        false => Err(format!("{} does not start", program.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_json_is_no_workload() {
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(names_none(&[]));
        assert!(names_none(&args(&["--quick", "--json", "out.json"])));
        assert!(!names_none(&args(&["--json", "out.json", "yield"])));
    }
}
