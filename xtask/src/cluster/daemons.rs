//! How the daemons of the cluster start and end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::config::{NODES, Ports};
use crate::tools;

/// How long all nodes may take to become idle, and a daemon to end.
const LONG: Duration = Duration::from_secs(30);

/// Starts munge, the controller, the nodes and NATS, and waits until every node is idle.
pub(super) fn start(folder: &Path, ports: &Ports) -> Result<(), String> {
    let path = |name: &str| format!("{}/{name}", folder.display());
    tools::output(Command::new("munged").args([
        format!("--key-file={}", path("munge/munge.key")),
        format!("--socket={}", path("run/munge.socket")),
        format!("--pid-file={}", path("run/munged.pid")),
        format!("--log-file={}", path("log/munged.log")),
        format!("--seed-file={}", path("munge/seed")),
        "--num-threads=2".to_owned(),
    ]))?;
    let conf = path("slurm.conf");
    // The path of the configuration is part of each command line: `stop` looks for it.
    tools::output(Command::new("slurmctld").args(["-c", "-f", &conf]))?;
    for node in NODES {
        tools::output(Command::new("slurmd").args(["-N", node, "-f", &conf]))?;
    }
    let log = fs::File::create(path("log/nats.log")).map_err(tools::at(folder))?;
    Command::new("nats-server")
        .args(["-js", "-sd", &path("nats"), "-a", "127.0.0.1", "-p", &ports.nats.to_string()])
        .args(["-P", &path("run/nats.pid")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|error| format!("cannot start nats-server: {error}"))?;
    wait_until_idle(&conf).map_err(|error| format!("{error}; {} says why", path("log")))
}

fn wait_until_idle(conf: &str) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let seen = tools::output(Command::new("sinfo").args(["-h", "-N", "-o", "%T"]).env("SLURM_CONF", conf));
        match seen {
            Ok(states) if states.lines().filter(|state| *state == "idle").count() == NODES.len() => return Ok(()),
            seen if began.elapsed() > LONG => return Err(format!("the nodes did not become idle: {seen:?}")),
            _ => sleep(Duration::from_millis(100)),
        }
    }
}

/// Ends all jobs, which would outlive the nodes, if the controller still answers.
fn end_jobs(folder: &Path) {
    let is_up = fs::read_to_string(folder.join("run/slurmctld.pid"))
        .is_ok_and(|pid| pid.trim().parse().is_ok_and(|pid| belongs_to(pid, folder)));
    let call = |program: &str, args: &[&str]| {
        tools::output(Command::new(program).args(args).env("SLURM_CONF", folder.join("slurm.conf")))
    };
    let began = Instant::now();
    while is_up && began.elapsed() < LONG / 3 {
        match call("squeue", &["-h"]) {
            Ok(rows) if !rows.is_empty() => drop(call("scancel", &["--me"])),
            _ => return,
        }
        sleep(Duration::from_millis(200));
    }
}

/// Ends all jobs and daemons of the cluster in `folder`, the controller before its nodes: it saves its state.
pub(super) fn stop(folder: &Path) -> Result<(), String> {
    end_jobs(folder);
    let nodes = NODES.iter().map(|node| format!("slurmd.{node}.pid"));
    let names =
        std::iter::once("slurmctld.pid".to_owned()).chain(nodes).chain(["nats.pid".into(), "munged.pid".into()]);
    for name in names {
        stop_one(folder, &folder.join("run").join(name))?;
    }
    Ok(())
}

fn stop_one(folder: &Path, pid_file: &Path) -> Result<(), String> {
    let Some(pid) = fs::read_to_string(pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok()) else {
        return Ok(());
    };
    let began = Instant::now();
    let mut signal = "-TERM";
    while belongs_to(pid, folder) {
        let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status(); // it may just have ended
        if began.elapsed() > LONG {
            return Err(format!("process {pid} of {} does not end", pid_file.display()));
        }
        if began.elapsed() > LONG / 3 {
            signal = "-KILL";
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Whether a process runs and its command line names the folder.
fn belongs_to(pid: u32, folder: &Path) -> bool {
    let line = fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    let wanted = folder.display().to_string();
    String::from_utf8_lossy(&line).contains(&wanted)
}
