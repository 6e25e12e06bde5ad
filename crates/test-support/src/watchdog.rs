//! Ends a process that hangs, with a message that says what it did.
//!
//! Room: tests.

use std::{env, io::Write, process, sync::mpsc, thread, time::Duration};

/// Aborts the process if it is not dropped within [`test_timeout`].
pub(crate) struct Watchdog {
    _alive: mpsc::Sender<()>, // dropped, it ends the watch
}

impl Watchdog {
    pub(crate) fn new(last_words: String) -> Self {
        let (alive, over) = mpsc::channel();
        thread::spawn(move || {
            if over.recv_timeout(test_timeout()) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Not `eprintln!`: the test harness captures that until the test ends, and this test does not end.
                let _ = writeln!(std::io::stderr(), "\n{last_words}");
                process::abort();
            }
        });
        Self { _alive: alive }
    }
}

/// How long a test may take with one seed: a minute, or more where a sanitizer or an emulator is slow (`BURSAR_TEST_SLOWDOWN`).
pub fn test_timeout() -> Duration {
    let slowdown = env::var("BURSAR_TEST_SLOWDOWN").ok().and_then(|times| times.parse().ok());
    Duration::from_secs(60) * slowdown.unwrap_or(1)
}
