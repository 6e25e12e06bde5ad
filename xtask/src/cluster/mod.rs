//! `cargo xtask cluster up|down`: a real Slurm cluster of three nodes on this machine, and a NATS server, for the tests of what leaves the machine.
//!
//! # Invariant
//! Nothing outside the folder of the cluster is changed, nothing listens beyond the loopback interface, and `down` ends only what `up` started.
//!
//! # Why it holds
//! Every daemon gets its files, its socket and its port from a configuration in that folder, and writes its process id there. Before a process is ended, its
//! command line must name the folder: a number in an old file may belong to another process by now.
//!
//! - `config.rs`: the files of the cluster; `daemons.rs`: how they start and end; `lane.rs`: the tests on it; `compare.rs`: the comparison on it.

pub(crate) mod compare;
mod config;
mod daemons;
pub(crate) mod lane;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fmt, fs};

use crate::lanes::{Tools, needs};
use crate::target_dir;
use config::Ports;

/// Where the cluster lives, unless `BURSAR_CLUSTER_DIR` names another folder.
pub(crate) fn folder() -> PathBuf {
    env::var_os("BURSAR_CLUSTER_DIR").map_or_else(|| target_dir().join("cluster"), PathBuf::from)
}

const TOOLS: Tools = Tools {
    what: "Slurm, munge and a NATS server",
    files: &[
        "/usr/sbin/slurmctld",
        "/usr/sbin/slurmd",
        "/usr/bin/sbatch",
        "/usr/sbin/munged",
        "/usr/sbin/nats-server",
        "/usr/sbin/slurmrestd",
    ],
    packages: &["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "slurmrestd", "nats-server"],
};

/// `cargo xtask cluster up|down`
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    let outcome = match words[..] {
        ["up"] => up().map(|shown| println!("{shown}")),
        ["down"] => down(),
        _ => {
            eprintln!("xtask: `cluster` takes `up` or `down`; got {words:?}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// How to use a cluster that runs.
pub(crate) struct Running {
    conf: PathBuf,
    nats: String,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { conf, nats } = self;
        write!(f, "three Slurm nodes and a NATS server run. To use them:\nexport SLURM_CONF={}\n", conf.display())?;
        write!(f, "export NATS_URL={nats}\n`cargo xtask cluster down` ends them")
    }
}

/// Starts the cluster, anew if there is an old one.
pub(crate) fn up() -> Result<Running, String> {
    needs(&TOOLS)?;
    down()?;
    let folder = folder();
    let ports = Ports::free()?;
    config::write(&folder, &ports)?;
    if let Err(error) = daemons::start(&folder, &ports) {
        let _ = down(); // what did start
        return Err(error);
    }
    Ok(Running { conf: folder.join("slurm.conf"), nats: format!("nats://127.0.0.1:{}", ports.nats) })
}

/// Ends the cluster and removes its folder.
pub(crate) fn down() -> Result<(), String> {
    let folder = folder();
    if !folder.join("slurm.conf").exists() {
        return Ok(());
    }
    daemons::stop(&folder)?;
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}
