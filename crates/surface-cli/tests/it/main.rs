//! The command as a person or a script meets it.

mod arguments;
mod classes;
mod desktop;
mod events;
mod exec;
mod exec_compiled;
mod exec_output;
mod files;
mod flow;
mod flow_failures;
mod flow_kills;
mod flow_lines;
mod flow_live;
mod flow_terminal;
mod gpus;
mod guide;
mod hints;
mod listing;
mod policy;
mod policy_faults;
mod prune;
mod reference;
mod run_command;
mod run_faults;
mod run_file;
mod run_flows;
mod run_kills;
mod run_orphans;
mod run_outputs;
mod run_programs;
mod run_resume;
mod run_site;
mod run_stop;
mod sim;
mod steer;
mod terminal;

use std::process::{Command, Output, Stdio};

/// The command, without a terminal.
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

/// An object a line.
fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// What was printed by a command that went well.
#[track_caller]
fn says(output: &Output) -> String {
    run_site::assert_code(output, 0);
    text(&output.stdout)
}

/// What was said by a command that ended with this code.
#[track_caller]
fn complains(output: &Output, code: i32) -> String {
    run_site::assert_code(output, code);
    text(&output.stderr)
}
