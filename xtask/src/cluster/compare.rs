//! `cargo xtask compare cluster`: what the comparison on the cluster needs.
//!
//! # Invariant
//! The cluster ends when the comparison has ended, however that ended.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use crate::steps::Cargo;
use crate::target_dir;
use crate::tools;

/// The workloads that run on the cluster: those that `compare` names apart.
const BOTH: &str = "cluster";
const JOBS: &str = "cluster-jobs";
const EDGE: &str = "cluster-edge";

/// The peer, in the versions that were tried.
const SNAKEMAKE: [&str; 2] = ["snakemake==9.27.1", "snakemake-executor-plugin-slurm==2.8.0"];
/// Seconds that its installation may take.
const INSTALL: &str = "300";

/// A cluster for one comparison. Dropping it ends the cluster.
pub(crate) struct ForCompare {
    env: Vec<(&'static str, OsString)>,
}

impl ForCompare {
    /// Starts it if one of these arguments of `compare` names a workload that needs it.
    pub(crate) fn start(args: &[OsString]) -> Result<Option<Self>, String> {
        let has = |words: &[&str]| args.iter().any(|arg| words.iter().any(|word| arg == OsStr::new(word)));
        if !has(&[BOTH, JOBS, EDGE]) || has(&["--list", "--help", "-h"]) {
            return Ok(None);
        }
        let mut env = Vec::new();
        if has(&[BOTH, JOBS]) {
            Cargo::new(&["build", "--release", "--bin", "bursar"]).packages(&["surface-cli"]).run()?;
            env.push(("COMPARE_BURSAR", target_dir().join("release/bursar").into_os_string()));
            env.push(match snakemake() {
                Ok(program) => ("COMPARE_SNAKEMAKE", program.into_os_string()),
                Err(why) => ("COMPARE_NO_SNAKEMAKE", why.into()),
            });
        }
        let running = super::up()?;
        println!("{running}");
        env.push(("SLURM_CONF", running.conf.into_os_string()));
        env.push(("NATS_URL", running.nats.into()));
        Ok(Some(Self { env }))
    }

    /// For `compare`.
    pub(crate) fn env(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.env.iter().map(|(name, value)| (*name, value.as_os_str()))
    }
}

impl Drop for ForCompare {
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
