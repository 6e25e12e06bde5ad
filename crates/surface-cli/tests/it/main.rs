//! The command as a person or a script meets it.

mod arguments;
mod files;
mod flow;
mod flow_lines;
mod flow_live;
mod flow_terminal;
mod gpus;
mod hints;
mod listing;
mod prune;
mod reference;
mod run_command;
mod run_faults;
mod run_file;
mod run_flows;
mod run_kills;
mod run_orphans;
mod run_outputs;
mod run_resume;
mod run_site;
mod run_stop;
mod steer;
mod terminal;

use std::process::{Command, Output, Stdio};

/// The command, with nobody at a terminal.
fn bursar(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> Output {
    bursar(args).output().expect("the command was built with this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}
