//! The command line of `bursar run`.
//!
//! Room: surface.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use sched_jobs::Scheduler;
use sched_jobs::process::{Class, UnknownClass};
use serde::{Deserialize, Serialize};
use surface_jobfile::On;

use crate::view::Mode;

const ABOUT_RUN: &str = "\
Examples:
  bursar run render.toml                       all jobs of the file, as many at once as fit
  bursar run render.toml --ram 8GB --cpu 4     within these limits, whatever the file says
  bursar run render.toml --only compose        one job, with what it needs
  bursar run render.toml --dry-run             what would run, in which order, and why
  bursar run --ram 4GB -- ffmpeg -i a.mov b.mp4   one command, when 4 GB are free
  bursar run render.toml --on slurm            on the nodes of a Slurm cluster
  bursar run --resume                          continue the newest run that was interrupted
  bursar run --resume r-7f3a --retry-failed    continue that run, and retry what failed

Limits: what is not set on the command line is taken from `[resources]` of the file, else from BURSAR_SCHED_CPU_SLOTS, \
_RAM_MB_SOFT, _VRAM_MB_SOFT, else from the machine: one slot for each CPU; its memory less an eighth (at least 512 MB) for \
other programs; its graphics cards, each with its memory, or those of CUDA_VISIBLE_DEVICES. \
A job without `ram` gets the peak of its command in its last five successes, plus a tenth; 256 MB if it never ran.

Classes: at a terminal (standard input and output both are one) jobs of a file run with `class = \"batch\"`, so that the machine stays usable: they give way to \
everything that a person waits for. `--class normal` changes that for a run, `class` in `[defaults]` or in a job for a file. A single command keeps its class unless --class is given. \
`bursar why JOB` says what the system has in force.

Ctrl-C once asks running jobs to end and keeps the run for --resume; twice kills them. Jobs survive a kill of bursar \
itself: --resume finds them.

Exit codes:
  0    every job succeeded
  1    a job failed or was cancelled, or the run could not be recorded
  2    the arguments are not valid
  3    the job file is not valid; its problems are shown
  4    there is no such run
  5    jobs are to go to Slurm, and its commands are not installed here, or SLURM_JWT for slurmrestd is not set
  6    Slurm does not answer
  7    Slurm has no such partition, or can never give a job what it wants
  130  interrupted by Ctrl-C; 143 by SIGTERM, 129 by SIGHUP
  With `-- COMMAND` the code is that of the command: 124 after its timeout, 127 if it could not start, 128 plus the number of \
the signal that killed it.";

/// Run the jobs of a file, or one command, within CPU, RAM and VRAM limits
#[derive(Debug, Clone, Args)]
#[command(after_help = ABOUT_RUN)]
pub(crate) struct Options {
    /// The job file
    #[arg(value_name = "FILE", required_unless_present_any = ["resume", "command"], conflicts_with_all = ["resume", "command"])]
    pub(crate) file: Option<PathBuf>,

    /// Run one command instead of a file; its output is passed through
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "resume")]
    pub(crate) command: Vec<OsString>,

    /// Continue a run that was interrupted [default: the newest]
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    pub(crate) resume: Option<Option<String>>,

    /// With --resume: also retry jobs that failed or were cancelled
    #[arg(long, requires = "resume")]
    pub(crate) retry_failed: bool,

    #[command(flatten)]
    pub(crate) asked: LimitArgs,

    /// Class of jobs that the file gives none, or of a command: `batch`, `idle`, `latency` or `normal`
    /// [default: batch for a file at a terminal, else normal]
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub(crate) class: Option<Class>,

    /// Where jobs run that do not say so themselves: `local`, or `slurm` for the nodes of a Slurm cluster; `--on local` is for all jobs
    /// [default: `on` in `[run]` of the file, else local]
    #[arg(long, value_name = "WHERE", value_parser = on, conflicts_with_all = ["command", "resume"])]
    pub(crate) on: Option<On>,

    /// Run only this job and what it needs; may be repeated; `image` means all of `image[…]`
    #[arg(long, value_name = "JOB")]
    pub(crate) only: Vec<String>,

    /// Print what would run, in start order, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Also run jobs whose outputs are up to date
    #[arg(long)]
    pub(crate) force: bool,

    /// Start jobs that fit into the limits even if other programs use the memory now; without it jobs wait until it is free
    #[arg(long)]
    pub(crate) overcommit: bool,

    /// Start the file even if another run of it is active; without it, a start that would run jobs twice is refused
    #[arg(long)]
    pub(crate) beside: bool,

    /// Keep outputs of attempts that failed or were cancelled; without it they are removed. They never count as complete
    #[arg(long)]
    pub(crate) keep_incomplete: bool,

    /// After the first failure start nothing more, and cancel running jobs
    #[arg(long, overrides_with = "keep_going")]
    pub(crate) fail_fast: bool,

    /// After a failure continue with jobs that do not need the failed one (the default)
    #[arg(long, overrides_with = "fail_fast")]
    pub(crate) keep_going: bool,

    /// Do not record the run: it is deleted after a success, and gives no estimates
    #[arg(long, conflicts_with = "resume")]
    pub(crate) no_journal: bool,

    /// With a command: its priority; higher goes first
    #[arg(long, value_name = "N", requires = "command", allow_hyphen_values = true)]
    pub(crate) priority: Option<i32>,

    /// With a command: time limit, as `90s` or `10m`
    #[arg(long, value_name = "TIME", requires = "command", value_parser = time_ms)]
    pub(crate) timeout: Option<u64>,

    /// With a command: limit for each of its logs, as `100MB`; of a longer log the beginning and the end are kept; 0 for no limit [default: 1GB]
    #[arg(long, value_name = "SIZE", requires = "command", value_parser = size_mb)]
    pub(crate) log_limit: Option<u64>,

    /// With a command: its name [default: the name of the program]
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) name: Option<String>,

    /// Print only failures
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// One JSON object for each event
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// How the run is shown.
    pub(crate) fn mode(&self) -> Mode {
        let quiet = self.quiet.then_some(Mode::Quiet);
        Mode::choose(self.json.then_some(Mode::Json).or(quiet))
    }

    /// The class of jobs that do not say their own. A file that is run at a terminal is run beside a person.
    pub(crate) fn default_class(&self) -> Option<Class> {
        let is_beside_person =
            || self.command.is_empty() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        self.class.or_else(|| is_beside_person().then_some(Class::Batch))
    }
}

/// Limits that were asked for. A run keeps them for when it is resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LimitArgs {
    /// CPU slots; with a command: how many it takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) cpu: Option<u32>,

    /// Memory, as `8GB`, `512MB` or a number of MB; 0 for no limit; with a command: how much it takes
    #[arg(long, value_name = "SIZE", value_parser = size_mb)]
    pub(crate) ram: Option<u64>,

    /// Video memory of each graphics card; with a command: how much it takes of one
    #[arg(long, value_name = "SIZE", value_parser = size_mb)]
    pub(crate) vram: Option<u64>,

    /// Number of graphics cards that may be used; with a command: how many it takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) gpus: Option<u32>,

    /// Amount of a named resource; with a command: how much it takes
    #[arg(long, value_name = "NAME=N", value_parser = named)]
    pub(crate) resource: Vec<(String, u64)>,

    /// At most this many jobs at once
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: Option<u32>,

    /// `threadpool`, or `simple`: one job at a time
    #[arg(long, value_name = "NAME", value_parser = scheduler)]
    #[serde(with = "scheduler_name")]
    pub(crate) scheduler: Option<Scheduler>,
}

impl LimitArgs {
    /// These limits, and where they are not set, those of `before`.
    pub(crate) fn over(self, before: LimitArgs) -> LimitArgs {
        let mut resource = before.resource;
        for (name, amount) in self.resource {
            resource.retain(|(known, _)| *known != name);
            resource.push((name, amount));
        }
        LimitArgs {
            cpu: self.cpu.or(before.cpu),
            ram: self.ram.or(before.ram),
            vram: self.vram.or(before.vram),
            gpus: self.gpus.or(before.gpus),
            resource,
            jobs: self.jobs.or(before.jobs),
            scheduler: self.scheduler.or(before.scheduler),
        }
    }
}

fn class(text: &str) -> Result<Class, String> {
    text.parse().map_err(|error: UnknownClass| error.to_string())
}

fn on(text: &str) -> Result<On, String> {
    match text {
        "local" => Ok(On::Local),
        "slurm" => Ok(On::Slurm),
        _ => Err("jobs run on `local` or on `slurm`".to_owned()),
    }
}

fn size_mb(text: &str) -> Result<u64, String> {
    surface_jobfile::megabytes(text).map_err(|why| format!("{why}; write `8GB`, `512MB`, or a number of MB"))
}

fn time_ms(text: &str) -> Result<u64, String> {
    match surface_jobfile::millis(text) {
        Ok(0) => {
            Err("a time limit cannot be 0; write `90s`, `10m` or `1h30m`, or leave it out for no limit".to_owned())
        }
        Ok(ms) => Ok(ms),
        Err(why) => Err(format!("{why}; write `90s`, `10m` or `1h30m`")),
    }
}

fn named(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("`{text}` is not NAME=NUMBER; write for example `licence=2`");
    let (name, amount) = text.split_once('=').ok_or_else(wrong)?;
    let amount = amount.trim().parse().map_err(|_| wrong())?;
    if name.trim().is_empty() { Err(wrong()) } else { Ok((name.trim().to_owned(), amount)) }
}

fn scheduler(text: &str) -> Result<Scheduler, String> {
    text.parse().map_err(|()| "the schedulers are `threadpool` and `simple`".to_owned())
}

mod scheduler_name {
    use sched_jobs::Scheduler;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(scheduler: &Option<Scheduler>, serializer: S) -> Result<S::Ok, S::Error> {
        scheduler.map(Scheduler::name).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Scheduler>, D::Error> {
        // A name that this version does not know must not keep a run from being resumed.
        Ok(Option::<String>::deserialize(deserializer)?.and_then(|name| name.parse().ok()))
    }
}
