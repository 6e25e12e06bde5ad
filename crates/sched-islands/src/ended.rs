//! Why an island ended.
//!
//! Room: values.

use std::fmt;

/// Why an island ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// A task or a handle stopped it.
    Stopped,
    /// Its lease was revoked.
    Revoked,
    /// A task panicked, the caller was cancelled, or the system did not permit what it requires: the error says which.
    Failed,
    /// A task used up its time, and was to end the island then.
    OutOfTime {
        /// Which.
        task: String,
    },
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Stopped => f.write_str("stopped"),
            Ended::Revoked => f.write_str("its lease was revoked"),
            Ended::Failed => f.write_str("failed"),
            Ended::OutOfTime { task } => write!(f, "{task} used up its time"),
        }
    }
}
