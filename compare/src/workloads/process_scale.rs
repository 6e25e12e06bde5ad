//! The primes of `thread-scale`, split over 1, 2, 4 … processes, up to twice as many as there are CPUs.
//!
//! Each process is this program again, for every n-th chunk, and prints what it found and how long it searched. The peer starts them and waits for them, which is the least that it can cost: what is around the work is
//! then fork, exec and exit. Ours twice: as commands of a graph of jobs, each below its keeper; and started as the peer starts them, with a runtime in each that has a task for each chunk. That one counts.
//!
//! No bar, as there.

use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bursar::Runtime;
use bursar::jobs::process::{Command, KeeperProgram, Keepers, Processes};
use bursar::jobs::{Job, Jobs};
use bursar::prelude::*;

use crate::measure::Plan;
use crate::primes::{self, Checksum, Found, Primes};
use crate::scaling::{Way, best, compared, worker_counts};
use crate::split::Counts;
use crate::table::Row;
use crate::workloads::thread_scale::counts;
use crate::{Failure, KEEP, watchdog};

pub const NAME: &str = "process-scale";
const LIMIT: usize = 3_000_000;
const LIMIT_QUICK: usize = 150_000;

/// What one process searches, as its arguments say it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    limit: u32,
    part: usize,
    parts: usize,
    in_runtime: bool,
}

/// The argument before those of a [`Part`].
pub const PART: &str = "part";
const PLAIN: &str = "plain";
const RUNTIME: &str = "runtime";

impl Part {
    fn args(self) -> [String; 5] {
        let how = if self.in_runtime { RUNTIME } else { PLAIN };
        [format!("--{PART}"), self.limit.to_string(), self.part.to_string(), self.parts.to_string(), how.to_owned()]
    }

    pub fn parse([limit, part, parts, how]: [&str; 4]) -> Result<Self, Failure> {
        Ok(Self { limit: limit.parse()?, part: part.parse()?, parts: parts.parse()?, in_runtime: how == RUNTIME })
    }

    /// What such a process does: its line for standard output.
    pub fn run(self) -> Result<String, Failure> {
        let primes = &Primes::new(self.limit);
        let (found, counts) = if self.in_runtime {
            let runtime = Runtime::builder().workers(1).diagnostics(true).build()?;
            let found = runtime.run(|| {
                nursery(|n| {
                    let chunks = primes::chunks_of(self.part, self.parts);
                    let tasks: Vec<_> = chunks.map(|chunk| n.spawn(move || primes.chunk(chunk))).collect();
                    tasks.into_iter().map(|task| task.join()).sum()
                })
            })??;
            (found, counts(&Default::default(), &runtime.stats().total()))
        } else {
            (primes.part(self.part, self.parts).sum::<Found>(), Counts::default())
        };
        Ok(said(&found, &counts))
    }
}

fn said(found: &Found, counts: &Counts) -> String {
    let Found { checksum: Checksum { count, sum }, work } = found;
    let Counts { candidates, steals, wakes } = counts;
    format!("{count} {sum} {} {candidates} {steals} {wakes}", work.as_nanos())
}

fn heard(line: &str) -> Result<(Found, Counts), Failure> {
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [count, sum, nanos, candidates, steals, wakes] = numbers[..] else {
        return Err(format!("a process said {line:?}, which is not six numbers").into());
    };
    let found = Found { checksum: Checksum { count, sum }, work: Duration::from_nanos(nanos) };
    Ok((found, Counts { candidates, steals, wakes }))
}

fn sum(all: impl IntoIterator<Item = Result<(Found, Counts), Failure>>) -> Result<(Found, Counts), Failure> {
    let mut sum = (Found::default(), Counts::default());
    for one in all {
        let (found, counts) = one?;
        sum.0 = sum.0 + found;
        sum.1.candidates += counts.candidates;
        sum.1.steals += counts.steals;
        sum.1.wakes += counts.wakes;
    }
    Ok(sum)
}

/// Starts all of them, then waits for them.
fn by_fork_and_exec(limit: u32, parts: usize, in_runtime: bool) -> Result<(Found, Counts), Failure> {
    let program = env::current_exe()?;
    let start = |part| {
        let args = Part { limit, part, parts, in_runtime }.args();
        process::Command::new(&program).args(args).stdout(Stdio::piped()).spawn()
    };
    let children = (0..parts).map(start).collect::<Result<Vec<_>, _>>()?;
    sum(children.into_iter().map(|mut child| {
        let mut line = String::new();
        child.stdout.take().expect("it was piped").read_to_string(&mut line)?;
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("a process ended with {status}").into());
        }
        heard(&line)
    }))
}

/// A graph of jobs whose commands run below keepers, and the folder for both.
struct Commands {
    folder: PathBuf,
    processes: Arc<Processes>,
}

impl Commands {
    fn new() -> Result<Self, Failure> {
        let folder = env::temp_dir().join(format!("bursar-compare-{}", process::id()));
        fs::create_dir_all(&folder)?;
        let logs = folder.clone();
        let processes = Processes::new(
            Keepers::new(KeeperProgram::this_one([KEEP]), &folder.join("keepers"))?,
            format!("compare-{}", process::id()),
            Box::new(move |attempt| log(&logs, attempt.job.index())),
            Box::new(|_, _| {}),
        );
        Ok(Self { folder, processes })
    }

    /// A job for each part. A scheduler of its own in each round, so that logs have the numbers of the parts.
    fn run(&self, limit: u32, parts: usize) -> Result<Found, Failure> {
        let program = env::current_exe()?.into_os_string();
        for part in 0..parts {
            let _ = fs::remove_file(log(&self.folder, part)); // of the last round; in the first there is none
        }
        let settled = self.processes.clone();
        let jobs = Jobs::builder()
            .cpu_slots(parts as u32)
            .observe(move |event, facts| {
                if let Some(command) = facts.measured::<bursar::jobs::process::CommandEnd>(event.job) {
                    settled.settle(&command.end.token);
                }
            })
            .build();
        let job = |part| {
            let args = Part { limit, part, parts, in_runtime: false }.args().map(Into::into);
            let mut command = Command::new([program.clone()].into_iter().chain(args));
            command.cwd = Some(self.folder.clone());
            command.limits.wall = Some(watchdog::CHILD);
            Job::new(format!("part-{part}")).execute(self.processes.clone(), Arc::new(command))
        };
        jobs.submit_all((0..parts).map(job))?;
        jobs.wait()?;
        let all = (0..parts).map(|part| heard(&fs::read_to_string(log(&self.folder, part))?));
        sum(all).map(|(found, _)| found)
    }
}

fn log(folder: &Path, job: usize) -> PathBuf {
    folder.join(format!("{job}.log"))
}

impl Drop for Commands {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder); // what is left there is for no one
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let limit = plan.pick(LIMIT, LIMIT_QUICK) as u32;
    let expected = primes::expected(limit);
    let commands = Commands::new()?;
    let mut rows = Vec::new();
    for workers in worker_counts() {
        let with_counts = |(found, counts)| (found, Some(counts));
        let splits = best(
            plan,
            NAME,
            workers,
            [
                Way::new("ours, jobs", || Ok((commands.run(limit, workers)?, None))),
                Way::new("ours, runtimes", || by_fork_and_exec(limit, workers, true).map(with_counts)),
                Way::new("fork and exec", || by_fork_and_exec(limit, workers, false).map(|(found, _)| (found, None))),
            ],
        )?;
        rows.extend(compared(plan, splits, expected));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_is_heard() {
        let found = Found { checksum: Checksum { count: 4, sum: 17 }, work: Duration::from_nanos(1_234) };
        let counts = Counts { candidates: 5, steals: 6, wakes: 7 };
        assert_eq!(heard(&said(&found, &counts)).expect("six numbers"), (found, counts));
        assert!(heard("4 17").is_err() && heard("").is_err());
    }

    #[test]
    fn a_part_says_by_its_arguments_what_it_searches() {
        for in_runtime in [false, true] {
            let args = Part { limit: 1_000, part: 1, parts: 2, in_runtime }.args();
            let [option, limit, part, parts, how] = args.each_ref().map(String::as_str);
            assert_eq!(option, "--part");
            let part = Part::parse([limit, part, parts, how]).expect("it is complete");
            let (found, _) = heard(&part.run().expect("it runs")).expect("six numbers");
            let (other, _) = heard(&Part { part: 0, ..part }.run().expect("it runs")).expect("six numbers");
            assert_eq!((found + other).checksum, primes::expected(1_000));
        }
    }
}
