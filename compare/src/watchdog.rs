//! A run that hangs says where, and ends.
//!
//! # Invariant
//! The program ends within [`LIMIT`] of the last [`enter`].
//!
//! # Why it holds
//! One detached thread wakes every second and compares; it shares nothing with the
//! runtimes under measurement, so none of them can stop it. One wake a second is 0.01 % of
//! one core and falls on both sides alike.

use std::process;
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than the longest single round, by a factor of ten or more.
const LIMIT: Duration = Duration::from_secs(120);

static CURRENT: Mutex<Option<(String, Instant)>> = Mutex::new(None);

/// Says what runs from now on, and starts the clock again.
pub fn enter(what: String) {
    static WATCHING: Once = Once::new();
    set(Some((what, Instant::now())));
    WATCHING.call_once(|| {
        thread::spawn(watch);
    });
}

/// Nothing is being measured: nothing can be late.
pub fn rest() {
    set(None);
}

fn set(current: Option<(String, Instant)>) {
    *CURRENT.lock().expect("no holder panics") = current;
}

fn watch() {
    loop {
        thread::sleep(Duration::from_secs(1));
        if let Some((what, since)) = &*CURRENT.lock().expect("no holder panics")
            && since.elapsed() > LIMIT
        {
            eprintln!(
                "\ncompare: {what} has not finished after {} s; giving up",
                LIMIT.as_secs()
            );
            process::exit(1);
        }
    }
}
