//! Waiting that ends: with what was waited for, or with a failure that names it.

use std::{
    panic::resume_unwind,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Waits until something holds that no event tells of.
///
/// # Panics
/// If it does not hold within the limit.
#[track_caller]
pub fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    until_some(limit, what, || holds().then_some(()));
}

/// Asks until there is an answer.
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

/// Does what may wait for ever, but not for ever. A panic inside goes on outside.
///
/// # Panics
/// If it takes longer than the limit. The thread that does it is left behind.
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
