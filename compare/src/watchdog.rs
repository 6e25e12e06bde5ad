//! A run that hangs says where, and ends.
//!
//! # Invariant
//! The program ends within the limit of the last [`enter`].
//!
//! # Why it holds
//! One detached thread wakes every second and compares; it shares nothing with the
//! runtimes under measurement, so none of them can stop it. One wake a second is 0.01 % of
//! one core and falls on both sides alike.

use std::process;
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// For one round of one side: ten times the longest, or more.
pub const ROUND: Duration = Duration::from_secs(90);

/// For a child process; shorter, so that the parent goes on without it.
pub const CHILD: Duration = Duration::from_secs(60);

struct Watched {
    what: String,
    since: Instant,
    limit: Duration,
}

static CURRENT: Mutex<Option<Watched>> = Mutex::new(None);

/// Says what runs from now on, and starts the clock again.
pub fn enter(what: String, limit: Duration) {
    static WATCHING: Once = Once::new();
    set(Some(Watched { what, since: Instant::now(), limit }));
    WATCHING.call_once(|| {
        thread::spawn(watch);
    });
}

/// Nothing is being measured: nothing can be late.
pub fn rest() {
    set(None);
}

fn set(current: Option<Watched>) {
    *CURRENT.lock().expect("no holder panics") = current;
}

fn watch() {
    loop {
        thread::sleep(Duration::from_secs(1));
        if let Some(Watched { what, since, limit }) = &*CURRENT.lock().expect("no holder panics")
            && since.elapsed() > *limit
        {
            eprintln!("\ncompare: {what}: not finished after {} s; giving up", limit.as_secs());
            process::exit(1);
        }
    }
}
