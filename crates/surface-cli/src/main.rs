//! The `bursar` command: a person's door.
//!
//! Room: surface. Parses and prints; what is worth printing comes from the facade.
#![forbid(unsafe_code)]

mod demo;
mod run;
mod stop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  bursar demo                      watch tasks spread, park, fail and hurry
  bursar demo --seconds 20         the same, slower
  bursar demo --workers 1          without anybody to steal from
  bursar demo --json | jq .total   for scripts: one object, nothing else

Exit codes:
  0    everything went as it should
  1    something failed; the last line of stderr says what, and what to do
  2    the arguments make no sense
  130  interrupted by Ctrl-C, after the table of what had happened so far";

/// Schedules tasks in nurseries: they borrow, spread over the CPUs by stealing, and are cancelled as a tree.
#[derive(Debug, Parser)]
#[command(name = "bursar", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what the scheduler does, with real work and its own counters
    Demo(demo::Options),
    Run(Box<run::Options>),
}

/// Ended by Ctrl-C, as a shell would say it: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    // A keeper is started once for many commands, and before anything else: it has no arguments to parse.
    if std::env::args_os().nth(1).is_some_and(|word| word == "keep") {
        mech_process::keeper::main();
    }
    match Cli::parse().command {
        Command::Demo(options) => show_demo(&options),
        Command::Run(options) => match run::run(&options) {
            Ok(code) => ExitCode::from(code),
            Err(failure) => {
                if failure.is_drawn {
                    eprint!("{}", failure.message);
                } else {
                    eprintln!("bursar: {}", failure.message);
                }
                ExitCode::from(failure.code as u8)
            }
        },
    }
}

fn show_demo(options: &demo::Options) -> ExitCode {
    match demo::run(options) {
        Ok(()) if stop::is_asked() => ExitCode::from(INTERRUPTED),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bursar: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Cli, EXAMPLES};

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_example_of_the_help_is_understood() {
        let examples = EXAMPLES.lines().filter_map(|line| line.strip_prefix("  bursar ")).map(|line| {
            let end = line.find("  ").or(line.find(" |")).unwrap_or(line.len());
            line[..end].split(" |").next().unwrap_or_default()
        });
        let mut count = 0;
        for example in examples {
            Cli::try_parse_from(["bursar"].into_iter().chain(example.split_whitespace()))
                .unwrap_or_else(|error| panic!("`bursar {example}`: {error}"));
            count += 1;
        }
        assert_eq!(count, 4);
    }
}
