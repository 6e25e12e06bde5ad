//! `bursar flow`: dataflow graphs, run, watched and controlled.
//!
//! Room: surface.
//!
//! Reads files, draws and answers; what runs when is decided by `bursar::flow`.
//!
//! - `run.rs`: a flow from its file to the exit code; `signal_handler.rs`: signals and keys; `stop_state.rs`: why it ended.
//! - `brokers.rs`: the brokers of edges, before a flow runs.
//! - `keys.rs`: the terminal's keys; `capture.rs`: what others write to stderr meanwhile; `controller.rs`: how it answers over its socket.
//! - `remote.rs`: commands for an active flow; `names.rs`: nodes and edges by the names that people type; `files.rs`: `check`, `graph`, `kinds`.

mod brokers;
mod capture;
mod controller;
mod files;
mod help;
mod keys;
mod names;
mod remote;
mod run;
mod signal_handler;
mod stop_state;

pub(crate) use self::files::valid;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// Run dataflow graphs: nodes that pass messages, with a backpressure policy for each edge
#[derive(Debug, Clone, Args)]
#[command(after_help = help::FLOW)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Run the graph of a flow file, and watch it
    #[command(after_help = help::RUN)]
    Run(run::Options),
    /// Check a flow file, and show its graph
    #[command(after_help = help::CHECK)]
    Check(crate::problems::Check),
    /// Draw a flow file: DOT, SVG or text
    #[command(after_help = help::GRAPH)]
    Graph(files::Graph),
    /// List the kinds of nodes, with their ports and fields
    #[command(after_help = help::KINDS)]
    Kinds(files::Kinds),
    /// Show active flows
    #[command(after_help = help::PS)]
    Ps(remote::Ps),
    /// Show the counters of a flow
    #[command(after_help = help::STATS)]
    Stats(remote::Stats),
    /// Explain what a node waits for
    #[command(after_help = help::WHY)]
    Why(remote::Why),
    /// Change the capacity or priority of an edge while its flow runs
    #[command(after_help = help::SET)]
    Set(remote::Set),
    /// Pause a node
    #[command(after_help = help::PAUSE)]
    Pause(remote::Node),
    /// Resume a paused node
    #[command(after_help = help::RESUME)]
    Resume(remote::Node),
    /// End a flow
    #[command(after_help = help::STOP)]
    Stop(remote::Stop),
}

/// Runs a subcommand. Returns the exit code.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    let exit = match &options.command {
        // Its code may be that of a signal, so it can be any number.
        Command::Run(options) => return run::run(options),
        Command::Check(options) => files::check(options),
        Command::Graph(options) => files::draw(options),
        Command::Kinds(options) => files::kinds(options),
        Command::Ps(options) => remote::ps(options),
        Command::Stats(options) => remote::stats(options),
        Command::Why(options) => remote::why(options),
        Command::Set(options) => remote::set(options),
        Command::Pause(options) => remote::pause(options),
        Command::Resume(options) => remote::resume(options),
        Command::Stop(options) => remote::stop(options),
    };
    exit.map(|exit| exit as u8)
}

fn time_ms(text: &str) -> Result<u64, String> {
    surface_jobfile::millis(text).map_err(|why| format!("{why}; write `90s`, `10m` or `1h30m`"))
}
