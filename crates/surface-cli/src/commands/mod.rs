//! All commands but `run` and `flow`: they show runs, change them, and draw them.
//!
//! Room: surface.
//!
//! Each command is a function of its arguments that prints and gives an exit code.

pub(crate) mod files;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod manual;
pub(crate) mod policy;
pub(crate) mod prune;
pub(crate) mod sim;
pub(crate) mod steer;
pub(crate) mod why;

use clap::Args;
use clap_complete::Shell;

use crate::exit::{Exit, Failure};

/// Options of `bursar completions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Completions {
    /// bash, elvish, fish, powershell or zsh
    shell: Shell,
}

/// `bursar completions`
pub(crate) fn completions(options: &Completions, mut command: clap::Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "bursar", &mut script);
    crate::out::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
