//! Runs one test again in a process of its own, with a word to it.

use std::env;
use std::process::{Child, Command, Stdio};

const INSIDE: &str = "JOURNAL_TEST_CHILD";

/// The word, inside a child.
pub(crate) fn word() -> Option<String> {
    env::var(INSIDE).ok()
}

/// Starts `test` again; what it prints can be read.
pub(crate) fn start(test: &str, word: &str) -> Child {
    let me = env::current_exe().expect("the path of the test binary");
    Command::new(me)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, word)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the child")
}
