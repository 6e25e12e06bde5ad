//! The command line of `bursar exec`.
//!
//! Room: surface.

use std::ops::Range;
use std::path::PathBuf;

use bursar::janus::{Profile, Value};
use clap::{Args, ValueEnum};

const ABOUT: &str = "\
Examples:
  bursar exec hello.jan                        run `main`, and print what it spent
  bursar exec miner.jan --ops 1000000 --spawns 10   stop it when that is spent
  bursar exec bomb.jan --tasks 50              at most 50 tasks at a time
  bursar exec sum.jan --arg 20 --arg true      with arguments for `main`
  bursar exec race.jan --seed 7                in virtual time; the same run every time
  bursar exec race.jan --explore 0..1000       look for a seed that fails
  bursar exec hello.jan --emit qtjir           print what it is compiled to; `clif`: what machine code is made of
  bursar exec hello.qtjir                      run that; it is verified first
  bursar exec hello.jan --check --json         compile only, for scripts

What the program prints goes to stdout, everything else to stderr; with --json stdout has one object, and the program prints to stderr. Without limits it may spend what it \
likes, but each task has 128 KiB of stack, and all channels together 64 MiB (--stack, --memory). A limit of the budget is one for all tasks of the program together. \
A program of profile `sovereign` that says `needs: spawn` is granted that by --tasks.

Ctrl-C once cancels the program: tasks end, and what they defer is run. Twice kills it. A program in which all tasks wait for each other waits for ever, unless there is a --timeout; \
with --seed it is found, and ends.

Exit codes:
  0    `main` succeeded, and returned nothing, 0 or true
  1    it failed: an error with its line, a budget or a capability that was used up; or `main` returned false, or a number that is no exit code
  2    the arguments are not valid
  3    the program does not compile; its problems are shown
  124  the time limit was reached
  130  interrupted by Ctrl-C; 143 by SIGTERM, 129 by SIGHUP; 141 if its output was not read to the end
  A number from 0 to 255 that `main` returns is the exit code. With --explore it is that of the seed that fails.";

/// Run a Janus program under a budget, and print what it spent
#[derive(Debug, Clone, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct Options {
    /// The program: Janus, or QTJIR in a file *.qtjir; `-` for standard input
    pub(super) file: PathBuf,

    /// An argument of `main`: a number, `true` or `false`; repeat it for each parameter
    #[arg(long = "arg", value_name = "VALUE", allow_hyphen_values = true, value_parser = value)]
    pub(super) args: Vec<Value>,

    /// Profile, whatever the program says: `core`, `service`, `cluster` or `sovereign`
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    pub(super) profile: Option<Profile>,

    /// Operations it may do: iterations, calls, prints (one for each 64 bytes), spawns, operations of channels; 1 at least
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) ops: Option<u64>,

    /// Memory for its channels, as `64KB` or `1MiB`; a number is bytes [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) memory: Option<u64>,

    /// Tasks it may start in all
    #[arg(long, value_name = "N")]
    pub(super) spawns: Option<u64>,

    /// Sends, receives and selects it may do
    #[arg(long, value_name = "N")]
    pub(super) channel_ops: Option<u64>,

    /// Tasks it may have at a time, `main` included: a capability, which is also granted to `sovereign` programs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) tasks: Option<u32>,

    /// Stack for the calls of each task, as `1MiB`; a number is bytes [default: 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) stack: Option<u64>,

    /// Time limit, as `90s` or `250ms`; with a seed it is one of virtual time, and each seed of --explore has it anew
    #[arg(long, value_name = "TIME", value_parser = time_ms)]
    pub(super) timeout: Option<u64>,

    /// Threads [default: as many as CPUs; with a seed 4, which are played by one thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) workers: Option<u32>,

    /// Run in virtual time, in an order that this number decides
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,

    /// Run once for each seed, `FROM..TO` without TO, until one fails; the program prints nothing
    #[arg(long, value_name = "SEEDS", value_parser = seeds, conflicts_with_all = ["seed", "json"])]
    pub(super) explore: Option<Range<u64>>,

    /// Print what it is compiled to, and run nothing
    #[arg(long, value_name = "FORM", conflicts_with_all = ["explore", "check", "json"])]
    pub(super) emit: Option<Emit>,

    /// Compile it, and run nothing
    #[arg(long, conflicts_with_all = ["explore", "seed"])]
    pub(super) check: bool,

    /// One JSON object on stdout: result, what was spent, and the error; the program prints to stderr
    #[arg(long)]
    pub(super) json: bool,
}

/// What `--emit` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Emit {
    /// The intermediate representation, as text
    Qtjir,
    /// What Cranelift makes machine code of, as text
    Clif,
}

impl Options {
    pub(super) fn is_stdin(&self) -> bool {
        self.file.as_os_str() == "-"
    }

    /// Whether the order of things is decided by a seed.
    pub(super) fn is_seeded(&self) -> bool {
        self.seed.is_some() || self.explore.is_some()
    }
}

fn value(text: &str) -> Result<Value, String> {
    match text {
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        number => number
            .parse()
            .map(Value::Int)
            .map_err(|_| format!("it is neither a number from {} to {} nor `true` or `false`", i64::MIN, i64::MAX)),
    }
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::from_name(text).ok_or_else(|| "it is none of core, service, cluster, sovereign".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    surface_text::units::bytes(text).map_err(|why| format!("{why}; write `64KB`, `1MiB`, or a number of bytes"))
}

fn time_ms(text: &str) -> Result<u64, String> {
    match surface_jobfile::millis(text) {
        Ok(0) => Err("a time limit cannot be 0; leave it out for no limit".to_owned()),
        Ok(millis) => Ok(millis),
        Err(why) => Err(format!("{why}; write `90s`, `250ms` or `1h30m`")),
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let help = "write `0..1000`";
    let (from, to) = text.split_once("..").ok_or_else(|| format!("there is no `..` in it; {help}"))?;
    let read = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a seed; {help}"));
    let seeds = read(from)?..read(to)?;
    if seeds.is_empty() { Err(format!("its end is not after its beginning; {help}")) } else { Ok(seeds) }
}
