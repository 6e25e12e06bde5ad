//! The project's own tools: `cargo xtask --help`.
//!
//! Plain Rust and three small crates, so that a machine with a toolchain can run them.
#![forbid(unsafe_code)]

mod book;
mod cluster;
mod coverage;
mod dist;
mod dist_lane;
mod lanes;
mod packages;
mod picture;
mod steps;
mod tidy;
mod tools;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use lexopt::prelude::*;

const HELP: &str = "\
The project's own tools.

  cargo xtask test [STEP…]    everything that must hold before a change lands, or
                              only the steps named; stops at the first that fails
  cargo xtask tidy            the rules no compiler knows: which crate may use which,
                              where `unsafe` may stand, that quoted names exist
  cargo xtask tidy --words [FOLDER]
                              old words and missing room lines, counted by crate, or
                              those below a folder one by one
  cargo xtask compare [WORKLOAD…] [--quick] [--json FILE]
                              our speed and memory beside our peers'; close other
                              programs first. `cargo xtask compare --list` names the
                              workloads; `cluster` names those on a Slurm cluster and
                              a NATS server, which are started and ended. Says so if it
                              must fetch Snakemake (into the target folder)
  cargo xtask coverage CRATE [--min PERCENT]
                              which lines of a crate its own tests run, file by file;
                              fails below PERCENT. Says so if it must fetch
                              cargo-llvm-cov (into the target folder) or LLVM's tools
  cargo xtask dist            a tarball and a package for Debian in target/dist, with
                              manual pages and completions. The program is the release
                              build, stripped by `objcopy`; its debug information is
                              target/dist/bursar.debug. Says so if it must fetch
                              cargo-deb (into the target folder)
  cargo xtask book            the first page and docs/ as a book in target/book. Says so
                              if it must fetch mdbook (into the target folder)
  cargo xtask picture         docs/quickstart.svg, from a run of the quickstart
  cargo xtask cluster up      a Slurm cluster of three nodes and a NATS server on this
                              machine, on the loopback interface alone, in a folder of
                              their own; as root it installs what is missing
  cargo xtask cluster down    ends them

Steps of `test`, in order:
";

const USAGE: &str = "Try `cargo xtask --help`.";

/// The folder of the workspace.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the workspace").to_owned()
}

/// Where cargo builds; a build with other flags takes a folder of its own below it.
fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn help() -> String {
    let mut text = HELP.to_owned();
    for step in steps::ALL {
        text += &format!("  {:<10} {}\n", step.name, step.about);
    }
    text += "\nLonger ones, only when named:\n";
    for step in steps::LONG {
        text += &format!("  {:<10} {}\n", step.name, step.about);
    }
    text + "\nA failure ends with the command that repeats it.\n"
}

fn test(args: &[OsString]) -> ExitCode {
    let names: Vec<_> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match steps::choose(&names) {
        Ok(steps) => steps::run(&steps),
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

/// `cargo xtask tidy [--words [FOLDER]]`
fn tidy(args: &[OsString]) -> ExitCode {
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    let outcome = match words[..] {
        [] => tidy::check(&root()),
        ["--words"] => tidy::style(&root(), None),
        ["--words", folder] => tidy::style(&root(), Some(folder)),
        _ => {
            eprintln!("xtask: `tidy` takes nothing, or `--words` and a folder; got {words:?}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(problems) => {
            eprintln!("{problems}");
            ExitCode::FAILURE
        }
    }
}

/// Builds and runs `compare/`, from the folder the user is in: `--json` is relative to it.
fn compare(args: &[OsString]) -> ExitCode {
    let call = |subcommand: &[&str]| {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(subcommand)
            .args(["--release", "--quiet", "--manifest-path"])
            .arg(root().join("compare/Cargo.toml"))
            .arg("--target-dir")
            .arg(target_dir().join("compare"));
        cargo
    };
    // All programs first: one of them starts another, and `run` builds only its own.
    let mut status = call(&["build", "--bins"]).status();
    if status.as_ref().is_ok_and(ExitStatus::success) {
        // A cluster lives to the end of the run.
        let needed = match cluster::compare::ForCompare::start(args) {
            Ok(needed) => needed,
            Err(message) => {
                eprintln!("xtask: {message}");
                return ExitCode::FAILURE;
            }
        };
        status = call(&["run"]).arg("--").args(args).envs(needed.env()).status();
    }
    match status {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
        Err(error) => {
            eprintln!("xtask: cannot start cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let mut args = lexopt::Parser::from_env();
    let command = match args.next() {
        Ok(None | Some(Short('h') | Long("help"))) => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        Ok(Some(Value(command))) => command,
        Ok(Some(other)) => {
            eprintln!("xtask: {}\n{USAGE}", other.unexpected());
            return ExitCode::from(2);
        }
        Err(error) => {
            eprintln!("xtask: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let rest: Vec<OsString> = args.raw_args().map(Iterator::collect).unwrap_or_default();
    let wants_help = rest.iter().any(|arg| arg == "--help" || arg == "-h");
    match command.to_str() {
        Some("compare") => compare(&rest),
        Some(lanes::BUSY) => lanes::busy_loops(),
        Some("help" | "test" | "tidy" | "coverage" | "dist" | "book" | "picture" | "cluster") if wants_help => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Some("test") => test(&rest),
        Some("coverage") => coverage::run(&rest),
        Some("dist") => dist::run(&rest),
        Some("book") => book::run(&rest),
        Some("picture") => picture::run(&rest),
        Some("cluster") => cluster::run(&rest),
        Some("tidy") => tidy(&rest),
        _ => {
            let command = command.to_string_lossy();
            let known = "test tidy compare coverage dist book picture cluster";
            eprintln!("xtask: no command is called `{command}`; there are: {known}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}
