//! A test in a process of its own: for effects that are counted by process, or that end it.
//!
//! Room: tests.

use std::{
    env,
    process::{Command, Output},
};

const INSIDE: &str = "BURSAR_TEST_ALONE";

/// Runs the test of this full name again in a process of its own, and fails if that fails. Returns true in that process, where the test continues.
///
/// # Panics
/// If the process fails, or runs no test.
#[track_caller]
pub fn alone(test: &str) -> bool {
    alone_with(test, &[])
}

/// As [`alone`], with more in the environment of that process.
///
/// # Panics
/// As [`alone`].
#[track_caller]
pub fn alone_with(test: &str, environment: &[(&str, &str)]) -> bool {
    let Some(output) = output_alone_with(test, environment) else { return true };
    let printed = all_text(&output);
    assert!(output.status.success() && printed.contains("1 passed"), "{test}, alone: {}\n{printed}", output.status);
    false
}

/// The result of the test of this full name in a process of its own. `None` in that process, where the test continues.
///
/// # Panics
/// If no process can be started.
#[track_caller]
pub fn output_alone(test: &str) -> Option<Output> {
    output_alone_with(test, &[])
}

/// As [`output_alone`], with more in the environment of that process.
///
/// # Panics
/// As [`output_alone`].
#[track_caller]
pub fn output_alone_with(test: &str, environment: &[(&str, &str)]) -> Option<Output> {
    if is_alone() {
        return None;
    }
    let mut command = myself();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).envs(environment.iter().copied());
    Some(command.env(INSIDE, "1").output().expect("this program can be started again"))
}

/// Whether this is the process of one test.
pub fn is_alone() -> bool {
    env::var_os(INSIDE).is_some()
}

/// This program again; through the emulator if it runs in one (`BURSAR_TEST_RUNNER`).
///
/// # Panics
/// If the system does not know which program this is.
pub fn myself() -> Command {
    let me = env::current_exe().expect("the path of the test binary");
    let runner = env::var("BURSAR_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(me) };
    let mut command = Command::new(emulator);
    command.args(words).arg(me);
    command
}

/// What a process wrote.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Everything a process wrote.
pub fn all_text(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}
