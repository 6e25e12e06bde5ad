//! Waiting with a limit: it ends with the result, or with a failure that names what was waited for.
//!
//! Room: tests.

use std::{
    panic::resume_unwind,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Polls until a condition holds. For conditions that no event announces.
///
/// # Panics
/// If it does not hold within the limit.
#[track_caller]
pub fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    until_some(limit, what, || holds().then_some(()));
}

/// Polls until there is a value.
///
/// # Panics
/// If there is none within the limit.
#[track_caller]
pub fn until_some<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a function that may block for ever, with a limit. A panic inside is resumed outside.
///
/// # Panics
/// If it takes longer than the limit. The thread that runs it is left behind.
#[track_caller]
pub fn in_time<T: Send + 'static>(limit: Duration, what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (alive, ended) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let _alive = alive; // dropped at the end, however that comes
        act()
    });
    if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        panic!("not within {limit:?}: {what}");
    }
    thread.join().unwrap_or_else(|panic| {
        eprintln!("it was: {what}");
        resume_unwind(panic)
    })
}
