//! A cluster, through the commands of Slurm.
//!
//! Room: driver. Knows processes; knows nothing of attempts.
//!
//! # Invariant
//! A call returns within its time limit, whatever slurmctld does.
//!
//! # Why it holds
//! A command that takes too long is killed. What it was to do may be done or not: that is [`CallError::Unanswered`].

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::cluster::{CallError, Cluster, Partition};
use crate::request::Submission;
use crate::rows::{COLUMNS, Fate, Row};

/// The time limit of a call. `sbatch` tries again for two minutes while the queue is full.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Texts of answers that mean: not now, or not known.
const UNANSWERED: [&str; 8] = [
    "Unable to contact",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "connect failure",
    "Communication connection failure",
    "backup controller",
    "Slurm controller",
];

/// Texts of answers that mean: there is no room in the queue.
const FULL: [&str; 5] = [
    "temporarily un", // unable, unavailable
    "sleeping and retrying",
    "submit limit",
    "SubmitJobLimit",
    "MaxSubmit",
];

/// The commands of Slurm in `PATH`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Commands;

impl Commands {
    /// The first command of Slurm that is not in `PATH`.
    pub fn missing() -> Option<&'static str> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
        ["sbatch", "squeue", "scancel", "scontrol", "sinfo"].into_iter().find(|name| !is_there(name))
    }
}

/// Runs a command; gives what it printed.
fn call(program: &str, args: &[String]) -> Result<String, CallError> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Where this program runs inside a job of Slurm, that job's limits are not those of ours.
    const KEPT: [&str; 3] = ["SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("SLURM_") && !KEPT.contains(&name)) {
            command.env_remove(name);
        }
    }
    let unanswered = |why: String| CallError::Unanswered(why);
    let mut child = command.spawn().map_err(|error| unanswered(format!("cannot start {program}: {error}")))?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child);
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let (out, err) = (text(out), text(err));
    let why = || last_line(&err, program);
    match status {
        Some(true) => Ok(out),
        // Also if it was killed while it waited for room.
        _ if FULL.iter().any(|known| err.contains(known)) => Err(CallError::Full(why())),
        None => Err(unanswered(format!("{program} did not return within {} s: {}", TIMEOUT.as_secs(), why()))),
        Some(false) if UNANSWERED.iter().any(|known| err.contains(known)) => Err(unanswered(why())),
        Some(false) => Err(CallError::Refused(why())),
    }
}

fn reader(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes); // what was read until then
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether it succeeded; `None` if it took too long.
fn wait(child: &mut Child) -> Option<bool> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if began.elapsed() < TIMEOUT => thread::sleep(pause),
            _ => {
                let _ = child.kill(); // it may just have ended
                let _ = child.wait();
                return None;
            }
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The last thing it says, without its name.
fn last_line(text: &str, program: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it says nothing");
    let line = line.strip_prefix(&format!("{program}: ")).unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

impl Cluster for Commands {
    fn submit(&self, submission: &Submission) -> Result<u64, CallError> {
        let mut args = submission.options.clone();
        args.push(submission.script.display().to_string());
        let said = call("sbatch", &args)?;
        // `ID`, or `ID;CLUSTER`.
        let id = said.trim().split(';').next().and_then(|id| id.parse().ok());
        id.ok_or_else(|| CallError::Unanswered(format!("sbatch says `{}` instead of an id", said.trim())))
    }

    fn try_out(&self, options: &[String]) -> Result<(), CallError> {
        let mut args = words(["--test-only", "--wrap=true"]);
        args.extend(options.iter().cloned());
        call("sbatch", &args).map(drop)
    }

    fn queue(&self) -> Result<Vec<Row>, CallError> {
        let said = call("squeue", &words(["--noheader", "--me", "-o", COLUMNS]))?;
        Ok(said.lines().filter_map(Row::read).collect())
    }

    fn fate(&self, id: u64) -> Result<Option<Fate>, CallError> {
        match call("scontrol", &words(["show", "job", "--oneliner", &id.to_string()])) {
            Ok(said) => Ok(Fate::read(&said)),
            Err(CallError::Refused(why)) if why.contains("Invalid job id") => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn cancel(&self, ids: &[u64], now: bool) -> Result<(), CallError> {
        let mut args = words(["--quiet"]);
        if now {
            args.extend(words(["--full", "--signal=KILL"]));
        }
        args.extend(ids.iter().map(u64::to_string));
        call("scancel", &args).map(drop)
    }

    fn freeze(&self, id: u64, frozen: bool, has_begun: bool) -> Result<(), CallError> {
        let id = id.to_string();
        let (verb, signal) = match (frozen, has_begun) {
            (true, false) => ("hold", None),
            (false, false) => ("release", None),
            (true, true) => ("suspend", Some("--signal=STOP")),
            (false, true) => ("resume", Some("--signal=CONT")),
        };
        match (call("scontrol", &words([verb, &id])), signal) {
            (Ok(_), _) => Ok(()),
            // Only an administrator may suspend, and then the CPUs are free. A user may stop the processes.
            (Err(CallError::Refused(_)), Some(signal)) => {
                call("scancel", &words(["--quiet", "--full", signal, &id])).map(drop)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn partitions(&self) -> Result<Vec<Partition>, CallError> {
        let said = call("sinfo", &words(["--noheader", "-o", "%R|%G"]))?;
        let partition = |line: &str| {
            let (name, gres) = line.trim().split_once('|')?;
            Some(Partition { name: name.to_owned(), gres: gres.to_owned() })
        };
        Ok(said.lines().filter_map(partition).collect())
    }
}
