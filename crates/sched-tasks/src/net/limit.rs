//! How long an operation on a socket may wait.
//!
//! Room: interface.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::time::Elapsed;

/// How many nanoseconds an operation may wait; zero: for ever.
#[derive(Debug, Default)]
pub(super) struct Limit(AtomicU64);

impl Limit {
    pub(super) fn set(&self, limit: Option<Duration>) -> io::Result<()> {
        let nanos = match limit {
            None => 0,
            Some(Duration::ZERO) => {
                let message = "a time limit of zero lets nothing happen; use `None` for no limit";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            Some(limit) => u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
        };
        self.0.store(nanos, Relaxed);
        Ok(())
    }

    pub(super) fn get(&self) -> Option<Duration> {
        match self.0.load(Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// What another has.
    pub(super) fn copy(&self, other: &Self) {
        self.0.store(other.0.load(Relaxed), Relaxed);
    }
}

/// Says of a wait that was ended by its limit how long that was. The system has errors of the same kind, with numbers.
pub(super) fn explained(error: io::Error, limit: Option<Duration>) -> io::Error {
    match limit {
        Some(after) if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() => {
            Elapsed { after }.into()
        }
        _ => error,
    }
}
