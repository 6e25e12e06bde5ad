//! The Slurm cluster and the NATS server that `cargo xtask compare cluster` starts, and commands with a time limit.
//!
//! # Invariant
//! A side begins with an empty queue and idle nodes, and no process of one side runs while another is timed.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use crate::Failure;
use crate::workloads::CLUSTER;

/// How long the queue may take to become empty, and a command to end after it was told to.
const SOON: Duration = Duration::from_secs(60);
/// How often a command is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Calls of slurmctld that its nodes make for each job of either side, and that of `sdiag` itself.
const OF_NODES: [&str; 5] = [
    "REQUEST_COMPLETE_BATCH_SCRIPT",
    "REQUEST_COMPLETE_PROLOG",
    "MESSAGE_EPILOG_COMPLETE",
    "MESSAGE_NODE_REGISTRATION_STATUS",
    "REQUEST_STATS_INFO",
];

/// A value that `cargo xtask compare` sets for `workload`.
pub fn xtask_sets(name: &str, workload: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| {
        format!("{name} is not set: run `cargo xtask compare {workload}`, which makes what this needs").into()
    })
}

/// A value that xtask sets for what runs on a cluster.
pub fn variable(name: &str) -> Result<String, Failure> {
    xtask_sets(name, CLUSTER)
}

/// Three nodes, and the programs of both sides.
pub struct Cluster {
    pub conf: PathBuf,
    pub bursar: PathBuf,
    /// Snakemake, or why there is none.
    pub snakemake: Result<PathBuf, String>,
}

impl Cluster {
    pub fn from_env() -> Result<Self, Failure> {
        let cluster = Self {
            conf: variable("SLURM_CONF")?.into(),
            bursar: variable("COMPARE_BURSAR")?.into(),
            snakemake: match variable("COMPARE_SNAKEMAKE") {
                Ok(path) => Ok(path.into()),
                Err(_) => {
                    Err(std::env::var("COMPARE_NO_SNAKEMAKE").unwrap_or_else(|_| "none was installed".to_owned()))
                }
            },
        };
        for path in [&cluster.conf, &cluster.bursar] {
            if !path.exists() {
                return Err(format!("{} is missing: run `cargo xtask compare cluster`", path.display()).into());
            }
        }
        Ok(cluster)
    }

    /// What a command of Slurm prints.
    pub fn slurm(&self, program: &str, args: &[&str]) -> Result<String, Failure> {
        let output = Command::new(program)
            .args(args)
            .env("SLURM_CONF", &self.conf)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start {program}: {error}; on Debian it is in `slurm-client`"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
        }
    }

    /// Cancels what is left in the queue, and waits until all nodes are idle.
    pub fn settle(&self) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            let queue = self.slurm("squeue", &["-h", "-o", "%i"])?;
            let nodes = self.slurm("sinfo", &["-h", "-N", "-o", "%T"])?;
            if queue.is_empty() && nodes.lines().all(|state| state == "idle") {
                return Ok(());
            }
            if began.elapsed() > SOON {
                return Err(format!(
                    "the nodes do not become idle: {}",
                    nodes.split_whitespace().collect::<Vec<_>>().join(" ")
                )
                .into());
            }
            if !queue.is_empty() {
                self.slurm("scancel", &["--me"])?;
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// How many calls `work` makes to slurmctld, without those of the nodes. slurmctld itself counts them, so calls from inside jobs are in it.
    pub fn calls(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<u64, Failure> {
        self.slurm("sdiag", &["-r"])?;
        work()?;
        Ok(calls_in(&self.slurm("sdiag", &[])?))
    }
}

/// The sum of the counters by message in what `sdiag` prints.
fn calls_in(printed: &str) -> u64 {
    let messages = printed.lines().skip_while(|line| !line.contains("by message type")).skip(1);
    messages
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| !OF_NODES.contains(&line.split_whitespace().next().unwrap_or_default()))
        .filter_map(|line| line.split_once("count:")?.1.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

/// How a command with a time limit ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    Well,
    /// It failed, or was killed by another.
    Badly,
    /// It was ended at its limit.
    Late,
}

/// Runs a command in a process group of its own, for `limit` at most. Gives how it ended, and the time from its start to its end in seconds.
pub fn timed(command: &mut Command, limit: Duration) -> Result<(Ended, f64), Failure> {
    let program = command.get_program().to_owned();
    let began = Instant::now();
    let child = command.process_group(0).stdin(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let status = wait(&mut child, began + limit)?;
    let seconds = began.elapsed().as_secs_f64();
    if let Some(status) = status {
        return Ok((if status.success() { Ended::Well } else { Ended::Badly }, seconds));
    }
    for signal in ["-TERM", "-KILL"] {
        kill(signal, &child, &program)?;
        if wait(&mut child, Instant::now() + SOON / 4)?.is_some() {
            break;
        }
    }
    Ok((Ended::Late, seconds))
}

fn wait(child: &mut Child, until: Instant) -> Result<Option<ExitStatus>, Failure> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() > until {
            return Ok(status);
        }
        sleep(LOOK);
    }
}

fn kill(signal: &str, child: &Child, program: &OsStr) -> Result<(), Failure> {
    let group = format!("-{}", child.id());
    let killed = Command::new("kill").args([signal, "--", &group]).status();
    killed.map(drop).map_err(|error| format!("cannot end {}: {error}", program.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_nodes_do_not_count() {
        let printed = "\
Jobs submitted: 6

Remote Procedure Call statistics by message type
\tREQUEST_SUBMIT_BATCH_JOB                ( 4003) count:6      ave_time:1046   total_time:6281
\tREQUEST_COMPLETE_BATCH_SCRIPT           ( 5018) count:6      ave_time:489    total_time:2934
\tREQUEST_JOB_INFO                        ( 2003) count:4      ave_time:192    total_time:769
\tREQUEST_STATS_INFO                      ( 2035) count:1      ave_time:653    total_time:653

Remote Procedure Call statistics by user
\troot            (       0) count:81     ave_time:414    total_time:33538
";
        assert_eq!(calls_in(printed), 10);
    }

    #[test]
    fn a_command_is_ended_at_its_limit() {
        let limit = Duration::from_millis(50);
        assert_eq!(timed(&mut Command::new("true"), SOON).expect("it starts").0, Ended::Well);
        assert_eq!(timed(&mut Command::new("false"), SOON).expect("it starts").0, Ended::Badly);
        assert_eq!(timed(Command::new("sleep").arg("60"), limit).expect("it starts").0, Ended::Late);
    }
}
