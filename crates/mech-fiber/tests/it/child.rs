//! Runs one test again in a process of its own.

use std::env;
use std::process::{Command, Output};

const INSIDE: &str = "MECH_FIBER_TEST_CHILD";

/// Whether this is the child.
pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// `None` inside the child, where the test goes on; the child's end in the parent.
pub(crate) fn of(test: &str) -> Option<Output> {
    of_with(test, &[])
}

/// As [`of`], with more in the child's environment.
fn of_with(test: &str, env: &[(&str, &str)]) -> Option<Output> {
    if is_inside() {
        return None;
    }
    let mut command = myself();
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).envs(env.iter().copied()).env(INSIDE, "1");
    Some(command.output().expect("start the child"))
}

/// As [`of`], for a test whose child must succeed: true in the parent.
pub(crate) fn passed(test: &str) -> bool {
    passed_with(test, &[])
}

/// This program again; through the emulator if it runs in one.
fn myself() -> Command {
    let me = env::current_exe().expect("the path of the test binary");
    let runner = env::var("BURSAR_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(me) };
    let mut command = Command::new(emulator);
    command.args(words).arg(me);
    command
}

/// As [`passed`], with more in the child's environment.
pub(crate) fn passed_with(test: &str, env: &[(&str, &str)]) -> bool {
    let Some(output) = of_with(test, env) else { return false };
    assert!(
        output.status.success() && text(&output).contains("1 passed"),
        "the child of {test} failed: {}\n{}",
        output.status,
        text(&output)
    );
    true
}

/// Everything the child wrote.
pub(crate) fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}
