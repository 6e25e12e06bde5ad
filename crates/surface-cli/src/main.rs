//! The `bursar` command.
//!
//! Room: surface.
//!
//! Parses and prints; the facade, the scheduler of jobs and the journal do the rest.
#![forbid(unsafe_code)]

mod cluster;
mod commands;
mod control;
mod exec;
mod exit;
mod flow;
mod help;
mod out;
mod picture;
mod problems;
mod run;
mod runs;
mod signals;
mod streams;
mod view;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{Completions, completions, files, list, logs, man, manual, policy, prune, sim, steer, why};
use exit::{Failure, say};

/// Runs jobs of a DAG within CPU, RAM and GPU limits, dataflow graphs with backpressure, and programs under a budget.
#[derive(Debug, Parser)]
#[command(name = "bursar", version, after_help = help::TOP, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    /// No colours; the variable NO_COLOR does the same
    #[arg(long, global = true)]
    no_color: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Options>),
    Flow(flow::Options),
    Exec(Box<exec::Options>),
    Policy(policy::Options),
    /// Show active runs and their jobs
    #[command(after_help = help::PS)]
    Ps(list::Ps),
    /// Explain what a job waits for, and when it may start
    #[command(after_help = help::WHY)]
    Why(why::Options),
    /// Pause a run or a job; it releases its CPU slots
    #[command(after_help = help::PAUSE)]
    Pause(steer::Selector),
    /// Resume a paused run or job
    #[command(after_help = help::RESUME)]
    Resume(steer::Selector),
    /// Cancel a run or a job, with all processes it started
    #[command(after_help = help::CANCEL)]
    Cancel(steer::Cancel),
    /// Retry a job that failed or was cancelled
    #[command(after_help = help::RETRY)]
    Retry(steer::Selector),
    /// Print the log of a job
    #[command(after_help = help::LOGS)]
    Logs(logs::Options),
    /// Check a job file, and show its graph
    #[command(after_help = help::CHECK)]
    Check(problems::Check),
    /// Draw a job file or a run: DOT, SVG or text
    #[command(after_help = help::GRAPH)]
    Graph(files::Graph),
    /// Write an HTML report of a run
    #[command(after_help = help::REPORT)]
    Report(files::Report),
    /// List runs, newest first
    #[command(after_help = help::RUNS)]
    Runs(list::Runs),
    /// Show a run and its jobs
    #[command(after_help = help::SHOW)]
    Show(list::Show),
    /// Remove old runs, or only their logs
    #[command(after_help = help::PRUNE)]
    Prune(prune::Options),
    /// Simulate threads on CPUs, and see who waits for how long
    #[command(after_help = help::SIM)]
    Sim(sim::Options),
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions(Completions),
    /// Print a manual page, or write all of them into a folder
    #[command(after_help = help::MAN)]
    Man(man::Options),
    /// Show the help of a command, or the reference of files and events
    #[command(after_help = help::HELP)]
    Help(manual::Options),
}

fn main() -> ExitCode {
    // A keeper is started once for many commands, and comes before anything else: it has no arguments to parse.
    if std::env::args_os().nth(1).is_some_and(|word| word == "keep") {
        mech_process::keeper::main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return unparsed(&said),
    };
    if cli.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        console::set_colors_enabled(false);
        console::set_colors_enabled_stderr(false);
    }
    match dispatch(&cli.command) {
        Ok(code) => code,
        Err(failure) => {
            if failure.is_drawn {
                let _ = write!(streams::stderr().lock(), "{failure}");
            } else {
                say!("bursar: {failure}");
            }
            failure.exit.into()
        }
    }
}

/// What clap says instead of a command: a help, the version, or what is wrong with the words. A help that cannot be written is no success.
fn unparsed(said: &clap::Error) -> ExitCode {
    if said.use_stderr() {
        said.exit();
    }
    let text = said.render();
    let text = if console::colors_enabled() { text.ansi().to_string() } else { text.to_string() };
    match out::print(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say!("bursar: {failure}");
            failure.exit.into()
        }
    }
}

fn dispatch(command: &Command) -> Result<ExitCode, Failure> {
    let exit = match command {
        // Its code may be that of a command, so it can be any number.
        Command::Run(options) => return run::run(options).map(ExitCode::from),
        Command::Flow(options) => return flow::run(options).map(ExitCode::from),
        Command::Exec(options) => return exec::exec(options).map(ExitCode::from),
        Command::Policy(options) => return policy::run(options).map(ExitCode::from),
        Command::Ps(options) => list::ps(options),
        Command::Why(options) => why::run(options),
        Command::Pause(selector) => steer::pause(selector),
        Command::Resume(selector) => steer::resume(selector),
        Command::Cancel(options) => steer::cancel(options),
        Command::Retry(selector) => steer::retry(selector),
        Command::Logs(options) => logs::run(options),
        Command::Check(options) => files::check(options),
        Command::Graph(options) => files::draw(options),
        Command::Report(options) => files::report(options),
        Command::Runs(options) => list::runs(options),
        Command::Show(options) => list::show(options),
        Command::Prune(options) => prune::run(options),
        Command::Sim(options) => sim::run(options),
        Command::Completions(options) => completions(options, Cli::command()),
        Command::Man(options) => man::man(options, Cli::command()),
        Command::Help(options) => manual::help(options, Cli::command()),
    };
    exit.map(ExitCode::from)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_example_of_the_help_is_understood() {
        let top = Cli::command();
        let mut count = 0;
        let within = ["flow", "policy"].iter().flat_map(|name| top.find_subcommand(name).unwrap().get_subcommands());
        for command in std::iter::once(&top).chain(top.get_subcommands()).chain(within) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.lines().filter_map(|line| line.strip_prefix("  bursar "));
            let mut own = 0;
            for line in examples {
                let end = line.find("  ").unwrap_or(line.len());
                let example = line[..end].split(" |").next().unwrap_or_default();
                Cli::try_parse_from(["bursar"].into_iter().chain(example.split_whitespace()))
                    .unwrap_or_else(|error| panic!("`bursar {example}`: {error}"));
                own += 1;
            }
            assert!(own > 0, "`{}` has no example", command.get_name());
            count += own;
        }
        assert!(count > 40, "only {count} examples were found: were they indented otherwise?");
    }

    #[test]
    fn every_command_that_the_pages_name_is_understood() {
        let pages = [
            include_str!("../../../README.md"),
            include_str!("../../../docs/jobs.md"),
            include_str!("../../../docs/flow.md"),
            include_str!("../../../docs/janus.md"),
            include_str!("../../../docs/policy.md"),
        ];
        let mut count = 0;
        for line in pages.iter().flat_map(|page| page.lines()) {
            let quoted = line.split('`').skip(1).step_by(2);
            for command in quoted.filter(|quoted| quoted.starts_with("bursar ") && !quoted.starts_with("bursar = ")) {
                let words = command.split_whitespace().map(|word| match word {
                    "RUN" => "r-7f3a",
                    word => word.trim_matches('\''),
                });
                if let Err(error) = Cli::try_parse_from(words) {
                    // `bursar run` is the name of a command; `--help` is an error that is none.
                    let is_name = command.split_whitespace().count() == 2
                        && error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
                    assert!(is_name || !error.use_stderr(), "`{command}`: {error}");
                }
                count += 1;
            }
        }
        assert!(count > 20, "only {count} commands were found");
    }
}
