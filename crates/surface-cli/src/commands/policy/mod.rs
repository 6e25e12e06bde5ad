//! `bursar policy`: profiles of CPU time, checked, explained, and published to running programs.
//!
//! Room: surface.
//!
//! - `check.rs`: a file and its problems; `explain.rs`: who gets what, and why.
//! - `serve.rs`: the service; `watch.rs`: when its file has changed; `publisher.rs`: what it sends; `log_file.rs`: its log; `counter.rs`: numbers of epochs.
//! - `status.rs`: what a service and the programs that listen to it say.

mod check;
mod counter;
mod explain;
mod help;
mod log_file;
mod publisher;
mod serve;
mod status;
mod watch;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use surface_journal::Journal;

use crate::exit::Failure;

/// Publish profiles of CPU time to running programs, and say who gets which
#[derive(Debug, Clone, Args)]
#[command(after_help = help::POLICY)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Check a policy file
    #[command(after_help = help::CHECK)]
    Check(check::Options),
    /// Say which profile a name or a hint gets, by which rule, and what that means
    #[command(after_help = help::EXPLAIN)]
    Explain(explain::Options),
    /// Publish a policy file, and its changes, to programs that listen
    #[command(after_help = help::SERVE)]
    Serve(serve::Options),
    /// Show the service, its epoch, and what programs decided last
    #[command(after_help = help::STATUS)]
    Status(status::Options),
    /// Print what was decided about files and epochs
    #[command(after_help = help::LOG)]
    Log(status::Log),
}

/// Runs a subcommand. Returns the exit code.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    let exit = match &options.command {
        // Ctrl-C has a code of its own.
        Command::Serve(options) => return serve::run(options),
        Command::Check(options) => check::run(options),
        Command::Explain(options) => explain::run(options),
        Command::Status(options) => status::run(options),
        Command::Log(options) => status::log(options),
    };
    exit.map(|exit| exit as u8)
}

/// Where the service listens.
#[derive(Debug, Clone, Args)]
struct Socket {
    /// The socket of the service [default: policy/control.sock in the state directory]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Socket {
    fn path(&self) -> Result<PathBuf, Failure> {
        match &self.socket {
            Some(path) => Ok(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            None => Ok(Journal::default_dir()?.join("policy").join("control.sock")),
        }
    }
}

/// A file beside the socket.
fn beside(socket: &Path, ending: &str) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// The machine that a policy is for.
#[derive(Debug, Clone, Copy, Args)]
struct Target {
    /// Check for a machine of this many CPUs, 1 to 256 [default: those of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: Option<u32>,
}

impl Target {
    fn machine(self) -> bursar::policy::Machine {
        use bursar::policy::Machine;
        self.cpus.map_or_else(Machine::here, Machine::new)
    }
}
