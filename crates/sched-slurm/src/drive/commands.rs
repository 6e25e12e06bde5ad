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

use super::cluster::{CallError, Cluster, Partition, TIMEOUT};
use super::failures::{error_of, is_full};
use crate::error::SlurmError;
use crate::id::SlurmId;
use crate::nodes::{self, Node};
use crate::request::{Submission, Terms};
use crate::rows::{COLUMNS, Fate, Row};
use crate::sbatch;

/// The commands of Slurm in `PATH`.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// Further options of `sbatch`.
    options: Vec<String>,
}

impl Commands {
    /// The commands, and further options of `sbatch` as they are written on its command line.
    ///
    /// # Errors
    /// If this program sets one of them itself, or nothing would be submitted with it.
    pub fn new(options: Vec<String>) -> Result<Self, SlurmError> {
        sbatch::check(&options)?;
        Ok(Self { options })
    }

    /// The first command of Slurm that is not in `PATH`.
    pub fn missing() -> Option<&'static str> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
        ["sbatch", "squeue", "scancel", "scontrol", "sinfo"].into_iter().find(|name| !is_there(name))
    }
}

/// So many jobs one command is told of: a word of a command line has its limit.
const LISTED_MAX: usize = 1_000;

/// Makes a call for these jobs, whose argument is a list of them. What is refused for some is done to the others.
fn each_list(
    ids: &[SlurmId],
    most: usize,
    mut each: impl FnMut(&str) -> Result<String, CallError>,
) -> Result<(), CallError> {
    let mut refused = None;
    for some in ids.chunks(most) {
        let list: Vec<String> = some.iter().map(SlurmId::to_string).collect();
        match each(&list.join(",")) {
            Ok(_) => {}
            Err(CallError::Refused(why)) => refused = Some(CallError::Refused(why)),
            Err(error) => return Err(error),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// `scancel` delivers a signal and then tries again for a minute, because the job is `in transitional state`. So it gets this long.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);
/// `scancel` has threads for so many jobs at a time, so others would wait behind those that it tries again; and how many of it run at a time.
const SIGNALLED_MAX: usize = 10;
const SIGNALLERS_MAX: usize = 16;

/// Sends a signal to the processes of these jobs.
fn signal(ids: &[SlurmId], signal: &str) -> Result<(), CallError> {
    let send = |some: &[SlurmId]| {
        let mut args = words(["--quiet", "--full", signal]);
        args.extend(some.iter().map(SlurmId::to_string));
        match call_within(SIGNAL_TIMEOUT, "scancel", &args) {
            Err(CallError::Unanswered(why)) if why.contains("did not return") => Ok(()),
            result => result.map(drop),
        }
    };
    let mut refused = None;
    for round in ids.chunks(SIGNALLED_MAX * SIGNALLERS_MAX) {
        let results: Vec<Result<(), CallError>> = thread::scope(|scope| {
            let senders: Vec<_> = round.chunks(SIGNALLED_MAX).map(|some| scope.spawn(move || send(some))).collect();
            let lost = |_| Err(CallError::Unanswered("scancel could not be waited for".to_owned()));
            senders.into_iter().map(|sender| sender.join().unwrap_or_else(lost)).collect()
        });
        for result in results {
            match result {
                Ok(()) => {}
                Err(CallError::Refused(why)) => refused = Some(CallError::Refused(why)),
                Err(error) => return Err(error),
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Runs a command; gives what it printed.
fn call(program: &str, args: &[String]) -> Result<String, CallError> {
    call_within(TIMEOUT, program, args)
}

fn call_within(timeout: Duration, program: &str, args: &[String]) -> Result<String, CallError> {
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
    let status = wait(&mut child, timeout);
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let (out, err) = (text(out), text(err));
    let why = || sbatch::last_words(&err, program);
    match status {
        Some(true) => Ok(out),
        // Also if it was killed while it waited for room.
        None if !is_full(&err) => {
            Err(unanswered(format!("{program} did not return within {} s: {}", timeout.as_secs(), why())))
        }
        _ => Err(error_of(&err, why())),
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
fn wait(child: &mut Child, timeout: Duration) -> Option<bool> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if began.elapsed() < timeout => thread::sleep(pause),
            _ => {
                let _ = child.kill(); // it may just have ended
                let _ = child.wait();
                return None;
            }
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

impl Cluster for Commands {
    fn submit(&self, submission: &Submission) -> Result<u64, CallError> {
        let mut args = sbatch::options(&submission.description);
        args.extend(self.options.iter().cloned());
        args.push(submission.script.display().to_string());
        args.extend(submission.batch.arguments());
        let said = call("sbatch", &args)?;
        // `ID`, or `ID;CLUSTER`.
        let id = said.trim().split(';').next().and_then(|id| id.parse().ok());
        // If it was submitted after all, its script finds no permit.
        id.ok_or_else(|| {
            let said = said.trim();
            CallError::Refused(format!("sbatch prints `{said}` instead of the id of a job; see `options` in [slurm], and SBATCH_ variables of the environment"))
        })
    }

    fn try_out(&self, terms: &Terms) -> Result<Option<String>, CallError> {
        let mut args = words(["--test-only", "--wrap=true"]);
        args.extend(sbatch::of_terms(terms));
        args.extend(self.options.iter().cloned());
        let why = match call("sbatch", &args) {
            Err(CallError::Refused(why)) if nodes::is_about_nodes(&why) => why,
            result => return result.map(|_| None),
        };
        let said = call("sinfo", &words(["--noheader", "--all", "-N", "-o", nodes::COLUMNS]))?;
        let nodes: Vec<Node> = said.lines().filter_map(Node::read).collect();
        nodes::note(&nodes, terms).map(Some).ok_or(CallError::Refused(why))
    }

    fn queue(&self) -> Result<Vec<Row>, CallError> {
        let said = call("squeue", &words(["--noheader", "--array", "--me", "-o", COLUMNS]))?;
        Ok(said.lines().filter_map(Row::read).collect())
    }

    fn fate(&self, id: SlurmId) -> Result<Option<Fate>, CallError> {
        match call("scontrol", &words(["show", "job", "--oneliner", &id.to_string()])) {
            Ok(said) if Fate::read(&said).is_some() => return Ok(Fate::read(&said)),
            Ok(_) => {}
            Err(CallError::Refused(why)) if id.task.is_some() || why.contains("Invalid job id") => {}
            Err(error) => return Err(error),
        }
        if id.task.is_none() {
            return Ok(None);
        }
        let job = format!("--jobs={}", id.job);
        match call("squeue", &words(["--noheader", "--array", "--states=all", &job, "-o", COLUMNS])) {
            Ok(said) => Ok(Fate::of_task(id, said.lines().filter_map(Row::read).collect())),
            Err(CallError::Refused(why)) if why.contains("Invalid job id") => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn cancel(&self, ids: &[SlurmId], now: bool) -> Result<(), CallError> {
        let mut args = words(["--quiet"]);
        if now {
            args.extend(words(["--full", "--signal=KILL"]));
        }
        args.extend(ids.iter().map(SlurmId::to_string));
        call("scancel", &args).map(drop)
    }

    fn hold(&self, ids: &[SlurmId], held: bool) -> Result<(), CallError> {
        each_list(ids, LISTED_MAX, |list| call("scontrol", &words([if held { "hold" } else { "release" }, list])))
    }

    fn freeze(&self, ids: &[SlurmId], frozen: bool) -> Result<(), CallError> {
        let verb = if frozen { "suspend" } else { "resume" };
        let result = each_list(ids, LISTED_MAX, |list| call("scontrol", &words([verb, list])));
        let Err(CallError::Refused(_)) = &result else { return result };
        // Only an administrator may suspend, and then the CPUs are free. A user may stop the processes. Of what an administrator has frozen nothing is left to do.
        let rows = self.queue()?;
        let is_left = |id: &&SlurmId| {
            let row = rows.iter().find(|row| row.id == **id);
            row.is_some_and(|row| !row.is_pending() && (!frozen || !row.is_frozen()))
        };
        let left: Vec<SlurmId> = ids.iter().filter(is_left).copied().collect();
        signal(&left, if frozen { "--signal=STOP" } else { "--signal=CONT" })
    }

    fn array_size_max(&self) -> Result<u32, CallError> {
        let said = call("scontrol", &words(["show", "config"]))?;
        let size =
            said.lines().find_map(|line| line.strip_prefix("MaxArraySize")?.split_once('=')?.1.trim().parse().ok());
        Ok(size.unwrap_or(1))
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
